"""``lmap trace`` and ``lmap extract``."""

from __future__ import annotations

from typing import Any

from learned_mapping.cli.output import check_out, print_json, steps_progress
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.graph import check_text

JSON_ENDINGS = (".json", ".json.gz")


def positions(text: str) -> tuple[int, ...]:
    """``0,2`` as (0, 2); raises `InputError` for anything else."""
    try:
        found = tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise InputError("--parameters", "", f"expected positions such as 0,2, got {text!r}") from None
    if any(position < 0 for position in found):
        raise InputError("--parameters", "", f"a position is negative in {text!r}")
    return found


def trace(options: Any) -> int:
    """Traces a user's function into a graph file, or with ``--program`` a program file."""
    out = check_out(options.out, JSON_ENDINGS, [])
    if options.name is not None:
        check_text("--name", "name", [options.name])
    parameters = positions(options.parameters)
    limits = {} if options.unroll_limit is None else {"unroll_limit": options.unroll_limit}
    if options.program:
        from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
        from learned_mapping.programs.formats import write_program
        from learned_mapping.programs.trace.schedule import schedule_function

        machine = MemoryHierarchy()
        named = {"name": options.name, "parameters": parameters}
        program = schedule_function(options.function, options.arg, machine=machine, **named, **limits)
        write_program(out, program)
        report = {
            "name": program.name,
            "instructions": program.num_instructions,
            "buffers": program.num_buffers,
            "possible_saving_s": program.possible_saving_s,
        }
    else:
        from learned_mapping.programs.formats import write_graph
        from learned_mapping.programs.trace.graph import trace_function

        graph = trace_function(options.function, options.arg, parameters=parameters, name=options.name, **limits)
        write_graph(out, graph)
        report = {
            "name": graph.name,
            "ops": graph.num_ops,
            "edges": graph.num_edges,
            "flop": float(graph.op_flop.sum()),
            "weight_bytes": int(graph.op_weight_bytes.sum()),
        }
    if options.json:
        print_json({**report, "out": str(out)})
    else:
        name, *facts = report.items()
        print(f"{name[1]}: " + ", ".join(f"{value:,.6g} {key}" for key, value in facts) + f" -> {shown(out, 1000)}")
    return 0


def extract(options: Any) -> int:
    """Compiles a user's function with the TPU compiler and writes its memory-mapping game."""
    out = check_out(options.out, JSON_ENDINGS, [])
    mapping_out = check_out(options.mapping, JSON_ENDINGS, []) if options.mapping else None
    from learned_mapping.programs.formats import write_program
    from learned_mapping.programs.trace.user_function import load_example
    from learned_mapping.tpu.compiler import require_compiler
    from learned_mapping.tpu.extract import extract as extract_program

    require_compiler()

    example = load_example(options.function, options.arg)
    name = options.function.rpartition(":")[2]
    with steps_progress("pricing placements", "placement") as progress:
        extracted = extract_program(
            example.function,
            example.args,
            name=name,
            donate=example.donated,
            cycles=options.cycles,
            progress=progress,
        )
    write_program(out, extracted.program)
    if mapping_out is not None:
        from learned_mapping.mmap.compiler import mapping_of_compiler
        from learned_mapping.mmap.mapping import write_mapping

        write_mapping(mapping_out, mapping_of_compiler(extracted.program, extracted.compiler), extracted.program)
    report = {
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
        print_json(report)
    else:
        cycles = f"{extracted.slow_cycles:,.0f} cycles in HBM, {extracted.compiler_cycles:,.0f} as the compiler maps it"
        print(f"{name}: {extracted.program.num_buffers:,} buffers, {cycles} -> {out}")
        if options.cycles:
            slow, fast = extracted.compiled_slow_cycles, extracted.compiled_cycles
            print(f"compiled in full: {slow:,.0f} cycles with CMEM off, {fast:,.0f} with the compiler's mapping")
        if extracted.unpriced or extracted.inferred:
            print(
                f"{extracted.unpriced} instructions for which the compiler has no estimate are charged by their bytes "
                f"and save nothing; {extracted.inferred} are inferred from others of their kind"
            )
    return 0
