"""The instance and the task of a command: its file, read as its options want it, on the hardware
that they name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from learned_mapping.cli.output import (
    NOTES,
    guessed_parameters,
    rounds_at_most,
    shared_weights,
    unknown_costs,
)
from learned_mapping.doors.sources import is_function
from learned_mapping.errors import InputError, is_whole
from learned_mapping.problem import Problem, problem
from learned_mapping.programs.json_io import read_head, read_json, schema_name
from learned_mapping.programs.recognition import JSON, MINIMALLOC, kind_of

PAPERS = ("mmap", "mcm", "regal")
SOLUTIONS = {"mapping": "mmap", "partition": "mcm", "schedule": "regal"}
"""Kind of a solution's file -> whose it is."""
OF_INSTANCES = ("size", "device", "fold", "fused", "hardware")
"""Options that no task takes."""
SAID = (
    "chips",
    "package",
    "devices",
    "transfers",
    "memory_gib",
    "link_bytes_per_s",
    "link_latency_s",
)
"""Options that a machine says."""


def problem_of(options: Any) -> Problem:
    """The problem of the command, whose options are its own; raises `InputError` where one is
    another paper's."""
    own = problem(options.paper).options
    for paper in PAPERS:
        for name in set(problem(paper).options).difference(own):
            if getattr(options, name, None) not in (None, False):
                raise InputError(f"--{name.replace('_', '-')}", "", f"is for {paper}")
    return problem("silicon" if options.hardware == "silicon" else options.paper)


def given_options(options: Any) -> dict[str, Any]:
    """The options on the task that were given, by name; a machine as it is read."""
    values: dict[str, Any] = {
        name: getattr(options, name, None)
        for name in problem(options.paper).options
        if name not in ("fold", "fused", "hardware")
    }
    values = {name: value for name, value in values.items() if value is not None}
    if "machine" in values:
        from learned_mapping.hardware.machine import read_machine

        values["machine"] = read_machine(values["machine"])
    return values


def task_options(paper: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options on the task as `Problem.task` takes them: of a machine the part that this problem
    sees.

    Raises:
      InputError: an option says what the machine says, or the problem has no such machine.
    """
    values = {option: value for option, value in given.items() if option not in OF_INSTANCES}
    if "machine" not in values:
        return values
    for option in SAID:
        if option in values:
            raise InputError(f"--{option.replace('_', '-')}", "", "is said by the machine")
    machine = values.pop("machine")
    return values | paper.on_machine(machine)


@contextmanager
def of_file(instance: Any, path: str) -> Iterator[None]:
    """A context in which what is wrong with an instance is said of its file."""
    try:
        yield
    except InputError as error:
        if error.source != instance.name:
            raise
        raise InputError(path, error.field, error.fault) from None


def meant_instance(paper: Problem, solution: str, instance: Any) -> Any:
    """The instance a solution file is for: the one given, or what `fold` or fusing makes of it."""
    value = read_json(solution).value if "fused" in paper.options else None
    made_for = value.get("digest") if isinstance(value, dict) else None
    versions = _versions(paper, instance) if made_for is not None else ()
    return next((made for made in versions if made.digest == made_for), instance)


def _versions(paper: Problem, graph: Any) -> Iterator[Any]:
    """The graphs that a user may have meant by one."""
    from learned_mapping.programs.trace.fused import fused_graph

    yield graph
    folded = [paper.folded(graph)] if "fold" in paper.options else []
    yield from folded
    for whole in (graph, *folded):
        with suppress(InputError):
            yield fused_graph(whole)


def read_instance(paper: Problem, options: Any, given: Mapping[str, Any]) -> Any:
    """The instance as the options want it; says what a user may have missed in its file."""
    instance = paper.read(options.instance, given.get("machine"))
    if options.fold:
        with of_file(instance, options.instance):
            instance = paper.folded(instance)
    elif hint := paper.hint_of(instance):
        NOTES.append(hint)
    tell_of_unknown(instance)
    return _fused(instance, options) if "fused" in paper.options else instance


def _fused(graph: Any, options: Any) -> Any:
    """The graph of the instructions that a compiler makes, where it is asked for; and on a machine
    unless it is refused, or the graph cannot be fused."""
    if options.fused is False or (options.fused is None and options.machine is None):
        return graph
    from learned_mapping.programs.trace.fused import fused_graph

    try:
        with of_file(graph, options.instance):
            fused = fused_graph(graph)
    except InputError as error:
        if options.fused:
            raise
        NOTES.append(str(error))
        return graph
    NOTES.append(f"{graph.num_ops:,} ops are {fused.num_ops:,} once fused (--no-fused)")
    return fused


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


def tell_of_unknown(instance: Any) -> None:
    """Says what a file leaves open or what is read more strictly, and what stands for it."""
    for fact, (one, many, meaning) in FACTS.items():
        count = instance.metadata.get(fact, 0)
        if is_whole(count) and count > 0:
            NOTES.append(f"{count:,} {one if count == 1 else many} {meaning}")
    metadata = instance.metadata
    told = [guessed_parameters(metadata), unknown_costs(metadata)]
    told += [shared_weights(instance), rounds_at_most(metadata)]
    NOTES.extend(filter(None, told))


def named_files(command: str, arguments: list[str]) -> tuple[str, list[str]]:
    """The problem of an instance and a solution, named before them or not, and their files."""
    named = arguments[0] in PAPERS
    files = arguments[1:] if named else arguments
    if not 1 <= len(files) <= 2:
        raise InputError(command, "", f"expected [{'|'.join(PAPERS)}] INSTANCE [SOLUTION]")
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
        if kind in SOLUTIONS:
            raise InputError(
                instance, "schema", f"is a {kind}: name the instance that it is for before it"
            )
        return "mmap" if kind == "program" else "regal"
    node = read_json(solution)
    name = schema_name(node)
    if name not in SOLUTIONS:
        fault = f"expected a solution ({', '.join(SOLUTIONS)}), got {node.value['schema']!r}"
        raise InputError(solution, "schema", fault)
    return SOLUTIONS[name]
