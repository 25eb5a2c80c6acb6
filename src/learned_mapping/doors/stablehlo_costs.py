"""What an operation of StableHLO stands for, and what it costs where its form says more than its
primitive's rule sees."""

import math
import operator
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from learned_mapping.doors.stablehlo_ops import listed
from learned_mapping.doors.stablehlo_values import Values
from learned_mapping.programs.trace.names import BODIES, OPERATIONS
from learned_mapping.programs.trace.primitive_costs import (
    REDUCTIONS,
    RULES,
    elements,
    primitive_flop,
)

ARITHMETIC: dict[str, Callable[..., float]] = {
    "convert_element_type": lambda a: a,
    "reshape": lambda a: a,
    "broadcast_in_dim": lambda a: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "select_n": lambda chosen, yes, no: yes if chosen else no,
}
"""What may become of a counter before it is an index."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
BATCH_NORM = {"batch_norm_training": 8.0, "batch_norm_grad": 9.0}
"""FLOP of an element of the input: mean and variance before scaling, or two sums and what becomes
of the gradient; `primitive_costs` has those of inference."""


class Costs(Values):
    """The primitives and FLOP of the operations of one module."""

    def computed(self, op: Any, kind: str) -> float | None:
        """The number that an operation makes of numbers; None where it makes something else."""
        numbers = [self.numbers[v] for v in op.operands if v in self.numbers]
        if not numbers or len(numbers) < len(op.operands) or len(op.results) != 1:
            return None
        if op.name == "stablehlo.compare":
            way = re.search(r"\b(LT|LE|GT|GE|EQ|NE)\b", str(op.attributes["comparison_direction"]))
            return None if way is None else float(COMPARISONS[way[1]](*numbers))
        return ARITHMETIC[kind](*numbers) if kind in ARITHMETIC else None

    def flop(
        self,
        op: Any,
        kind: str,
        operands: Sequence[Any],
        results: Sequence[Any],
        params: dict[str, Any],
    ) -> float | None:
        """FLOP of an operation where its form says more than its primitive's rule sees."""
        name = op.name.partition(".")[2]
        if name in BATCH_NORM:
            params["each"] = BATCH_NORM[name]
        if name in ("reduce", "reduce_window") and kind in RULES:
            # no start counts, nor an index
            count = 1 if kind in ("argmax", "argmin") else len(operands) // 2
            if kind in ("reduce", "reduce_window"):
                each = max(self.body_flop(op.regions[0]), 1.0)
                return each * primitive_flop(kind, operands, results, params)
            return primitive_flop(kind, operands[:count], results, params)
        if kind == "select_and_scatter_add":  # the pooled values come second here, first in JAX
            return primitive_flop(kind, operands[1:], results, params)
        if name == "map":
            return elements(results[0]) * self.body_flop(op.regions[0])
        if name == "scan":
            axes = op.attributes.get("scan_dimension")
            axis = 0 if axes is None else self.ir.IntegerAttr(axes).value
            carried = len(op.regions[0].blocks[0].arguments)
            length = max((v.shape[axis] for v in operands[:carried] if len(v.shape)), default=1)
            return length * self.body_flop(op.regions[0])
        if name in ("einsum", "unary_einsum"):
            return self.einsum_flop(op, operands)
        if name == "ragged_dot":
            numbers = str(op.attributes["ragged_dot_dimension_numbers"])
            contracted = listed(numbers, "lhs_contracting_dimensions")
            ragged = listed(numbers, "lhs_ragged_dimensions")
            groups = results[0].shape[0] if set(ragged) & set(contracted) else 1
            depth = math.prod(operands[0].shape[d] for d in contracted)
            return 2.0 * elements(results[0]) / max(groups, 1) * depth
        return None

    def einsum_flop(self, op: Any, operands: Sequence[Any]) -> float:
        """Two for each point of all indices of a product, one of a sum."""
        terms = op.attributes["einsum_config"].value.partition("->")[0].split(",")
        sizes: dict[str, int] = {}
        for term, operand in zip(terms, operands):
            letters = term.strip().replace("...", "")
            sizes |= dict(zip(reversed(letters), reversed(operand.shape)))
        spread = max(
            len(o.shape) - len(t.strip().replace("...", "")) for t, o in zip(terms, operands)
        )
        batch = math.prod(operands[0].shape[:spread]) if spread > 0 else 1
        return float(len(operands) * batch * math.prod(sizes.values()))

    def body_flop(self, region: Any) -> float:
        """FLOP of all operations in a region, and in those within."""
        return self.parts_flop([op.operation for op in region.blocks[0].operations])

    def parts_flop(self, operations: Sequence[Any]) -> float:
        """FLOP of operations, and of those in their regions and functions."""
        total = 0.0
        for op in operations:
            kind = op.name.partition(".")[2]
            if kind in ("return", "constant"):
                continue
            params: dict[str, Any] = {}
            results, operands = ([self.aval(v) for v in vs] for vs in (op.results, op.operands))
            if kind == "call":
                total += self.body_flop(self.function(op.attributes["callee"].value).regions[0])
                continue
            primitive = self.primitive(op, kind, params)
            flop = self.flop(op, primitive, operands, results, params)
            total += primitive_flop(primitive, operands, results, params) if flop is None else flop
        return total

    def primitive(self, op: Any, kind: str, params: dict[str, Any]) -> str:
        """The primitive of JAX that an operation stands for; fills in its parameters."""
        attributes = op.attributes

        def dense(name: str, default: list[int]) -> list[int]:
            if name not in attributes:
                return default
            return list(self.ir.DenseI64ArrayAttr(attributes[name]))

        if kind == "dot_general":
            dot = self.dialect.DotDimensionNumbers(attributes["dot_dimension_numbers"])
            params["dimension_numbers"] = ((list(dot.lhs_contracting_dimensions), ()), ((), ()))
        elif kind == "dot":
            last = len(self.aval(op.operands[0]).shape) - 1
            params["dimension_numbers"] = (([last], ()), ((), ()))
        elif kind in ("convolution", "dynamic_conv"):
            self.convolution(op, dense, params)
        elif kind in ("reduce_window", "select_and_scatter"):
            params["window_dimensions"] = dense("window_dimensions", [1])
        elif kind == "sort":
            params["dimension"] = self.ir.IntegerAttr(attributes["dimension"]).value
        elif kind == "top_k":
            params["k"] = self.ir.IntegerAttr(attributes["k"]).value
        elif kind == "fft":
            params["fft_lengths"] = dense("fft_length", [1])
        if kind == "reduce" and len(op.operands) == 4:
            if getattr(op.operands[1].owner, "name", "") == "stablehlo.iota":
                first = op.regions[0].blocks[0].operations[0].attributes
                least = re.search("L[TE]", str(first.get("comparison_direction")))
                return "argmin" if least else "argmax"
        if kind in ("reduce", "reduce_window", "scatter"):
            return self.reduction(op, kind, dense)
        bare = kind.removeprefix("broadcast_")  # of chlo, which brings operands to one shape
        return OPERATIONS.get(kind, OPERATIONS.get(bare, bare if bare in RULES else kind))

    def convolution(
        self, op: Any, dense: Callable[[str, list[int]], list[int]], params: dict[str, Any]
    ) -> None:
        """Fills in what the rule of convolutions reads."""
        conv = self.dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        kernel = list(conv.kernel_spatial_dimensions)
        spec = (conv.kernel_output_feature_dimension, conv.kernel_input_feature_dimension, *kernel)
        out = (conv.output_batch_dimension, conv.output_feature_dimension)
        params["dimension_numbers"] = SimpleNamespace(
            rhs_spec=spec, out_spec=(*out, *conv.output_spatial_dimensions)
        )
        ones = [1] * len(kernel)
        for name in ("window_strides", "lhs_dilation", "rhs_dilation"):
            params[name] = dense(name, ones)
        params["padding"] = [(0, 0)] * len(kernel)
        if "padding" in op.attributes:
            ends = list(self.ir.DenseIntElementsAttr(op.attributes["padding"]))
            params["padding"] = list(zip(ends[::2], ends[1::2]))

    def reduction(self, op: Any, kind: str, dense: Callable[[str, list[int]], list[int]]) -> str:
        """The primitive of a reduction, by what its body does."""
        block = op.regions[0].blocks[0]
        body = [o.operation.name.partition(".")[2] for o in block.operations][:-1]
        suffix = BODIES.get(body[-1], "") if len(body) == 1 else ""
        if kind == "reduce_window" and self.is_cumulative(op, dense):
            suffix = "logsumexp" if {"exponential", "log_plus_one"} <= {*body} else suffix
            if f"cum{suffix}" in REDUCTIONS:
                return f"cum{suffix}"
        if kind == "scatter":
            named = {"sum": "scatter-add", "prod": "scatter-mul", "": "scatter"}
            return named.get(suffix, f"scatter-{suffix}")
        if suffix and (kind == "reduce" or suffix in ("sum", "max", "min")):
            return f"{kind}_{suffix}"
        return kind

    def is_cumulative(self, op: Any, dense: Callable[[str, list[int]], list[int]]) -> bool:
        """Whether the windows of a reduction begin, or end, where one axis does, and each is one
        element longer."""
        shape = list(self.aval(op.operands[0]).shape)
        ones, window = [1] * len(shape), dense("window_dimensions", [])
        axis = next((i for i, size in enumerate(window) if size > 1), None)
        steps = ("window_strides", "base_dilations", "window_dilations")
        if axis is None or "padding" not in op.attributes:
            return False
        if any(dense(name, ones) != ones for name in steps):
            return False
        padding = list(self.ir.DenseIntElementsAttr(op.attributes["padding"]))
        ones[axis] = shape[axis]
        ways = [
            [(shape[axis] - 1) * (i == 2 * axis + end) for i in range(2 * len(shape))]
            for end in (0, 1)
        ]
        return window == ones and padding in ways
