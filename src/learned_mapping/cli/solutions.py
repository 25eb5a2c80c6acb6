"""``lmap solve``, ``lmap check`` and ``lmap show``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from learned_mapping.cli.output import check_out, print_json, search_progress
from learned_mapping.errors import InputError, LearnedMappingError
from learned_mapping.problem import COSTGRAPH_ENDINGS, Problem, problem
from learned_mapping.problem import solve as solve_task
from learned_mapping.programs.json_io import Node, read_json, schema_name, write_bytes

SOLUTION_ENDINGS = (".json", ".json.gz")
PAPERS = {"mapping": "mmap", "partition": "mcm", "schedule": "regal"}
"""Kind of a solution's file -> whose it is."""
OPTIONS = {
    "mmap": (),
    "mcm": ("chips", "fold", "start", "hardware"),
    "regal": ("objective", "devices", "transfers", "memory_gib"),
}
"""What a paper's problem takes; an option of another paper is refused."""


def _problem(options: Any) -> Problem:
    """The problem of the command, whose options are its own; raises `InputError` where one is another paper's."""
    for paper, names in OPTIONS.items():
        for name in names:
            if paper != options.paper and getattr(options, name, None) not in (None, False):
                raise InputError(f"--{name.replace('_', '-')}", "", f"is for {paper}")
    return problem("silicon" if options.hardware == "silicon" else options.paper)


def _hardware(options: Any) -> dict[str, Any]:
    """The options that were given, as `Problem.task` takes them."""
    given = {name: getattr(options, name, None) for name in OPTIONS[options.paper] if name not in ("fold", "hardware")}
    return {name: value for name, value in given.items() if value is not None}


def _folded(graph: Any) -> Any:
    from learned_mapping.mcm.rules.fold import fold_cheap_sources

    return fold_cheap_sources(graph)


def _judged_instance(paper: str, solution: str, instance: Any) -> Any:
    """The instance a solution file is for: the one given, or what `fold` makes of it."""
    if paper != "mcm":
        return instance
    value = read_json(solution).value
    made_for = value.get("digest") if isinstance(value, dict) else None
    if made_for == instance.digest:
        return instance
    folded = _folded(instance)
    return folded if made_for == folded.digest else instance


def solve(options: Any) -> int:
    """Solves an instance, has the independent validator judge the solution, and writes it if it is valid."""
    out = check_out(options.out, SOLUTION_ENDINGS, [options.instance])
    paper = _problem(options)
    paper.method(options.method)
    instance = paper.read(options.instance)
    if options.fold:
        instance = _folded(instance)
    task = paper.task(instance, **_hardware(options))
    limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
    with search_progress(options.method, options.seconds, options.samples) as progress:
        try:
            result = solve_task(paper, task, options.method, **limits, progress=progress)
        except LearnedMappingError as error:
            if type(error).__name__ != "TooManyIdealsError" or options.fold:
                raise
            raise LearnedMappingError(f"{error}; --fold makes many graphs narrower") from None
    verdict = paper.validate(task, result.solution)
    if not verdict.valid:
        raise LearnedMappingError(f"{options.method} found no valid solution: {verdict.violations[0]}")
    paper.write_solution(out, result.solution, instance)
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
    paper = _problem(options)
    instance = _judged_instance(options.paper, options.solution, paper.read(options.instance))
    solution = paper.read_solution(options.solution, instance)
    hardware = _hardware(options)
    if options.paper == "mcm":
        hardware["chips"] = solution.chips
    elif options.paper == "regal":
        hardware["devices"] = solution.devices
    verdict = paper.validate(paper.task(instance, **hardware), solution)
    if options.json:
        print_json(verdict.to_json())
    else:
        print(verdict)
    return 0 if verdict.valid else 1


def show(options: Any) -> int:
    """Draws an instance, with a solution where one is given, as SVG."""
    inputs = [options.instance, *([options.solution] if options.solution else [])]
    out = check_out(options.out, (".svg",), inputs)
    paper = _paper_of_files(options.instance, options.solution)
    instance, solution = problem(paper).read(options.instance), None
    if options.solution:
        instance = _judged_instance(paper, options.solution, instance)
        solution = problem(paper).read_solution(options.solution, instance)
    svg = import_module(f"learned_mapping.{paper}.draw").show(instance, solution)
    write_bytes(out, svg.encode("utf-8"))
    if options.json:
        print_json({"out": str(out), "bytes": len(svg)})
    else:
        print(f"{len(svg) / 1024:.0f} KiB -> {out}")
    return 0


def _paper_of_files(instance: str, solution: str | None) -> str:
    """Which problem the files belong to, by their schemas; a graph alone is drawn as paper 3 draws it.

    Raises:
      InputError: the file is no solution.
    """
    if solution is None:
        is_program = not instance.endswith(COSTGRAPH_ENDINGS) and schema_name(read_json(instance)) == "program"
        return "mmap" if is_program else "regal"
    node = read_json(solution)
    name = schema_name(node)
    if name not in PAPERS:
        fault = f"expected a solution ({', '.join(PAPERS)}), got {node.value['schema']!r}"
        Node(node.value["schema"], solution, "schema").fail(fault)
    return PAPERS[name]
