"""A graph small enough to judge by eye, and partitions of it that break one rule each."""

from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.programs.graph import ComputationGraph, make_graph

KIB = 1024
EXAMPLE_PACKAGE = ChipPackage(chips=4, sram_bytes=448.0 * KIB)
"""Four chips with room for the weights of two of the three dense ops, not of all, beside their activations."""

EXAMPLE_PARTITIONS: dict[str, tuple[int, ...]] = {
    "valid": (0, 0, 1, 1, 1, 2),
    "acyclic": (1, 1, 1, 0, 0, 0),
    "skipping": (0, 0, 0, 2, 2, 2),
    "triangle": (0, 1, 2, 2, 2, 2),
    "memory": (0, 0, 0, 0, 0, 0),
}
"""Rule -> chips of ops a to f. Each breaks the rule it is named after and no other.

"acyclic" sends the tensors of b and c from chip 1 back to chip 0; "skipping" leaves chip 1 empty; "triangle" joins
chips 0 and 2 directly (a to c) and over chip 1 (a to b to d); "memory" is valid but for the SRAM of chip 0.
"""


def example_graph() -> ComputationGraph:
    """Two branches of two ops between a source and a sink: a -> b -> d -> f, a -> c -> e -> f."""
    ops = "abcdef"
    edges = {"a": "bc", "b": "d", "c": "e", "d": "f", "e": "f", "f": ""}
    dense = "bce"
    return make_graph(
        name="six-ops",
        op_names=list(ops),
        op_kinds=["input", *("dot_general" if op in dense else "add" for op in ops[1:])],
        op_flop=[0.0, *(4e6 if op in dense else 1e6 for op in ops[1:])],
        op_weight_bytes=[192 * KIB if op in dense else 0 for op in ops],
        tensor_names=[f"{op}:0" for op in ops],
        tensor_producer=range(len(ops)),
        tensor_bytes=[16 * KIB] * len(ops),
        tensor_is_output=[op == "f" for op in ops],
        edge_tensor=[i for i, op in enumerate(ops) for _ in edges[op]],
        edge_consumer=[ops.index(c) for op in ops for c in edges[op]],
    )
