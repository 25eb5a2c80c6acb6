"""The constraint engine of paper 2: `get_domain`, `set_domain`, propagation and backtracking; SAMPLE and FIX on top.

`ConstraintSolver` is the plain engine with the paper's interface. `repair_batch` is the same procedure compiled
(`repair_kernel`), for the thousands of repairs that search and learning need. Two strengths: ``chain`` keeps the chain
rule of `constraints`, for which bounds propagation is complete, so that no repair ever fails; ``general`` keeps Eq. 4
itself, restarts at a dead end, and falls back to the chain rule when its attempts are used up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.kernel import (
    FIX,
    MAX_GENERAL_CHIPS,
    NEAREST,
    SAMPLE,
    RepairArrays,
    lower_highs,
    repair_many,
)
from learned_mapping.mcm.rules.constraints import check_chips, check_strength, obeys_triangle
from learned_mapping.programs.graph import ComputationGraph

MODES = {"sample": SAMPLE, "fix": FIX, "nearest": NEAREST}
MAX_REDUCED_OPS = 20_000
"""Above this many ops implied constraints are kept: finding them takes a bit per pair of ops."""
MAX_REACH_ENTRIES = 20_000_000
"""Entries of the table of what each anchor can reach; with more, only the anchors of longest paths are kept."""
DEFAULT_ATTEMPTS = 10
"""Descents under Eq. 4 before the chain rule steps in."""


def repair_arrays(graph: ComputationGraph) -> RepairArrays:
    """What the compiled engine reads of a graph; computed once, used for every repair."""
    return arrays_of_edges(graph.num_ops, graph.op_edges, graph.topological_order)


def arrays_of_edges(num_ops: int, op_edges: np.ndarray, order: np.ndarray) -> RepairArrays:
    """As `repair_arrays`, from [K, 2] edges and a topological order."""
    successors = [[] for _ in range(num_ops)]
    for u, v in op_edges.tolist():
        successors[u].append(v)
    after, near = successors, successors
    if num_ops <= MAX_REDUCED_OPS:
        after, near = _without_implied(successors, order)
    arrays = RepairArrays(
        *_csr(after), *_csr(_reversed(after)), *_csr(near), *_csr(_reversed(near)),
        *_csr(successors), *_csr(_reversed(successors)),
        in_main=np.ones(num_ops, bool), anchors=np.zeros(0, np.int32), anchor_reach=np.zeros((0, num_ops), np.int32),
    )  # fmt: skip
    depth = np.zeros(num_ops, np.int64)  # edges on the longest path from each op
    for u in order[::-1].tolist():
        depth[u] = max((depth[v] + 1 for v in successors[u]), default=0)
    component = _components(num_ops, op_edges)
    sizes = np.bincount(component)
    in_main = component == max(range(len(sizes)), key=lambda c: (depth[component == c].max(), sizes[c], -c))
    is_source = np.ones(num_ops, bool)
    is_source[op_edges[:, 1]] = False
    anchors = np.flatnonzero(is_source & in_main)
    anchors = np.sort(anchors[np.argsort(-depth[anchors], kind="stable")][: max(1, MAX_REACH_ENTRIES // num_ops)])
    reach = np.stack([_reach(arrays, int(anchor)) for anchor in anchors])
    return arrays._replace(in_main=in_main, anchors=anchors.astype(np.int32), anchor_reach=reach)


def without_chain(arrays: RepairArrays) -> RepairArrays:
    """The same graph for an engine that propagates Eq. 2 alone."""
    none, offsets = np.zeros(0, np.int32), np.zeros_like(arrays.near_offsets)
    return arrays._replace(near_offsets=offsets, near=none, far_offsets=offsets, far=none)


def repair_batch(
    arrays: RepairArrays,
    chips: int,
    *,
    mode: str,
    rng: np.random.Generator,
    count: int | None = None,
    candidates: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    strength: str = "chain",
    attempts: int = DEFAULT_ATTEMPTS,
    order: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Repairs a batch: Algorithm 1 (``sample``) or 2 (``fix``) of paper 2; ``nearest`` takes the chip nearest to y.

    Args:
      arrays: from `repair_arrays`.
      chips: C.
      rng: of node orders and of every random chip.
      count: B; by default as many as there are candidates or weights.
      candidates: [B, N] or [N] int, the partitions y to repair (modes fix and nearest).
      weights: [B, N, C] or [N, C] non-negative, the distributions P (mode sample); None is uniform.
      strength: ``chain`` or ``general``.
      attempts: descents under Eq. 4 per repair before the chain rule steps in.
      order: [N] the node order T; None draws one for every repair, as the paper does by default.

    Returns:
      ([B, N] int32 valid partitions, [B] int32 attempts: 0 under the chain rule, -1 where it had to step in).

    Raises:
      InputError: an unknown mode or strength, or shapes that do not fit.
    """
    check_chips(chips)
    if mode not in MODES:
        raise InputError("mode", "", f"{mode!r} is none of {', '.join(MODES)}")
    general = check_strength(strength) == "general" and chips <= MAX_GENERAL_CHIPS
    n = len(arrays.in_main)
    y = np.zeros((0, n), np.int32) if candidates is None else np.atleast_2d(np.asarray(candidates, np.int32))
    p = np.zeros((0, n, chips)) if weights is None else np.asarray(weights, np.float64).reshape(-1, n, chips)
    if mode != "sample" and not len(y):
        raise InputError("candidates", "", f"mode {mode!r} needs partitions to repair")
    if y.shape[1] != n:
        raise InputError("candidates", "", f"{y.shape[1]} chips for {n} ops")
    size = max(len(y), len(p), 1) if count is None else count
    out = np.empty((size, n), np.int32)
    used = np.zeros(size, np.int32)
    given = np.zeros(0, np.int32) if order is None else np.asarray(order, np.int32)
    loose = without_chain(arrays)
    repair_many(arrays, loose, chips, MODES[mode], general, attempts, y, p, given, rng, out, used)
    return out, used


class ConstraintSolver:
    """The plain engine: domains of N variables over C chips, with the interface of Section 4.2.

    A domain is an interval under the chain rule, a set under Eq. 4. `set_domain` propagates to a fixed point and
    undoes decisions that turn out impossible. Written for reading and for tests, not for speed.
    """

    def __init__(self, num_ops: int, op_edges: np.ndarray, chips: int, strength: str = "chain"):
        check_chips(chips)
        self._strength = check_strength(strength)
        self._edges = [(int(u), int(v)) for u, v in op_edges]
        self._array = np.asarray(op_edges, np.int32).reshape(-1, 2)
        self._chips = chips
        self._domains = [set(range(chips)) for _ in range(num_ops)]
        self._trail: list[tuple[int, set[int], list[set[int]]]] = []
        targets = {v for _, v in self._edges}
        self._sources = [u for u in range(num_ops) if u not in targets]
        if not self._propagate(self._domains):
            raise InputError("chips", "", "no partition exists")  # cannot happen: one chip always does

    def get_domain(self, op: int) -> list[int]:
        """Chips the op can still take, ascending."""
        return sorted(c for c in self._domains[op] if self._possible(op, c))

    def set_domain(self, op: int, chips: Sequence[int]) -> int:
        """Restricts an op to `chips` and propagates; returns how many decisions now stand.

        Usually one more than before. Where the restriction is impossible it is removed from the op's domain instead,
        and decisions are undone until the rest is possible: then it returns fewer.
        """
        saved = [set(d) for d in self._domains]
        self._trail.append((op, set(chips), saved))
        self._domains[op] &= set(chips)
        while not all(self._domains) or not self._propagate(self._domains):
            if not self._trail:
                raise InputError("chips", "", "no partition exists")
            op, tried, saved = self._trail.pop()
            self._domains = [set(d) for d in saved]
            # Nothing tried: the op had no chip left, so the decision before is to blame.
            self._domains[op] = {c for c in saved[op] if c not in tried} if tried else set()
        return len(self._trail)

    def _possible(self, op: int, chip: int) -> bool:
        trial = [set(d) for d in self._domains]
        trial[op] = {chip}
        return self._propagate(trial)

    def _propagate(self, domains: list[set[int]]) -> bool:
        changed = True
        while changed:
            changed = False
            for u, v in self._edges:
                for a, b, fits in ((u, v, self._forward), (v, u, self._backward)):
                    keep = {c for c in domains[b] if fits(domains[a], c)}
                    if keep != domains[b]:
                        domains[b].clear()
                        domains[b].update(keep)
                        changed = True
                    if not keep:
                        return False
        if not any(0 in domains[s] for s in self._sources):
            return False  # Eq. 3: chip 0 runs something, and then a source
        fixed = [next(iter(d)) if len(d) == 1 else -1 for d in domains]
        if self._strength == "general" and len(self._array):
            decided = np.array([fixed[u] >= 0 and fixed[v] >= 0 for u, v in self._edges])
            if decided.any() and not obeys_triangle(np.array(fixed), self._array[decided]):
                return False
        if all(f >= 0 for f in fixed):
            used = set(fixed)
            return used == set(range(len(used)))
        return True

    def _forward(self, producers: set[int], chip: int) -> bool:
        low = chip - 1 if self._strength == "chain" else 0
        return any(low <= c <= chip for c in producers)

    def _backward(self, consumers: set[int], chip: int) -> bool:
        high = chip + 1 if self._strength == "chain" else self._chips
        return any(chip <= c <= high for c in consumers)


def sample_repair(
    solver: ConstraintSolver, order: Sequence[int], weights: np.ndarray, rng: np.random.Generator
) -> list[int]:
    """Algorithm 1 as printed: [N] chips, each op in `order` drawn from its row of `weights` within its domain."""
    i = 0
    while i < len(order):
        domain = solver.get_domain(order[i])
        i = solver.set_domain(order[i], {_draw(domain, weights[order[i]], rng)} if domain else ())
    return [solver.get_domain(u)[0] for u in range(len(order))]


def fix_repair(
    solver: ConstraintSolver, order: Sequence[int], candidate: Sequence[int], rng: np.random.Generator
) -> list[int]:
    """Algorithm 2 as printed: candidates are kept where their domain allows, the rest is filled in at random."""
    n, i = len(order), 0
    while i < 2 * n:
        op = order[i % n]
        domain = solver.get_domain(op)
        if i >= n:
            i = solver.set_domain(op, {_draw(domain, None, rng)} if domain else ())
        elif candidate[op] in domain:
            i = solver.set_domain(op, {int(candidate[op])})
        else:
            i = solver.set_domain(op, set(domain))
    return [solver.get_domain(u)[0] for u in range(n)]


def nearest_repair(solver: ConstraintSolver, order: Sequence[int], candidate: Sequence[int]) -> list[int]:
    """Each op in `order` takes the chip of its domain nearest to the candidate's, the lower of two."""
    i = 0
    while i < len(order):
        y = candidate[order[i]]
        domain = solver.get_domain(order[i])
        i = solver.set_domain(order[i], {min(domain, key=lambda c: (abs(c - y), c))} if domain else ())
    return [solver.get_domain(u)[0] for u in range(len(order))]


def _draw(domain: Sequence[int], weights: np.ndarray | None, rng: np.random.Generator) -> int:
    """A chip of the domain by its weight, uniform where there is none; takes one random number unless it is alone."""
    if len(domain) == 1:
        return domain[0]
    r = rng.random()
    total = 0.0 if weights is None else float(sum(weights[c] for c in domain))
    if total == 0.0:
        return domain[int(r * len(domain))]
    r *= total
    for chip in domain:
        r -= weights[chip]
        if r < 0:
            return chip
    return next(c for c in reversed(domain) if weights[c] > 0)


def _without_implied(successors: list[list[int]], order: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Edges that carry f(u) <= f(v), and those that carry f(v) <= f(u) + 1, without what others imply.

    The first are the transitive reduction. In the second, (u, v) is implied by another edge (a, b) where a path leads
    from a to u and one from v to b: f(v) <= f(b) <= f(a) + 1 <= f(u) + 1.
    """
    below = [0] * len(successors)  # ops behind each op, as bits
    for u in order[::-1].tolist():
        for v in successors[u]:
            below[u] |= below[v] | 1 << v
    above_targets = [0] * len(successors)  # ops that an op before this one points to
    for u in order.tolist():
        mine = above_targets[u]
        for v in successors[u]:
            mine |= 1 << v
        for v in successors[u]:
            above_targets[v] |= mine
    after, near = [], []
    for u, targets in enumerate(successors):
        behind, mine = 0, 0
        for v in targets:
            behind |= below[v]
            mine |= 1 << v
        after.append([v for v in targets if not behind >> v & 1])
        around = mine | above_targets[u]
        near.append([v for v in targets if not (below[v] & around or above_targets[u] >> v & 1)])
    return after, near


def _components(num_ops: int, op_edges: np.ndarray) -> np.ndarray:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(op_edges))
    matrix = coo_matrix((ones, (op_edges[:, 0], op_edges[:, 1])), shape=(num_ops, num_ops))
    return connected_components(matrix, directed=False)[1]


def _reach(arrays: RepairArrays, source: int) -> np.ndarray:
    """[N] largest chip of each op when `source` has chip 0: one more along an edge, none against it."""
    n = len(arrays.in_main)
    reach = np.full(n, n, np.int32)
    lower_highs(arrays, source, 0, reach, np.empty(n + 1, np.int32), np.empty(n + 1, np.int32))
    return reach


def _reversed(lists: list[list[int]]) -> list[list[int]]:
    result: list[list[int]] = [[] for _ in lists]
    for u, targets in enumerate(lists):
        for v in targets:
            result[v].append(u)
    return result


def _csr(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in lists])]).astype(np.int32)
    flat = [v for targets in lists for v in targets]
    return offsets, np.array(flat, np.int32)
