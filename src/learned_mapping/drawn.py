"""Programs and solutions draw themselves in a notebook: the module ``draw`` beside theirs is
imported when one does."""

import copy
import importlib
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from learned_mapping.errors import InputError


class Drawn:
    """A state with a picture, by ``picture`` of the module ``draw`` in its own folder."""

    _instance: tuple[Any, ...] | None = ()

    def _repr_html_(self) -> str | None:
        if self._instance is None:
            return None
        draw = importlib.import_module(f"{type(self).__module__.rpartition('.')[0]}.draw")
        from learned_mapping.style import svg_text

        try:
            return svg_text(draw.picture(*self._instance[:1], self, *self._instance[1:]))
        except InputError:  # what breaks the rules may have no picture
            return None


@dataclass(frozen=True, eq=False)
class DrawnOn(Drawn):
    """A solution, a dataclass of numbers and arrays, which has a picture once it is known what it
    solves; equal to one of its kind with the same content."""

    _instance = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    def on(self, *instance: Any) -> Self:
        """The same solution, which draws itself on its instance: a program, or a graph and then its
        hardware."""
        copied = copy.copy(self)
        object.__setattr__(copied, "_instance", instance)
        return copied
