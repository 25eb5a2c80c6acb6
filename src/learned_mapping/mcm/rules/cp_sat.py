"""The rules of `constraints` as a CP-SAT model, for repair by a general solver, and the fastest
partition that it finds.

y[u, c] says f(u) >= c (y[u, 0] is true), so that f(u) = c is y[u, c] - y[u, c + 1] and all rules
are linear or clauses. It is a second, independent statement of the rules, which the tests hold the
compiled engine to.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.cp_sat import run
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.rules.constraints import check_chips, check_strength, group_pairs
from learned_mapping.programs.graph import ComputationGraph

MAX_VARIABLES = 400_000
PRESOLVE_S = 0.5
"""Seconds for which the solver's presolve may not look at its clock."""
PRESOLVE_SHARE = 3.0
"""So many times as long as making a model it takes until the solver finds anything: with less it is
not asked."""


def is_small_enough(graph: ComputationGraph, chips: int) -> bool:
    """Whether the model of a graph on so many chips is one that the solver is asked."""
    return graph.num_ops * chips <= MAX_VARIABLES


class LateError(Exception):
    """The time was up before the model was complete."""


class Rules:
    """The rules of one graph on C chips as a CP-SAT model, with its fixed ops and groups.

    Raises:
      LateError: it could not be made by `deadline`, of `time.perf_counter`.
    """

    def __init__(
        self, graph: ComputationGraph, chips: int, strength: str, deadline: float = np.inf
    ):
        check_chips(chips)
        check_strength(strength)
        if not is_small_enough(graph, chips):
            size = f"{graph.num_ops} ops on {chips} chips"
            raise InputError(
                "cp-sat", "", f"{size}: at most {MAX_VARIABLES} variables are supported"
            )
        self.model, self.chips, self.graph, self._deadline = (
            cp_model.CpModel(),
            chips,
            graph,
            deadline,
        )
        n, edges = graph.num_ops, graph.op_edges.tolist()
        new = self.model.new_bool_var
        self.at_least: list[list[Any]] = [
            [1, *(new("") for _ in range(1, chips)), 0] for _ in range(n)
        ]
        self.on = [[new("") for _ in range(chips)] for _ in range(n)]
        for u in range(n):
            self.hurry()
            for c in range(chips):
                self.model.add(self.on[u][c] == self.at_least[u][c] - self.at_least[u][c + 1])
        for u, v in edges:
            self.hurry()
            for c in range(1, chips):
                self.model.add_implication(self.at_least[u][c], self.at_least[v][c])  # Eq. 2
                if strength == "chain" and c + 1 < chips:
                    self.model.add_implication(self.at_least[v][c + 1], self.at_least[u][c])
        for op, chip in enumerate([] if graph.op_chip is None else graph.op_chip.tolist()):
            if chip >= 0:
                self.model.add_bool_or([self.on[op][chip]] if chip < chips else [])
        for u, v in group_pairs(graph):
            for c in range(1, chips):
                self.model.add(self.at_least[u][c] == self.at_least[v][c])
        for c in range(chips - 1):  # Eq. 3
            used = new("")
            self.model.add_bool_or([*(self.on[u][c] for u in range(n)), ~used])
            self.hurry()
            for u in range(n):
                self.model.add_implication(self.at_least[u][c + 1], used)
        if strength == "general":
            self._triangle(edges)

    def _triangle(self, edges: list[list[int]]) -> None:
        """Eq. 4: no chip edge beside a longer path."""
        chips, new = self.chips, self.model.new_bool_var
        pairs = [(a, b) for a in range(chips) for b in range(a + 1, chips)]
        direct, longer = {p: new("") for p in pairs}, {p: new("") for p in pairs}
        for u, v in edges:
            for a, b in pairs:
                self.model.add_bool_or([~self.on[u][a], ~self.on[v][b], direct[a, b]])
        for a, b in pairs:
            for c in range(b + 1, chips):
                for rest in (direct[b, c], longer[b, c]):
                    self.model.add_bool_or([~direct[a, b], ~rest, longer[a, c]])
            self.model.add_bool_or([~direct[a, b], ~longer[a, b]])

    def hurry(self) -> None:
        """Raises `LateError` once the deadline has passed."""
        if time.perf_counter() > self._deadline:
            raise LateError

    def hint(self, assignment: np.ndarray) -> None:
        for u, chip in enumerate(assignment.tolist()):
            for c in range(1, self.chips):
                self.model.add_hint(self.at_least[u][c], int(chip >= c))

    def solve(self, effort: float, seconds: float | None, seed: int) -> "CpSatOutcome":
        """Limits as in `fastest_partition`."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed % 2**31
        if seconds is None:
            solver.parameters.max_deterministic_time = effort
        else:
            solver.parameters.max_time_in_seconds = seconds - min(PRESOLVE_S, 0.3 * seconds)
        status = run(solver, self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return CpSatOutcome(None, 0.0, solver.best_objective_bound, False)
        chosen = [
            [c for c in range(self.chips) if solver.value(self.on[u][c])][0]
            for u in range(self.graph.num_ops)
        ]
        assignment = np.array(chosen, np.int32)
        return CpSatOutcome(
            assignment,
            solver.objective_value,
            solver.best_objective_bound,
            status == cp_model.OPTIMAL,
        )


COARSE = 1000.0
UNITS = 10**9  # Times are rounded to this part of the graph's total.


class CpSatOutcome(NamedTuple):
    """The answer of the solver within its limit."""

    assignment: np.ndarray | None  # [N] int32, or None where it found nothing.
    value: float  # The objective's, in its unit.
    bound: float  # What no partition that obeys the rules asked for can beat.
    optimal: bool


def fastest_partition(
    model: ChipModel,
    *,
    effort: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: np.ndarray | None = None,
) -> CpSatOutcome:
    """The partition of least runtime; value and bound in seconds, to a billionth of the graph's
    total time.

    Args:
      effort: limit in the solver's own units of work, of about a second each; the same result
        everywhere.
      seconds: limit in seconds instead, the making of the model included.
      start: a valid partition [N] to start from.
    """
    since = time.perf_counter()
    deadline = np.inf if seconds is None else since + seconds
    try:
        rules, unit = _model_of(model, start, deadline)
    except LateError:
        return CpSatOutcome(None, 0.0, 0.0, False)
    left = None
    if seconds is not None:
        left = max(deadline - time.perf_counter(), 0.1)
        if left < PRESOLVE_SHARE * (seconds - left):
            return CpSatOutcome(None, 0.0, 0.0, False)
    outcome = rules.solve(effort, left, seed)
    # no chip adds up more times: off by no more
    rounded = 0.5 * (model.graph.num_ops + model.graph.num_tensors)
    return outcome._replace(
        value=outcome.value * unit, bound=max(outcome.bound - rounded, 0.0) * unit
    )


def _model_of(model: ChipModel, start: np.ndarray | None, deadline: float) -> tuple[Rules, float]:
    """The rules with the slowest chip's time to be made least, and its unit in seconds; raises
    `LateError`."""
    graph, chips = model.graph, model.package.chips
    rules = Rules(graph, chips, "chain", deadline)
    # no better partition sends a tensor that takes longer
    most = np.inf if start is None else model.runtime(start)
    consumed = [len(graph.consumers(tensor)) > 0 for tensor in range(graph.num_tensors)]
    work, sent = float(model.op_seconds.sum()), model.tensor_seconds
    total, useful = work + float(sent.sum()), work + float(np.minimum(sent[consumed], most).sum())
    if total > COARSE * useful > 0.0:  # what is never sent must not make the unit coarse
        total = useful
    unit = total / UNITS or 1.0  # where nothing takes time
    scale = [round(s / unit) for s in model.op_seconds.tolist()]
    load = [[(scale[u], rules.on[u][c]) for u in range(graph.num_ops)] for c in range(chips)]
    for tensor in range(graph.num_tensors):
        size = round(min(float(model.tensor_seconds[tensor]) / unit, 2 * UNITS))
        producer, consumers = int(graph.tensor_producer[tensor]), graph.consumers(tensor).tolist()
        if not size or not consumers:
            continue
        rules.hurry()
        for link in range(chips - 1):
            crosses = rules.model.new_bool_var("")
            here = rules.at_least[producer][link + 1]
            for consumer in consumers:
                rules.model.add_bool_or([~rules.at_least[consumer][link + 1], here, crosses])
            load[link].append((size, crosses))
            load[link + 1].append((size, crosses))
    slowest = rules.model.new_int_var(max(scale), 2 * UNITS, "")
    for terms in load:
        rules.model.add(sum(weight * variable for weight, variable in terms) <= slowest)
    rules.model.minimize(slowest)
    if start is not None:
        rules.hint(start)
    return rules, unit
