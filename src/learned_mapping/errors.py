"""The package's own exceptions. Each is raised where the fault enters and reads as one line."""

import sys
from collections.abc import Iterable, Mapping, Set
from difflib import get_close_matches
from numbers import Integral
from typing import Any, TypeGuard

MAX_SHOWN = 1000
"""Characters of a message's part that are shown: names and paths come from strangers and may be
endless."""


def shown(text: object, limit: int = 80) -> str:
    """Text as one printable line of about `limit` characters, the middle left out where it is
    longer."""
    text = _written(text)
    if len(text) > limit:
        text = f"{text[: limit // 2]}...({len(text):,} characters)...{text[-limit // 4 :]}"
    return "".join(c if c.isprintable() else " " if c.isspace() else ascii(c)[1:-1] for c in text)


def _written(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"a {type(value).__name__} that cannot be written out"


def told(value: object) -> str:
    """Any value as a few words of one line; what cannot say itself, such as an integer of too many
    digits, by its type."""
    try:
        return shown(repr(value))
    except Exception:
        return f"a {type(value).__name__} that cannot be written out"


def alternative(word: object, known: Iterable[str]) -> str:
    """The known word that one may have meant, as ``; did you mean X?``; empty for none."""
    near = get_close_matches(shown(_written(word)), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


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
        self.source = _written(source)
        self.field = field
        self.fault = fault
        parts = [shown(part, MAX_SHOWN) for part in (self.source, field)] + [
            shown(fault, 2 * MAX_SHOWN)
        ]
        super().__init__(": ".join(part for part in parts if part))


def expect_type(value: object, kind: type, source: str) -> None:
    """Raises `InputError` unless an argument, named `source`, is of this type."""
    if not isinstance(value, kind):
        raise InputError(source, "", f"expected a {kind.__name__}, got a {type(value).__name__}")


def expect_sequence(value: Any, source: object, field: str) -> None:
    """Raises `InputError` unless a value has a length and an order, as a list, a tuple, an array or
    text has."""
    try:
        if isinstance(value, Mapping | Set):
            raise TypeError
        iter(value), len(value)
    except Exception:  # of another's object
        raise InputError(
            source, field, f"expected a sequence, got a {type(value).__name__}"
        ) from None


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy, and no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def expect_whole(value: Any, source: object, field: str, low: int, high: int) -> int:
    """An integer of Python or NumPy in [low, high] as Python's; raises `InputError` for all
    else."""
    if not is_whole(value) or not low <= int(value) <= high:
        raise InputError(
            source, field, f"expected a whole number in [{low}, {high}], got {told(value)}"
        )
    return int(value)


def expect_choice(value: object, options: Iterable[str], source: object, field: str = "") -> None:
    """Raises `InputError` unless a value is one of these words."""
    if not isinstance(value, str) or value not in options:
        raise InputError(source, field, f"{told(value)} is none of {', '.join(options)}")


def truth(value: Any, source: object, field: str = "") -> bool:
    """Whether a value counts as true; raises `InputError` where that cannot be said, as of an
    array."""
    try:
        return bool(value)
    except Exception:
        raise InputError(source, field, f"expected true or false, got {told(value)}") from None


def real(value: Any, source: object, field: str) -> float:
    """A number of Python, NumPy or JAX as a float, a traced one as it is; raises `InputError` for
    all else, such as text, truth values, what a mask hides and integers beyond a float."""
    if is_traced(value):
        return value
    try:
        is_truth = isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"
        if is_truth or isinstance(value, str | bytes) or hasattr(value, "mask"):
            raise TypeError
        return float(value)
    except Exception:
        raise InputError(source, field, f"expected a number, got {told(value)}") from None


def is_traced(value: object) -> bool:
    """Whether a value is one that JAX computes with before it has a number."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


class MissingNetworkError(InputError):
    """A method asks a trained network that is not there."""


class UnfinishedError(LearnedMappingError):
    """There is more to do than was done; what is done is kept, and the same call goes on with
    it."""
