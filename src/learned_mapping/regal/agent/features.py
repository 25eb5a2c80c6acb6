"""A learner's view of a graph: attributes of ops and edges (REGAL, Section 2.1), and where an op
lies in the graph.

The paper names sizes of tensors and running times of ops; a training by REINFORCE learned as much
from these alone (`PRINTED`). A network that imitates schedules needs more: two good schedules
of one graph agree on devices no better than chance, because the devices can be exchanged, so
attributes without a sense of place can only say "either". Place comes from the graph's Laplacian:
its smooth eigenvectors, and smooth vectors with the additional property that both halves hold about
as much at every depth of the graph, which is what running two devices side by side needs.

Signs are fixed by one op, the pinned op, which lies in the upper half of every vector.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse import linalg

from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import freed_bytes, levels, op_cost, rank_share

EIGENVECTORS = 3  # Laplacian eigenvectors 2 to 4.
BALANCED = (4, 16)
"""Numbers of cosines of depth, from the second on, that a balanced vector is orthogonal to; two
vectors for each."""
BALANCED_VECTORS = 2
DENSE_OPS = 160  # Up to here all eigenvectors are computed; above, those wanted, by Lanczos.
SHIFT = 1e-3  # Added to the Laplacian's diagonal, so that it can be inverted.

PLACES = (
    "eigenvector_2",
    "eigenvector_3",
    "eigenvector_4",
    "balanced_4_1",
    "balanced_4_2",
    "balanced_16_1",
    "balanced_16_2",
)
"""The smooth vectors, along which an op has its place."""
LINK = "transfer_seconds"  # What a network that knows links sees more, of ops and of edges.
NODE_FEATURES = (
    "seconds",
    "output_bytes",
    "input_bytes",
    "weight_bytes",
    "seconds_share",
    "bytes_share",
    "inputs",
    "users",
    "is_source",
    "is_output",
    "depth",
    "height",
    "rank_up",
    "rank_down",
    "slack",
    "width",
    "position",
    "log_ops",
    "parallelism",
    "freed",
    "freed_rank",
    "pinned",
    *PLACES,
    LINK,
)
"""Names of the columns of `Features.nodes`."""
# Names of the columns of `Features.edges`.
EDGE_FEATURES = ("bytes", "users", "depth_gap", "same_side", "is_output", LINK)
PRINTED = ("seconds", "output_bytes", "input_bytes", "bytes")
"""The columns of either that Section 2.1 names: running times of ops and sizes of tensors."""


class Features(NamedTuple):
    """Attributes of N ops and E uses of a tensor."""

    # [N, len(NODE_FEATURES)] float32, most of them in [-1, 1] or a few units around 0.
    nodes: np.ndarray
    edges: np.ndarray  # [E, len(EDGE_FEATURES)] float32.
    senders: np.ndarray  # [E] int32, producer of the tensor.
    receivers: np.ndarray  # [E] int32, op that uses it.
    order: np.ndarray  # [N] int32, a topological order.
    pinned: int  # The op whose side fixes the signs.

    def without_links(self) -> "Features":
        """The same as a network sees it that knows no links."""
        return self._replace(nodes=self.nodes[:, :-1], edges=self.edges[:, :-1])


def features(instance: Instance) -> Features:
    """The attributes of an instance's graph; no randomness, the same on every call."""
    graph, seconds = instance.graph, instance.arrays.seconds
    n = graph.num_ops
    depth, height, up, down = levels(instance)
    longest = max(float((up + down - seconds).max()), 1e-300)
    deepest = max(float(depth.max()), 1.0)
    position = np.argsort(graph.topological_order)
    inputs = np.bincount(graph.edge_consumer, minlength=n)
    users = np.bincount(graph.edge_producer, minlength=n)
    outputs = np.zeros(n)
    np.maximum.at(outputs, graph.tensor_producer, graph.tensor_is_output)
    places, pinned = _places(instance, depth / deepest)
    freed = freed_bytes(instance)
    freed_share = freed / max(float(np.abs(freed).max(initial=0.0)), 1.0)
    width = np.bincount(depth.astype(int))[depth.astype(int)]
    columns = [
        _relative(seconds),
        _relative(graph.op_output_bytes),
        _relative(graph.op_input_bytes),
        _relative(graph.op_weight_bytes),
        _share(seconds),
        _share(graph.op_output_bytes),
        np.log1p(inputs),
        np.log1p(users),
        inputs == 0,
        outputs,
        2 * depth / deepest - 1,
        2 * height / deepest - 1,
        up / longest,
        down / longest,
        1 - (up + down - seconds) / longest,
        np.log(width) / 3,
        2 * (position + 0.5) / n - 1,
        np.full(n, np.log(n) / 5 - 1),
        np.full(n, np.log(max(float(seconds.sum()), 1e-300) / longest)),
        np.sign(freed_share) * np.sqrt(np.abs(freed_share)),
        2 * rank_share(freed) - 1,
        np.arange(n) == pinned,
    ]
    sent = _transfer_seconds(instance)
    of_ops = np.bincount(graph.tensor_producer, sent, n)
    over = np.stack([_over(of_ops, seconds.mean())], axis=1)
    nodes = np.concatenate([np.stack(columns, axis=1), places, over], axis=1)
    edges = _edges(instance, depth / deepest, places, _over(sent, seconds.mean()))
    indices = (graph.edge_producer, graph.edge_consumer, graph.topological_order)
    senders, receivers, order = (np.asarray(index, np.int32) for index in indices)
    return Features(
        nodes.astype(np.float32), edges.astype(np.float32), senders, receivers, order, pinned
    )


def printed_columns() -> tuple[np.ndarray, np.ndarray]:
    """Float32 masks of `NODE_FEATURES` and of `EDGE_FEATURES` but for links: 1 where a column is
    `PRINTED`."""
    node, edge = (
        np.isin(names[:-1], PRINTED).astype(np.float32) for names in (NODE_FEATURES, EDGE_FEATURES)
    )
    return node, edge


def _transfer_seconds(instance: Instance) -> np.ndarray:
    """[M] seconds of sending each tensor, a mean over the links."""
    a, between = instance.arrays, ~np.eye(instance.machine.devices, dtype=bool)
    if not a.costly_links:
        return np.zeros(len(a.tensor_bytes))
    return a.link_latency_s[between].mean() + a.tensor_bytes * np.mean(
        1 / a.link_bytes_per_s[between]
    )


def _over(values: np.ndarray, unit: float) -> np.ndarray:
    """log2 of values over a unit, from -4, where 0 is too, to 4, over 4."""
    return np.clip(np.log2(np.maximum(values / max(unit, 1e-300), 1e-9)), -4, 4) / 4


def _edges(
    instance: Instance, depth: np.ndarray, places: np.ndarray, sent: np.ndarray
) -> np.ndarray:
    graph = instance.graph
    users = np.diff(graph.consumer_offsets)[graph.edge_tensor]
    producer, consumer = graph.edge_producer, graph.edge_consumer
    same = (places[producer] * places[consumer]).mean(axis=1)
    size = _relative(graph.tensor_bytes)[graph.edge_tensor]
    gap = np.log1p(10 * (depth[consumer] - depth[producer]))
    is_output = graph.tensor_is_output[graph.edge_tensor]
    columns = [size, np.log(np.maximum(users, 1)), gap, same, is_output, sent[graph.edge_tensor]]
    return np.stack(columns, axis=1)


def _relative(values: np.ndarray) -> np.ndarray:
    """log2 of values over their mean, from -4, where 0 is too, to 4, over 4."""
    values = np.asarray(values, float)
    if not len(values) or values.max() <= 0:
        return np.full(len(values), -1.0)
    return _over(values, values.mean())


def _share(values: np.ndarray) -> np.ndarray:
    """Each value's square-root share of the total."""
    values = np.asarray(values, float)
    return np.sqrt(values / max(float(values.sum()), 1e-300))


def _places(instance: Instance, depth: np.ndarray) -> tuple[np.ndarray, int]:
    """[N, 7] cost-weighted ranks in [-1, 1] along the vectors, and the pinned op."""
    cost = op_cost(instance)
    groups = smooth_vectors(instance, depth)
    furthest = lambda vector: int(np.argmax(np.round(np.abs(vector), 6)))  # noqa: E731
    pinned = furthest(groups[-1][:, 0])
    columns = []
    for vector in np.concatenate(groups, axis=1).T:
        reference = vector[pinned] if abs(vector[pinned]) > 1e-6 else vector[furthest(vector)]
        columns.append(cost_rank(vector if reference >= 0 else -vector, cost))
    return np.stack(columns, axis=1), pinned


def cost_rank(vector: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """[N] in [-1, 1]: how much of the cost lies below each op along `vector`; the sign splits the
    cost in halves."""
    order = np.argsort(np.round(vector, 7), kind="stable")
    below = np.cumsum(cost[order]) - cost[order] / 2
    rank = np.empty(len(vector))
    rank[order] = 2 * below / cost.sum() - 1
    return rank


def smooth_vectors(instance: Instance, depth: np.ndarray) -> list[np.ndarray]:
    """Vectors that minimise the sum over edges of (x_u - x_v)^2 among those of length 1 that are
    orthogonal to cosines.

    Args:
      instance: N ops.
      depth: [N] in [0, 1].

    Returns:
      [N, 3], orthogonal to constants: Laplacian eigenvectors 2 to 4. Then for each entry K of
      `BALANCED` [N, 2], orthogonal to cos(pi k depth) for k = 0..K. Columns that a small graph has
      no room for are 0.
    """
    n = instance.graph.num_ops
    edges = instance.graph.op_edges
    weights = np.ones(len(edges))
    adjacency = sparse.coo_matrix((weights, (edges[:, 0], edges[:, 1])), (n, n)).tocsr()
    adjacency = adjacency + adjacency.T
    laplacian = sparse.diags(np.asarray(adjacency.sum(axis=1)).ravel()) - adjacency
    columns = []
    factor = (
        None if n <= DENSE_OPS else linalg.splu((laplacian + SHIFT * sparse.identity(n)).tocsc())
    )
    dense = laplacian.toarray() if factor is None else None
    for windows, count in ((0, EIGENVECTORS), *((k, BALANCED_VECTORS) for k in BALANCED)):
        cosines = np.cos(np.pi * depth[:, None] * np.arange(min(windows, n // 4) + 1))
        basis, triangle = np.linalg.qr(cosines)
        # Few levels make cosines that repeat each other.
        basis = basis[:, np.abs(np.diag(triangle)) > 1e-8 * np.sqrt(n)]
        room = min(count, n - basis.shape[1])
        vectors = np.zeros((n, count))
        if room > 0:
            smallest = (
                _smallest_dense(dense, basis, room)
                if dense is not None
                else _smallest(factor, basis, room)
            )
            vectors[:, : smallest.shape[1]] = smallest
        columns.append(vectors)
    return columns


def _smallest_dense(laplacian: np.ndarray, basis: np.ndarray, count: int) -> np.ndarray:
    """[N, count] eigenvectors of the smallest eigenvalues of the Laplacian within the complement of
    `basis`."""
    inside = laplacian @ basis
    projected = (
        laplacian - inside @ basis.T - basis @ inside.T + basis @ (basis.T @ inside) @ basis.T
    )
    largest = 2.0 * float(laplacian.diagonal().max()) + 1.0
    _, vectors = eigh(
        projected + (10 * largest) * (basis @ basis.T),
        subset_by_index=(0, count - 1),
        check_finite=False,
    )
    return vectors


def _smallest(factor: linalg.SuperLU, basis: np.ndarray, count: int) -> np.ndarray:
    """The same by Lanczos iteration on the inverse restricted to the complement, from a fixed start
    vector."""
    n = basis.shape[0]
    solved = factor.solve(basis)
    inner = np.linalg.inv(basis.T @ solved)

    def apply(vector: np.ndarray) -> np.ndarray:
        right = factor.solve(vector.ravel())
        right -= solved @ (inner @ (basis.T @ right))
        return right - basis @ (basis.T @ right)

    start = np.cos(1.0 + 2.4 * np.arange(n))
    start -= basis @ (basis.T @ start)
    operator = linalg.LinearOperator((n, n), matvec=apply, dtype=np.float64)
    try:
        values, vectors = linalg.eigsh(
            operator, k=count, which="LM", v0=start, tol=1e-4, ncv=20, maxiter=30
        )
    except linalg.ArpackNoConvergence as stopped:
        values, vectors = stopped.eigenvalues, stopped.eigenvectors
    return vectors[:, np.argsort(-values)]
