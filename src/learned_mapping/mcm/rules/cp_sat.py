"""The rules of `constraints` as a CP-SAT model, for repair by a general solver, and the fastest
partition that it finds.

y[u, c] says f(u) >= c (y[u, 0] is true), so that f(u) = c is y[u, c] - y[u, c + 1] and all rules
are linear or clauses. It is a second, independent statement of the rules, which the tests hold the
compiled engine to.
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from learned_mapping.cp_sat import limit, never, run
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.rules.constraints import check_chips, check_strength, group_pairs
from learned_mapping.programs.graph import ComputationGraph

MAX_VARIABLES = 400_000
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
        self.at_least: list[list[Any]] = []
        for _ in range(n):
            self.hurry()
            self.at_least.append([1, *(new("") for _ in range(1, chips)), 0])
        self.on: list[list[Any]] = []
        for _ in range(n):
            self.hurry()
            self.on.append([new("") for _ in range(chips)])
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
        self._used = [new("") for _ in range(chips - 1)]
        for c, used in enumerate(self._used):  # Eq. 3
            self.model.add_bool_or([*(self.on[u][c] for u in range(n)), ~used])
            self.hurry()
            for u in range(n):
                self.model.add_implication(self.at_least[u][c + 1], used)
        # chips a < b -> whether an edge joins them, and whether a longer path does
        self._direct: dict[tuple[int, int], Any] = {}
        self._longer: dict[tuple[int, int], Any] = {}
        if strength == "general":
            self._triangle(edges)

    def _triangle(self, edges: list[list[int]]) -> None:
        """Eq. 4: no chip edge beside a longer path."""
        chips, new = self.chips, self.model.new_bool_var
        pairs = [(a, b) for a in range(chips) for b in range(a + 1, chips)]
        direct, longer = {p: new("") for p in pairs}, {p: new("") for p in pairs}
        self._direct, self._longer = direct, longer
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
        """Has the solver begin at a valid partition [N]: every variable's value there."""
        hint, chips = self.model.add_hint, self.chips
        for u, chip in enumerate(assignment.tolist()):
            for c in range(chips):
                hint(self.on[u][c], int(chip == c))
                if c:
                    hint(self.at_least[u][c], int(chip >= c))
        for c, used in enumerate(self._used):
            hint(used, int(assignment.max() > c))
        first, second = assignment[self.graph.op_edges].T
        joined = np.zeros((chips, chips), bool)
        joined[first[first < second], second[first < second]] = True
        longer = np.zeros_like(joined)
        for _ in range(chips if self._direct else 0):
            longer = joined @ (joined | longer)
        for pair, direct in self._direct.items():
            hint(direct, int(joined[pair]))
            hint(self._longer[pair], int(longer[pair]))

    def solve(
        self, effort: float, seconds: float | None, seed: int, stop: Callable[[], bool] = never
    ) -> "CpSatOutcome":
        """Limits as in `fastest_partition`."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed % 2**31
        if seconds is None:
            solver.parameters.max_deterministic_time = effort
        else:
            limit(solver, seconds)
        status = run(solver, self.model, stop)
        if status == cp_model.INFEASIBLE:
            return CpSatOutcome(None, 0.0, 0.0, False, True)
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


MAX_TERMS = 500_000
"""Ops times tensors times chips up to which all that a chip holds while an op runs is modelled."""
COARSE = 1000.0
UNITS = 10**9  # Times are rounded to this part of the graph's total.


class CpSatOutcome(NamedTuple):
    """The answer of the solver within its limit."""

    assignment: np.ndarray | None  # [N] int32, or None where it found nothing.
    value: float  # The objective's, in its unit.
    bound: float  # What no partition that obeys the rules asked for can beat.
    optimal: bool
    infeasible: bool = False  # Whether it proved that there is none.


def fastest_partition(
    model: ChipModel,
    *,
    effort: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: np.ndarray | None = None,
    buffered: bool = False,
    strength: str = "chain",
    stop: Callable[[], bool] = never,
) -> CpSatOutcome:
    """The partition of least runtime; value and bound in seconds, to a billionth of the graph's
    total time.

    Where memory counts, no chip's weights with what arrives, or with what stays, pass its memory.
    Of a graph that is small enough (`MAX_TERMS`) nothing that a chip holds while any op runs does,
    and what is found fits; else it may not.

    Args:
      effort: limit in the solver's own units of work, of about a second each; the same result
        everywhere.
      seconds: limit in seconds instead, the making of the model included.
      start: a valid partition [N] to start from.
      buffered: whether what arrives or goes on takes its bytes once more all the time.
      strength: ``general`` for Eq. 4 itself in place of the chain rule.
      stop: true once the search is to end with what it has.
    """
    outcome, unit = _solved(
        model, effort, seconds, seed, start, buffered=buffered, strength=strength, stop=stop
    )
    # no chip adds up more times; a tensor that passes through one is on both of its links
    links = 1.0 if strength == "general" else 0.5
    rounded = 0.5 * model.graph.num_ops + links * model.graph.num_tensors
    return outcome._replace(
        value=outcome.value * unit, bound=max(outcome.bound - rounded, 0.0) * unit
    )


def roomiest_partition(
    model: ChipModel,
    *,
    effort: float = 10.0,
    seconds: float | None = None,
    seed: int = 0,
    start: np.ndarray | None = None,
) -> CpSatOutcome:
    """The partition whose fullest chip holds least, of chips that have the same memory; value and
    bound in bytes, of a graph larger than `MAX_TERMS` without what lives between a chip's first op
    and its last. Arguments as of `fastest_partition`."""
    return _solved(model, effort, seconds, seed, start, of_bytes=True)[0]


def _solved(
    model: ChipModel,
    effort: float,
    seconds: float | None,
    seed: int,
    start: np.ndarray | None,
    of_bytes: bool = False,
    buffered: bool = False,
    strength: str = "chain",
    stop: Callable[[], bool] = never,
) -> tuple[CpSatOutcome, float]:
    """The solver's answer, and the seconds of its unit."""
    since = time.perf_counter()
    deadline = np.inf if seconds is None else since + seconds
    try:
        rules, unit = _model_of(model, start, deadline, of_bytes, buffered, strength)
    except LateError:
        return CpSatOutcome(None, 0.0, 0.0, False), 1.0
    left = None
    if seconds is not None:
        left = max(deadline - time.perf_counter(), 0.1)
        if left < PRESOLVE_SHARE * (seconds - left):
            return CpSatOutcome(None, 0.0, 0.0, False), 1.0
    return rules.solve(effort, left, seed, stop), unit


def _model_of(
    model: ChipModel,
    start: np.ndarray | None,
    deadline: float,
    of_bytes: bool,
    buffered: bool,
    strength: str,
) -> tuple[Rules, float]:
    """The rules with the slowest chip's time to be made least, and its unit in seconds, or with the
    fullest chip's bytes; raises `LateError`."""
    graph, chips = model.graph, model.package.chips
    rules = Rules(graph, chips, strength, deadline)
    # no better partition sends a tensor that takes longer
    fits = start is not None and model.excess(start) <= 1.0
    most = model.runtime(start) if fits and start is not None else np.inf
    consumed = [len(graph.consumers(tensor)) > 0 for tensor in range(graph.num_tensors)]
    # The unit of time.
    times, factor = model.chip_seconds, model.link_factor[: max(chips - 1, 1)].tolist()
    work, sent = float(times.max(axis=0).sum()), model.tensor_seconds * max(factor)
    total, useful = work + float(sent.sum()), work + float(np.minimum(sent[consumed], most).sum())
    if total > COARSE * useful > 0.0:  # what is never sent must not make the unit coarse
        total = useful
    unit = total / UNITS or 1.0  # where nothing takes time
    scale = [[round(s / unit) for s in row] for row in times.tolist()]
    load = [[(scale[c][u], rules.on[u][c]) for u in range(graph.num_ops)] for c in range(chips)]
    # Links: a tensor crosses one where a consumer is behind it and the producer is not.
    leaves: dict[int, list[Any]] = {}  # tensor -> by link, whether it crosses
    busy = [0] * chips  # by chip, its time where the solver begins
    for tensor in range(graph.num_tensors):
        seconds = float(model.tensor_seconds[tensor])
        sizes = [round(min(seconds * k / unit, 2 * UNITS)) for k in factor]
        producer, consumers = int(graph.tensor_producer[tensor]), graph.consumers(tensor).tolist()
        counts = model.limit is not None and graph.tensor_bytes[tensor] > 0
        if not consumers or not (any(sizes) or counts):
            continue
        rules.hurry()
        leaves[tensor] = []
        for link in range(chips - 1):
            crosses = rules.model.new_bool_var("")
            past = rules.at_least[producer][link + 1]
            for consumer in consumers:
                rules.model.add_bool_or([~rules.at_least[consumer][link + 1], past, crosses])
            leaves[tensor].append(crosses)
            if start is not None:
                sent_here = bool(start[producer] <= link < start[consumers].max())
                rules.model.add_hint(crosses, int(sent_here))
                busy[link] += sent_here * sizes[link]
                busy[link + 1] += sent_here * sizes[link]
            load[link].append((sizes[link], crosses))
            load[link + 1].append((sizes[link], crosses))
    if start is not None:
        rules.hint(start)
    # Memory.
    everything = int(graph.op_weight_bytes.sum()) + int(graph.tensor_bytes.sum())
    if of_bytes:
        fullest = rules.model.new_int_var(0, everything, "")
        _keep_memory(rules, leaves, [fullest] * chips, buffered)
        rules.model.minimize(fullest)
        return rules, 1.0
    if model.limit is not None:
        limits = np.minimum(model.limit, everything)
        whole = [math.floor(limit) for limit in limits.tolist()]
        _keep_memory(rules, leaves, whole, buffered)
    # The slowest chip, which is to be made fast.
    least = [min(column) for column in zip(*scale)]
    slowest = rules.model.new_int_var(max(least), 2 * UNITS, "")
    for terms in load:
        rules.model.add(sum(weight * variable for weight, variable in terms) <= slowest)
    if start is not None:
        for u, chip in enumerate(start.tolist()):
            busy[chip] += scale[chip][u]
        rules.model.add_hint(slowest, max(busy))
    rules.model.minimize(slowest)
    return rules, unit


def _keep_memory(
    rules: Rules, leaves: dict[int, list[Any]], limits: list[Any], buffered: bool
) -> None:
    """Adds, for every chip, that its weights and the tensors it holds keep to its limit: before its
    first op, after its last, and while each op runs where `MAX_TERMS` allows.

    In topological order, k the place of an op: a chip that makes a tensor holds it from there on to
    its last use there, or to the end if it leaves; one that receives it, from the start to its last
    use. `leaves` has by tensor and link what is true if the tensor crosses.
    """
    graph, model, n = rules.graph, rules.model, rules.graph.num_ops
    order = graph.topological_order.tolist()
    place = {op: k for k, op in enumerate(order)}
    whole = n * graph.num_tensors * rules.chips <= MAX_TERMS
    weights = graph.op_weight_bytes.tolist()
    for chip, most in enumerate(limits):
        held: list[list[Any]] = [[] for _ in range(n + 1 if whole else 2)]
        second: list[Any] = []
        for tensor, size in enumerate(graph.tensor_bytes.tolist()):
            rules.hurry()
            maker = int(graph.tensor_producer[tensor])
            users = sorted(graph.consumers(tensor).tolist(), key=place.__getitem__)
            links = leaves.get(tensor, [])
            arrives = links[chip - 1] if chip and links else 0
            stays = links[chip] if chip < len(links) else 0
            if buffered:
                second.append(size * (arrives + stays))
            if graph.tensor_is_output[tensor]:
                stays = rules.on[maker][chip]
            held[-1].append(size * stays)
            if not whole:
                held[0].append(size * arrives)
                continue
            live, last = stays, n - 1
            for op in [*reversed(users), maker]:
                first = place[op]
                for k in range(first + 1, last + 1):
                    held[k].append(size * live)
                live, last = _either(model, live, rules.on[op][chip]), first
            held[last].append(size * live)
            for k in range(last):
                held[k].append(size * arrives)
        own = sum(weight * rules.on[u][chip] for u, weight in enumerate(weights) if weight)
        for terms in held:
            model.add(own + sum(second) + sum(terms) <= most)


def _either(model: cp_model.CpModel, first: Any, second: Any) -> Any:
    """A variable that is true if one of the two is; the second where the first never is."""
    if isinstance(first, int):
        return second
    both = model.new_bool_var("")
    model.add_implication(first, both)
    model.add_implication(second, both)
    return both
