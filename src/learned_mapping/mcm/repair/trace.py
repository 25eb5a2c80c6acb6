"""Algorithm 2 (FIX) of paper 2, decision by decision, as the plain engine runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mcm.repair.solver import ConstraintSolver, fix_repair
from learned_mapping.programs.graph import ComputationGraph

KEPT, LEFT, DRAWN = "kept", "left", "drawn"
"""What happens to an op: its candidate chip is taken; that chip is not in its domain, so it waits; a chip is drawn."""


@dataclass(frozen=True)
class Step:
    """One call of ``set_domain``."""

    op: int
    decision: int
    """i of the algorithm, from 0: below N candidates are kept, from N on the rest is drawn."""
    kind: str
    """`KEPT`, `LEFT` or `DRAWN`."""
    chips: tuple[int, ...]
    """What its domain was restricted to; empty where it had none left."""
    before: tuple[tuple[int, ...], ...]
    """[N] domains, ascending, before the call."""
    after: tuple[tuple[int, ...], ...]
    """[N] domains after it."""
    undone: int
    """Decisions taken back, this one included; 0 where it stands."""
    blamed: tuple[int, tuple[int, ...]] | None
    """Where decisions are taken back: the op of the earliest of them, and the chips it can no longer have."""


class _TracingSolver(ConstraintSolver):
    """The plain engine, which notes what every call of ``set_domain`` does."""

    def __init__(self, graph: ComputationGraph, chips: int, strength: str, candidate: Sequence[int]):
        super().__init__(graph.num_ops, graph.op_edges, chips, strength)
        self.steps: list[Step] = []
        self._candidate, self._standing = candidate, []
        self._seen = self._all_domains()

    def _all_domains(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.get_domain(op)) for op in range(len(self._domains)))

    def set_domain(self, op: int, chips: Sequence[int]) -> int:
        before, decision, allowed = self._seen, len(self._standing), tuple(sorted(chips))
        kind = DRAWN if decision >= len(before) else KEPT if self._candidate[op] in before[op] else LEFT
        standing = super().set_domain(op, chips)
        self._standing.append((op, allowed))
        taken_back = self._standing[standing:]
        del self._standing[standing:]
        self._seen = self._all_domains()
        blamed = taken_back[0] if taken_back else None
        self.steps.append(Step(op, decision, kind, allowed, before, self._seen, len(taken_back), blamed))
        return standing


def fix_trace(
    graph: ComputationGraph,
    candidate: Sequence[int],
    chips: int,
    rng: np.random.Generator,
    *,
    order: Sequence[int] | None = None,
    strength: str = "chain",
) -> list[Step]:
    """Repairs a candidate by `engine.fix_repair` and tells how. The last step's domains are the partition.

    Args:
      graph: of N ops; small, for every domain is asked for after every step.
      candidate: [N] chips y.
      chips: C.
      rng: of the order and of the chips that are drawn.
      order: [N] the node order T; a random one where None.
      strength: ``chain`` or ``general``.

    Raises:
      InputError: the candidate or the order does not fit the graph.
    """
    if len(candidate) != graph.num_ops:
        raise InputError("candidate", "", f"{len(candidate)} chips for {graph.num_ops} ops")
    order = rng.permutation(graph.num_ops) if order is None else np.asarray(order)
    if sorted(order.tolist()) != list(range(graph.num_ops)):
        raise InputError("order", "", "is no order of the graph's ops")
    solver = _TracingSolver(graph, chips, strength, [int(chip) for chip in candidate])
    fix_repair(solver, order.tolist(), candidate, rng)
    return solver.steps
