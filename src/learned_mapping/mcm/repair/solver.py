"""The plain constraint solver of paper 2: `get_domain`, `set_domain`, backtracking; SAMPLE and FIX
on top, and FIX told decision by decision."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mcm.rules.constraints import check_chips, check_strength, obeys_triangle
from learned_mapping.programs.graph import ComputationGraph


class ConstraintSolver:
    """The plain engine: domains of N variables over C chips, with the interface of Section 4.2.

    A domain is an interval under the chain rule, a set under Eq. 4. `set_domain` propagates to a
    fixed point and undoes decisions that turn out impossible. Written for reading and for tests,
    not for speed.

    Args:
      fixed: [N] the chip an op has to have, -1 for any; None where all are free.
    """

    def __init__(
        self,
        num_ops: int,
        op_edges: np.ndarray,
        chips: int,
        strength: str = "chain",
        fixed: np.ndarray | None = None,
    ):
        check_chips(chips)
        self._strength = check_strength(strength)
        self._edges = [(int(u), int(v)) for u, v in op_edges]
        self._array = np.asarray(op_edges, np.int32).reshape(-1, 2)
        self._chips = chips
        chip_of = [-1] * num_ops if fixed is None else fixed.tolist()
        self._domains = [set(range(chips)) if chip < 0 else {chip} for chip in chip_of]
        self._trail: list[tuple[int, set[int], list[set[int]]]] = []
        targets = {v for _, v in self._edges}
        self._sources = [u for u in range(num_ops) if u not in targets]
        self._propagate(self._domains)

    def get_domain(self, op: int) -> list[int]:
        """Chips the op can still take, ascending."""
        return sorted(c for c in self._domains[op] if self._possible(op, c))

    def set_domain(self, op: int, chips: Collection[int]) -> int:
        """Restricts an op to `chips` and propagates; returns how many decisions now stand.

        Usually one more than before. Where the restriction is impossible it is removed from the
        op's domain instead, and decisions are undone until the rest is possible: then it returns
        fewer.
        """
        saved = [set(d) for d in self._domains]
        self._trail.append((op, set(chips), saved))
        self._domains[op] &= set(chips)
        while not all(self._domains) or not self._propagate(self._domains):
            if not self._trail:
                raise InputError("chips", "", "no partition exists")
            op, tried, saved = self._trail.pop()
            self._domains = [set(d) for d in saved]
            # Nothing tried: the op had no chip left, so the decision before is to blame.
            self._domains[op] = {c for c in saved[op] if c not in tried} if tried else set()
        return len(self._trail)

    def _possible(self, op: int, chip: int) -> bool:
        trial = [set(d) for d in self._domains]
        trial[op] = {chip}
        return self._propagate(trial)

    def _propagate(self, domains: list[set[int]]) -> bool:
        changed, most = True, 1 if self._strength == "chain" else self._chips
        while changed:
            changed = False
            for u, v in self._edges:
                for a, b, sign in ((u, v, 1), (v, u, -1)):
                    keep = {
                        c
                        for c in domains[b]
                        if any(0 <= sign * (c - other) <= most for other in domains[a])
                    }
                    if keep != domains[b]:
                        domains[b] &= keep
                        changed = True
                    if not keep:
                        return False
        if not any(0 in domains[s] for s in self._sources):
            return False  # Eq. 3: chip 0 runs something, and then a source
        fixed = [next(iter(d)) if len(d) == 1 else -1 for d in domains]
        if self._strength == "general" and len(self._array):
            decided = np.array([fixed[u] >= 0 and fixed[v] >= 0 for u, v in self._edges])
            if decided.any() and not obeys_triangle(np.array(fixed), self._array[decided]):
                return False
        if all(f >= 0 for f in fixed):
            used = set(fixed)
            return used == set(range(len(used)))
        return True


def sample_repair(
    solver: ConstraintSolver,
    order: Sequence[int] | np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
) -> list[int]:
    """Algorithm 1 as printed: [N] chips, each op in `order` drawn from its row of `weights` within
    its domain."""
    i = 0
    while i < len(order):
        domain = solver.get_domain(order[i])
        i = solver.set_domain(order[i], {_draw(domain, weights[order[i]], rng)} if domain else ())
    return [solver.get_domain(u)[0] for u in range(len(order))]


def fix_repair(
    solver: ConstraintSolver,
    order: Sequence[int] | np.ndarray,
    candidate: Sequence[int],
    rng: np.random.Generator,
) -> list[int]:
    """Algorithm 2 as printed: candidates are kept where their domain allows, the rest is filled in
    at random."""
    n, i = len(order), 0
    while i < 2 * n:
        op = order[i % n]
        domain = solver.get_domain(op)
        if i >= n:
            i = solver.set_domain(op, {_draw(domain, None, rng)} if domain else ())
        elif candidate[op] in domain:
            i = solver.set_domain(op, {int(candidate[op])})
        else:
            i = solver.set_domain(op, set(domain))
    return [solver.get_domain(u)[0] for u in range(n)]


def _draw(domain: Sequence[int], weights: np.ndarray | None, rng: np.random.Generator) -> int:
    """A chip of the domain by its weight, uniform where there is none; takes one random number
    unless it is alone."""
    if len(domain) == 1:
        return domain[0]
    r = rng.random()
    total = 0.0 if weights is None else float(sum(weights[c] for c in domain))
    if weights is None or total == 0.0:
        return domain[int(r * len(domain))]
    r *= total
    for chip in domain:
        r -= weights[chip]
        if r < 0:
            return chip
    return next(c for c in reversed(domain) if weights[c] > 0)


KEPT, LEFT, DRAWN = "kept", "left", "drawn"
"""The fates of an op: its candidate chip is taken; that chip is not in its domain, so it waits; a
chip is drawn."""


@dataclass(frozen=True)
class Step:
    """One call of ``set_domain``."""

    op: int
    # i of the algorithm, from 0: below N candidates are kept, from N on the rest is drawn.
    decision: int
    kind: str  # `KEPT`, `LEFT` or `DRAWN`.
    chips: tuple[int, ...]  # What its domain was restricted to; empty where it had none left.
    before: tuple[tuple[int, ...], ...]  # [N] domains, ascending, before the call.
    after: tuple[tuple[int, ...], ...]  # [N] domains after it.
    undone: int  # Decisions taken back, this one included; 0 where it stands.
    blamed: tuple[int, tuple[int, ...]] | None
    """The earliest op whose decision is taken back, and the chips it can no longer have."""


class _TracingSolver(ConstraintSolver):
    """The plain engine, which notes what every call of ``set_domain`` does."""

    def __init__(
        self, graph: ComputationGraph, chips: int, strength: str, candidate: Sequence[int]
    ):
        super().__init__(graph.num_ops, graph.op_edges, chips, strength, graph.op_chip)
        self.steps: list[Step] = []
        self._candidate = candidate
        self._standing: list[tuple[int, tuple[int, ...]]] = []
        self._seen = self._all_domains()

    def _all_domains(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.get_domain(op)) for op in range(len(self._domains)))

    def set_domain(self, op: int, chips: Collection[int]) -> int:
        before, decision, allowed = self._seen, len(self._standing), tuple(sorted(chips))
        kind = (
            DRAWN
            if decision >= len(before)
            else KEPT
            if self._candidate[op] in before[op]
            else LEFT
        )
        standing = super().set_domain(op, chips)
        self._standing.append((op, allowed))
        taken_back = self._standing[standing:]
        del self._standing[standing:]
        self._seen = self._all_domains()
        blamed = taken_back[0] if taken_back else None
        self.steps.append(
            Step(op, decision, kind, allowed, before, self._seen, len(taken_back), blamed)
        )
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
    """Repairs a candidate by `fix_repair` and tells how. The last step's domains are the partition.

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
    turns = rng.permutation(graph.num_ops) if order is None else np.asarray(order)
    if sorted(turns.tolist()) != list(range(graph.num_ops)):
        raise InputError("order", "", "is no order of the graph's ops")
    solver = _TracingSolver(graph, chips, strength, [int(chip) for chip in candidate])
    fix_repair(solver, turns.tolist(), candidate, rng)
    return solver.steps
