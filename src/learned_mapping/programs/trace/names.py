"""Names that a program's file may have for one thing, and the primitive of JAX whose rule it is:
operations of StableHLO, chlo and mhlo, composites, custom calls of the CPU, of GPUs and of TPUs,
and the operations of ATen and of ONNX."""

import re

from learned_mapping.programs.trace.primitive_costs import (
    ELEMENT_WISE,
    RANDOM,
    REDUCTIONS,
    RULES,
    SERIES,
    TRANSCENDENTAL,
)

OPERATIONS = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "remainder": "rem",
    "negate": "neg",
    "maximum": "max",
    "minimum": "min",
    "round_nearest_even": "round",
    "round_nearest_afz": "round",
    "power": "pow",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "log_plus_one": "log1p",
    "sine": "sin",
    "cosine": "cos",
    "compare": "eq",
    "select": "select_n",
    "popcnt": "population_count",
    "count_leading_zeros": "clz",
    "convert": "convert_element_type",
    "bitcast_convert": "bitcast_convert_type",
    "reverse": "rev",
    "dynamic_reshape": "reshape",
    "dynamic_broadcast_in_dim": "broadcast_in_dim",
    "broadcast": "broadcast_in_dim",
    "real_dynamic_slice": "slice",
    "dynamic_gather": "gather",
    "dynamic_pad": "pad",
    "dynamic_iota": "iota",
    "convolution": "conv_general_dilated",
    "dynamic_conv": "conv_general_dilated",
    "dot": "dot_general",
    "select_and_scatter": "select_and_scatter_add",
    "rng": "rng_uniform",
    "all_reduce": "psum",
    "collective_permute": "ppermute",
    "torch_index_select": "gather",
    "next_after": "nextafter",
    "is_inf": "is_finite",
    "is_pos_inf": "is_finite",
    "is_neg_inf": "is_finite",
    "broadcast_next_after": "nextafter",
    "constant_like": "broadcast_in_dim",
    "batch_norm_training": "batch_norm",
    "batch_norm_grad": "batch_norm",
    "get_dimension_size": "dimension_size",
    "set_dimension_size": "copy",
    "replica_id": "axis_index",
    "partition_id": "axis_index",
    "collective_broadcast": "ppermute",
    "cross-replica-sum": "psum",
    "send": "psend",
    "recv": "precv",
    "infeed": "precv",
    "outfeed": "psend",
    "all_to_all": "all_to_all",
    "batch_norm_inference": "batch_norm",
}
"""Operations of StableHLO, chlo and mhlo that have another name as a primitive of JAX."""
BODIES = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
"""The name of a reduction by the operation in its body."""
FACTORISATIONS = {
    "cholesky": "potrf Cholesky",
    "lu": "getrf LuDecomposition",
    "geqrf": "geqrf Qr",
    "geqp3": "geqp3",
    "householder_product": "orgqr ungqr ProductOfElementaryHouseholderReflectors",
    "ormqr": "ormqr unmqr",
    "eigh": "syevd heevd syev heev syevj Eigh",
    "svd": "gesdd gesvd gesvdj gesvdp",
    "eig": "geev",
    "schur": "gees",
    "hessenberg": "gehrd",
    "tridiagonal": "sytrd hetrd",
    "tridiagonal_solve": "gtsv gtsv2 TridiagonalSolve",
    "triangular_solve": "trsm",
    "symmetric_product": "syrk",
}
"""Primitive -> the names of LAPACK, cuSOLVER, cuBLAS and the TPU for it, without library, type and
ending."""
CALLS = {name: kind for kind, names in FACTORISATIONS.items() for name in names.split()} | {
    "ApproxTopK": "approx_top_k",
    "PartialReduce": "approx_top_k",
    "TopK": "top_k",
    "topk": "top_k",
    "threefry2x32": "threefry2x32",
    "lu_pivots_to_permutation": "lu_pivots_to_permutation",
    "AllocateBuffer": "empty",
    "erf": "erf",
    "cpu_csr_sparse_dense": "csr_matmat",
}
"""Targets of custom calls -> the primitive."""
MARKED_CALLS = (
    "Sharding",
    "annotate_device_placement",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.PropagationBarrier",
)
"""Custom calls whose results are their operands."""
_LIBRARY = re.compile(
    r"^(?:(?:lapack|blas)_[sdcz]|(?:cu|hip)(?:solver|blas|sparse|dnn)?_|cu_|mhlo\.|chlo\.|xla\.)"
)
_ENDING = re.compile(r"(?:_ffi|_batched(?:_ffi)?|_work(?:_ffi)?)+$")


def called_primitive(target: str) -> str:
    """The primitive that a custom call of this target does; the target where it is not known."""
    bare = _ENDING.sub("", _LIBRARY.sub("", target))
    return CALLS.get(bare, CALLS.get(target, bare if bare in RULES else target))


LAID_OUT = (
    (ELEMENT_WISE - {"select_n", "clamp", "add_any", "integer_pow"})
    | SERIES
    | RANDOM
    | {*FACTORISATIONS, "qr", "top_k", "iota_2x32_shape", "split", "batch_norm", "fft"}
    | {name for name in REDUCTIONS if name.startswith("cum")}
)
"""Primitives that a writer may have laid out as several operations, all at the place that names the
primitive."""
FUNCTIONS = frozenset(
    SERIES | RANDOM | (TRANSCENDENTAL - {"exp", "log", "pow", "sqrt", "logistic"})
)
"""Primitives that a writer lays out once, as a function that has their name."""
NAMED = {
    "_threefry_split": "random_split",
    "_threefry_fold_in": "random_fold_in",
    "_gamma": "random_gamma",
}
"""Functions of JAX's own with another name."""


def laid_out_function(name: str) -> str:
    """The primitive that a function of a module is, by its name; empty for none."""
    bare = re.sub(r"_\d+$", "", name)
    return NAMED.get(bare, bare.strip("_") if bare.strip("_") in FUNCTIONS else "")


ATEN_NAMES = {
    "sub": "rsub",
    "rem": "remainder fmod",
    "max": "maximum relu clamp_min",
    "min": "minimum clamp_max",
    "round": "trunc",
    "clamp": "hardtanh",
    "logistic": "sigmoid",
    "not": "logical_not bitwise_not",
    "and": "logical_and bitwise_and",
    "or": "logical_or bitwise_or",
    "xor": "logical_xor bitwise_xor",
    "select_n": "where masked_fill",
    "is_finite": "isinf isnan",
    "log": "log2 log10",
    "div": "reciprocal",
    "erf": "gelu",
    "broadcast_in_dim": (
        "fill full full_like expand repeat unsqueeze zeros ones empty scalar_tensor"
    ),
    "iota": "arange",
    "reshape": "view _unsafe_view squeeze alias",
    "stop_gradient": "detach",
    "copy": "clone lift_fresh_copy",
    "convert_element_type": "_to_copy",
    "transpose": "permute t",
    "rev": "flip",
    "concatenate": "cat stack",
    "slice": "select as_strided diagonal",
    "split": "split_with_sizes",
    "pad": "constant_pad_nd reflection_pad2d replication_pad2d",
    "gather": "embedding index index_select unfold",
    "dynamic_update_slice": "slice_scatter select_scatter",
    "scatter": "index_put",
    "scatter-add": "scatter_reduce scatter_add",
    "reduce_sum": "sum",
    "reduce_max": "amax max",
    "reduce_min": "amin min",
    "reduce_prod": "prod",
    "reduce_or": "any",
    "reduce_and": "all",
    "top_k": "topk",
    "random_bits": "rand randn randint rand_like randn_like bernoulli",
    "dot_general": "mm addmm bmm baddbmm",
    "conv_general_dilated": "convolution",
    "reduce_window_max": "max_pool2d_with_indices max_pool3d_with_indices",
    "reduce_window_sum": "avg_pool1d avg_pool2d avg_pool3d",
    "fft": "_fft_r2c _fft_c2c _fft_c2r",
    "cholesky": "linalg_cholesky_ex",
    "qr": "linalg_qr",
    "svd": "_linalg_svd",
    "eigh": "_linalg_eigh",
    "eig": "linalg_eig _linalg_eigvals",
    "lu": "linalg_lu linalg_lu_factor_ex _linalg_det _linalg_slogdet",
    "triangular_solve": "linalg_solve_triangular",
    "householder_product": "linalg_householder_product",
    "erf_inv": "erfinv",
    "conj": "_conj",
    "cumlogsumexp": "logcumsumexp",
    "zeta": "special_zeta",
    "bessel_i0e": "i0 special_i0e",
    "bessel_i1e": "special_i1 special_i1e",
    "inverse": "linalg_inv_ex",
    "linear_solve": "_linalg_solve_ex",
    "shift_left": "__lshift__ bitwise_left_shift",
    "shift_right_arithmetic": "__rshift__ bitwise_right_shift",
    "bitcast_convert_type": "view_as_real view_as_complex",
}
"""Primitive of JAX -> the ATen operations that do the same under another name."""
ATEN = {aten: kind for kind, names in ATEN_NAMES.items() for aten in names.split()}
ONNX_NAMES = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "rem": "Mod",
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "round": "Round",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "logistic": "Sigmoid",
    "erf": "Erf",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "and": "And BitwiseAnd",
    "or": "Or BitwiseOr",
    "xor": "Xor BitwiseXor",
    "not": "Not BitwiseNot",
    "eq": "Equal",
    "lt": "Less",
    "gt": "Greater",
    "le": "LessOrEqual",
    "ge": "GreaterOrEqual",
    "is_finite": "IsInf IsNaN",
    "select_n": "Where",
    "shift_left": "BitShift",
    "gather": "Gather GatherElements GatherND ReverseSequence Compress",
    "scatter": "Scatter ScatterElements ScatterND TensorScatter",
    "reshape": "Reshape Flatten DepthToSpace SpaceToDepth",
    "squeeze": "Squeeze",
    "expand_dims": "Unsqueeze",
    "transpose": "Transpose",
    "broadcast_in_dim": "Expand ConstantOfShape",
    "tile": "Tile",
    "concatenate": "Concat",
    "split": "Split",
    "slice": "Slice CenterCropPad",
    "pad": "Pad",
    "iota": "Range EyeLike",
    "copy": "Identity",
    "convert_element_type": "Cast CastLike",
    "bitcast_convert_type": "BitCast",
    "cumsum": "CumSum",
    "cumprod": "CumProd",
    "argmax": "ArgMax",
    "argmin": "ArgMin",
    "top_k": "TopK",
    "random_bits": "Bernoulli Multinomial RandomNormal RandomUniform RandomNormalLike"
    " RandomUniformLike",
    "reduce_window_max": "MaxPool",
    "reduce_window_sum": "AveragePool",
}
"""Primitive of JAX -> the operations of ONNX that do the same; what is more than one primitive is
in `onnx_layouts`."""
ONNX = {op: kind for kind, names in ONNX_NAMES.items() for op in names.split()}
