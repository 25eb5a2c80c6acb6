"""The constraint repair of paper 2 for the thousands of repairs a search needs: SAMPLE and FIX,
compiled.

It keeps the chain rule of `constraints`, for which bounds propagation is complete, so that no
repair ever fails. `solver` is the same procedure in plain Python, with the paper's interface; it
and `cp_sat` keep Eq. 4 itself too.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.kernel import (
    FIX,
    NEAREST,
    SAMPLE,
    Links,
    RepairArrays,
    repair_many,
    tighten,
)
from learned_mapping.mcm.rules.constraints import check_chips
from learned_mapping.mcm.rules.pins import chip_bounds, joined, parts_of
from learned_mapping.programs.graph import MAX_CHIPS, ComputationGraph, Lists, longest_paths

Rows = Sequence[Sequence[int]]
Repair = Callable[..., np.ndarray]
"""`repair_batch`, or `cp_sat.cp_sat_batch`, of one graph on a package."""
MODES = {"sample": SAMPLE, "fix": FIX, "nearest": NEAREST}
# Above this many ops implied constraints are kept: finding them takes a bit per pair of ops.
MAX_REDUCED_OPS = 20_000
MAX_REACH_ENTRIES = 20_000_000
"""Entries of the table of what each anchor can reach; with more, only the anchors of longest paths
are kept."""


def repair_arrays(graph: ComputationGraph) -> RepairArrays:
    """The arrays of a graph that the repair reads; computed once, used for every repair.

    Where ops are fixed to chips, domains begin at what follows from them (`pins.chip_bounds`), and
    the parts of a graph of several are joined first. Bounds are as complete as without.

    Raises:
      InputError: no partition has every fixed op on its chip, or a graph with groups.
    """
    chip_bounds(graph)
    graph = joined(graph)
    lows, highs = chip_bounds(graph)
    n, order = graph.num_ops, graph.topological_order
    producers, successors = graph.op_producers, graph.op_consumers
    after, near = (
        _without_implied(successors, order) if n <= MAX_REDUCED_OPS else (successors, successors)
    )
    depth = longest_paths(successors, order[::-1])
    component = parts_of(graph)
    sizes = np.bincount(component)
    in_main = component == max(
        range(len(sizes)),
        key=lambda c: (
            highs[component == c].min() < MAX_CHIPS,
            depth[component == c].max(),
            sizes[c],
            -c,
        ),
    )
    anchors = np.flatnonzero(in_main & np.array([not before for before in producers]) & (lows == 0))
    anchors = np.sort(
        anchors[np.argsort(-depth[anchors], kind="stable")][: max(1, MAX_REACH_ENTRIES // n)]
    )
    before = _links(_reversed(after), near)
    # The largest chip of each op when an anchor has chip 0, negated: one more along an edge, none
    # against it.
    reach = np.full((len(anchors), n + 1), -n, np.int32)
    reach[:, n] = 1
    for anchor, row in zip(anchors.tolist(), reach):
        tighten(before, anchor, 0, row, np.empty((2, n), np.uint32))
    np.negative(reach, out=reach)
    return RepairArrays(
        _links(after, _reversed(near)),
        before,
        in_main,
        anchors.astype(np.int32),
        reach,
        lows,
        -highs,
    )


def repair_batch(
    arrays: RepairArrays,
    chips: int,
    *,
    mode: str,
    rng: np.random.Generator,
    count: int | None = None,
    candidates: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """Repairs a batch: Algorithm 1 (``sample``) or 2 (``fix``) of paper 2; ``nearest`` takes the
    chip nearest to y.

    Args:
      arrays: from `repair_arrays`.
      chips: C.
      rng: of node orders and of every random chip.
      count: B; by default as many as there are candidates or weights.
      candidates: [B, N] or [N] int, the partitions y to repair (modes fix and nearest).
      weights: [B, N, C] or [N, C] non-negative, the distributions P (mode sample); None is uniform.
      order: [N] the node order T; None draws one for every repair, as the paper does by default.

    Returns:
      [B, N] int32 valid partitions.

    Raises:
      InputError: an unknown mode, or shapes that do not fit.
    """
    check_chips(chips)
    if mode not in MODES:
        raise InputError("mode", "", f"{mode!r} is none of {', '.join(MODES)}")
    n, drawn = len(arrays.in_main), mode == "sample"
    y, p, order = batch_arguments(n, chips, candidates, weights, order)
    if not drawn and not len(y):
        raise InputError("candidates", "", f"mode {mode!r} needs partitions to repair")
    if not drawn and len(p):
        raise InputError("weights", "", f"mode {mode!r} takes none")
    size = max(len(y), len(p), 1) if count is None else count
    out = np.empty((size, n), np.int32)
    repair_many(
        arrays,
        chips,
        MODES[mode],
        y,
        p,
        np.zeros(0, np.int32) if order is None else order,
        rng,
        out,
    )
    return out


def batch_arguments(
    n: int, chips: int, candidates: Any, weights: Any, order: Any
) -> tuple[Any, Any, Any]:
    """Candidates [K, N] int32, weights [M, N, C] float64, K or M 0 where there are none, and an
    order [N] int32 or None; raises `InputError` for shapes that do not fit, and for an order that
    has not every op once."""
    y = (
        np.zeros((0, n), np.int32)
        if candidates is None
        else np.atleast_2d(np.asarray(candidates, np.int32))
    )
    p = np.zeros((0, n, chips)) if weights is None else np.asarray(weights, np.float64)
    if y.shape[1:] != (n,):
        raise InputError("candidates", "", f"shape {y.shape}, expected (..., {n})")
    if p.ndim not in (2, 3) or p.shape[-2:] != (n, chips):
        raise InputError("weights", "", f"shape {p.shape}, expected (..., {n}, {chips})")
    if order is not None and not np.array_equal(np.sort(order, axis=None), np.arange(n)):
        raise InputError("order", "", f"expected each of the {n} ops once")
    return y, p.reshape(-1, n, chips), None if order is None else np.asarray(order, np.int32)


def _without_implied(successors: Lists, order: np.ndarray) -> tuple[Rows, Rows]:
    """Edges that carry f(u) <= f(v), and those that carry f(v) <= f(u) + 1, without what others
    imply.

    The first are the transitive reduction. In the second, (u, v) is implied by another edge (a, b)
    where a path leads from a to u and one from v to b: f(v) <= f(b) <= f(a) + 1 <= f(u) + 1.
    """
    direct = [sum(1 << v for v in targets) for targets in successors]
    below = [0] * len(successors)  # ops behind each op, as bits
    for u in order[::-1].tolist():
        for v in successors[u]:
            below[u] |= below[v] | 1 << v
    above_targets = [0] * len(successors)  # ops that an op before this one points to
    for u in order.tolist():
        for v in successors[u]:
            above_targets[v] |= above_targets[u] | direct[u]
    after, near = [], []
    for u, targets in enumerate(successors):
        behind = 0
        for v in targets:
            behind |= below[v]
        after.append([v for v in targets if not behind >> v & 1])
        around = direct[u] | above_targets[u]
        near.append([v for v in targets if not (below[v] & around or above_targets[u] >> v & 1)])
    return after, near


def _reversed(lists: Rows) -> Rows:
    result: list[list[int]] = [[] for _ in lists]
    for u, targets in enumerate(lists):
        for v in targets:
            result[v].append(u)
    return result


def _links(same: Rows, onward: Rows) -> Links:
    n = len(same)
    rows = [
        list(itertools.zip_longest(*pair, fillvalue=n)) or [(n, n)] for pair in zip(same, onward)
    ]
    rest = [row for links in rows for row in links[1:]]
    offsets = n + np.cumsum([0] + [len(links) - 1 for links in rows])
    table = np.array([links[0] for links in rows] + rest, np.uint32)
    return Links(offsets.astype(np.uint32), *np.ascontiguousarray(table.T))
