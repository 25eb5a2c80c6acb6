"""Six classes of ops that a chip runs on different units, or at different speeds."""

from __future__ import annotations

import numpy as np

from learned_mapping.programs.graph import ComputationGraph

OP_CLASSES = ("matrix", "attention", "elementwise", "transcendental", "reduction", "movement")
"""``matrix`` multiplies activations by weights the op holds, ``attention`` activations by activations."""

PRODUCTS = frozenset({"dot_general", "conv_general_dilated"})
TRANSCENDENTAL = frozenset(
    "cbrt cos erf erf_inv exp exp2 expm1 integer_pow lgamma log log1p logistic pow rsqrt sin sqrt tan tanh".split()
)
REDUCTION_PREFIXES = ("reduce", "cum", "arg", "sort", "top_k")
MOVEMENT = frozenset(
    """
    bitcast_convert_type broadcast_in_dim concatenate convert_element_type copy dynamic_slice dynamic_update_slice
    gather input iota pad reshape rev scatter select_and_gather_add slice split squeeze stop_gradient transpose
    """.split()
)


def op_classes(graph: ComputationGraph) -> np.ndarray:
    """[N] int64 index into `OP_CLASSES` of each op, by its kind; what no list names is ``elementwise``."""
    return np.array([_class_of(kind, int(w)) for kind, w in zip(graph.op_kinds, graph.op_weight_bytes)], np.int64)


def _class_of(kind: str, weight_bytes: int) -> int:
    if kind in PRODUCTS:
        return OP_CLASSES.index("matrix" if weight_bytes else "attention")
    if kind in TRANSCENDENTAL:
        return OP_CLASSES.index("transcendental")
    if kind.startswith(REDUCTION_PREFIXES):
        return OP_CLASSES.index("reduction")
    return OP_CLASSES.index("movement" if kind in MOVEMENT else "elementwise")
