"""The sets ``compiled`` and ``compiled-fresh``: the sixty workloads of paper 1 and twelve of other
families, compiled, with the compiler's own mapping beside each."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import Mapping as BufferMapping
from learned_mapping.mmap.mapping import write_mapping
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import file_sha256, read_json, write_bytes, write_json
from learned_mapping.programs.program import MAX_VARIED, Program
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items
from .tpu.compiler import V4, Compilation, compile_for_tpu
from .tpu.extract import Extracted, assemble
from .tpu.hlo_program import HloProgram, hlo_program
from .tpu.latency_tables import Priceable, Prices, plan
from .tpu.pricing import price_in_stages
from .tpu.stays import mapping_of_compiler
from .workloads import FRESH_WORKLOADS, WORKLOADS, function_and_arguments, workload

PRICES = "prices.json.gz"
MAX_SIGNATURES = 1_000_000


def build_fresh(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """The same of `FRESH_WORKLOADS`."""
    return build(folder, progress=progress, chosen=FRESH_WORKLOADS, name="compiled-fresh")


def build(
    folder: Path,
    *,
    progress: Progress | None = None,
    chosen: Iterable[str] = WORKLOADS,
    journal: Path | None = None,
    name: str = "compiled",
) -> Manifest:
    """Compiles the workloads into ``NAME.json.gz`` and ``NAME.mapping.json.gz``.

    Prices stored with the set are used as they are: the same compiler gives the same programs, in
    minutes. Without ``prices.json.gz``, as for another version of the compiler, everything is
    priced anew, in hours; `price_all` then keeps its prices in `journal`, by default a folder for
    temporary files.
    """
    chosen = list(chosen)
    stored = data_folder() / SETS[name].folder / PRICES
    if stored.exists():
        prices = read_prices(stored)
    else:
        default = Path(tempfile.gettempdir()) / f"learned-mapping-prices-{name}"
        prices = price_all(chosen, default if journal is None else Path(journal))
    items, used = Items(folder, len(chosen), progress), {}
    for member in chosen:
        compilation, program, planned = _compile(member)
        mine = {
            item.signature: prices[item.signature] for item in planned if item.signature in prices
        }
        used |= mine
        store(items, member, compilation, program, mine)
    ordered = {key: dict(sorted(used[key].items())) for key in sorted(used)}
    write_json(folder / PRICES, {"schema": "learned-mapping/prices/1", "prices": ordered})
    facts = {
        "prices_file": PRICES,
        "prices_sha256": file_sha256(folder / PRICES),
        "signatures": len(used),
    }
    return Manifest(name, SETS[name].about, None, tuple(items), facts)


def price_all(chosen: Iterable[str], journal: Path) -> Prices:
    """Prices workloads one after the other, each with what the others have found. The folder
    `journal` gets a file of prices for each finished one, so that an interrupted run goes on."""
    known: Prices = {}
    for path in sorted(journal.glob("*.json")):
        _merge(known, json.loads(path.read_text()))
    for name in chosen:
        done = journal / f"{name}.json"
        if not done.exists():
            compilation, program, planned = _compile(name)
            mine = {
                item.signature: known[item.signature] for item in planned if item.signature in known
            }
            mine = price_in_stages(compilation.before_text, program, planned, known=mine)
            write_bytes(done, json.dumps(mine).encode())
            _merge(known, mine)
    return known


def compile_workload(name: str, **options: Any) -> Compilation:
    """One of the workloads through the compiler, with options of `compile_for_tpu`."""
    function, arguments, donated = function_and_arguments(name)
    return compile_for_tpu(function, arguments, donate=donated, **options)


def _compile(name: str) -> tuple[Compilation, HloProgram, list[Priceable]]:
    compilation = compile_workload(name)
    program = hlo_program(compilation.before)
    return compilation, program, plan(compilation.before, program, fast_bytes=V4.fast_bytes)


def store(
    items: Items, name: str, compilation: Compilation, program: HloProgram, prices: Prices
) -> None:
    """Assembles one program from its prices, and adds it to a set, the compiler's mapping beside
    it."""
    extracted = assemble(compilation, program, prices, name=name)
    chosen = workload(name)
    game = replace(
        extracted.program,
        metadata={
            **extracted.program.metadata,
            "model": chosen.model,
            "options": dict(chosen.options),
        },
    )
    mapping = mapping_of_compiler(game, extracted.compiler)
    file, probes = f"{name}.mapping.json.gz", sum(len(v) for v in prices.values())
    write_mapping(items.folder / file, mapping, game)
    about = {
        "kind": chosen.kind,
        "model": chosen.model,
        **facts(extracted, game, mapping),
        "probes": probes,
    }
    about |= {"mapping_file": file, "mapping_sha256": file_sha256(items.folder / file)}
    items.add(f"{name}.json.gz", game, **about)


def facts(extracted: Extracted, program: Program, mapping: BufferMapping) -> dict[str, Any]:
    """What the set's table says of a program; the compiler's decisions judged by the game's rules,
    rule by rule."""
    verdict = validate(program, mapping, listed=None)
    broken = Counter(violation.rule for violation in verdict.violations)
    possible = program.possible_saving_s * V4.clock_hz
    return {
        "instructions": program.num_instructions,
        "buffers": program.num_buffers,
        "tensors": program.num_tensors,
        "alias_groups": program.num_alias_groups,
        "slow_cycles": round(extracted.slow_cycles),
        "compiler_cycles": round(extracted.compiler_cycles),
        "possible_saving_cycles": round(possible),
        "compiler_saving_share": round(
            (extracted.slow_cycles - extracted.compiler_cycles) / possible, 4
        ),
        "compiler_buffers_in_cmem": int(mapping.placed.sum()),
        "compiler_buffers_without_a_place": extracted.compiler.unplaced,
        "broken_rules": dict(sorted(broken.items())),
        "instructions_without_estimate": extracted.unpriced,
        "inferred_instructions": extracted.inferred,
    }


def read_prices(path: Path) -> Prices:
    """Cycles by signature and subset; raises `InputError` for a damaged file."""
    prices: Prices = {}
    for signature, subsets in (
        read_json(path, "prices")
        .object(("schema", "prices"))["prices"]
        .mapping(MAX_SIGNATURES)
        .items()
    ):
        prices[signature] = {
            key: None if cycles.value is None else cycles.integer(0, 2**53)
            for key, cycles in subsets.mapping(1 << MAX_VARIED).items()
        }
    return prices


def _merge(known: Prices, more: Mapping[str, Mapping[str, int | None]]) -> None:
    for signature, subsets in more.items():
        known.setdefault(signature, {}).update(subsets)
