"""The numbers of a learner's configuration, checked before anything is trained."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from learned_mapping.errors import InputError, is_whole

Ranges = Mapping[str, tuple[float, float]]
"""Field of a configuration -> the least and the largest value that it may have."""
LARGE = 2**31
COUNT, ONE_OR_MORE, NOT_NEGATIVE, POSITIVE, SHARE = (
    (0, LARGE),
    (1, LARGE),
    (0.0, LARGE),
    (1e-9, LARGE),
    (0.0, 1.0),
)


def check_settings(config: Any, ranges: Ranges, source: object = "config") -> None:
    """Checks the numbers of a dataclass, whole ones where the field's default is whole.

    Raises:
      InputError: a field is no number of its kind or outside its range.
    """
    for name, (low, high) in ranges.items():
        value, field = getattr(config, name), config.__dataclass_fields__[name]
        whole = field.type in (int, "int")
        good = is_whole(value) if whole else isinstance(value, Real) and not isinstance(value, bool)
        if not good or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            above = f"of at least {low:g}" if high >= LARGE else f"from {low:g} to {high:g}"
            raise InputError(source, name, f"must be {kind} {above}, got {value!r}")
