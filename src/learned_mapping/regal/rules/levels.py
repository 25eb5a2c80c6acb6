"""The place of an op in its graph, and its worth: levels, slack, bytes freed, cost."""

import numba
import numpy as np

from learned_mapping.regal.rules.instance import Instance


def levels(instance: Instance) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per op: ops on the longest path to it and from it; seconds of the longest path from its
    start, and to its end."""
    graph = instance.graph
    position = np.argsort(graph.topological_order)
    edges = graph.op_edges[np.argsort(position[graph.op_edges[:, 0]], kind="stable")]
    return _longest_paths(np.ascontiguousarray(edges, np.int64), instance.arrays.seconds)


@numba.njit(cache=True)
def _longest_paths(edges, seconds):
    """The longest paths of `levels`; edges [E, 2], those of earlier producers (in topological
    order) first."""
    depth, height, up, down = (
        np.zeros(len(seconds)),
        np.zeros(len(seconds)),
        seconds.copy(),
        seconds.copy(),
    )
    for producer, consumer in edges:
        depth[consumer] = max(depth[consumer], depth[producer] + 1)
        down[consumer] = max(down[consumer], down[producer] + seconds[consumer])
    for k in range(len(edges) - 1, -1, -1):
        producer, consumer = edges[k]
        height[producer] = max(height[producer], height[consumer] + 1)
        up[producer] = max(up[producer], up[consumer] + seconds[producer])
    return depth, height, up, down


def upward_rank(instance: Instance) -> np.ndarray:
    """[N] seconds from an op's start to the end of the longest path through it."""
    return levels(instance)[2]


def slack(instance: Instance) -> np.ndarray:
    """[N] in [0, 1]: by how much the longest path through each op is shorter than the longest of
    all, as a share."""
    _, _, up, down = levels(instance)
    through = up + down - instance.arrays.seconds
    return 1 - through / max(float(through.max()), 1e-300)


def freed_bytes(instance: Instance) -> np.ndarray:
    """[N] bytes that running an op gives back less those it takes: its share of each input, less
    its outputs.

    The users of a tensor share it equally; outputs of the graph are never given back.
    """
    graph = instance.graph
    share = graph.tensor_bytes / np.maximum(np.diff(graph.consumer_offsets), 1)
    share = np.where(graph.tensor_is_output, 0.0, share)
    freed = np.bincount(
        graph.edge_consumer, weights=share[graph.edge_tensor], minlength=graph.num_ops
    )
    return freed - graph.op_output_bytes


def op_cost(instance: Instance) -> np.ndarray:
    """[N] float64 above 0, what the objective counts: seconds, or bytes of outputs and weights."""
    if instance.objective == "runtime":
        cost = instance.arrays.seconds
    else:
        cost = (instance.graph.op_output_bytes + instance.graph.op_weight_bytes).astype(float)
    return cost + max(1e-6 * float(cost.mean()), 1e-12)


def rank_share(values: np.ndarray) -> np.ndarray:
    """[N] in (0, 1): the share of entries that are smaller, equals counted half."""
    from scipy.stats import rankdata

    return (rankdata(values) - 0.5) / len(values)
