"""``lmap solve``, ``lmap check`` and ``lmap show``."""

from __future__ import annotations

from typing import Any

from learned_mapping.cli.output import check_out, print_json, search_progress
from learned_mapping.cli.problems import PROBLEMS, problem_of_files
from learned_mapping.errors import LearnedMappingError
from learned_mapping.programs.json_io import write_bytes

SOLUTION_ENDINGS = (".json", ".json.gz")


def solve(options: Any) -> int:
    """Solves an instance, has the independent validator judge the solution, and writes it if it is valid."""
    out = check_out(options.out, SOLUTION_ENDINGS, [options.instance])
    problem = PROBLEMS[options.paper]
    instance = problem.read_instance(options.instance)
    if options.fold:
        instance = problem.folded(instance)
    with search_progress(options.method, options.seconds, options.samples) as progress:
        result = problem.solve(instance, options, progress)
    verdict = problem.validate(instance, result.solution, options)
    if not verdict.valid:
        raise LearnedMappingError(f"{options.method} found no valid solution: {verdict.violations[0]}")
    problem.write(out, result.solution, instance)
    report = {
        "instance": instance.name,
        "method": options.method,
        "seed": options.seed,
        "samples": result.samples,
        "seconds": round(result.seconds, 3),
        "metrics": dict(result.metrics),
        "costs": dict(verdict.costs),
        "out": str(out),
    }
    if options.json:
        print_json(report)
    else:
        print(f"{verdict}\n{result.samples} samples in {result.seconds:.2f} s -> {out}")
    return 0


def check(options: Any) -> int:
    """Judges a solution; exit 1 where it is invalid."""
    problem = PROBLEMS[options.paper]
    instance = problem.judged_instance(options.solution, problem.read_instance(options.instance))
    solution = problem.read(options.solution, instance)
    verdict = problem.validate(instance, solution, options)
    if options.json:
        print_json(verdict.to_json())
    else:
        print(verdict)
    return 0 if verdict.valid else 1


def show(options: Any) -> int:
    """Draws an instance, with a solution where one is given, as SVG."""
    inputs = [options.instance, *([options.solution] if options.solution else [])]
    out = check_out(options.out, (".svg",), inputs)
    problem = problem_of_files(options.instance, options.solution)
    instance = problem.read_instance(options.instance)
    if options.solution:
        instance = problem.judged_instance(options.solution, instance)
    solution = problem.read(options.solution, instance) if options.solution else None
    svg = problem.show(instance, solution)
    write_bytes(out, svg.encode("utf-8"))
    if options.json:
        print_json({"out": str(out), "bytes": len(svg)})
    else:
        print(f"{len(svg) / 1024:.0f} KiB -> {out}")
    return 0
