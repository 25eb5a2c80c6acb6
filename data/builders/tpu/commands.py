"""``lmap extract`` and ``lmap price``, which ask the TPU compiler."""

import sys
from contextlib import redirect_stdout
from typing import Any

from learned_mapping.cli.output import check_out, print_json, steps_progress
from learned_mapping.cli.programs import JSON_ENDINGS
from learned_mapping.doors.user_function import beside, load_example
from learned_mapping.errors import InputError, shown
from learned_mapping.folders import build_folder
from learned_mapping.mmap.mapping import all_dropped, read_mapping, write_mapping
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program, write_program
from learned_mapping.programs.json_io import read_bytes, write_bytes
from learned_mapping_companion.datasets import compiled

from . import compiler
from . import price as pricing
from .extract import extract as extract_program
from .runs import origin as compiled_origin
from .stays import mapping_of_compiler

HLO_ENDINGS = (".txt", ".txt.gz")


def extract(options: Any) -> int:
    """Compiles a user's function with the TPU compiler and writes its memory-mapping game."""
    out = check_out(options.out, JSON_ENDINGS, [])
    mapping_out = check_out(options.mapping, JSON_ENDINGS, []) if options.mapping else None
    hlo_out = check_out(options.hlo, HLO_ENDINGS, []) if options.hlo else None
    if mapping_out is not None and mapping_out.absolute() == out.absolute():
        raise InputError(options.mapping, "", "would overwrite the program")
    compiler.require_compiler()
    name = options.function.rpartition(":")[2]
    counted = steps_progress("pricing placements", "placement")
    with beside(options.function), redirect_stdout(sys.stderr), counted as progress:
        example = load_example(options.function, options.arg)
        extracted = extract_program(
            example.function,
            example.args,
            name=name,
            donate=example.donated,
            cycles=options.cycles,
            generation=compiler.GENERATIONS[options.generation],
            progress=progress,
        )
    write_program(out, extracted.program)
    if hlo_out is not None:
        write_bytes(hlo_out, extracted.hlo.encode())
    if mapping_out is not None:
        mapping = mapping_of_compiler(extracted.program, extracted.compiler)
        write_mapping(mapping_out, mapping, extracted.program)
    answer = {
        "name": name,
        "buffers": extracted.program.num_buffers,
        "slow_cycles": extracted.slow_cycles,
        "compiler_cycles": extracted.compiler_cycles,
        "compiled_slow_cycles": extracted.compiled_slow_cycles,
        "compiled_cycles": extracted.compiled_cycles,
        "unpriced_instructions": extracted.unpriced,
        "inferred_instructions": extracted.inferred,
        "out": str(out),
    }
    if options.json:
        print_json(answer)
    else:
        cycles = (
            f"{extracted.slow_cycles:,.0f} cycles in HBM, {extracted.compiler_cycles:,.0f} as the"
            " compiler maps it"
        )
        print(f"{name}: {extracted.program.num_buffers:,} buffers, {cycles} -> {out}")
        if options.cycles:
            slow, fast = extracted.compiled_slow_cycles, extracted.compiled_cycles
            print(
                f"compiled in full: {slow:,.0f} cycles in HBM, {fast:,.0f} with the compiler's"
                " mapping"
            )
        if extracted.unpriced or extracted.inferred:
            print(
                f"{extracted.unpriced} instructions for which the compiler has no estimate are"
                f" charged by their bytes and save nothing; {extracted.inferred} are inferred from"
                " others of their kind"
            )
    return 0


def price(options: Any) -> int:
    """Has the TPU compiler price mappings of a program, beside everything in HBM and its own
    mapping."""
    program = read_program(options.program)
    mappings = {"everything in HBM": all_dropped(program)}
    item = next((item for item in compiled.manifest().items if item.digest == program.digest), None)
    if item is not None:
        mappings["the compiler's own"] = compiled.load(item.name)[1]
    for path in options.mappings:
        mappings[path] = read_mapping(path, program)
        verdict = validate(program, mappings[path], exact=False)
        if not verdict.valid and mappings[path] != mappings.get("the compiler's own"):
            raise InputError(path, "", f"breaks a rule: {verdict.violations[0]}")
    compiler.require_compiler()
    if options.hlo is not None:
        cache = pricing.PriceCache(build_folder() / "prices.jsonl")
        origin = pricing.source(read_bytes(options.hlo).decode("utf-8", "replace"), program)
    elif item is not None:
        origin, cache = compiled_origin(item.name)
    else:
        raise InputError(
            options.program,
            "",
            "is none of the sixty compiled programs: --hlo says what it came from",
        )
    reports, failed = [], 0
    for name, mapping in mappings.items():
        try:
            with steps_progress("pricing", "instruction") as progress:
                priced = pricing.price(
                    origin, mapping, cache, whole=options.whole, progress=progress
                )
        except compiler.CompilerError as error:
            reports.append({"mapping": name, "failed": str(error)})
            failed += 1
        else:
            reports.append(
                {
                    "mapping": name,
                    "cycles": priced.total,
                    "stalled_cycles": round(
                        pricing.with_stalls(program, mapping, priced)["stalled_cycles"]
                    ),
                    "fast_bytes": priced.fast_bytes,
                    "left": list(priced.left),
                    "compiled": priced.compiled,
                    "seconds": round(priced.seconds, 1),
                }
                | ({"instructions": priced.cycles} if options.instructions else {})
            )
        if not options.json:
            _tell_price(reports[-1], reports[0], program.fast_bytes)
    if options.json:
        print_json({"program": program.name, "prices": reports})
    return 1 if failed else 0


def _tell_price(row: dict[str, Any], slow: dict[str, Any], fast_bytes: int) -> None:
    name = shown(row["mapping"], 200)
    if "failed" in row:
        print(f"{name}: {shown(row['failed'], 400)}")
        return
    speed = (
        f", {slow['cycles'] / row['cycles']:.3f} times as fast"
        if row["cycles"] and "cycles" in slow
        else ""
    )
    stalled = f"{row['stalled_cycles']:,} with the wait for copies"
    print(
        f"{name}: {row['cycles']:,} cycles{speed}, {stalled}; {row['fast_bytes'] / 2**20:.1f} MiB"
        " of fast memory"
    )
    for line in row["left"]:
        print(f"  {shown(line, 400)}")
    if row["fast_bytes"] > fast_bytes:
        print(
            f"  at the compiler's own offsets this is more than the {fast_bytes / 2**20:.1f} MiB"
            " there are"
        )
    for instruction, cycles in row.get("instructions", {}).items():
        print(f"  {instruction}: {'no estimate' if cycles is None else f'{cycles:,}'}")
