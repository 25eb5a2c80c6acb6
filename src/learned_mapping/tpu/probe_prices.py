"""Prices of placements: probes of a program's instructions through the compiler's back end, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from learned_mapping.tpu.compiler import NO_CMEM_FLAG, TOPOLOGY, compiler_environment
from learned_mapping.tpu.hlo_program import HloProgram
from learned_mapping.tpu.latency_plan import Priceable, Subset, subset_key

Prices = dict[str, dict[str, int | None]]
"""Cycles by signature and by subset (`latency_plan.subset_key`); None where the compiler gives no estimate."""


def price(
    module_text: str,
    program: HloProgram,
    wanted: Iterable[tuple[Priceable, Iterable[Subset]]],
    *,
    space: int,
    topology: str = TOPOLOGY,
    batch: int = 24,
    known: Mapping[str, Mapping[str, int | None]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Prices placements in a process of their own.

    A batch of probes is one compilation. Where the back end refuses a batch or dies of it, the batch is split until the
    probe at fault stands alone; its price is then None.

    Args:
      module_text: the module before memory assignment, as dumped.
      program: what it holds.
      wanted: instructions and the subsets of their units to price.
      space: the number of the fast memory space.
      topology: what to compile for.
      batch: probes a compilation.
      known: prices found earlier, by signature and subset; they are not computed again.
      progress: called with (probes done, probes in all).

    Returns:
      Those of `known` and the new ones.
    """
    prices = {k: dict(v) for k, v in (known or {}).items()}
    todo = []
    for item, subsets in wanted:
        have = prices.setdefault(item.signature, {})
        for subset in subsets:
            if subset_key(subset) not in have:
                positions = [program.buffer_position[b] for u in subset for b in item.units[u]]
                todo.append(
                    {
                        "signature": item.signature,
                        "subset": subset_key(subset),
                        "instruction": program.instructions[item.instruction].name,
                        "operands": [place for place, _ in positions if place >= 0],
                        "results": [list(index) for place, index in positions if place < 0],
                    }
                )
    total, done = len(todo), 0
    batches = [todo[i : i + batch] for i in range(0, total, batch)]
    with tempfile.TemporaryDirectory(prefix="learned-mapping-prices-") as name:
        folder = Path(name)
        (folder / "module.txt").write_text(module_text)
        while batches:
            (folder / "batches.json").write_text(json.dumps({"topology": topology, "space": space, "batches": batches}))
            answers = folder / "answers.jsonl"
            answers.unlink(missing_ok=True)
            command = [sys.executable, "-m", "learned_mapping.tpu.pricer", str(folder)]
            with subprocess.Popen(
                command,
                env=compiler_environment([NO_CMEM_FLAG]),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                for line in process.stdout:
                    if progress is not None and line.startswith("done "):
                        progress(done + int(line.split()[1]), total)
            finished = 0
            if answers.exists():
                for line in answers.read_text().splitlines():
                    answer = json.loads(line)
                    for probe, cycles in zip(batches[finished], answer["cycles"]):
                        prices[probe["signature"]][probe["subset"]] = cycles
                    done += len(batches[finished])
                    finished += 1
            rest = batches[finished:]
            if rest:  # The process stopped at the first of them.
                if len(rest[0]) == 1:
                    probe = rest[0][0]
                    prices[probe["signature"]][probe["subset"]] = None
                    done += 1
                    rest = rest[1:]
                else:
                    half = len(rest[0]) // 2
                    rest = [rest[0][:half], rest[0][half:], *rest[1:]]
            batches = rest
    return prices
