"""A bound for graphs of too many ideals: the cheapest chip that an op can be on.

The ops on chips 0..d form an ideal I_d, and link d carries cut(I_d), the tensors made in I_d that
an op outside reads. The chip that holds op u lies between two ideals I and J, with u in J but not
in I; under the chain rule all consumers of I are in J. So with s the seconds of ops, the slowest
chip of any partition takes at least

    max_u min_{I, J} cut(I) + s(J \\ I) + cut(J),

where the minimum is over all such pairs: a minimum cut of a network that has every op twice, in I
and in J. What it leaves out is that all chips have to be so cheap at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from learned_mapping.hardware.chip_package import LEAST_S, ChipModel
from learned_mapping.mcm.bounds.optimum import lower_bound

WHOLE, NEVER = 2**27, 2**30
"""All ops' time as a capacity, and one that no cut contains."""


def min_cut_bound(model: ChipModel) -> float:
    """Seconds that no partition under the chain rule can beat, `lower_bound` or more.

    A minimum cut for each op: a CPU second for 300 ops.
    """
    return max(lower_bound(model), *_cheapest(model))


def _cheapest(model: ChipModel) -> Iterator[float]:
    """Seconds of the cheapest chip that each op can be on, rounded down."""
    network = TwoIdeals(model)
    for u in range(model.graph.num_ops):
        yield network.least([network.upper[u]], [u])


class TwoIdeals:
    """The network of a chip between two ideals I and J: op u in I is the node u, in J `upper[u]`.

    Args:
      work: whether the ops on the chip cost their seconds; else its links alone do.
    """

    def __init__(self, model: ChipModel, work: bool = True):
        graph, n, tensors = model.graph, model.graph.num_ops, model.graph.num_tensors
        seconds = model.chip_seconds.min(axis=0)
        self._unit = max(float(seconds.sum()), LEAST_S) / WHOLE
        sent = np.minimum(model.tensor_seconds * model.link_factor.min() / self._unit, NEVER // 2)
        maker, reader = graph.tensor_producer, graph.edge_consumer
        # from, to, price: paid where the first is in the ideal and the second is not
        self._arcs: list[tuple[Any, Any, Any]] = []
        for ideal in (0, n + tensors):
            made, used = ideal + n + np.arange(tensors), ideal + n + graph.edge_tensor
            self._arcs.append((ideal + maker, made, sent))
            self._arcs.append((used, ideal + reader, NEVER))
            self._arcs.append((ideal + reader, ideal + maker[graph.edge_tensor], NEVER))
        lower, self.upper = np.arange(n), n + tensors + np.arange(n)
        self._arcs.append((self.upper, lower, seconds * work / self._unit))
        self._arcs.append((lower, self.upper, NEVER))
        self._arcs.append((maker[graph.edge_tensor], self.upper[reader], NEVER))
        self._source, self._sink = 2 * (n + tensors), 2 * (n + tensors) + 1

    def least(
        self, inside: Sequence[int] | np.ndarray, outside: Sequence[int] | np.ndarray
    ) -> float:
        """Seconds of the cheapest chip whose ideals have the nodes `inside` and none `outside`."""
        if not len(inside) or not len(outside):
            return 0.0
        sources, sinks = np.full(len(inside), self._source), np.full(len(outside), self._sink)
        ends = [
            *self._arcs,
            (sources, np.asarray(inside), NEVER),
            (np.asarray(outside), sinks, NEVER),
        ]
        first, second = (np.concatenate([arc[side] for arc in ends]) for side in (0, 1))
        held = [np.broadcast_to(price, len(start)) for start, _, price in ends]
        places = (np.concatenate(held).astype(np.int64), (first, second))
        network = csr_array(places, shape=(self._sink + 1, self._sink + 1))
        network.sum_duplicates()  # an op may read two tensors of one producer
        network.data = np.minimum(network.data, NEVER).astype(np.int32)
        return self._unit * maximum_flow(network, self._source, self._sink).flow_value
