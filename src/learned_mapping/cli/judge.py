"""``lmap check`` and ``lmap show``: the judge of a solution, and its picture."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from learned_mapping.cli.instances import (
    given_options,
    meant_instance,
    named_files,
    of_file,
    problem_of,
    task_options,
    tell_of_unknown,
)
from learned_mapping.cli.made import judged_options, said_options
from learned_mapping.cli.output import NOTES, check_out, report
from learned_mapping.errors import InputError, shown
from learned_mapping.problem import Problem, problem
from learned_mapping.programs.json_io import write_bytes
from learned_mapping.verdict import LISTED


def check(options: Any) -> int:
    """Judges a solution, or an instance alone; exit 1 where a solution is invalid."""
    options.paper, files = named_files("check", options.files)
    if len(files) == 1:
        return _check_instance(problem_of(options), files[0], options)
    judged = judged_options(files[1])
    if "hardware" in problem(options.paper).options and options.hardware is None:
        options.hardware = judged.get("hardware")
    paper, said = problem_of(options), said_options(judged, given_options(options))
    source = paper.read(files[0], said.get("machine"))
    tell_of_unknown(source)
    task, _, solution = _judged(paper, files, source, said)
    verdict = paper.validate(task, solution, None if options.all else LISTED)
    return report(options, verdict.to_json(), verdict, verdict.valid)


def _check_instance(paper: Problem, path: str, options: Any) -> int:
    """Reads an instance, which is all that can be wrong with it, and says what it holds."""
    given = given_options(options)
    instance = paper.read(path, given.get("machine"))
    tell_of_unknown(instance)
    if options.files[0] == path and paper.name == "regal" and instance.op_is_tied.any():
        options.paper, paper = "mcm", problem("mcm")
    with of_file(instance, path):
        task = paper.task(instance, **task_options(paper, given))
        getattr(task, "check", lambda: None)()  # whether fixed ops can have their chips
    names = ("num_ops", "num_tensors", "num_edges", "num_instructions", "num_buffers")
    facts = {name[4:]: getattr(instance, name) for name in names if hasattr(instance, name)}
    counts = ", ".join(f"{count:,} {name}" for name, count in facts.items())
    text = f"valid: {shown(instance.name)}, {counts}, digest {instance.digest[:16]}"
    return report(
        options, {"valid": True, "instance": instance.name, "digest": instance.digest} | facts, text
    )


def show(options: Any) -> int:
    """Draws an instance, with a solution where one is given, in the format that the output's ending
    names."""
    from learned_mapping.style import PICTURES, picture_bytes

    options.paper, files = named_files("show", options.files)
    paper = problem(options.paper)
    out = check_out(options.out, PICTURES, files)
    said = said_options(judged_options(files[1]) if files[1:] else {}, given_options(options))
    instance = paper.read(files[0], said.get("machine"))
    if not files[1:]:
        figure = paper.picture(instance)
    else:
        task, instance, solution = _judged(paper, files, instance, said)
        try:
            figure = paper.picture(instance, solution, task)
        except InputError as error:
            raise InputError(files[1], error.field, error.fault) from None
        verdict = paper.validate(task, solution)
        if not verdict.valid:
            broken = f"is drawn as it is, but invalid: {verdict.violations[0]}"
            NOTES.append(f"{shown(files[1], 1000)}: {broken}")
    data = picture_bytes(
        figure, next(ending for ending in PICTURES if out.name.endswith(ending)), instance.name
    )
    write_bytes(out, data)
    text = f"{len(data) / 1024:.0f} KiB -> {shown(out, 1000)}"
    return report(options, {"out": str(out), "bytes": len(data)}, text)


def _judged(
    paper: Problem, files: list[str], source: Any, said: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """The task of a solution's file, on hardware as it is said, its instance and the solution."""
    instance = meant_instance(paper, files[1], source)
    solution = paper.read_solution(files[1], instance)
    known = (*paper.options, *paper.retired)
    settings = {option: value for option, value in said.items() if option in known}
    if "machine" not in settings:
        settings |= {
            option: getattr(solution, option) for option in ("chips", "devices") if option in known
        }
    if "package" in settings:
        settings["package"] = dataclasses.replace(settings["package"], chips=settings.pop("chips"))
    with of_file(instance, files[0]):
        return paper.task(instance, **task_options(paper, settings)), instance, solution
