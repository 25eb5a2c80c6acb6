"""Two greedy rules that fill chips one after another. What a learner is compared with decides how
good it looks.

The paper compares with "a greedy algorithm" of O(N) from a production compiler and says no more.
`naive_greedy` is the simplest rule of that description; `careful_greedy` is what a rule can do
without a search over partitions.
"""

import numpy as np

from learned_mapping.hardware.chip_memory import memory_of
from learned_mapping.hardware.chip_package import LEAST_S, ChipModel
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.pins import chip_bounds, parts_of
from learned_mapping.mcm.searches.even_cut import (
    balanced_start,
    even_cut,
    filled,
    filled_by_chip,
)
from learned_mapping.programs.graph import late_order

BISECTIONS = 40
CAPS = 24
"""Caps on a chip's time that are tried where memory counts: a looser one is not always better."""
BYTE_SHARES = (1.0, 0.9, 0.7, 0.5, 0.3)
"""Of bytes in the costs that are cut evenly there; the rest are seconds."""


def naive_greedy(model: ChipModel, arrays: RepairArrays | None = None) -> np.ndarray:
    """[N] int32: in topological order, each chip is filled up to total / C; what is left over goes
    to the last chip. Chips that differ share each op by their speeds.

    Transfers are not looked at. Where the fill breaks the chain rule an op takes the nearest chip
    its domain allows.
    """
    graph, order, chips = model.graph, model.graph.topological_order, model.package.chips
    candidate = np.empty(graph.num_ops, np.int32)
    if model.alike:
        runs = filled(model.op_seconds[order], model.op_seconds.sum() / chips)
    else:
        times = np.ascontiguousarray(model.chip_seconds[:, order])
        share = (1.0 / (1.0 / np.maximum(times, LEAST_S)).sum(axis=0)).sum()
        runs, _ = filled_by_chip(times, share * (1 + 1e-12))
    candidate[order] = np.minimum(runs, chips - 1)
    arrays, unused = repair_arrays(graph) if arrays is None else arrays, np.random.default_rng(0)
    return repair_batch(
        arrays, chips, mode="nearest", rng=unused, candidates=candidate, order=order
    )[0]


def careful_greedy(model: ChipModel) -> np.ndarray:
    """[N] int32: the smallest cap, by bisection, under which filling chips in as-late-as-possible
    order succeeds.

    Every chip first takes what the chain rule demands: the consumers of the chip before and all
    that precedes them. Then it takes ops as long as its time, both links included, can stay within
    the cap, and stops where it did last. Where the graph has several parts that no edge joins, the
    parts one after the other are tried too, and the best
    counts: side by side they would go over the same few chips. Always valid: at the least the whole
    graph on chip 0. Where ops are fixed, every op waits for the first chip that it can have and is
    demanded on the last; where no fill succeeds so, the even cut takes its place. Where memory
    counts, see `_fitting`.
    """
    if model.limit is not None:
        return _fitting(model)
    ways = ((late_order(model.graph), None), *_part_by_part(model))
    assignments = [
        assignment for way in ways if (assignment := _smallest_cap(model, *way)) is not None
    ]
    return (
        min(assignments, key=model.runtime)
        if assignments
        else balanced_start(model, repair_arrays(model.graph))
    )


def _fitting(model: ChipModel) -> np.ndarray:
    """[N] int32: the best of fills under several caps whose chips keep to their memory too, and of
    even cuts by mixtures of seconds and bytes; what lacks the least memory where none fits."""
    graph, arrays, chips = model.graph, repair_arrays(model.graph), model.package.chips
    times, limit = model.chip_seconds, model.limit
    assert limit is not None
    held = np.maximum(graph.op_weight_bytes + graph.op_output_bytes, 1.0) / limit[:, None]
    found = [balanced_start(model, arrays)]
    if graph.op_chip is None:
        found.append(np.zeros(graph.num_ops, np.int32))
    low = float(times.min(axis=0).max())
    high = float(times[0].sum() + 2.0 * model.tensor_seconds.sum())
    for order in (late_order(graph), graph.topological_order):
        for share in BYTE_SHARES:
            cost = share * held / held.sum() + (1 - share) * times / max(times.sum(), LEAST_S)
            found.append(even_cut(cost, order, arrays, chips))
        fill = _Fill(model, order, None)
        for cap in np.geomspace(max(low, LEAST_S), max(high, LEAST_S), CAPS).tolist():
            if (assignment := fill.under(cap)) is not None:
                found.append(assignment)
    return max(found, key=model.throughput)


def _part_by_part(model: ChipModel) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Ways to fill part by part: a late order [N] of the parts by their time, and the part [N] of
    each op where a chip is not to begin another; none for a whole graph. An op alone is no part: it
    fits anywhere.
    """
    graph = model.graph
    part = parts_of(graph)
    if (np.bincount(part) > 1).sum() < 2:
        return []
    seconds, order = np.bincount(part, model.op_seconds), late_order(graph)
    orders = [order[np.lexsort((part[order], rank[part[order]]))] for rank in (seconds, -seconds)]
    return [(order, apart) for order in orders for apart in (None, part)]


def _smallest_cap(
    model: ChipModel, order: np.ndarray, apart: np.ndarray | None
) -> np.ndarray | None:
    """[N] int32: the fill of chips in this topological order under the smallest cap for which it
    succeeds; None where, with fixed ops, it never does."""
    graph, chips = model.graph, model.package.chips
    fill = _Fill(model, order, apart)
    total = float(model.op_seconds.sum())
    low, high = max(total / chips, float(model.op_seconds.max())), total
    if not model.alike:
        times = model.chip_seconds
        low, high = float(times.min(axis=0).max()), float(times[0].sum())
    one_chip = np.zeros(graph.num_ops, np.int32)
    best: np.ndarray | None = one_chip
    best_seconds = model.runtime(one_chip)
    if graph.op_chip is not None:
        high += 2.0 * float(model.tensor_seconds.sum())
        best, best_seconds = fill.under(high), np.inf
    assignment = fill.under(low)
    if assignment is not None:
        return assignment
    for _ in range(BISECTIONS):
        cap = (low + high) / 2
        assignment = fill.under(cap)
        if assignment is None:
            low = cap
            continue
        high = cap
        seconds = model.runtime(assignment)
        if seconds < best_seconds:
            best, best_seconds = assignment, seconds
            high = min(high, seconds)
        if high - low <= 1e-6 * high:
            break
    return best


class _Fill:
    """Fills the chips under one cap after another."""

    def __init__(self, model: ChipModel, order: np.ndarray, apart: np.ndarray | None):
        graph = model.graph
        self._chips, self._model = model.package.chips, model
        alike = [model.op_seconds.tolist()] * self._chips
        self._seconds = alike if model.alike else model.chip_seconds.tolist()
        self._factor = [1.0, *model.link_factor.tolist()]  # of the link before each chip
        self._tensor_seconds = model.tensor_seconds.tolist()
        self._before, self._behind = graph.op_producers, graph.op_consumers
        self._outputs, self._inputs = graph.op_outputs, graph.op_inputs
        self._uses = np.diff(graph.consumer_offsets).tolist()
        self._order = order.tolist()
        self._part = [0] * graph.num_ops if apart is None else apart.tolist()
        self._rank = np.argsort(self._order).tolist()
        lows, highs = chip_bounds(graph)
        self._lows = lows.tolist()
        self._due: dict[int, list[int]] = {}
        for op in np.flatnonzero(highs < self._chips).tolist():
            self._due.setdefault(int(highs[op]), []).append(op)

    def under(self, cap: float) -> np.ndarray | None:
        """A partition whose every chip stays within `cap` seconds, or None where this rule finds
        none."""
        n = len(self._order)
        chip_of = [-1] * n
        open_uses = list(self._uses)
        cut = 0.0  # seconds of the tensors made so far and still needed
        previous: list[int] = []
        position = 0
        for chip in range(self._chips):
            seconds, factor = self._seconds[chip], self._factor[chip + 1]
            load, arriving = 0.0, cut * self._factor[chip]
            ops: list[int] = []

            def take(op: int) -> None:
                nonlocal load, cut
                chip_of[op] = chip  # noqa: B023
                ops.append(op)  # noqa: B023
                load += seconds[op]  # noqa: B023
                cut += sum(self._tensor_seconds[t] for t in self._outputs[op] if self._uses[t])
                for t in self._inputs[op]:
                    open_uses[t] -= 1
                    if open_uses[t] == 0:
                        cut -= self._tensor_seconds[t]

            for op in self._demanded(previous, chip_of, self._due.get(chip, [])):
                take(op)
            ends = [len(ops)] if load + arriving + cut * factor <= cap else []
            while position < n and chip_of[self._order[position]] >= 0:
                position += 1
            for op in self._order[position:]:
                if chip_of[op] >= 0 or self._lows[op] > chip:
                    continue
                if load + seconds[op] + arriving > cap or (
                    ops and self._part[op] != self._part[ops[-1]]
                ):
                    break
                take(op)
                if load + arriving + cut * factor <= cap:
                    ends.append(len(ops))
            if ends and self._model.limit is not None:
                ends = self._that_fit(ends, ops, chip_of, chip)
            if not ends:
                return None
            kept = ends[-1]
            for op in ops[kept:]:
                chip_of[op] = -1
                cut -= sum(self._tensor_seconds[t] for t in self._outputs[op] if self._uses[t])
                for t in self._inputs[op]:
                    if open_uses[t] == 0:
                        cut += self._tensor_seconds[t]
                    open_uses[t] += 1
            previous = ops[:kept]
            if not previous:
                return None
            if -1 not in chip_of:
                return np.array(chip_of, np.int32)
        return None

    def _that_fit(
        self, ends: list[int], ops: list[int], chip_of: list[int], chip: int
    ) -> list[int]:
        """The first of these numbers of ops, up to the last, by halving, with which the chip keeps
        to its memory."""
        model, later = self._model, self._chips
        assert model.held is not None and model.limit is not None
        low, high = -1, len(ends)
        middle = high - 1
        while high - low > 1:
            whole = np.array([c if c >= 0 else later for c in chip_of], np.int64)
            whole[ops[ends[middle] :]] = later
            if memory_of(model.held, whole, later + 1)[chip] <= model.limit[chip]:
                low = middle
            else:
                high = middle
            middle = (low + high) // 2
        return ends[:high]

    def _demanded(self, previous: list[int], chip_of: list[int], due: list[int]) -> list[int]:
        """Ops that are `due`, consumers of the ops in `previous` that have no chip yet, and all
        that precedes them, in topological order."""
        missing: set[int] = set()
        stack = due + [v for u in previous for v in self._behind[u]]
        while stack:
            op = stack.pop()
            if op not in missing and chip_of[op] < 0:
                missing.add(op)
                stack += self._before[op]
        return sorted(missing, key=self._rank.__getitem__)
