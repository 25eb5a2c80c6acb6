"""CP-SAT under an interrupt."""

import _thread
import threading
import time

import numpy as np
import pytest
from ortools.sat.python import cp_model

from learned_mapping import mcm, regal
from learned_mapping.cp_sat import run
from learned_mapping.programs.synthetic import random_graph


def pigeons(holes: int) -> cp_model.CpModel:
    """One pigeon more than holes, in clauses alone: nothing can be done, and to prove that takes
    for ever."""
    model = cp_model.CpModel()
    inside = [[model.new_bool_var("") for _ in range(holes)] for _ in range(holes + 1)]
    for pigeon in inside:
        model.add_bool_or(pigeon)
    for hole in zip(*inside):
        for i, one in enumerate(hole):
            for other in hole[:i]:
                model.add_bool_or([~one, ~other])
    return model


def solver(seconds: float) -> cp_model.CpSolver:
    actual = cp_model.CpSolver()
    actual.parameters.num_workers = 1
    actual.parameters.cp_model_presolve = False
    actual.parameters.symmetry_level = 0
    actual.parameters.max_time_in_seconds = seconds
    return actual


def test_an_interrupt_ends_the_search():
    """Catches an interrupt that the solver keeps to itself and answers with what it has."""
    timer = threading.Timer(1.0, _thread.interrupt_main)
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(solver(60.0), pigeons(14))
    assert time.monotonic() - begin < 30.0


def test_without_one_the_status_is_the_solvers():
    assert run(solver(10.0), pigeons(3)) == cp_model.INFEASIBLE


def test_a_stop_ends_it_with_what_it_has():
    """Catches a search that goes on to its limit."""
    begin = time.monotonic()
    status = run(solver(60.0), pigeons(14), lambda: time.monotonic() > begin + 1.0)
    assert status == cp_model.UNKNOWN and time.monotonic() - begin < 30.0


def test_what_a_stop_raises_ends_the_search():
    """Catches an error of a user's function that waits for the solver's limit."""
    begin = time.monotonic()

    def broken() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(solver(60.0), pigeons(14), broken)
    assert time.monotonic() - begin < 30.0


@pytest.mark.parametrize(("paper", "machine"), [(mcm, {"chips": 6}), (regal, {})])
def test_progress_ends_the_method_and_its_best_is_there(paper, machine):
    """Catches a solver that hears of an interrupt only when it is over."""
    graph = random_graph(np.random.default_rng(0), "layered", 90)
    begin = time.monotonic()
    result = paper.solve(
        graph, "cp-sat", **machine, seconds=120.0, progress=lambda n, s, b: s > 1.0
    )
    assert time.monotonic() - begin < 60.0 and result.solution is not None
