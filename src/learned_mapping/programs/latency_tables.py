"""Latency tables L_I(S) of a compiled program, measured the way paper 1 measures them, on the compiler's cost model.

Every instruction is priced under subsets of its buffers in fast memory by compiling probes (`hlo_probe`) through the
compiler's back end. Instructions that do the same work are priced once. Of an instruction with many buffers only some
subsets are priced; `complete_table` fills in the rest by a stated rule, to be judged on priced subsets held out of it.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from learned_mapping.programs.hlo import Module
from learned_mapping.programs.hlo_probe import signature
from learned_mapping.programs.hlo_program import HloProgram
from learned_mapping.programs.program import MAX_VARIED
from learned_mapping.programs.tpu_compiler import NO_CMEM_FLAG, TOPOLOGY, compiler_environment

CLOCK_HZ = 1.05e9
"""TensorCore clock of TPU v4 and v4i (Jouppi et al. 2021, table 1: 1,050 MHz): one estimated cycle in seconds."""

Subset = frozenset[int]
"""Units of an instruction in fast memory; a unit is a buffer, or the two buffers of an in-place update together."""


@dataclass(frozen=True)
class Priceable:
    """An instruction whose placements are to be priced."""

    instruction: int
    """Its logical time."""
    signature: str
    """Equal for instructions that do the same work."""
    units: tuple[tuple[int, ...], ...]
    """The buffers that vary, largest first; buffers that must lie together are one unit."""
    subsets: tuple[Subset, ...]
    """Which placements to price, in units; each fits the fast memory."""


def plan(module: Module, program: HloProgram, *, fast_bytes: int, full_units: int = 3) -> list[Priceable]:
    """Chooses what to price: one instruction of each kind of work.

    Args:
      module, program: before memory assignment.
      fast_bytes: capacity; larger subsets can never be placed and are left out.
      full_units: up to this many units every subset is priced; beyond, none, each alone, all but each, and all.
    """
    result, seen = [], set()
    for t, instruction in enumerate(program.instructions):
        if program.opaque[t]:
            continue
        key = signature(module, instruction)
        if key in seen:
            continue
        seen.add(key)
        units = varied_units(program, t, fast_bytes)
        everything = frozenset(range(len(units)))
        if len(units) <= full_units:
            subsets = [frozenset(s) for k in range(len(units) + 1) for s in itertools.combinations(everything, k)]
        else:
            alone = [frozenset({u}) for u in everything]
            subsets = [frozenset(), *alone, *(everything - u for u in alone), everything]
        size = [int(sum(program.tensor_bytes[program.buffer_tensor[b]] for b in unit)) for unit in units]
        fitting = tuple(s for s in dict.fromkeys(subsets) if sum(size[u] for u in s) <= fast_bytes)
        result.append(Priceable(t, key, units, fitting))
    return result


def varied_units(program: HloProgram, instruction: int, fast_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The at most `MAX_VARIED` largest buffers of an instruction that fit, buffers of one alias group together."""
    buffers = np.flatnonzero(program.buffer_instruction == instruction)
    groups: dict[int, list[int]] = {}
    for b in buffers.tolist():
        alias = int(program.buffer_alias[b])
        groups.setdefault(alias if alias >= 0 else -2 - b, []).append(b)
    size = {k: int(program.tensor_bytes[program.buffer_tensor[v[0]]]) for k, v in groups.items()}
    units, taken = [], 0
    for key in sorted(groups, key=lambda k: (-size[k], groups[k][0])):
        if size[key] <= fast_bytes and taken + len(groups[key]) <= MAX_VARIED:
            units.append(tuple(groups[key]))
            taken += len(groups[key])
    return tuple(units)


def price(
    module_text: str,
    program: HloProgram,
    planned: list[Priceable],
    *,
    space: int,
    topology: str = TOPOLOGY,
    batch: int = 24,
    known: Mapping[str, Mapping[str, int | None]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, dict[str, int | None]]:
    """Prices the planned placements in a process of their own.

    A batch of probes is one compilation. Where the back end refuses a batch or dies of it, the batch is split until the
    probe at fault stands alone; its price is then None.

    Args:
      module_text: the module before memory assignment, as dumped.
      program: what it holds.
      planned: from `plan`.
      space: the number of the fast memory space.
      topology: what to compile for.
      batch: probes a compilation.
      known: prices found earlier, by signature and subset; they are not computed again.
      progress: called with (probes done, probes in all).

    Returns:
      Cycles by signature and by subset (unit numbers joined by commas); None where the compiler gives no estimate.
    """
    prices = {k: dict(v) for k, v in (known or {}).items()}
    todo = []
    for item in planned:
        have = prices.setdefault(item.signature, {})
        for subset in item.subsets:
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
            command = [sys.executable, "-m", "learned_mapping.programs.tpu_pricer", str(folder)]
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


def subset_key(subset: Subset) -> str:
    return ",".join(str(u) for u in sorted(subset))


def complete_table(num_units: int, prices: Mapping[str, float | None]) -> np.ndarray | None:
    """All 2^n latencies from those that are priced.

    A subset S that is not priced takes its additive estimate, L({}) minus the savings of its members alone, but no less
    than the least priced latency of a superset or, where none is priced, of everything priced: savings overlap where
    another resource becomes the limit.

    Args:
      num_units: n.
      prices: cycles by `subset_key`; missing and None entries are filled in.

    Returns:
      [2^n] float64 in the unit of `prices`, entry sum(2^u for u in S); None where L({}) is unknown.
    """
    base = prices.get("")
    if base is None:
        return None
    alone = [prices.get(str(u)) for u in range(num_units)]
    saving = np.array([0.0 if p is None else base - p for p in alone])
    known = {frozenset(int(u) for u in k.split(",") if u): v for k, v in prices.items() if v is not None}
    table = np.empty(1 << num_units)
    for entry in range(1 << num_units):
        subset = frozenset(u for u in range(num_units) if entry >> u & 1)
        if subset in known:
            table[entry] = known[subset]
            continue
        above = [v for s, v in known.items() if s >= subset]
        floor = min(above) if above else min(known.values())
        table[entry] = max(base - saving[list(subset)].sum(), floor)
    return table
