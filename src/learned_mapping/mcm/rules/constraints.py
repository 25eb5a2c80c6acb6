"""The static constraints of paper 2, Section 3, as definitions: quick to check, vectorised where it
matters.

    Eq. 2  acyclic dataflow:   f(u) <= f(v)                      for every edge (u, v)
    Eq. 3  no skipping chips:  d <= f(u)  =>  some v has f(v) = d
    Eq. 4  chip triangle:      f(u) != f(v)  =>  δ(f(u), f(v)) = 1,
                               δ the longest path in the graph of chips

As printed, Eq. 3 forces the chips used to be a prefix 0..k of the row, no more. Eq. 4 forbids a
direct dependency between two chips beside an indirect one: under Eq. 2 the graph of chips is
acyclic, and it must equal its own transitive reduction. The *chain rule*

    f(u) <= f(v) <= f(u) + 1                                     for every edge (u, v)

implies Eq. 2 and Eq. 4 (chip edges then join neighbours only). It is also necessary where every two
neighbouring chips are joined by an edge: a longer edge would then stand beside the path through its
neighbours.

`example_graph` is small enough to judge by eye, and `EXAMPLE_PARTITIONS` of it break one rule each.
"""

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import MAX_CHIPS, ChipPackage
from learned_mapping.programs.graph import ComputationGraph, make_graph

STRENGTHS = ("chain", "general")  # ``chain`` keeps the chain rule; ``general`` Eq. 4 itself.


def obeys_acyclic(assignment: np.ndarray, op_edges: np.ndarray) -> bool:
    """Eq. 2. `assignment` [N] chip ids, `op_edges` [K, 2] (producer, consumer)."""
    return bool(np.all(assignment[op_edges[:, 0]] <= assignment[op_edges[:, 1]]))


def uses_prefix(assignment: np.ndarray) -> bool:
    """Eq. 3: the chips used are 0..k for some k."""
    used = np.unique(assignment)
    return bool(used[0] == 0 and used[-1] == len(used) - 1)


def obeys_chain_rule(assignment: np.ndarray, op_edges: np.ndarray) -> bool:
    """The chain rule, stronger than Eq. 2 and Eq. 4 together."""
    step = assignment[op_edges[:, 1]] - assignment[op_edges[:, 0]]
    return bool(np.all((step >= 0) & (step <= 1)))


def obeys_triangle(assignment: np.ndarray, op_edges: np.ndarray) -> bool:
    """Eq. 4 for an assignment that obeys Eq. 2: the graph of chips is its own transitive
    reduction."""
    chips, ends = int(assignment.max()) + 1, assignment[op_edges]
    direct = np.zeros((chips, chips), bool)
    direct[ends[:, 0], ends[:, 1]] = ends[:, 0] != ends[:, 1]
    reach = direct.copy()  # chips at the end of a path of one edge or more
    for chip in np.flatnonzero(direct.any(axis=1))[::-1].tolist():
        indirect = reach[direct[chip]].any(axis=0)
        if (indirect & direct[chip]).any():
            return False
        reach[chip] |= indirect
    return True


def is_valid(assignment: np.ndarray, op_edges: np.ndarray) -> bool:
    """Eq. 2, 3 and 4 together, for chip ids that are known to be in range."""
    return (
        obeys_acyclic(assignment, op_edges)
        and uses_prefix(assignment)
        and obeys_triangle(assignment, op_edges)
    )


def obeys_pins(assignment: np.ndarray, graph: ComputationGraph) -> bool:
    """Whether every op of `graph` that is fixed to a chip is on it in `assignment` [N], and every
    group on one."""
    if graph.op_chip is not None and np.any((graph.op_chip >= 0) & (graph.op_chip != assignment)):
        return False
    return all(assignment[u] == assignment[v] for u, v in group_pairs(graph))


def group_pairs(graph: ComputationGraph) -> list[tuple[int, int]]:
    """Pairs of the first op of every group with each of the others."""
    first: dict[str, int] = {}
    pairs = [
        (first.setdefault(group, op), op) for op, group in enumerate(graph.op_group or ()) if group
    ]
    return [(u, v) for u, v in pairs if u != v]


def valid_count(assignments: np.ndarray, op_edges: np.ndarray) -> int:
    """The number of valid ones of [B, N] assignments; nearly all random ones fall at Eq. 2, so the
    batch is cheap."""
    alive = np.arange(len(assignments))
    for start in range(0, len(op_edges), 64):
        part = assignments[alive][:, op_edges[start : start + 64]]
        alive = alive[np.all(part[..., 0] <= part[..., 1], axis=1)]
    return sum(is_valid(assignments[row], op_edges) for row in alive)


def check_strength(strength: str) -> str:
    """The strength itself; raises `InputError` where it is none of `STRENGTHS`."""
    if strength not in STRENGTHS:
        raise InputError("strength", "", f"{strength!r} is none of {', '.join(STRENGTHS)}")
    return strength


def check_chips(chips: int) -> int:
    """The number of chips itself; raises `InputError` unless it is a positive number this package
    supports."""
    if not 1 <= chips <= MAX_CHIPS:
        raise InputError("chips", "", f"{chips} is outside [1, {MAX_CHIPS}]")
    return chips


KIB = 1024
EXAMPLE_PACKAGE = ChipPackage(chips=4, sram_bytes=448.0 * KIB)
"""Four chips with room for the weights of two of the three dense ops, not of all, beside their
activations."""

EXAMPLE_PARTITIONS: dict[str, tuple[int, ...]] = {
    "valid": (0, 0, 1, 1, 1, 2),
    "acyclic": (1, 1, 1, 0, 0, 0),
    "skipping": (0, 0, 0, 2, 2, 2),
    "triangle": (0, 1, 2, 2, 2, 2),
    "memory": (0, 0, 0, 0, 0, 0),
}
"""Rule -> chips of ops a to f. Each breaks the rule it is named after and no other.

"acyclic" sends the tensors of b and c from chip 1 back to chip 0; "skipping" leaves chip 1 empty;
"triangle" joins chips 0 and 2 directly (a to c) and over chip 1 (a to b to d); "memory" is valid
but for the SRAM of chip 0.
"""


def example_graph() -> ComputationGraph:
    """Two branches of two ops between a source and a sink: a -> b -> d -> f, a -> c -> e -> f.

    Tensors have 16 KiB; b, c and e have weights, of 192 KiB, and four times the arithmetic of the
    others.
    """
    edges = {"a": "bc", "b": "d", "c": "e", "d": "f", "e": "f", "f": ""}
    ops, dense = "".join(edges), "bce"
    return make_graph(
        name="six-ops",
        op_names=list(ops),
        op_kinds=["input", *("dot_general" if op in dense else "add" for op in ops[1:])],
        op_flop=[0.0, *(4e6 if op in dense else 1e6 for op in ops[1:])],
        op_weight_bytes=[192 * KIB if op in dense else 0 for op in ops],
        tensor_names=[f"{op}:0" for op in ops],
        tensor_producer=range(len(ops)),
        tensor_bytes=[16 * KIB] * len(ops),
        tensor_is_output=[op == ops[-1] for op in ops],
        edge_tensor=[i for i, op in enumerate(ops) for _ in edges[op]],
        edge_consumer=[ops.index(c) for op in ops for c in edges[op]],
    )
