"""Values of a module of StableHLO: their shapes, the numbers that stand in the file, and what
operations together only write out."""

import re
from typing import Any, NoReturn

from learned_mapping.doors.stablehlo_ops import (
    is_nan,
    is_splat,
    maker_of,
    number_in,
    place_of,
)
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.trace.names import OPERATIONS
from learned_mapping.programs.trace.primitive_costs import ELEMENT_WISE

TYPES = {
    "i1": "bool",
    "pred": "bool",
    "index": "int64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
STATUS = tuple(
    f"stablehlo.{name}" for name in ("broadcast_in_dim", "compare", "and", "reshape", "select")
)
"""What lies between a library's status and the selection by it."""


class Values:
    """What is known of the values of one module.

    Args:
      name: of the file, for errors.
      ir, dialect: the binding's modules.
    """

    functions: dict[str, Any]
    """The module's functions by name."""

    def __init__(self, name: str, ir: Any, dialect: Any):
        self.ir, self.dialect, self.name = ir, dialect, name
        self.place = ""
        self.numbers: dict[Any, float] = {}  # Scalars whose value stands in the file.
        self.skipped: dict[Any, int | None] = {}  # Operations done with others -> their value.

    def fail(self, fault: str) -> NoReturn:
        raise InputError(self.name, self.place, fault)

    def aval(self, value: Any) -> Any:
        """The abstract array of a value; what holds no data has no element type."""
        import jax
        import jax.numpy as jnp

        kind = value.type
        text = str(kind)
        if text.startswith("!stablehlo.token"):
            return object()
        if "!quant" in text:
            fault = "quantised types are not read, export the model before it is quantised"
            self.fail(f"{shown(text)}: {fault}")
        if text.startswith("tuple<"):
            self.fail(f"{shown(text)}: tuples are not read, export with flat arguments and results")
        if text.startswith("tensor<*"):
            self.fail(f"{shown(text)}: a shape without rank, export again with fixed shapes")
        if not text.startswith("tensor<"):
            self.fail(f"a value of type {shown(text)}, expected tensors")
        tensor = self.ir.RankedTensorType(kind)
        if not tensor.has_static_shape:
            self.fail(f"a dynamic shape, {shown(text)}: export it again with fixed shapes")
        element = TYPES.get(str(tensor.element_type), str(tensor.element_type))
        element = re.sub(r"^(u?)i(\d+)$", r"\1int\2", re.sub(r"^si(\d+)$", r"i\1", element))
        element = re.sub(r"^f(\d+)$", r"float\1", element.replace("bf16", "bfloat16"))
        element = re.sub(r"^f(\d)E(.*)$", lambda m: f"float{m[1]}_e{m[2].lower()}", element)
        try:
            return jax.ShapeDtypeStruct(tuple(tensor.shape), jnp.dtype(element))
        except (TypeError, ValueError):
            self.fail(f"element type {shown(element)} is not known")

    def number_of(self, value: Any) -> float | None:
        if value in self.numbers:
            return self.numbers[value]
        maker = maker_of(value)
        if getattr(maker, "name", "") == "stablehlo.broadcast_in_dim":
            return self.number_of(maker.operands[0])
        if getattr(maker, "name", "") == "stablehlo.constant" and is_splat(maker):
            return number_in(maker)
        return None

    def function(self, name: str) -> Any:
        function = self.functions.get(name)
        if function is None or not function.regions[0].blocks:
            self.fail(f"calls {shown(name)!r}, which has no body")
        return function

    def within(self, block: Any) -> list[Any]:
        """The operations of a block and of the functions that it calls."""
        found = []
        for op in block.operations:
            found.append(op)
            if op.operation.name == "func.call":
                callee = self.function(op.attributes["callee"].value)
                found += self.within(callee.regions[0].blocks[0])
        return found

    def is_implied(self, op: Any, kind: str) -> bool:
        """Whether a broadcast only brings an operand of element-wise operations to their shape:
        of one number, or along axes of length 1."""
        if kind != "broadcast_in_dim" or place_of(op) == "broadcast_in_dim":
            return False
        before, after = self.aval(op.operands[0]), self.aval(op.results[0])
        if before.shape and len(before.shape) != len(after.shape):
            return False
        users = [use.owner.operation for use in op.results[0].uses]
        kinds = {OPERATIONS.get(k, k) for k in (u.name.partition(".")[2] for u in users)}
        return bool(users) and kinds <= ELEMENT_WISE

    def is_row(self, op: Any, kind: str) -> bool:
        """Whether a reshape only drops the axis along which a loop takes one row a round."""
        if kind != "reshape":
            return False
        maker = maker_of(op.operands[0])
        if getattr(maker, "name", "") != "stablehlo.dynamic_slice":
            return False
        starts = [self.number_of(v) is not None for v in list(maker.operands)[1:]]
        return all(starts) and len(list(op.operands[0].uses)) == 1

    def is_whole(self, op: Any, kind: str) -> bool:
        """Whether a slice leaves nothing out, or padding adds nothing."""
        return kind in ("slice", "pad") and op.operands[0].type == op.results[0].type

    def is_status(self, op: Any) -> bool:
        """Whether a selection only puts NaN where a library says that it failed."""
        other = maker_of(op.operands[2])
        if getattr(other, "name", "") == "stablehlo.broadcast_in_dim":
            other = maker_of(other.operands[0])
        if getattr(other, "name", "") != "stablehlo.constant" or not is_nan(other):
            return False
        maker = maker_of(op.operands[0])
        while getattr(maker, "name", "") in STATUS:
            maker = maker_of(maker.operands[0])
        return getattr(maker, "name", "") == "stablehlo.custom_call"

    def is_fill(self, op: Any) -> bool:
        """Whether a selection only replaces what a gather read out of bounds."""
        taken = maker_of(op.operands[1])
        if getattr(taken, "name", "") != "stablehlo.gather" or len(list(op.operands[1].uses)) != 1:
            return False
        waiting, indices = [op.operands[0]], set()
        while waiting:
            value = waiting.pop()
            maker = maker_of(value)
            if value == taken.operands[1]:
                indices.add(value)
            elif getattr(maker, "name", "") in (*STATUS, "stablehlo.reduce"):
                waiting += maker.operands
            elif getattr(maker, "name", "") != "stablehlo.constant":
                return False
        return bool(indices)

    def written_out(self, op: Any, kind: str) -> tuple[str, Any]:
        """A primitive that JAX writes as others, of which this is the last, and its operand; None
        where it is no such one."""
        if kind == "divide":
            return "logistic", self.sigmoid_of(op)
        if kind == "convert" and op.operands[0].type == op.results[0].type:
            maker = maker_of(op.operands[0])
            if getattr(maker, "name", "") == "stablehlo.compare":
                differs = "NE" in str(maker.attributes["comparison_direction"])
                if differs and self.number_of(maker.operands[1]) == 0:
                    return "convert_element_type", maker.operands[0]
        if kind == "complex":
            real, negated = (maker_of(v) for v in op.operands)
            if getattr(negated, "name", "") == "stablehlo.negate":
                imaginary = maker_of(negated.operands[0])
                names = [getattr(m, "name", "") for m in (real, imaginary)]
                if names == ["stablehlo.real", "stablehlo.imag"]:
                    if real.operands[0] == imaginary.operands[0]:
                        return "conj", real.operands[0]
        return "", None

    def sigmoid_of(self, op: Any) -> Any:
        """x where the operation is 1 / (1 + exp(-x)) and nothing else uses its parts; or None."""
        if self.number_of(op.operands[0]) != 1:
            return None
        value = op.operands[1]
        for name, place in (("add", None), ("exponential", 0), ("negate", 0)):
            maker = maker_of(value)
            if getattr(maker, "name", "") != f"stablehlo.{name}" or len(list(value.uses)) != 1:
                return None
            sides = list(maker.operands)
            if place is None:
                ones = [self.number_of(side) == 1 for side in sides]
                if sum(ones) != 1:
                    return None
                place = ones.index(False)
            value = sides[place]
        return value
