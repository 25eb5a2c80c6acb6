"""What `import learned_mapping as lm` shows."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import learned_mapping as lm
from by_hand import hand_graph, hand_program
from learned_mapping.errors import InputError
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mmap.mapping import Mapping
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
    """Would catch a public name that nobody can look up, and a page that grows into a listing of the package."""
    page = (Path(__file__).resolve().parents[1] / "book" / "api.md").read_text()
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
    """Catches a judge that ends in a traceback, and reals that become devices by losing their fraction."""
    graph, program = hand_graph(2, [(0, 1)]), hand_program([(0, "x", True)])
    for room, instance in ((lm.mcm, graph), (lm.regal, graph), (lm.mmap, program)):
        with pytest.raises(InputError, match="expected a "):
            room.validate(instance, "solution")
    short = Mapping(*(np.zeros(0, int) for _ in range(4)))
    assert "0 decisions for 1 buffers" in str(lm.mmap.validate(program, short))
    for make, arguments in ((Schedule.of, ([0.5], [], 2)), (Schedule.of, ([0], [], 2.5)), (make_partition, ([0], 2.5))):
        with pytest.raises(InputError, match="expected "):
            make(*arguments)
    for size in ("8", 1.5, float("nan")):
        with pytest.raises(InputError, match="expected a whole number"):
            program.with_memory(fast_bytes=size)
