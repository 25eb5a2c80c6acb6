"""A repair told step by step is the repair itself."""

import itertools

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.repair.solver import DRAWN, KEPT, LEFT, fix_trace
from learned_mapping.mcm.rules.constraints import example_graph, is_valid
from learned_mapping.programs.synthetic import random_graph


def test_the_last_domains_are_what_the_compiled_engine_finds():
    """Would catch a trace of another repair than the one that searches and learners use."""
    rng = np.random.default_rng(2)
    for trial, family in enumerate(("series-parallel", "towers", "attention")):
        graph = random_graph(rng, family, 10)
        y, order = rng.integers(0, 4, graph.num_ops), rng.permutation(graph.num_ops)
        steps = fix_trace(graph, y, 4, np.random.default_rng(trial), order=order)
        options = {"mode": "fix", "candidates": y, "order": order}
        actual = repair_batch(repair_arrays(graph), 4, rng=np.random.default_rng(trial), **options)
        assert [domain for (domain,) in steps[-1].after] == actual[0].tolist()
        assert len(steps) == 2 * graph.num_ops and not any(step.undone for step in steps)


def test_every_step_says_what_it_did():
    """Would catch a candidate called kept that is not, domains of another moment, and one that
    grows."""
    rng = np.random.default_rng(4)
    graph = random_graph(rng, "towers", 12)
    y = rng.integers(0, 5, graph.num_ops)
    steps = fix_trace(graph, y, 5, rng)
    kinds = {step.kind for step in steps}
    assert {KEPT, LEFT, DRAWN} == kinds
    for number, step in enumerate(steps):
        assert step.decision == number
        assert (step.kind == DRAWN) == (number >= graph.num_ops)
        if step.kind == KEPT:
            assert step.chips == (y[step.op],) == step.after[step.op]
        if step.kind == LEFT:
            assert y[step.op] not in step.before[step.op] and step.before == step.after
        assert all(set(after) <= set(before) for before, after in zip(step.before, step.after))
    assert all(one.after == two.before for one, two in itertools.pairwise(steps))


def test_what_is_taken_back_is_told():
    """Under Eq. 4 itself: would catch a dead end that is passed over, and the wrong decision
    blamed."""
    graph, met = example_graph(), 0
    for seed in range(30, 60):
        rng = np.random.default_rng(seed)
        steps = fix_trace(graph, rng.integers(0, 4, 6), 4, rng, strength="general")
        assert is_valid(np.array([domain for (domain,) in steps[-1].after]), graph.op_edges)
        for step, following in itertools.pairwise(steps):
            assert following.decision == step.decision + 1 - step.undone
            if step.undone:
                met += 1
                op, refused = step.blamed
                assert not set(refused) & set(step.after[op])
                assert following.op == op, "the algorithm goes on at the decision that was blamed"
    assert met > 3


def test_what_does_not_fit_is_refused():
    graph, rng = example_graph(), np.random.default_rng(0)
    with pytest.raises(InputError, match="5 chips for 6 ops"):
        fix_trace(graph, [0] * 5, 4, rng)
    with pytest.raises(InputError, match="no order"):
        fix_trace(graph, [0] * 6, 4, rng, order=[0, 1, 2, 3, 4, 4])
