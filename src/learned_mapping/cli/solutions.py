"""``lmap solve``, ``lmap check`` and ``lmap show``.

A solution's file says how it was made, so that a judge needs no more words than it must. Its
optional field ``made`` has method, seed, samples, the options of the problem that were given, and
the network that was asked, with the SHA-256 of its file.
"""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from learned_mapping.cli.output import (
    JSON_ENDINGS,
    check_out,
    guessed_parameters,
    print_json,
    report,
    search_progress,
    unknown_costs,
)
from learned_mapping.errors import InputError, LearnedMappingError, is_whole, shown
from learned_mapping.interrupts import patient
from learned_mapping.learning.device import on_device
from learned_mapping.problem import Problem, Result, problem
from learned_mapping.problem import solve as solve_task
from learned_mapping.programs import minimalloc
from learned_mapping.programs.json_io import (
    Node,
    file_sha256,
    read_head,
    read_json,
    schema_name,
    write_bytes,
    write_json,
)
from learned_mapping.programs.recognition import JSON, MINIMALLOC, kind_of
from learned_mapping.programs.sources import is_function
from learned_mapping.verdict import LISTED

# Kind of a solution's file -> whose it is.
PAPERS = {"mapping": "mmap", "partition": "mcm", "schedule": "regal"}
# Of the search for a bound where the exact method is out of reach and no time was given.
BOUND_SECONDS = 60.0
PATIENCE_S = 5.0  # After an interrupt, for the method to come to its end.
READY_S = 1.0  # From here on the seconds that compiling took are told.
OPTIONS = {
    "mmap": ("machine", "size", "device"),
    "mcm": ("machine", "fused", "chips", "fold", "start", "repair", "iterations", "hardware"),
    "regal": (
        "machine",
        "fused",
        "objective",
        "devices",
        "transfers",
        "link_bytes_per_s",
        "link_latency_s",
    ),
}
"""Options of each paper's problem; an option of another paper is refused."""
KEPT = ("unknown_ops", "guessed_parameters")
"""What an instance's metadata tell that its solution's file keeps."""
UNSEEN = ("size", "device", "fold", "fused", "hardware")
"""Options that no task takes."""
RETIRED = {"mcm": ("package",), "regal": ("memory_gib",)}
"""Options that files of solutions still have."""
SAID = ("chips", "package", "devices", "transfers", "memory_gib", *OPTIONS["regal"][-2:])
"""Options that a machine says."""


def _problem(options: Any) -> Problem:
    """The problem of the command, whose options are its own; raises `InputError` where one is
    another paper's."""
    for paper, names in OPTIONS.items():
        for name in set(names).difference(OPTIONS[options.paper]):
            if getattr(options, name, None) not in (None, False):
                raise InputError(f"--{name.replace('_', '-')}", "", f"is for {paper}")
    return problem(_room(options))


def _room(options: Any) -> str:
    return "silicon" if options.hardware == "silicon" else options.paper


def _given(options: Any) -> dict[str, Any]:
    """The options on the task that were given, by name; a machine as it is read."""
    values: dict[str, Any] = {
        name: getattr(options, name, None)
        for name in OPTIONS[options.paper]
        if name not in ("fold", "fused", "hardware")
    }
    values = {name: value for name, value in values.items() if value is not None}
    if "machine" in values:
        from learned_mapping.hardware.machine import read_machine

        values["machine"] = read_machine(values["machine"])
    return values


def _task_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options on the task as `Problem.task` takes them: of a machine the part that this problem
    sees, but for a program, which has it already (`_read`).

    Raises:
      InputError: an option says what the machine says, or the problem has no such machine.
    """
    values = {option: value for option, value in given.items() if option not in UNSEEN}
    if "machine" not in values:
        return values
    for option in SAID:
        if option in values:
            raise InputError(f"--{option.replace('_', '-')}", "", "is said by the machine")
    from learned_mapping.hardware.machine import devices_of, package_of

    machine = values.pop("machine")
    if name == "regal":
        values["machine"] = devices_of(machine)
    elif name != "mmap":
        values["package"] = package_of(machine)
    return values | ({"memory": True} if name == "mcm" else {})


def _read(paper: str, path: str, given: Mapping[str, Any]) -> Any:
    """The instance of a file, a program as the machine has it."""
    if paper != "mmap" or "machine" not in given:
        return problem(paper).read(path)
    from learned_mapping.hardware.machine import hierarchy_of
    from learned_mapping.mmap.methods import PROBLEM

    return PROBLEM.read(path, hierarchy_of(given["machine"]))


def _folded(graph: Any) -> Any:
    from learned_mapping.mcm.rules.fold import fold_cheap_sources, fold_weights

    return fold_cheap_sources(fold_weights(graph))


@contextmanager
def _of_file(instance: Any, path: str) -> Iterator[None]:
    """A context in which what is wrong with an instance is said of its file."""
    try:
        yield
    except InputError as error:
        if error.source != instance.name:
            raise
        raise InputError(path, error.field, error.fault) from None


def _judged_instance(paper: str, solution: str, instance: Any) -> Any:
    """The instance a solution file is for: the one given, or what `fold` or fusing makes of it."""
    if paper == "mmap":
        return instance
    value = read_json(solution).value
    made_for = value.get("digest") if isinstance(value, dict) else None
    return next((made for made in _versions(paper, instance) if made.digest == made_for), instance)


def _versions(paper: str, graph: Any) -> Iterator[Any]:
    """The graphs that a user may have meant by one."""
    from learned_mapping.programs.trace.fused import fused_graph

    yield graph
    folded = [_folded(graph)] if paper == "mcm" else []
    yield from folded
    for whole in (graph, *folded):
        with suppress(InputError):
            yield fused_graph(whole)


def solve(options: Any) -> int:
    """Solves an instance, has the independent validator judge the solution, and writes it if it is
    valid. An interrupt ends the search, and the best so far is written."""
    out = _checked_out(options)
    paper = _problem(options)
    if options.method == AUTO:
        _expect_plain(options)
    else:
        paper.method(options.method)  # complains of an unknown one
    narrow = [name for name in OPTIONS[options.paper] if name not in ("machine", "fused")]
    paper.refuse(options.method, [n for n in narrow if getattr(options, n) is not None], "--")
    chosen = _given(options)
    hardware = _task_options(_room(options), chosen)
    instance = _instance(options, chosen)
    with _of_file(instance, options.instance):
        task = paper.task(instance, **hardware)
    method, result, ready_s, interrupted = _run(paper, task, instance, options)
    if unseen := paper.unseen(task, method):
        print(unseen, file=sys.stderr)
    verdict = paper.validate(task, result.solution)
    if not verdict.valid:
        raise LearnedMappingError(
            f"{options.method} found no valid solution: {verdict.violations[0]}"
        )
    origin = _origin(paper, instance, task, method, result, chosen, options)
    if str(out).endswith(minimalloc.ENDINGS):
        offsets = import_module("learned_mapping.mmap.mapping").offsets_of(
            instance, result.solution
        )
        write_bytes(out, minimalloc.offsets_csv(options.instance, offsets).encode())
    else:
        write_json(out, paper.to_json(result.solution, instance) | {"made": origin})
    cost, others = paper.beside(task)
    value, metrics = verdict.costs.get(cost), result.metrics
    never = [number for name, number in others.items() if name.endswith("is below")]
    gap = _gap(value, metrics.get("bound_s", metrics.get("bound")), *never)
    chain_gap = _gap(value, metrics.get("chain_bound_s"))
    asked = origin["network"]["name"] if "network" in origin else None
    if options.json:
        gaps = {"gap": gap, "chain_gap": chain_gap}
        print_json(
            {
                "instance": instance.name,
                **{name: origin[name] for name in ("method", "by", "seed", "samples")},
                "seconds": round(result.seconds, 3),
                "compile_s": round(ready_s, 3),
                "metrics": dict(metrics),
                "costs": dict(verdict.costs),
                "out": str(out),
                "network": asked,
                "beside": others,
                **{name: number for name, number in gaps.items() if number is not None},
            }
        )
    else:
        compiled = f", after {ready_s:.1f} s to compile" if ready_s >= READY_S else ""
        print(
            f"{verdict}\n{result.samples} samples in {result.seconds:.2f} s{compiled} ->"
            f" {shown(out, 1000)}"
        )
        lines = [
            _by_whom(paper, method, result),
            f"network {asked}{paper.use_of(method)}" if asked else "",
        ]
        if value is not None:
            lines += [_beside(name, cost, value, other) for name, other in others.items()]
        lines += [*paper.hints(task, result.solution), _proved(gap, chain_gap)]
        print("\n".join(filter(None, lines)), end="\n" if any(lines) else "")
    if interrupted:
        raise KeyboardInterrupt
    return 0


AUTO, AUTO_SECONDS = "auto", 30.0


def _expect_plain(options: Any) -> None:
    """Raises `InputError` for options that no choice of methods can keep to."""
    for name in ("samples", "checkpoint", "start", "repair", "iterations", "size"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}", "", "is for one method, not for auto")
    if options.hardware == "silicon":
        raise InputError("--method", "auto", "is for the analytical model")


def _by_auto(paper: Problem, task: Any, options: Any, progress: Any) -> tuple[str, Result]:
    """The best of what rules, an exact method and searches find, and by which; its metrics have the
    bound."""
    from learned_mapping.auto import answer
    from learned_mapping.budget import Budget

    seconds, since = options.seconds or AUTO_SECONDS, time.perf_counter()
    found = answer(paper, task, Budget(seconds=seconds), seed=options.seed, progress=progress)
    if found.result is None:
        fault = found.refusal or "nothing found that fits; no proof that nothing does"
        raise LearnedMappingError(f"{options.instance}: {fault}")
    metrics: dict[str, Any] = found.result.metrics
    if paper.name != "mmap":
        metrics = {"bound_s": found.bound} | metrics
    spent = time.perf_counter() - since
    return found.result.by, dataclasses.replace(found.result, metrics=metrics, by="", seconds=spent)


def _checked_out(options: Any) -> Path:
    """The path of the solution; raises `InputError`, before anything is computed, where it cannot
    be written."""
    inputs = [options.instance, *filter(None, [options.machine])]
    foreign = (
        minimalloc.ENDINGS
        if options.paper == "mmap" and options.instance.endswith(minimalloc.ENDINGS)
        else ()
    )
    out = check_out(
        options.out, JSON_ENDINGS + foreign, inputs + [*filter(None, [options.checkpoint])]
    )
    if options.checkpoint is not None:
        check_out(options.checkpoint, (".npz",), inputs)
    return out


def _instance(options: Any, given: Mapping[str, Any]) -> Any:
    """The instance as the options want it; says what a user may have missed in its file."""
    instance = _read(options.paper, options.instance, given)
    if options.fold:
        with _of_file(instance, options.instance):
            instance = _folded(instance)
    elif options.paper == "mcm":
        from learned_mapping.mcm.rules.fold import weight_sources

        if count := int(weight_sources(instance).sum()):
            print(
                f"{count:,} ops look like weights: --fold puts them into the ops that use them",
                file=sys.stderr,
            )
    _tell_of_unknown(instance)
    return instance if options.paper == "mmap" else _fused(instance, options)


def _fused(graph: Any, options: Any) -> Any:
    """The graph of the instructions that a compiler makes, where it is asked for; and on a machine
    unless it is refused, or the graph cannot be fused."""
    if options.fused is False or (options.fused is None and options.machine is None):
        return graph
    from learned_mapping.programs.trace.fused import fused_graph

    try:
        with _of_file(graph, options.instance):
            fused = fused_graph(graph)
    except InputError as error:
        if options.fused:
            raise
        print(error, file=sys.stderr)
        return graph
    print(f"{graph.num_ops:,} ops are {fused.num_ops:,} once fused (--no-fused)", file=sys.stderr)
    return fused


def _run(paper: Problem, task: Any, instance: Any, options: Any) -> tuple[str, Result, float, bool]:
    """The method that ran, its result, the seconds that went into compiling, and whether the user
    has ended it: where the optimum is out of reach, another method takes its place in the time that
    is left."""
    limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
    limits |= {"alone": options.alone, "checkpoint": options.checkpoint, "strict": True}
    limits |= {"profile": "paper"} if options.size == "paper" else {}
    method, since = options.method, time.perf_counter()
    with (
        patient(
            "the best so far follows", wanted=options.checkpoint is None, seconds=PATIENCE_S
        ) as interrupted,
        search_progress(method, options.seconds, options.samples, interrupted) as progress,
        on_device(options.device),
    ):
        try:
            if method == AUTO:
                method, result = _by_auto(paper, task, options, progress)
                return method, result, 0.0, bool(interrupted)
            with _of_file(instance, options.instance):
                result = solve_task(paper, task, method, **limits, progress=progress)
        except LearnedMappingError as error:
            if type(error).__name__ != "TooManyIdealsError":
                raise
            if options.alone:
                hint = "" if options.fold else "; --fold makes many graphs narrower"
                raise LearnedMappingError(f"{error}{hint}") from None
            method = paper.instead_of_optimum(task)
            left = (
                BOUND_SECONDS
                if options.seconds is None
                else options.seconds - (time.perf_counter() - since)
            )
            limits["seconds"] = max(left, 0.2 * (options.seconds or BOUND_SECONDS))
            print(f"{shown(error, 300)}: {method} instead", file=sys.stderr)
            result = solve_task(paper, task, method, **limits, progress=progress)
    return method, result, max(time.perf_counter() - since - result.seconds, 0.0), bool(interrupted)


def _origin(
    paper: Problem,
    instance: Any,
    task: Any,
    method: str,
    result: Result,
    chosen: dict[str, Any],
    options: Any,
) -> dict[str, Any]:
    """How a solution was made, as its file says it."""
    settings = chosen | ({"fold": True} if options.fold else {})
    settings |= {"fused": True} if "fused_ops" in instance.metadata else {}
    if "machine" in chosen:
        from learned_mapping.hardware.machine import machine_to_json

        settings["machine"] = machine_to_json(chosen["machine"])
    settings |= {} if options.hardware is None else {"hardware": options.hardware}
    network = paper.network_of(task, method)
    file = (
        {}
        if network is None
        else {"name": network.name.removesuffix(".npz"), "sha256": file_sha256(network)}
    )
    origin = {
        "method": method,
        "by": result.by or method,
        "seed": options.seed,
        "samples": result.samples,
    }
    facts = {fact: instance.metadata.get(fact) for fact in KEPT}
    facts |= {"network": file}
    return origin | {"options": settings} | {fact: told for fact, told in facts.items() if told}


def _by_whom(paper: Problem, method: str, result: Result) -> str:
    """Whose solution it is, where it is not the method's own; empty otherwise."""
    if result.by in paper.method(method).then:
        return (
            f"{result.by} went on from the best mapping and found more (--alone gives {method}'s"
            " own)"
        )
    if result.by:
        why = (
            "found nothing better (--alone gives that)"
            if result.samples
            else "had no time to finish one sample"
        )
        return f"this is what {result.by} finds, a rule; {method} {why}"
    return (
        ""
        if result.samples
        else f"{method} had no time to finish one sample: --seconds gives it more"
    )


def _beside(name: str, cost: str, value: float, other: float) -> str:
    """A solution's cost beside another's."""
    share = value / other - 1 if other > 0 else 0.0
    where = (
        f"{abs(share):.2%} {'above' if share > 0 else 'below'} it"
        if abs(share) > 5e-5
        else "the same"
    )
    return f"{name}: {cost} {other:.6g}; this is {where}"


def _proved(gap: float | None, chain_gap: float | None) -> str:
    """The optimum that a solution is, or how far it is above one, in a sentence; empty where
    nothing was proved.

    Args:
      gap: share above what no solution is below.
      chain_gap: share above what none is below that obeys the chain rule, of paper 2.
    """
    if chain_gap is None:
        if gap is None:
            return ""
        return f"at most {100 * gap:.3g}% above the optimum's cost" if gap > 1e-9 else "the optimum"
    if gap is not None and gap <= 1e-9:
        return "the optimum of all partitions"
    above = f"at most {100 * chain_gap:.3g}% above " if chain_gap > 1e-9 else ""
    others = "" if gap is None else f"; at most {100 * gap:.3g}% above any partition"
    return f"{above}the optimum under the chain rule{others}"


def _gap(value: float | None, proven: float | None, *others: float) -> float | None:
    """The share of the least cost that may be possible by which a cost is above it; None where
    nothing was proved.

    Args:
      value: the cost of the solution.
      proven: what the method proved that none is below.
      others: what else none is below.
    """
    if proven is None or value is None:
        return None
    bound = max([proven, *others])
    if bound <= 0.0:
        return 0.0 if value <= 0.0 else None
    return max(value / bound - 1.0, 0.0)


FACTS = {
    "ports_without_output": (
        "output is",
        "outputs are",
        "used but not stated: an order of ops, of 0 bytes",
    ),
    "sizes_not_known": (
        "size is",
        "sizes are",
        "not known to the writer: nothing is held, of 0 bytes",
    ),
    "held_through_gaps": ("buffer is", "buffers are", "held through the gaps that the file gives"),
    "aligned_as_others": ("buffer is", "buffers are", "aligned to what suits all, not as given"),
}
"""What metadata count -> what it is, one or many, and what it means for the reader."""


def _tell_of_unknown(instance: Any) -> None:
    """Says what a file leaves open or what is read more strictly, and what stands for it."""
    for fact, (one, many, meaning) in FACTS.items():
        count = instance.metadata.get(fact, 0)
        if is_whole(count) and count > 0:
            print(f"{count:,} {one if count == 1 else many} {meaning}", file=sys.stderr)
    for told in (guessed_parameters, unknown_costs):
        if line := told(instance.metadata):
            print(line, file=sys.stderr)


def check(options: Any) -> int:
    """Judges a solution, or an instance alone; exit 1 where a solution is invalid."""
    options.paper, files = _named_files("check", options.files)
    if len(files) == 1:
        return _check_instance(_problem(options), files[0], options)
    judged = judged_options(files[1])
    if options.paper == "mcm" and options.hardware is None:
        options.hardware = judged.get("hardware")
    chosen, said = _problem(options), _said(judged, _given(options))
    source = _read(options.paper, files[0], said)
    _tell_of_unknown(source)
    instance = _judged_instance(options.paper, files[1], source)
    solution = chosen.read_solution(files[1], instance)
    task = _judged_task(chosen, _room(options), files, instance, solution, said)
    verdict = chosen.validate(task, solution, None if options.all else LISTED)
    return report(options, verdict.to_json(), verdict, verdict.valid)


def _said(judged: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a solution's file says of its task, and in its place what the command says."""
    dropped = SAID if "machine" in given else ()
    return {name: value for name, value in judged.items() if name not in dropped} | dict(given)


def _check_instance(paper: Problem, path: str, options: Any) -> int:
    """Reads an instance, which is all that can be wrong with it, and says what it holds."""
    given = _given(options)
    instance = _read(options.paper, path, given)
    _tell_of_unknown(instance)
    if options.files[0] == path and paper.name == "regal" and instance.op_is_tied.any():
        options.paper, paper = "mcm", problem("mcm")
    chosen = _task_options(_room(options), given)
    with _of_file(instance, path):
        task = paper.task(instance, **chosen)
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

    paper, files = _named_files("show", options.files)
    out = check_out(options.out, PICTURES, files)
    options.paper = paper
    said = _said(judged_options(files[1]) if len(files) == 2 else {}, _given(options))
    instance, solution, hardware = _read(paper, files[0], said), None, ()
    if len(files) == 2:
        instance = _judged_instance(paper, files[1], instance)
        solution = problem(paper).read_solution(files[1], instance)
        task = _judged_task(problem(paper), paper, files, instance, solution, said)
        hardware = HARDWARE[paper](task)
    # a graph alone has one picture
    room = "regal" if paper == "mcm" and solution is None else paper
    try:
        figure = import_module(f"learned_mapping.{room}.draw").picture(
            instance, solution, *hardware
        )
    except InputError as error:
        raise InputError(files[-1], error.field, error.fault) from None
    if len(files) == 2:
        verdict = problem(paper).validate(task, solution)
        if not verdict.valid:
            broken = f"is drawn as it is, but invalid: {verdict.violations[0]}"
            print(f"{shown(files[1], 1000)}: {broken}", file=sys.stderr)
    data = picture_bytes(
        figure, next(ending for ending in PICTURES if out.name.endswith(ending)), instance.name
    )
    write_bytes(out, data)
    text = f"{len(data) / 1024:.0f} KiB -> {shown(out, 1000)}"
    return report(options, {"out": str(out), "bytes": len(data)}, text)


HARDWARE: dict[str, Callable[[Any], tuple]] = {
    "mmap": lambda task: (),
    "mcm": lambda task: (task.model.package,),
    "regal": lambda task: (task.machine,),
}
"""The hardware that a picture shows a solution on, by problem."""


def _judged_task(
    paper: Problem,
    name: str,
    files: list[str],
    instance: Any,
    solution: Any,
    said: Mapping[str, Any],
) -> Any:
    """The task of a solution's file: its instance on hardware as it is said."""
    known = (*OPTIONS[paper.name], *RETIRED.get(paper.name, ()))
    settings = {option: value for option, value in said.items() if option in known}
    if "machine" not in settings:
        settings |= {
            option: getattr(solution, option) for option in ("chips", "devices") if option in known
        }
    if "package" in settings:
        settings["package"] = dataclasses.replace(settings["package"], chips=settings.pop("chips"))
    with _of_file(instance, files[0]):
        return paper.task(instance, **_task_options(name, settings))


def _named_files(command: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The problem of an instance and a solution, named before them or not, and their files."""
    named = arguments[0] in OPTIONS
    files = arguments[1:] if named else arguments
    if not 1 <= len(files) <= 2:
        raise InputError(command, "", f"expected [{'|'.join(OPTIONS)}] INSTANCE [SOLUTION]")
    if not is_function(files[0]):
        read_head(files[0])  # an instance that is not there is told before its solution
    return (
        arguments[0] if named else _paper_of_files(files[0], files[1] if len(files) == 2 else None)
    ), files


def _paper_of_files(instance: str, solution: str | None) -> str:
    """The problem that files belong to, by their schemas; a graph alone is drawn as paper 3 draws
    it.

    Raises:
      InputError: the file is no solution.
    """
    found = "" if is_function(instance) else kind_of(read_head(instance))
    if found == MINIMALLOC:
        return "mmap"
    if solution is None:
        kind = schema_name(read_json(instance)) if found == JSON else "graph"
        if kind in PAPERS:
            raise InputError(
                instance, "schema", f"is a {kind}: name the instance that it is for before it"
            )
        return "mmap" if kind == "program" else "regal"
    node = read_json(solution)
    name = schema_name(node)
    if name not in PAPERS:
        fault = f"expected a solution ({', '.join(PAPERS)}), got {node.value['schema']!r}"
        raise InputError(solution, "schema", fault)
    return PAPERS[name]


READERS: dict[str, tuple[Any, ...]] = {
    "hardware": ("choice", "analytical", "silicon"),
    "objective": ("choice", "runtime", "memory"),
    "transfers": ("choice", "rendezvous", "free", "queued"),
    "memory_gib": ("number", 1e-300, 1e6),
    "link_bytes_per_s": ("number", 1e-300, 1e300),
    "link_latency_s": ("number", 0.0, 1e6),
    "fold": ("boolean",),
    "fused": ("boolean",),
    **dict.fromkeys(("chips", "devices", "iterations"), ("integer", 1, 10**9)),
}
"""Readers of the options in a solution's file, for those that are no strings."""
JUDGED = ("hardware", *SAID, "machine", "objective")
"""Options that decide what a solution costs or whether it is valid."""


def judged_options(path: str) -> dict[str, Any]:
    """The options in a solution's file that its judge needs; raises `InputError`."""
    if path.endswith(minimalloc.ENDINGS):
        return {}
    node = read_json(path)
    if not isinstance(node.value, dict) or "made" not in node.value:
        return {}
    origin = Node(node.value["made"], path, "made").object(
        ("method", "by", "seed", "samples", "options"), ("network", *KEPT)
    )
    for name in ("method", "by"):
        origin[name].name()
    for name in ("seed", "samples"):
        origin[name].integer(0, 10**15)
    for fact in {*KEPT} & {*origin}:
        origin[fact].metadata()
    if "network" in origin:
        for name, part in origin["network"].object(("name", "sha256")).items():
            part.string(64 if name == "sha256" else 200)
    known = {name for names in (*OPTIONS.values(), *RETIRED.values()) for name in names}
    settings: dict[str, Any] = {}
    for name, value in origin["options"].mapping(20).items():
        if name not in known:
            value.fail("is no option of `lmap solve`")
        if name == "package":
            from learned_mapping.hardware.chip_package import package_of

            settings[name] = package_of(value)
        elif name == "machine":
            from learned_mapping.hardware.machine import machine_of

            settings[name] = machine_of(value)
        else:
            kind, *bounds = READERS.get(name, ("string",))
            settings[name] = getattr(value, kind)(*bounds)
    return {name: value for name, value in settings.items() if name in JUDGED}
