"""``lmap trace``: a graph or a program from a function of the user's own."""

import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from learned_mapping.cli.instances import tell_of_unknown
from learned_mapping.cli.output import (
    JSON_ENDINGS,
    check_out,
    report,
)
from learned_mapping.doors.sources import is_function
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.graph import ComputationGraph, check_text


def positions(text: str) -> tuple[int, ...] | None:
    """``0,2-4`` as (0, 2, 3, 4), ``none`` as (), nothing as None; raises `InputError` for anything
    else."""
    if not text or text == "none":
        return () if text else None
    numbers: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        if ends is None or int(ends[1]) > int(ends[2] or ends[1]):
            raise InputError(
                "--parameters", "", f"expected positions such as 0,2 or 0-5, or none, got {text!r}"
            )
        numbers += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(numbers)


def trace(options: Any) -> int:
    """Traces a function or a torch module, or reads a model's file, into a graph file, with
    ``--program`` a program file."""
    out = check_out(options.out, JSON_ENDINGS, [])
    if options.name is not None:
        check_text("--name", "name", [options.name])
    if options.machine is not None and not options.program:
        raise InputError("--machine", "", "is for --program")
    parameters = positions(options.parameters)
    limit = {} if options.unroll_limit is None else {"unroll_limit": options.unroll_limit}
    if not is_function(options.function):
        return _write(options, out, _of_file(options, parameters, limit), {})
    from learned_mapping.doors.user_function import (
        beside,
        graph_of_example,
        is_torch,
        load_example,
    )

    # what the user's code prints is no report
    with beside(options.function), redirect_stdout(sys.stderr):
        example = load_example(options.function, options.arg, parameters=parameters)
        function, args = example.function, example.args
        settings: dict[str, Any] = {"name": options.name or options.function.rpartition(":")[2]}
        counts: dict[str, Any] = {}
        if is_torch(function):
            _refuse(options, "check", "unroll_limit")
            traced: Any = graph_of_example(example, **settings)
        else:
            settings |= limit
            if options.check:
                from learned_mapping.programs.trace.xla_counts import compare

                counts = compare(function, *args, **settings)
            if options.program:
                from learned_mapping.programs.trace.schedule import schedule

                traced = schedule(
                    function,
                    *args,
                    **settings,
                    parameters=example.parameters or (),
                    machine=_hierarchy(options),
                    donated=example.donated,
                )
            else:
                traced = graph_of_example(example, **settings)
    return _write(options, out, traced, counts)


def _of_file(
    options: Any, parameters: tuple[int, ...] | None, limit: dict[str, int]
) -> ComputationGraph:
    """The graph of a model's file."""
    from learned_mapping.doors.models import read_model

    _refuse(options, "check")
    if not os.path.lexists(options.function):
        raise InputError(options.function, "", "no such file, nor a MODULE:FUNCTION")
    shapes = []
    if options.arg:
        from learned_mapping.doors.user_function import parse_argument

        for text in options.arg:
            argument = parse_argument(text)
            shapes.append((str(argument.dtype), argument.shape))
    return read_model(options.function, parameters, options.name, **limit, shapes=shapes)


def _hierarchy(options: Any) -> Any:
    """The memories that a program is written for."""
    from learned_mapping.hardware.machine import hierarchy_of, read_machine

    return hierarchy_of(read_machine(options.machine or "paper-1"))


def _refuse(options: Any, *names: str) -> None:
    """Raises `InputError` for options that are of no use where no JAX function is traced."""
    for name in names:
        if getattr(options, name):
            raise InputError(f"--{name.replace('_', '-')}", "", "is for a JAX function")


def _write(options: Any, out: Path, traced: Any, counts: dict[str, Any]) -> int:
    """Writes a graph or the program of one, and says what it is and what XLA counts beside."""
    from learned_mapping.programs.formats import write_graph, write_program

    if options.program:
        if isinstance(traced, ComputationGraph):
            from learned_mapping.programs.trace.schedule import schedule_graph

            traced = schedule_graph(traced, _hierarchy(options))
        write_program(out, traced)
        facts = {"instructions": traced.num_instructions, "buffers": traced.num_buffers}
        facts["possible_saving_s"] = traced.possible_saving_s
    else:
        write_graph(out, traced)
        facts = {
            "ops": traced.num_ops,
            "edges": traced.num_edges,
            "flop": float(traced.op_flop.sum()),
        }
        facts["weight_bytes"] = int(traced.op_weight_bytes.sum())
    tell_of_unknown(traced)
    numbers = ", ".join(f"{value:,.6g} {key}" for key, value in facts.items())
    lines = [
        f"{traced.name}: {numbers} -> {shown(out, 1000)}",
        *map(_counts_line, counts, counts.values()),
    ]
    checked = {
        k: v._asdict() | {"ratio": v.ratio, "explained": v.explained} for k, v in counts.items()
    }
    whole = {"name": traced.name, **facts, "out": str(out)} | ({"check": checked} if counts else {})
    return report(options, whole, "\n".join(lines))


def _counts_line(name: str, counts: Any) -> str:
    from learned_mapping.programs.trace.xla_counts import REASONS

    if counts.xla < 0:
        return f"{name}: {counts.ours:,.6g}; XLA does not count what this program calls"
    large = [
        (k, v)
        for k, v in counts.differences.items()
        if abs(v) > 0.005 * max(counts.ours, counts.xla)
    ]
    reasons = {k: f" ({REASONS[k]})" if name == "flop" and k in REASONS else "" for k, _ in large}
    apart = "".join(f"\n  {k} {v:+,.6g}{reasons[k]}" for k, v in large[:8])
    rest = f"; {counts.explained:.4f} without the differences of" if large else ""
    return (
        f"{name}: {counts.ours:,.6g}, XLA {counts.xla:,.6g}, ratio {counts.ratio:.4f}{rest}{apart}"
    )
