"""The wire format of protocol buffers, as far as a large ONNX model has to lose its weights before
anybody parses it."""

from collections.abc import Iterator, Mapping
from typing import Any

from learned_mapping.errors import InputError

MAX_FIELDS = 4_000_000
MAX_NESTED = 100  # Messages within one another.
SMALL = 8192  # Bytes of a tensor's numbers that stay: shapes and axes are so.
NUMBERS = (4, 5, 6, 7, 9, 10, 11)  # Fields of a TensorProto that hold its numbers.

_TENSOR: dict[int, Any] = dict.fromkeys(NUMBERS)
_GRAPH: dict[int, Any] = {}
_NODE = {5: {5: _TENSOR, 10: _TENSOR, 6: _GRAPH, 11: _GRAPH}}  # attribute: t, tensors, g, graphs
_GRAPH |= {1: _NODE, 5: _TENSOR}
ONNX_MODEL: Mapping[int, Any] = {7: _GRAPH, 25: {7: _NODE}}
"""Fields of a ModelProto that are entered: its graph and its functions; None marks numbers."""


def without_numbers(data: Any, source: object) -> bytes:
    """The bytes of an ONNX model whose large tensors have lost their numbers.

    Args:
      data: bytes, or what maps a file.

    Raises:
      InputError: a field ends after its message, or there are too many.
    """
    count = 0

    def fail(at: int, fault: str) -> Any:
        raise InputError(source, f"byte {at}", f"not ONNX: {fault}")

    def varint(at: int, end: int) -> tuple[int, int]:
        value = 0
        for place in range(10):
            if at + place >= end:
                break
            byte = data[at + place]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value, at + place + 1
        return fail(at, "a number has no end")

    def fields(at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Number, begin, begin of the content and end of each field."""
        nonlocal count
        while at < end:
            count += 1
            if count > MAX_FIELDS:
                fail(at, f"more than {MAX_FIELDS:,} fields")
            begin = at
            tag, at = varint(at, end)
            number, kind = tag >> 3, tag & 7
            inside = at
            if kind == 0:
                at = varint(at, end)[1]
            elif kind == 2:
                length, inside = varint(at, end)
                at = inside + length
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                fail(begin, f"a field of the unknown kind {kind}")
            if at > end or number == 0:
                fail(begin, "a field ends after its message")
            yield number, begin, inside if kind == 2 else -1, at

    def kept(at: int, end: int, entered: Mapping[int, Any], depth: int) -> Iterator[bytes]:
        if depth > MAX_NESTED:
            fail(at, f"messages more than {MAX_NESTED} within one another")
        for number, begin, inside, after in fields(at, end):
            if inside < 0 or number not in entered:
                yield data[begin:after]
            elif entered[number] is None:
                if after - inside <= SMALL:
                    yield data[begin:after]
            else:
                content = b"".join(kept(inside, after, entered[number], depth + 1))
                yield _varint(number << 3 | 2) + _varint(len(content)) + content

    return b"".join(kept(0, len(data), ONNX_MODEL, 0))


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
