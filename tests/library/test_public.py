"""What `import learned_mapping as lm` shows."""

import copy
import re
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest

import learned_mapping as lm
from by_hand import hand_graph, hand_program
from learned_mapping.errors import InputError
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mmap.mapping import Mapping, all_dropped
from learned_mapping.programs.formats import write_graph, write_program
from learned_mapping.regal.schedule import Schedule


@pytest.mark.parametrize("paper", ["mmap", "mcm", "regal"])
def test_each_paper_shows_the_same_names(paper):
    room = getattr(lm, paper)
    for name in room.__all__:
        assert getattr(room, name) is not None
    assert {"solve", "validate", "METHODS", "PROBLEM", "env"} <= set(room.__all__) <= set(dir(room))
    assert callable(room.solve) and callable(room.validate)
    with pytest.raises(AttributeError, match="nothing"):
        room.nothing  # noqa: B018


def test_the_page_of_public_names_has_them_all_and_few_others():
    """Would catch a public name that nobody can look up, and a page that grows into a listing of
    the package."""
    page = (Path(__file__).resolve().parents[2] / "book" / "api.md").read_text()
    listed = re.findall(r"auto(?:class|function):: (learned_mapping\S+)", page)
    assert len(listed) <= 40 and len(set(listed)) == len(listed)
    for name in listed:
        module, _, attribute = name.rpartition(".")
        assert getattr(import_module(module), attribute).__doc__, name
    for paper in ("mmap", "mcm", "regal"):
        room = getattr(lm, paper)
        for name in set(room.__all__) - {"METHODS", "PROBLEM", "env"}:
            public = getattr(room, name)
            assert f"{public.__module__}.{public.__qualname__}" in listed


def test_a_judge_refuses_what_is_no_solution_of_its_problem():
    """Catches a judge that ends in a traceback, and reals that become devices by losing their
    fraction."""
    graph, program = hand_graph(2, [(0, 1)]), hand_program([(0, "x", True)])
    for room, instance in ((lm.mcm, graph), (lm.regal, graph), (lm.mmap, program)):
        with pytest.raises(InputError, match="expected a "):
            room.validate(instance, "solution")
    short = Mapping(*(np.zeros(0, int) for _ in range(4)))
    assert "0 decisions for 1 buffers" in str(lm.mmap.validate(program, short))
    for make, arguments in (
        (Schedule.of, ([0.5], [], 2)),
        (Schedule.of, ([0], [], 2.5)),
        (make_partition, ([0], 2.5)),
    ):
        with pytest.raises(InputError, match="expected "):
            make(*arguments)
    for size in ("8", 1.5, float("nan")):
        with pytest.raises(InputError, match="expected a whole number"):
            program.with_memory(fast_bytes=size)


def product(x):
    return x @ x


GRAPH, PROGRAM = hand_graph(2, [(0, 1)]), hand_program([(0, "x", True)])
ARRAY = jax.ShapeDtypeStruct((4, 4), "float32")
REFUSED = {
    "no method is named None": lambda: lm.regal.solve(GRAPH, None),
    r"no method is named \['random'\]": lambda: lm.mcm.solve(GRAPH, ["random"]),
    "'foo' is none of quick, full, paper": lambda: lm.mcm.solve(
        GRAPH, "greedy-naive", profile="foo"
    ),
    "start: is for cp-sat, random": lambda: lm.mcm.solve(
        GRAPH, "greedy-naive", start="greedy-careful"
    ),
    "repair: is for random, sa": lambda: lm.mcm.solve(GRAPH, "optimum", repair="cp-sat"),
    "'memory' is not the instance's": lambda: lm.regal.solve(
        lm.regal.Instance(GRAPH), "gp-dfs", objective="memory"
    ),
    "expected a Devices": lambda: lm.regal.Instance(GRAPH, 3),
    "expected a ChipPackage": lambda: lm.mcm.solve(GRAPH, "random", package=3),
    "expected a MemoryHierarchy": lambda: lm.mmap.validate(
        PROGRAM, all_dropped(PROGRAM), machine="x"
    ),
    "cmem_bytes: must be above 0 and finite, got None": lambda: lm.schedule(
        product, ARRAY, machine=3
    ),
    "expected a file's name, got 3": lambda: lm.read_graph(3),
    "expected a ComputationGraph": lambda: write_graph("graph.json", PROGRAM),
    "expected a Program": lambda: write_program("program.json", GRAPH),
    "positions of arguments, whole numbers, got '0'": lambda: lm.trace(
        product, ARRAY, parameters="0"
    ),
    "unroll_limit: expected a whole number, got None": lambda: lm.trace(
        product, ARRAY, unroll_limit=None
    ),
    "5: name: expected a string, got 5": lambda: lm.trace(product, ARRAY, name=5),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_no_argument_is_refused_in_one_line(fault):
    """Catches an argument that is ignored, and an attribute of the wrong thing that is missing deep
    inside."""
    with pytest.raises(InputError, match=fault):
        REFUSED[fault]()
    for room in (lm.mmap, lm.mcm, lm.regal):
        with pytest.raises(TypeError, match="unexpected keyword argument 'chps'"):
            room.PROBLEM.task(PROGRAM if room is lm.mmap else GRAPH, chps=4)


def test_solutions_are_equal_by_content():
    """Catches a partition or a schedule that is not what was written and read back."""
    for kind, arguments, other in (
        (make_partition, ([0, 1], 2), ([0, 0], 2)),
        (Schedule.of, ([0, 0], [(0, -1), (1, -1)], 2), ([0, 1], [(0, -1), (1, -1)], 2)),
    ):
        assert kind(*arguments) == copy.deepcopy(kind(*arguments)) != kind(*other)
    assert make_partition([0, 1], 2) != 0
    assert lm.trace(product, ARRAY, parameters=np.int64(0)).op_weight_bytes.sum() == 64
