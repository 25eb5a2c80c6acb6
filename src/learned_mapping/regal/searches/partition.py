"""Balanced graph partitioning: multilevel bisection with Fiduccia-Mattheyses refinement.

The classical scheme of Scotch and METIS: contract heavy edges until the graph is small, bisect that
one from many starts, then undo the contractions level by level, improving the cut at each
(Hendrickson and Leland 1995; Fiduccia and Mattheyses 1982). More than two parts come from bisecting
again.
"""

import heapq

import numpy as np

COARSE_NODES = 30  # Contraction stops here.
STARTS = 12  # Bisections tried on the coarsest graph.
IMBALANCE = 0.05  # By how much of the average a part may be heavier, as far as whole nodes allow.
MAX_PASSES = 8  # Refinement passes on one level; a pass that gains nothing is the last anyway.

# For each node its neighbours and the weight of the edge to them; symmetric.
Adjacency = list[dict[int, float]]


def partition(
    adjacency: Adjacency, weight: np.ndarray, parts: int, rng: np.random.Generator
) -> np.ndarray:
    """Splits nodes into parts of about equal weight with a small cut.

    Args:
      adjacency: symmetric, without loops.
      weight: [N] at least 0.
      parts: number of parts.
      rng: orders the contractions and picks the starts.

    Returns:
      [N] int64 part of each node.
    """
    result = np.zeros(len(adjacency), np.int64)
    if parts == 1 or not adjacency:
        return result
    left = parts // 2
    side = bisect(adjacency, weight, left / parts, rng)
    for first, count, nodes in ((0, left, side == 0), (left, parts - left, side == 1)):
        index = {node: i for i, node in enumerate(np.flatnonzero(nodes).tolist())}
        inner = [{index[v]: w for v, w in adjacency[node].items() if v in index} for node in index]
        result[nodes] = first + partition(inner, weight[nodes], count, rng)
    return result


def cut_weight(adjacency: Adjacency, side: np.ndarray | list[int]) -> float:
    """The total weight of edges between different parts."""
    total = sum(
        w for u, near in enumerate(adjacency) for v, w in near.items() if side[u] != side[v]
    )
    return total / 2


def bisect(
    adjacency: Adjacency, weight: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """[N] int64 of 0 and 1: two sides, the first of about `share` of the weight; see
    `partition`."""
    # and the node of the coarser level each node went into
    levels: list[tuple[Adjacency, list[float], list[int]]] = []
    current, node_weight = adjacency, [float(w) for w in weight]
    while len(current) > COARSE_NODES:
        parent, coarse, coarse_weight = _contract(current, node_weight, rng)
        if len(coarse) > 0.95 * len(current):
            break
        levels.append((current, node_weight, parent))
        current, node_weight = coarse, coarse_weight
    grown = (_grow(current, node_weight, share, rng) for _ in range(STARTS))
    sides = [_refine(current, node_weight, side, share) for side in grown]
    best = min(
        sides, key=lambda side: (_excess(node_weight, side, share), cut_weight(current, side))
    )
    for finer, finer_weight, parent in reversed(levels):
        best = _refine(finer, finer_weight, [best[p] for p in parent], share)
    return np.array(best, np.int64)


def _contract(adjacency: Adjacency, weight: list[float], rng: np.random.Generator):
    """Merges each node with the unmerged neighbour of its heaviest edge; returns (parent,
    adjacency, weight)."""
    n = len(adjacency)
    heaviest = 3.0 * sum(weight) / COARSE_NODES
    parent, count = [-1] * n, 0
    for node in rng.permutation(n).tolist():
        if parent[node] >= 0:
            continue
        parent[node] = count
        mates = [
            (w, -v)
            for v, w in adjacency[node].items()
            if parent[v] < 0 and weight[node] + weight[v] <= heaviest
        ]
        if mates:
            parent[-max(mates)[1]] = count
        count += 1
    coarse: Adjacency = [{} for _ in range(count)]
    coarse_weight = [0.0] * count
    for node in range(n):
        a = parent[node]
        coarse_weight[a] += weight[node]
        for other, w in adjacency[node].items():
            b = parent[other]
            if a != b:
                coarse[a][b] = coarse[a].get(b, 0.0) + w
    return parent, coarse, coarse_weight


def _grow(
    adjacency: Adjacency, weight: list[float], share: float, rng: np.random.Generator
) -> list[int]:
    """Side 0 grows from a random node along the heaviest ties until it has its share."""
    n, total, grown = len(adjacency), sum(weight), 0.0
    side, tie = [1] * n, [0.0] * n
    # A heap by ties, with ends of nodes that have grown in or have other ties.
    outside = [(0.0, v) for v in range(n)]
    node = int(rng.integers(n))
    while True:
        side[node] = 0
        grown += weight[node]
        for other, w in adjacency[node].items():
            tie[other] += w
            heapq.heappush(outside, (-tie[other], other))
        while outside and (side[outside[0][1]] == 0 or -outside[0][0] != tie[outside[0][1]]):
            heapq.heappop(outside)
        if grown >= share * total or not outside:
            return side
        node = outside[0][1]


def _excess(weight: list[float], side: list[int], share: float) -> float:
    """The weight by which the heavier side passes its limit; 0 where both keep it."""
    total, zero = sum(weight), sum(w for w, s in zip(weight, side) if s == 0)
    slack = IMBALANCE * total / 2
    return max(zero - share * total - slack, (total - zero) - (1 - share) * total - slack, 0.0)


def _refine(adjacency: Adjacency, weight: list[float], side: list[int], share: float) -> list[int]:
    """Fiduccia-Mattheyses passes: move every node once, best gain first, then keep the best prefix
    of the moves."""
    total = sum(weight)
    slack = IMBALANCE * total / 2
    target = share * total
    for _ in range(MAX_PASSES):
        gain = [
            sum(w if side[v] != side[u] else -w for v, w in near.items())
            for u, near in enumerate(adjacency)
        ]
        heaps: list[list[tuple[float, int]]] = [[], []]
        for node, g in enumerate(gain):
            heaps[side[node]].append((-g, node))
        for heap in heaps:
            heapq.heapify(heap)
        locked = [False] * len(adjacency)
        zero = sum(w for w, s in zip(weight, side) if s == 0)
        best_key, best_moves, moves, gained = (
            (max(abs(zero - target) - slack, 0.0), 0.0),
            0,
            [],
            0.0,
        )
        while True:
            # From the heavy side where the balance is broken, else the move that gains more.
            options = []
            for origin in (0, 1):
                heap = heaps[origin]
                while heap and (
                    locked[heap[0][1]]
                    or side[heap[0][1]] != origin
                    or -heap[0][0] != gain[heap[0][1]]
                ):
                    heapq.heappop(heap)
                if heap:
                    node = heap[0][1]
                    after = zero - weight[node] if origin == 0 else zero + weight[node]
                    excess = max(abs(after - target) - slack, 0.0)
                    if excess == 0.0 or excess < max(abs(zero - target) - slack, 0.0):
                        options.append((excess, -gain[node], node, after))
            if not options:
                break
            _, _, node, zero = min(options)
            locked[node] = True
            gained += gain[node]
            side[node] = 1 - side[node]
            moves.append(node)
            for other, w in adjacency[node].items():
                if not locked[other]:
                    gain[other] += -2 * w if side[other] == side[node] else 2 * w
                    heapq.heappush(heaps[side[other]], (-gain[other], other))
            key = (max(abs(zero - target) - slack, 0.0), -gained)
            if key < best_key:
                best_key, best_moves = key, len(moves)
        for node in moves[best_moves:]:
            side[node] = 1 - side[node]
        if best_moves == 0:
            break
    return side
