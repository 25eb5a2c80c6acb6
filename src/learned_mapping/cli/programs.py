"""``lmap trace``, ``lmap extract`` and ``lmap price``."""

import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from learned_mapping.cli.output import check_out, print_json, report, steps_progress
from learned_mapping.errors import InputError, shown
from learned_mapping.problem import STABLEHLO_ENDINGS
from learned_mapping.programs.graph import check_text

JSON_ENDINGS = (".json", ".json.gz")
HLO_ENDINGS = (".txt", ".txt.gz")


def positions(text: str) -> tuple[int, ...]:
    """``0,2-4`` as (0, 2, 3, 4); raises `InputError` for anything else."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        ends = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        if ends is None:
            raise InputError("--parameters", "", f"expected positions such as 0,2 or 0-5, got {text!r}")
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(found)


def trace(options: Any) -> int:
    """Traces a user's function, or reads StableHLO, into a graph file, or with ``--program`` a program file."""
    out = check_out(options.out, JSON_ENDINGS, [])
    if options.name is not None:
        check_text("--name", "name", [options.name])
    parameters = positions(options.parameters)
    if options.function.endswith(STABLEHLO_ENDINGS):
        return _convert(options, out, parameters)
    from learned_mapping.programs.trace.user_function import beside, load_example

    with beside(options.function), redirect_stdout(sys.stderr):  # what the user's code prints is no report
        example = load_example(options.function, options.arg, parameters=parameters)
    given = {"name": options.name or options.function.rpartition(":")[2], "parameters": example.parameters}
    limit = {} if options.unroll_limit is None else {"unroll_limit": options.unroll_limit}
    counts = _checked(options, example, given["name"], limit) if options.check else {}
    given |= limit
    if options.program:
        from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
        from learned_mapping.programs.formats import write_program
        from learned_mapping.programs.trace.schedule import schedule

        given |= {"machine": MemoryHierarchy(), "donated": example.donated}
        with beside(options.function), redirect_stdout(sys.stderr):
            made: Any = schedule(example.function, *example.args, **given)
        write_program(out, made)
    else:
        from learned_mapping.programs.formats import write_graph
        from learned_mapping.programs.trace.graph import trace as trace_graph

        with beside(options.function), redirect_stdout(sys.stderr):
            made = trace_graph(example.function, *example.args, **given)
        write_graph(out, made)
    return _tell_made(options, out, made, counts)


def _convert(options: Any, out: Path, parameters: tuple[int, ...]) -> int:
    """StableHLO from a file, as a graph or a program."""
    for name in ("arg", "check", "unroll_limit"):
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')}", "", "is for a function, not for a file")
    from learned_mapping.programs.formats import write_graph, write_program
    from learned_mapping.programs.trace.stablehlo import read_stablehlo

    made: Any = read_stablehlo(options.function, parameters, options.name)
    if options.program:
        from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
        from learned_mapping.programs.trace.schedule import schedule_graph

        made = schedule_graph(made, MemoryHierarchy())
    (write_program if options.program else write_graph)(out, made)
    return _tell_made(options, out, made, {})


def _tell_made(options: Any, out: Path, made: Any, counts: dict[str, Any]) -> int:
    _tell_unknown(made.metadata.get("unknown_ops", {}))
    facts: dict[str, Any] = {"name": made.name}
    if options.program:
        facts |= {"instructions": made.num_instructions, "buffers": made.num_buffers}
        facts["possible_saving_s"] = made.possible_saving_s
    else:
        facts |= {"ops": made.num_ops, "edges": made.num_edges, "flop": float(made.op_flop.sum())}
        facts["weight_bytes"] = int(made.op_weight_bytes.sum())
    numbers = ", ".join(f"{value:,.6g} {key}" for key, value in facts.items() if key != "name")
    lines = [f"{facts['name']}: {numbers} -> {shown(out, 1000)}", *map(_told_counts, counts, counts.values())]
    checked = {k: v._asdict() | {"ratio": v.ratio, "explained": v.explained} for k, v in counts.items()}
    report(options, {**facts, "out": str(out)} | ({"check": checked} if counts else {}), "\n".join(lines))
    return 0


def _checked(options: Any, example: Any, name: str, limit: dict[str, int]) -> dict[str, Any]:
    """What XLA counts beside us; raises `InputError` where it cannot."""
    from learned_mapping.programs.trace.user_function import beside
    from learned_mapping.programs.trace.xla_counts import compare

    with beside(options.function), redirect_stdout(sys.stderr):
        return compare(example.function, *example.args, name=name, **limit)


def _told_counts(name: str, counts: Any) -> str:
    from learned_mapping.programs.trace.xla_counts import REASONS

    if counts.xla < 0:
        return f"{name}: {counts.ours:,.6g}; XLA does not count what this program calls"
    large = [(k, v) for k, v in counts.differences.items() if abs(v) > 0.005 * max(counts.ours, counts.xla)]
    reasons = {k: f" ({REASONS[k]})" if name == "flop" and k in REASONS else "" for k, _ in large}
    apart = "".join(f"\n  {k} {v:+,.6g}{reasons[k]}" for k, v in large[:8])
    rest = f"; {counts.explained:.4f} without the differences of" if large else ""
    return f"{name}: {counts.ours:,.6g}, XLA {counts.xla:,.6g}, ratio {counts.ratio:.4f}{rest}{apart}"


def _tell_unknown(unknown: dict[str, int]) -> None:
    """One line on stderr that names the primitives of unknown cost, where there are any."""
    if unknown:
        count = sum(unknown.values())
        names = shown(", ".join(unknown), 400)
        print(f"{count} op{'s' * (count > 1)} of unknown cost: {names}; charged 1 FLOP per element", file=sys.stderr)


def extract(options: Any) -> int:
    """Compiles a user's function with the TPU compiler and writes its memory-mapping game."""
    out = check_out(options.out, JSON_ENDINGS, [])
    mapping_out = check_out(options.mapping, JSON_ENDINGS, []) if options.mapping else None
    hlo_out = check_out(options.hlo, HLO_ENDINGS, []) if options.hlo else None
    if mapping_out is not None and mapping_out.absolute() == out.absolute():
        raise InputError(options.mapping, "", "would overwrite the program")
    from learned_mapping.companion.datasets.registry import builder
    from learned_mapping.programs.formats import write_program
    from learned_mapping.programs.trace.user_function import beside, load_example

    compiler = builder("tpu.compiler")
    compiler.require_compiler()

    name = options.function.rpartition(":")[2]
    counted = steps_progress("pricing placements", "placement")
    with beside(options.function), redirect_stdout(sys.stderr), counted as progress:
        example = load_example(options.function, options.arg)
        extracted = builder("tpu.extract").extract(
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
        from learned_mapping.programs.json_io import write_bytes

        write_bytes(hlo_out, extracted.hlo.encode())
    if mapping_out is not None:
        from learned_mapping.mmap.mapping import write_mapping

        mapping = builder("tpu.mapping").mapping_of_compiler(extracted.program, extracted.compiler)
        write_mapping(mapping_out, mapping, extracted.program)
    told = {
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
        print_json(told)
    else:
        cycles = f"{extracted.slow_cycles:,.0f} cycles in HBM, {extracted.compiler_cycles:,.0f} as the compiler maps it"
        print(f"{name}: {extracted.program.num_buffers:,} buffers, {cycles} -> {out}")
        if options.cycles:
            slow, fast = extracted.compiled_slow_cycles, extracted.compiled_cycles
            print(f"compiled in full: {slow:,.0f} cycles in HBM, {fast:,.0f} with the compiler's mapping")
        if extracted.unpriced or extracted.inferred:
            print(
                f"{extracted.unpriced} instructions for which the compiler has no estimate are charged by their bytes "
                f"and save nothing; {extracted.inferred} are inferred from others of their kind"
            )
    return 0


def price(options: Any) -> int:
    """Has the TPU compiler price mappings of a program, beside everything in HBM and its own mapping."""
    from learned_mapping.companion.datasets import compiled
    from learned_mapping.companion.datasets.registry import builder
    from learned_mapping.folders import build_folder
    from learned_mapping.mmap.mapping import all_dropped, read_mapping
    from learned_mapping.mmap.validate import validate
    from learned_mapping.programs.formats import read_program
    from learned_mapping.programs.json_io import read_bytes

    compiler, pricing = builder("tpu.compiler"), builder("tpu.price")
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
        origin, cache = builder("tpu.runs").origin(item.name)
    else:
        raise InputError(options.program, "", "is none of the sixty compiled programs: --hlo says what it came from")
    reports, failed = [], 0
    for name, mapping in mappings.items():
        try:
            with steps_progress("pricing", "instruction") as progress:
                found = pricing.price(origin, mapping, cache, whole=options.whole, progress=progress)
        except compiler.CompilerError as error:
            reports.append({"mapping": name, "failed": str(error)})
            failed += 1
        else:
            reports.append(
                {
                    "mapping": name,
                    "cycles": found.total,
                    "stalled_cycles": round(pricing.with_stalls(program, mapping, found)["stalled_cycles"]),
                    "fast_bytes": found.fast_bytes,
                    "left": list(found.left),
                    "compiled": found.compiled,
                    "seconds": round(found.seconds, 1),
                }
                | ({"instructions": found.cycles} if options.instructions else {})
            )
        if not options.json:
            _tell_price(reports[-1], reports[0], program.fast_bytes)
    if options.json:
        print_json({"program": program.name, "prices": reports})
    return 1 if failed else 0


def _tell_price(told: dict[str, Any], slow: dict[str, Any], fast_bytes: int) -> None:
    name = shown(told["mapping"], 200)
    if "failed" in told:
        print(f"{name}: {shown(told['failed'], 400)}")
        return
    speed = f", {slow['cycles'] / told['cycles']:.3f} times as fast" if told["cycles"] and "cycles" in slow else ""
    stalled = f"{told['stalled_cycles']:,} with the wait for copies"
    print(f"{name}: {told['cycles']:,} cycles{speed}, {stalled}; {told['fast_bytes'] / 2**20:.1f} MiB of fast memory")
    for line in told["left"]:
        print(f"  {shown(line, 400)}")
    if told["fast_bytes"] > fast_bytes:
        print(f"  at the compiler's own offsets this is more than the {fast_bytes / 2**20:.1f} MiB there are")
    for instruction, cycles in told.get("instructions", {}).items():
        print(f"  {instruction}: {'no estimate' if cycles is None else f'{cycles:,}'}")
