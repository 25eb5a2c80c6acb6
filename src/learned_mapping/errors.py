"""The package's own exceptions. Each is raised where the fault enters and reads as one line."""

from numbers import Integral
from typing import Any

MAX_SHOWN = 1000
"""Characters of a message's part that are shown: names and paths come from strangers and may be endless."""


def shown(text: object, limit: int = 80) -> str:
    """Text as one printable line of about `limit` characters, the middle left out where it is longer."""
    text = str(text)
    if len(text) > limit:
        text = f"{text[: limit // 2]}...({len(text):,} characters)...{text[-limit // 4 :]}"
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


class LearnedMappingError(Exception):
    """Base of every exception this package raises on purpose."""


class InputError(LearnedMappingError):
    """A file, an argument or a value from outside is unusable.

    Args:
      source: the file's path, or the name of the argument.
      field: where in it, such as ``tensors[3].bytes``; empty when the whole is at fault.
      fault: what is wrong, with the offending value.
    """

    def __init__(self, source: object, field: str, fault: str):
        self.source = str(source)
        self.field = field
        self.fault = fault
        parts = [shown(part, MAX_SHOWN) for part in (self.source, field)] + [shown(fault, 2 * MAX_SHOWN)]
        super().__init__(": ".join(part for part in parts if part))


def expect_type(value: object, kind: type, source: str) -> None:
    """Raises `InputError` unless an argument, named `source`, is of this type."""
    if not isinstance(value, kind):
        raise InputError(source, "", f"expected a {kind.__name__}, got a {type(value).__name__}")


def is_whole(value: object) -> bool:
    """Whether a value is an integer of Python or NumPy, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def real(value: Any, source: object, field: str) -> float:
    """A number of Python, NumPy or JAX as a float; raises `InputError` for all else, such as text and truth values."""
    if isinstance(value, str | bytes | bool) or str(getattr(value, "dtype", "")) == "bool":
        raise InputError(source, field, f"expected a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(source, field, f"expected a number, got {value!r}") from None


class MissingNetworkError(InputError):
    """A method asks a trained network that is not there."""


class UnfinishedError(LearnedMappingError):
    """There is more to do than was done; what is done is kept, and the same call goes on with it."""
