"""Operations of a function and the values between them: the flat list that tracing makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from learned_mapping.errors import InputError, is_whole, told


class Value(NamedTuple):
    """A value that one operation makes and others use."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


class Operation(NamedTuple):
    """One primitive."""

    name: str  # Distinct; the scope it was traced in and the primitive.
    kind: str  # The primitive's name.
    flop: float
    inputs: tuple[int, ...]  # Values read, distinct; literals left out.
    read_bytes: tuple[int, ...]  # Bytes read of each input.
    outputs: tuple[int, ...]
    in_place: bool = False
    """Whether the first output may overwrite the first input, as in a scatter."""
    update_bytes: int = 0  # Bytes of the update, when it does.
    effect: bool = False
    """Whether it is seen outside (a callback, a message, a write into an outer reference): it
    stays, read or not."""


@dataclass(frozen=True)
class Dataflow:
    """Operations in an order in which they can run; values are named by their index in `values`."""

    name: str
    values: list[Value]
    operations: list[Operation]
    arguments: list[int]  # One value per leaf of the function's arguments.
    argument_leaves: list[list[int]]  # The leaves of each positional argument.
    constants: list[int]  # Arrays the function closes over.
    outputs: list[int | None]  # One value per leaf of the result, None for a literal.
    donations: tuple[tuple[tuple[int, ...], tuple[int | None, ...]], ...] = ()
    """The arguments that each outermost nested `jit` donates, and its results."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Primitives of unknown cost, and how many operations are of each."""
    rounds: int = 0  # The most rounds of a loop that may end earlier, all of which are laid out.

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that metadata of a graph or a program say beyond sizes: the primitives of
        unknown cost and the rounds of loops that may end earlier, if any."""
        facts: dict[str, Any] = {"unknown_ops": dict(self.unknown)} if self.unknown else {}
        return facts | ({"rounds_at_most": self.rounds} if self.rounds else {})

    def arguments_at(self, positions: int | Sequence[int], field: str) -> list[int]:
        """The leaves of the arguments at one position or several; raises `InputError` where there
        is no such one."""
        wanted = (
            positions
            if isinstance(positions, Sequence) and not isinstance(positions, str)
            else [positions]
        )
        for p in wanted:
            if not is_whole(p):
                raise InputError(
                    self.name,
                    field,
                    f"expected positions of arguments, whole numbers, got {told(p)}",
                )
            if not 0 <= p < len(self.argument_leaves):
                count = len(self.argument_leaves)
                fault = f"no argument has position {told(p)}: the function takes {count}"
                raise InputError(self.name, field, fault)
        return [leaf for p in sorted(set(wanted)) for leaf in self.argument_leaves[p]]
