"""What an operation of StableHLO says of itself and its neighbours, and which operations a writer
laid out at one place."""

import re
from typing import Any

from learned_mapping.doors.layouts import GIVEN, primitive_named
from learned_mapping.programs.trace.loops import SWAPPED
from learned_mapping.programs.trace.names import LAID_OUT


def laid_out(operations: list[Any]) -> dict[int, tuple[str, int]]:
    """First of the operations that lie together at one place which names a primitive of `LAID_OUT`
    -> the primitive, and the place after the last.

    Equal calls that follow each other have one place: they are told apart by the order of their
    operations, which repeats.
    """
    found: dict[int, tuple[str, int]] = {}
    begin = 0
    while begin < len(operations):
        kind = place_of(operations[begin])
        place, end = str(operations[begin].location), begin + 1
        while end < len(operations) and str(operations[end].location) == place:
            end += 1
        part = operations[begin:end]
        named = "eq" if kind in SWAPPED else kind
        itself = {primitive_named(op) for op in part if op.name not in GIVEN} == {named}
        if kind in LAID_OUT and not itself and sum(op.name not in GIVEN for op in part) > 1:
            names = [(op.name, str([r.type for r in op.results])) for op in part]
            size = next(
                n
                for n in range(1, len(names) + 1)
                if len(names) % n == 0 and names == names[:n] * (len(names) // n)
            )
            if size > 1:
                for first in range(begin, end, size):
                    found[first] = kind, first + size
        begin = end
    return found


def place_of(op: Any) -> str:
    """The last name of the place that an operation was written from; empty where it has none."""
    match = re.match(r'loc\("([^"]*)"[()]', str(op.location))
    return match[1].rpartition("/")[2].rstrip(":") if match else ""


def is_call_of(op: Any, name: str) -> bool:
    return op.name == "func.call" and op.attributes["callee"].value == name


def user_of(op: Any) -> Any:
    """The operation that alone uses a result; None where there are others, or none."""
    users = [use.owner.operation for use in op.results[0].uses]
    return users[0] if len(users) == 1 else None


def bordered(op: Any) -> Any:
    """What a slice leaves where it takes away the border which was put around what an operation
    scatters into; None where there is none."""
    if getattr(op, "name", "") != "stablehlo.select_and_scatter":
        return None
    inner, end = maker_of(op.operands[0]), user_of(op)
    if getattr(inner, "name", "") != "stablehlo.pad" or user_of(inner) is None:
        return None
    alike = getattr(end, "name", "") == "stablehlo.slice"
    return end.results[0] if alike and end.results[0].type == inner.operands[0].type else None


def maker_of(value: Any) -> Any:
    """The operation that makes a value; a block where it is an argument."""
    maker = value.owner
    return getattr(maker, "operation", maker)


def is_nan(op: Any) -> bool:
    """Whether a constant is NaN, however often."""
    try:
        return (
            re.search(r"dense<\(?(0x[7F]FC0|0x7FF8|nan)", str(op.attributes["value"])) is not None
        )
    except TypeError:  # of complex numbers
        return "dense<(0x7F" in op.get_asm(large_elements_limit=16, use_local_scope=True)


def number_in(op: Any) -> float | None:
    """The number of a constant that is one; None where it is no real one."""
    try:
        said = str(op.attributes["value"])
    except TypeError:  # of complex numbers
        said = op.get_asm(large_elements_limit=16, use_local_scope=True)
        said = re.sub(r"\(([^,]*),\s*0\.0*e\+00\)", r"\1", said)
    text = re.search(r"dense<(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false)>", said)
    return None if text is None else float({"true": 1, "false": 0}.get(text[1], text[1]))


def listed(text: str, name: str) -> list[int]:
    match = re.search(rf"{name} = \[([\d, ]*)\]", text)
    return [int(d) for d in match[1].split(",") if d.strip()] if match else []


def is_splat(op: Any) -> bool:
    """Whether a constant is one number, however often; of complex ones the binding gives nothing
    but their text."""
    try:
        return getattr(op.attributes["value"], "is_splat", False)
    except TypeError:
        return "dense<(" in op.get_asm(large_elements_limit=16, use_local_scope=True)
