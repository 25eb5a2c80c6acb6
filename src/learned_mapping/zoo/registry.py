"""The registry of the zoo: graphs and programs of its members by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import schedule
from learned_mapping.programs.trace.user_function import Example
from learned_mapping.zoo.members import BUILDERS
from learned_mapping.zoo.more_members import MORE_BUILDERS


@dataclass(frozen=True)
class Model:
    """One member of the zoo."""

    build: Callable[..., Example]
    """Makes the example; its keyword arguments, all with defaults, are the model's options."""
    source: str
    """The publication."""


ZOO: dict[str, Model] = {name: Model(build, source) for name, (build, source) in (BUILDERS | MORE_BUILDERS).items()}
"""Members by name."""


def example(name: str, **options: Any) -> Example:
    """A member's function and abstract arguments.

    Args:
      name: a key of `ZOO`.
      **options: keyword arguments of the member's builder, or of the model it builds.

    Raises:
      InputError: unknown member or option.
    """
    if name not in ZOO:
        raise InputError("zoo", "", f"no model is named {name!r}, known are {', '.join(ZOO)}")
    build = ZOO[name].build
    try:
        inspect.signature(build).bind(**options)
        return build(**options)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError("zoo", name, f"options {options} do not fit: {error}") from None


def graph(name: str, **options: Any) -> ComputationGraph:
    """The computation graph of a member, its parameters folded; raises `InputError` as `example`."""
    model = example(name, **options)
    return trace(model.function, *model.args, name=name, parameters=model.parameters)


def program(name: str, machine: Any, **options: Any) -> Program:
    """The scheduled program of a member on a machine (see `schedule`); raises `InputError` as `example`."""
    model = example(name, **options)
    return schedule(model.function, *model.args, machine=machine, name=name, donated=model.donated)
