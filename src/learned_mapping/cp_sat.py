"""CP-SAT, run so that an interrupt ends it at once and is not mistaken for an answer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from ortools.sat.python import cp_model

LOOK_S = 0.2
"""So often the interpreter is given a chance to see a signal."""
PRESOLVE_S = 0.5
"""Seconds for which the solver's presolve may not look at its clock."""


def limit(solver: cp_model.CpSolver, seconds: float) -> None:
    """Has a search end within so many seconds."""
    solver.parameters.max_time_in_seconds = seconds - min(PRESOLVE_S, 0.3 * seconds)


def never() -> bool:
    """Stops nothing."""
    return False


def run(
    solver: cp_model.CpSolver, model: cp_model.CpModel, stop: Callable[[], bool] = never
) -> Any:
    """The status of ``solver.solve(model)``; a `KeyboardInterrupt`, or what `stop` raises,
    stops the search and goes on upwards. Once `stop` is true, the search ends with what it has.

    The solver would keep the signal to itself, or its C++ code the interpreter from seeing it, so
    it runs in a thread.
    """
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(solver.solve, model)
        try:
            while not status.done():
                wait([status], timeout=LOOK_S)
                if stop():
                    solver.stop_search()
        except BaseException:
            solver.stop_search()
            raise
        return status.result()
