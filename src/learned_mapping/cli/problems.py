"""The three problems as the command line sees them: how to read, solve, judge, write and draw each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, LearnedMappingError
from learned_mapping.programs.json_io import Node, read_json, schema_name
from learned_mapping.verdict import Verdict

GIB = 2**30
COSTGRAPH_ENDINGS = (".pbtxt", ".pbtxt.gz")


def read_graph_file(path: str) -> Any:
    """A graph from ``.json``, ``.json.gz``, or TensorFlow's ``CostGraphDef`` text (``.pbtxt``, ``.pbtxt.gz``)."""
    if path.endswith(COSTGRAPH_ENDINGS):
        from learned_mapping.programs.costgraph import read_costgraph

        return read_costgraph(path)
    from learned_mapping.programs.formats import read_graph

    return read_graph(path)


class Problem:
    """What the three have in common."""

    def folded(self, instance: Any) -> Any:
        """The instance with cheap shared ops replicated into their users; `InputError` where that means nothing."""
        raise InputError("--fold", "", "is for mcm")

    def judged_instance(self, solution: str, instance: Any) -> Any:
        """The instance a solution file is for: the one given, or what `folded` makes of it."""
        return instance


class MemoryMapping(Problem):
    """Paper 1: a program, and a mapping of its buffers."""

    solution_schema = "mapping"

    def read_instance(self, path: str) -> Any:
        """A program; a graph file becomes one by the stated rule of `programs.schedule`, on the default machine."""
        from learned_mapping.programs.formats import program_from_json

        node = None if path.endswith(COSTGRAPH_ENDINGS) else read_json(path)
        if node is not None and schema_name(node) != "graph":
            return program_from_json(node)
        from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
        from learned_mapping.programs.formats import graph_from_json
        from learned_mapping.programs.trace.schedule import schedule_graph

        graph = read_graph_file(path) if node is None else graph_from_json(node)
        try:
            return schedule_graph(graph, MemoryHierarchy())
        except InputError as error:
            raise InputError(path, error.field, error.fault) from None

    def read(self, path: str, program: Any) -> Any:
        from learned_mapping.mmap.mapping import read_mapping

        return read_mapping(path, program)

    def write(self, path: Path, mapping: Any, program: Any) -> None:
        from learned_mapping.mmap.mapping import write_mapping

        write_mapping(path, mapping, program)

    def solve(self, program: Any, options: Any, progress: Any) -> Any:
        from learned_mapping.mmap.learned_methods import solve

        limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
        return solve(program, options.method, **limits, progress=progress)

    def validate(self, program: Any, mapping: Any, options: Any) -> Verdict:
        from learned_mapping.mmap.validate import validate

        return validate(program, mapping)

    def show(self, program: Any, mapping: Any | None) -> str:
        from learned_mapping.mmap.draw import show

        return show(program, mapping)


class Partitioning(Problem):
    """Paper 2: a graph, and the chip of each op."""

    solution_schema = "partition"

    def folded(self, instance: Any) -> Any:
        from learned_mapping.mcm.rules.fold import fold_cheap_sources

        return fold_cheap_sources(instance)

    def judged_instance(self, solution: str, instance: Any) -> Any:
        value = read_json(solution).value
        made_for = value.get("digest") if isinstance(value, dict) else None
        if made_for == instance.digest:
            return instance
        folded = self.folded(instance)
        return folded if made_for == folded.digest else instance

    def read_instance(self, path: str) -> Any:
        return read_graph_file(path)

    def read(self, path: str, graph: Any) -> Any:
        from learned_mapping.mcm.partition import read_partition

        return read_partition(path, graph)

    def write(self, path: Path, partition: Any, graph: Any) -> None:
        from learned_mapping.mcm.partition import write_partition

        write_partition(path, partition, graph)

    def solve(self, graph: Any, options: Any, progress: Any) -> Any:
        if options.hardware == "silicon":
            return self._solve_on_silicon(graph, options, progress)
        from learned_mapping.mcm.bounds.optimum import TooManyIdealsError
        from learned_mapping.mcm.learned_methods import solve

        limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
        if options.start is not None:
            if options.hardware == "silicon":
                raise InputError("--start", "", "is for the analytical model")
            limits["start"] = options.start
        try:
            return solve(graph, options.method, chips=options.chips, **limits, progress=progress)
        except TooManyIdealsError as error:
            hint = "" if options.fold else "; --fold makes many graphs narrower"
            raise LearnedMappingError(f"{error}{hint}") from None

    def _solve_on_silicon(self, graph: Any, options: Any, progress: Any) -> Any:
        from learned_mapping.mcm.silicon_methods import solve_on_silicon

        limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
        return solve_on_silicon(graph, options.method, chips=options.chips, **limits, progress=progress)

    def validate(self, graph: Any, partition: Any, options: Any) -> Verdict:
        if options.hardware == "silicon":
            from learned_mapping.hardware.silicon import Silicon, silicon_package
            from learned_mapping.mcm.silicon_check import validate_on_silicon

            return validate_on_silicon(partition, Silicon(graph, silicon_package(partition.chips)))
        from learned_mapping.mcm.validate import validate

        return validate(graph, partition)

    def show(self, graph: Any, partition: Any | None) -> str:
        from learned_mapping.mcm.draw import show

        return show(graph, partition)


class Scheduling(Problem):
    """Paper 3: a graph, and a placed schedule of its ops."""

    solution_schema = "schedule"

    def read_instance(self, path: str) -> Any:
        return read_graph_file(path)

    def read(self, path: str, graph: Any) -> Any:
        from learned_mapping.regal.schedule import read_schedule

        return read_schedule(path, graph)

    def write(self, path: Path, schedule: Any, graph: Any) -> None:
        from learned_mapping.regal.schedule import write_schedule

        write_schedule(path, schedule, graph)

    def solve(self, graph: Any, options: Any, progress: Any) -> Any:
        from learned_mapping.regal.methods import solve
        from learned_mapping.regal.rules.instance import Instance

        instance = Instance(graph, _devices(options, options.devices), options.objective)
        limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
        return solve(instance, options.method, **limits, progress=progress)

    def validate(self, graph: Any, schedule: Any, options: Any) -> Verdict:
        from learned_mapping.regal.validate import validate

        return validate(graph, schedule, _devices(options, schedule.devices))

    def show(self, graph: Any, schedule: Any | None) -> str:
        from learned_mapping.regal.draw import show

        return show(graph, schedule)


PROBLEMS = {"mmap": MemoryMapping(), "mcm": Partitioning(), "regal": Scheduling()}


def problem_of_files(instance: str, solution: str | None) -> Any:
    """Which problem the files belong to, by their schemas; a graph alone is drawn as paper 3 draws it.

    Raises:
      InputError: the file is no solution, or not of an instance of this kind.
    """
    if solution is None:
        if instance.endswith(COSTGRAPH_ENDINGS):
            return PROBLEMS["regal"]
        return PROBLEMS["mmap" if schema_name(read_json(instance)) == "program" else "regal"]
    node = read_json(solution)
    name = schema_name(node)
    for problem in PROBLEMS.values():
        if problem.solution_schema == name:
            return problem
    kinds = ", ".join(problem.solution_schema for problem in PROBLEMS.values())
    Node(node.value["schema"], solution, "schema").fail(f"expected a solution ({kinds}), got {node.value['schema']!r}")


def _devices(options: Any, devices: int) -> Any:
    from learned_mapping.hardware.device_pair import DevicePair

    pair = {"devices": devices, "transfers": options.transfers}
    if options.memory_gib is not None:
        pair["memory_bytes"] = options.memory_gib * GIB
    return DevicePair(**pair)
