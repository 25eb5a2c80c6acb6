"""A name for the shape of a graph, the same however its ops are numbered: what makes two graphs of
a set distinct."""

import hashlib

import numpy as np

from learned_mapping.programs.graph import ComputationGraph

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FORTH, _BACK = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xA0761D6478BD642F)


def topology_digest(graph: ComputationGraph) -> str:
    """32 hexadecimal digits of the graph's op-level edges, without kinds, times, sizes and names.

    Colour refinement (Weisfeiler and Leman 1968) on the directed graph: all ops start with one
    colour; a round gives each op a new one that depends on its own and on the collections of its
    predecessors' and successors' colours, until a round tells no more ops apart. The digest is of
    the collection of colours of all rounds.

    Two graphs of different digests are not isomorphic. The converse holds but for graphs that
    refinement cannot tell apart: these count as equal, so that a set without a repeated digest has
    no repeated topology.
    """
    n, edges = graph.num_ops, graph.op_edges
    before, after = edges[:, 0], edges[:, 1]
    colours = np.full(n, 1, np.uint64)
    hasher = hashlib.sha256(f"{n} {len(edges)}".encode())
    distinct = 1
    while True:
        mixed = _mixed(colours)
        from_before, from_after = np.zeros(n, np.uint64), np.zeros(n, np.uint64)
        np.add.at(from_before, after, mixed[before])
        np.add.at(from_after, before, mixed[after])
        colours = _mixed(mixed + _mixed(from_before * _FORTH + _STEP) + _mixed(from_after * _BACK))
        hasher.update(np.sort(colours).tobytes())
        colours_now = len(np.unique(colours))
        if colours_now == distinct:
            return hasher.hexdigest()[:32]
        distinct = colours_now


def _mixed(values: np.ndarray) -> np.ndarray:
    """64-bit numbers scattered: a bijection whose results add up without showing what was added."""
    values = values + _STEP
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
