"""Repair by CP-SAT: Algorithms 1 and 2 over domains that a general solver proves, and the nearest
valid partition.

The interface is the paper's (Section 4.2): `set_domain` restricts an op, `get_domain` tells what it
can still take. A chip is in a domain where CP-SAT finds a whole partition that has it, under the
assumption of every decision so far: probing, in place of the propagation of `solver`. Domains are
then exact under Eq. 4 too. A repair takes a solve for most pairs of an op and a chip, so that this
is for graphs of some hundred ops.
"""

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.engine import batch_arguments
from learned_mapping.mcm.repair.kernel import shuffle
from learned_mapping.mcm.repair.solver import ConstraintSolver, fix_repair, sample_repair
from learned_mapping.mcm.rules.cp_sat import Rules
from learned_mapping.programs.graph import ComputationGraph

NEAREST_EFFORT = 20.0
"""Limit of one search for the nearest partition, in the solver's own units of work, about
seconds."""
WITNESSES = 64  # Partitions found that are kept: most questions are answered by one of them.


class CpSatSolver(ConstraintSolver):
    """`ConstraintSolver` with domains proven by CP-SAT."""

    def __init__(self, graph: ComputationGraph, chips: int, strength: str = "chain"):
        self._rules = Rules(graph, chips, strength)
        self._witnesses: list[np.ndarray] = []
        self._solver = cp_model.CpSolver()
        self._solver.parameters.num_workers = 1
        self._solver.parameters.catch_sigint_signal = False
        # Thousands of easy questions of one model: what prepares a hard search would take all the
        # time.
        self._solver.parameters.cp_model_presolve = False
        self._solver.parameters.cp_model_probing_level = 0
        self._solver.parameters.use_sat_inprocessing = False
        self._solver.parameters.linearization_level = 0
        self._solver.parameters.symmetry_level = 0
        super().__init__(graph.num_ops, graph.op_edges, chips, strength)

    def get_domain(self, op: int) -> list[int]:
        domain = super().get_domain(op)
        self._domains[op] = set(domain)  # what is impossible stays so while the decisions stand
        return domain

    def _propagate(self, domains: list[set[int]]) -> bool:
        """Whether some valid partition takes every chip from its op's domain."""
        allowed = np.zeros((len(domains), self._chips), bool)
        for op, domain in enumerate(domains):
            allowed[op, list(domain)] = True
        ops = np.arange(len(domains))
        for place, witness in enumerate(self._witnesses):
            if allowed[ops, witness].all():
                self._witnesses.insert(0, self._witnesses.pop(place))
                return True
        model, on = self._rules.model, self._rules.on
        model.clear_assumptions()
        model.add_assumptions([~on[op][chip] for op, chip in zip(*np.nonzero(~allowed))])
        status = self._solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            if status != cp_model.INFEASIBLE:
                raise InputError("repair", "cp-sat", "ended without an answer")
            return False
        values = np.array([[self._solver.boolean_value(literal) for literal in row] for row in on])
        self._witnesses = [values.argmax(axis=1), *self._witnesses[: WITNESSES - 1]]
        return True


def nearest_partition(
    graph: ComputationGraph, chips: int, candidate: np.ndarray, strength: str = "chain"
) -> tuple[np.ndarray, bool]:
    """([N] int32 a valid partition that changes the fewest ops of `candidate` [N], whether that is
    proven)."""
    rules = Rules(graph, chips, strength)
    rules.model.maximize(
        sum(rules.on[op][chip] for op, chip in enumerate(np.asarray(candidate).tolist()))
    )
    outcome = rules.solve(NEAREST_EFFORT, None, 0)
    if outcome.assignment is None:
        raise InputError("repair", "cp-sat", "found no partition within its limit")
    return outcome.assignment, outcome.optimal


def cp_sat_batch(
    graph: ComputationGraph,
    chips: int,
    *,
    mode: str,
    rng: np.random.Generator,
    count: int | None = None,
    candidates: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    strength: str = "chain",
    order: np.ndarray | None = None,
) -> np.ndarray:
    """[B, N] int32 valid partitions, arguments as of `engine.repair_batch`, by CP-SAT; ``nearest``
    changes the fewest ops, and `strength` may be ``general``, Eq. 4 itself.

    Orders and chips take the engine's random numbers one by one, and under the chain rule its
    domains are as complete: from equal generators SAMPLE and FIX make equal partitions of a graph
    in one part.
    """
    n = graph.num_ops
    y, p, order = batch_arguments(n, chips, candidates, weights, order)
    p = p if len(p) else np.ones((1, n, chips))
    size = (len(y) or len(p)) if count is None else count
    partitions, turns = np.empty((size, n), np.int32), np.arange(n) if order is None else order
    for i, row in enumerate(partitions):
        if mode == "nearest":
            row[:] = nearest_partition(graph, chips, y[i % len(y)], strength)[0]
            continue
        solver = CpSatSolver(graph, chips, strength)
        if order is None:
            shuffle(turns, rng)
        if mode == "sample":
            row[:] = sample_repair(solver, turns, p[i % len(p)], rng)
        else:
            row[:] = fix_repair(solver, turns, y[i % len(y)], rng)
    return partitions


def nearest_batch(graph: ComputationGraph, chips: int, *, mode: str, **options: Any) -> np.ndarray:
    """`cp_sat_batch` that repairs candidates to the nearest valid partition where the mode is
    ``fix``."""
    return cp_sat_batch(graph, chips, mode="nearest" if mode == "fix" else mode, **options)
