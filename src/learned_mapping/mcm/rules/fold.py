"""Folds cheap sources that many ops use, so that one small tensor does not tie the whole graph to
two chips.

An attention mask is computed once and used by every layer. Kept as one op, Eq. 4 (and the chain
rule all the more) leaves hardly any chips to use: whatever consumes the mask must sit within one
chip edge of it. A compiler replicates such an op on every chip that needs it, which is what folding
models.
"""

import numpy as np

from learned_mapping.hardware.chip_package import ChipPackage, graph_work, op_seconds
from learned_mapping.programs.graph import ComputationGraph, without_ops

CHEAP = 1e-3
"""An op is cheap when it, with all that leads to it, takes at most this share of the graph's time
on one chip."""


WEIGHT_KINDS = frozenset(
    "param parameter parameters weight weights variable variablev2 const constant initializer"
    " get_attr getattr readvariableop varhandleop".split()
)
"""Kinds, in small letters, by which other tools mark an op that only holds a weight."""
INPUT_KINDS = frozenset("input inputs placeholder arg argument data feed".split())


def weight_sources(graph: ComputationGraph) -> np.ndarray:
    """[N] bool: ops that stand for weights, as other tools export them.

    Such an op reads nothing, makes one tensor that does not leave the graph and is used, does no
    arithmetic, has no chip or group of its own, and is of a kind that says so (`WEIGHT_KINDS`); or,
    of any kind but those of inputs, takes no time where times are given.
    """
    reads = np.zeros(graph.num_ops, bool)
    reads[graph.edge_consumer] = True
    outputs = np.bincount(graph.tensor_producer, minlength=graph.num_ops)
    kept = graph.tensor_is_output | (np.diff(graph.consumer_offsets) == 0)
    kinds = [kind.lower() for kind in graph.op_kinds]
    idle = np.zeros(graph.num_ops, bool) if graph.op_seconds is None else graph.op_seconds == 0
    named = np.array([kind in WEIGHT_KINDS for kind in kinds], bool)
    named |= idle & np.array([kind not in INPUT_KINDS for kind in kinds], bool)
    sources = named & ~reads & (outputs == 1) & (graph.op_flop == 0) & ~graph.op_is_tied
    sources[graph.tensor_producer[kept]] = False
    return sources


def fold_weights(graph: ComputationGraph) -> ComputationGraph:
    """The graph with each of `weight_sources` as `weight_bytes` of the ops that use it, whole in
    each of several."""
    sources = weight_sources(graph)
    if not sources.any() or sources.all():
        return graph
    weights = graph.op_weight_bytes.copy()
    held = sources[graph.edge_producer]
    sizes = graph.tensor_bytes[graph.edge_tensor] + graph.op_weight_bytes[graph.edge_producer]
    np.add.at(weights, graph.edge_consumer[held], sizes[held])
    return _without(graph, sources, {"folded_weights": int(sources.sum())}, op_weight_bytes=weights)


def fold_cheap_sources(graph: ComputationGraph) -> ComputationGraph:
    """The graph paper 2's methods partition: cheap sources with several consumers are replicated
    into each of them.

    Ops are cheap when they and their ancestors together are, hold no weights, have no chip or group
    of their own, and none of their tensors leaves the graph. A cheap op folds when it has at least
    two consumers, and so do the cheap ops before and behind it. Each consumer recomputes it: the
    arithmetic is added there, and reads nothing from memory. Folded tensors take no memory and no
    transfer. Time is that of the default `ChipPackage` without overheads; an ``input`` counts by
    its bytes. Folding again changes nothing.
    """
    folded_before, most_flop = 0, float(graph.op_flop.sum())
    while True:
        folded = _foldable(graph, most_flop)
        if not folded.any() or folded.all():
            return graph
        folded_before += int(folded.sum())
        graph = _without(graph, folded, {"replicated_sources": folded_before})


def _foldable(graph: ComputationGraph, most_flop: float) -> np.ndarray:
    """[N] bool; what takes more FLOP to recompute than `most_flop` is none, whatever its time."""
    work, package = graph_work(graph), ChipPackage(op_overhead_s=0.0)
    loading = graph.op_output_bytes / package.sram_bytes_per_s
    seconds = np.where(work.is_op > 0, op_seconds(work, package), loading)
    own = np.stack([seconds, work.flop], axis=1)
    limit = np.array([CHEAP * float(seconds.sum()), most_flop])
    producers, consumers = graph.op_producers, graph.op_consumers
    leaving = np.zeros(graph.num_ops, bool)
    leaving[graph.tensor_producer[graph.tensor_is_output]] = True
    heavy = leaving | (graph.op_weight_bytes > 0) | graph.op_is_tied
    cheap = np.zeros(graph.num_ops, bool)
    # seconds and FLOP to recompute each op, a shared ancestor once a path
    chain = np.zeros((graph.num_ops, 2))
    order = graph.topological_order.tolist()
    for op in order:
        # Past the limit nothing folds, and what lies behind it would double at every branch: it
        # need not be counted.
        chain[op] = np.minimum(own[op] + chain[list(producers[op])].sum(axis=0), 2 * limit)
        fits = (chain[op] <= limit).all() and not heavy[op] and consumers[op]
        cheap[op] = fits and all(cheap[p] for p in producers[op])
    folded = np.zeros(graph.num_ops, bool)
    for op in reversed(order):
        folded[op] = cheap[op] and (len(consumers[op]) > 1 or any(folded[c] for c in consumers[op]))
    for op in order:
        folded[op] |= cheap[op] and any(folded[p] for p in producers[op])
    # An op behind a folded one has only cheap ancestors; they fold with it, so that no consumer
    # lacks an operand.
    for op in reversed(order):
        folded[op] |= cheap[op] and any(folded[c] for c in consumers[op])
    return folded


def _without(
    graph: ComputationGraph, folded: np.ndarray, note: dict[str, int], **columns: np.ndarray
) -> ComputationGraph:
    """The graph with `folded` ops recomputed by their consumers; `columns` as in `without_ops`."""
    flop = graph.op_flop.copy()
    seconds = None if graph.op_seconds is None else graph.op_seconds.copy()
    for op in graph.topological_order.tolist():
        for producer in graph.op_producers[op]:
            if folded[producer]:
                flop[op] += flop[producer]
                if seconds is not None:
                    seconds[op] += seconds[producer]
    return without_ops(graph, folded, note, op_flop=flop, op_seconds=seconds, **columns)
