"""What marks the answers to the exercises: three planted wrong ones each are refused, and whatever
is no answer at all gets one line. The right ones are tested where the pages' solutions run."""

from math import comb

import numpy as np
import pytest

from learned_mapping import mcm, mmap
from learned_mapping.errors import InputError
from learned_mapping_companion.exercises import MARKS, check
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.mmap.tables import workload


def random_game():
    game = mmap.Game(workload("alexnet_train_batch_32"))
    game.play_random(np.random.default_rng(0))
    return game.played().action


def naive_partition():
    graph = load_graph("squeezenet_inference")
    return mcm.solve(graph, "greedy-naive", chips=6).solution.assignment


WRONG = {
    # one move behind the best, one that is not legal (w beside x and y), a game with a seventh
    "mmap-1": lambda: ([0, 1, 0, 1, 2, 2], [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 2, 1, 2]),
    "mmap-2": lambda: (random_game(), [2] * 287, random_game()[:-1]),
    "mmap-3": lambda: ([1, 1, 1, 1], [0.5869, 0.3, 0.1, 0.1], [0.8, 0.4, 0.2]),
    # the proposal itself, one chip off, an operation short
    "mcm-1": lambda: ([1, 1, 0, 2, 0, 2], [0, 1, 0, 1, 0, 2], [0, 1, 0, 1, 0]),
    # every assignment, places taken in any number, one chip too few
    "mcm-2": lambda: (
        lambda n, c: c**n,
        lambda n, c: 2 ** (n - 1),
        lambda n, c: sum(comb(n - 1, k) for k in range(1, c)),
    ),
    "mcm-3": lambda: (naive_partition(), np.arange(101) % 6, np.zeros(101, int)),
    # the other readings of the memory and the time, and seconds alone
    "regal-1": lambda: ((6, 10), (5, 12), (6,)),
    # nothing exchanged, all entries in reverse, zeros
    "regal-2": lambda: (lambda one: one, lambda one: one[::-1], np.zeros_like),
    "regal-3": lambda: (np.zeros(362), np.random.default_rng(3).random(362), np.zeros(361)),
    # the whole game's savings for each of its moves, the learner as it is, a game short
    "mmap-4": lambda: (
        lambda saved: np.ones_like(saved) * saved.sum(axis=1, keepdims=True),
        lambda saved: saved,
        lambda saved: saved[1:],
    ),
    # up and down exchanged, a chip's load in the place of what crosses the link, no number
    "mcm-4": lambda: (
        lambda seconds, chip, latency: flow(seconds, chip, latency)[::-1],
        lambda seconds, chip, latency: (latency[chip], -latency[chip]),
        lambda seconds, chip, latency: np.full((2, len(seconds)), np.nan),
    ),
    # costs themselves, a worth for the wrong side of the mean, one for all
    "regal-4": lambda: (lambda costs: costs, lambda costs: costs - costs.mean(), np.mean),
}


def flow(seconds, chip, latency):
    """What the potential of page *a credit for every operation* gains, one chip lower and higher."""
    excess = np.concatenate([[0], np.cumsum(latency - latency.mean())])
    return -2 * excess[chip] * seconds - seconds**2, 2 * excess[chip + 1] * seconds - seconds**2


SLOW = [pytest.param(name, marks=[pytest.mark.slow] * (name == "mmap-4")) for name in MARKS]


@pytest.mark.parametrize("name", SLOW)
def test_a_wrong_answer_is_refused(name, capsys):
    """With one line that says what it lacks."""
    for wrong in (*WRONG[name](), None, "right", np.nan):
        assert check(name, wrong) is False, wrong
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and all(line.startswith(f"{name}: not yet. ") for line in lines)


def test_moves_from_the_end_of_the_list_are_no_moves(capsys):
    """Catches a game played by the moves -1 to -3, and the mark of the best game of the toy, five
    sixths by the count that the page makes by hand."""
    assert not check("mmap-1", [-3, -2, -3, -2, -1, -2])
    assert check("mmap-1", [0, 1, 0, 1, 2, 1])
    assert f"{5 / 6:.4f} is possible: 100 %" in capsys.readouterr().out


def test_an_exercise_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="mmap-1"):
        check("mmap-9", [])
