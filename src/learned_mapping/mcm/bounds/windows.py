"""A bound for graphs of too many ideals: all chips at once, by windows of chips for every op.

A partition of runtime T is a row of ideals I_0 = {}, I_1, ..., I_C = V, the ops on the chips before
each link. Two facts feed each other:

- What chips can hold: a chip computes for T less the time of its links, at least that of the
  cheapest pair of ideals about it that has before it, or behind it, what must be there.
- Where ops can be: an op has before it all that it depends on, and behind it all that depends on
  it; where chips do not hold that much, the op is not among them. Under the chain rule an op is on
  its producer's chip or on the next.

Where an op is left without a chip, or all chips hold less than the work there is, T is too small.
Bisection on T gives the bound. A test that fails to refute T proves nothing; one that refutes it
is a proof.
"""

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.bounds.min_cut import TwoIdeals, min_cut_bound
from learned_mapping.mcm.searches.greedy import careful_greedy

CLOSE = 1e-3
"""Relative width at which the bisection ends."""
ROUNDS = 40
SLACK = 1 + 1e-7  # For what capacities and sums round.


def window_bound(model: ChipModel) -> float:
    """Seconds that no partition under the chain rule can beat, `min_cut_bound` or more.

    Some CPU seconds for 300 ops on 36 chips. Of chips that differ it is `min_cut_bound`.
    """
    low, high = min_cut_bound(model), model.runtime(careful_greedy(model))
    windows = _Windows(model)
    while model.alike and high - low > CLOSE * high:
        middle = (low + high) / 2
        if windows.refute(middle):
            low = middle
        else:
            high = middle
    return low


class _Windows:
    """What a graph and a package say of all runtimes."""

    def __init__(self, model: ChipModel):
        graph = model.graph
        self._chips, self._edges = model.package.chips, graph.op_edges
        self._links = TwoIdeals(model, work=False)
        before = np.eye(graph.num_ops, dtype=bool)
        for u in graph.topological_order.tolist():
            before[list(graph.op_consumers[u])] |= before[u]
        # [N] seconds of all that each op depends on, or that depends on it, its own among them
        self._before_s = before @ model.op_seconds
        self._behind_s = before.T @ model.op_seconds
        self._whole = float(model.op_seconds.sum())

    def refute(self, runtime: float) -> bool:
        """Whether it is proved that no partition is as fast."""
        lowest = np.zeros(len(self._before_s), np.int64)
        highest = np.full(len(lowest), self._chips - 1)
        links = np.zeros(self._chips)
        for _ in range(ROUNDS):
            room = np.maximum(runtime * SLACK - links, 0.0)
            held, behind = np.cumsum(room), np.cumsum(room[::-1])
            if held[-1] < self._whole:
                return True
            lowest = np.maximum(lowest, np.searchsorted(held * SLACK, self._before_s))
            last = self._chips - 1 - np.searchsorted(behind * SLACK, self._behind_s)
            highest = np.minimum(highest, last)
            self._follow(lowest, highest)
            if (lowest > highest).any():
                return True
            busy = [self._least_links(lowest, highest, c) for c in range(self._chips)]
            if (busy <= links * SLACK).all():
                return False
            links = np.maximum(links, busy)
        return False

    def _follow(self, lowest: np.ndarray, highest: np.ndarray) -> None:
        """Narrows windows in place by f(u) <= f(v) <= f(u) + 1 of every edge."""
        u, v = self._edges.T
        width = np.inf
        while (highest - lowest).sum() < width:
            width = (highest - lowest).sum()
            np.maximum.at(lowest, v, lowest[u])
            np.maximum.at(lowest, u, lowest[v] - 1)
            np.minimum.at(highest, u, highest[v])
            np.minimum.at(highest, v, highest[u] + 1)

    def _least_links(self, lowest: np.ndarray, highest: np.ndarray, chip: int) -> float:
        """Seconds that the links of a chip are busy at least."""
        upper = self._links.upper
        inside = [np.flatnonzero(highest < chip), upper[highest <= chip]]
        outside = [np.flatnonzero(lowest >= chip), upper[lowest > chip]]
        return self._links.least(np.concatenate(inside), np.concatenate(outside))
