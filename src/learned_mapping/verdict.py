"""The verdict of an independent validator on a solution: the costs, and every rule broken with its
culprits."""

import html
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from learned_mapping.errors import expect_whole, shown

LISTED = 20
"""Violations of one rule that are listed, and culprits of each, at most, unless all are asked
for."""


@dataclass(frozen=True)
class Violation:
    """One broken rule."""

    rule: str  # The rule, with its equation: ``Eq. 2 acyclic dataflow``.
    culprits: tuple[str, ...]  # Names of the buffers, ops, tensors or chips at fault.
    detail: str  # One line that says how the rule is broken, with the values.

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail} [{', '.join(shown(name) for name in self.culprits)}]"


class Violations:
    """Collects violations, a limited number of each rule."""

    def __init__(self, listed: int | None = LISTED):
        self.listed = None if listed is None else expect_whole(listed, "listed", "", 0, 2**63)
        self._violations: list[Violation] = []
        self._count: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._violations)

    def full(self, rule: str) -> bool:
        """Whether more violations of this rule would not be listed, so that nobody need look for
        them."""
        return self.listed is not None and self._count[rule] > self.listed

    def add(self, rule: str, culprits: Iterable[str], detail: str) -> None:
        self._count[rule] += 1
        if self.listed is None or self._count[rule] <= self.listed:
            names = tuple(culprits)
            rest = (
                ()
                if self.listed is None or len(names) <= self.listed
                else (f"and {len(names) - self.listed} more",)
            )
            self._violations.append(Violation(rule, names[: self.listed] + rest, detail))

    def all(self) -> tuple[Violation, ...]:
        """The listed violations, and for each rule with more of it a last one that says so."""
        cut = [
            rule
            for rule in self._count
            if self.listed is not None and self._count[rule] > self.listed
        ]
        return (
            *self._violations,
            *(Violation(rule, (), f"and more like these {self.listed}") for rule in cut),
        )


@dataclass(frozen=True)
class Verdict:
    """The judgement over one solution of one instance."""

    violations: tuple[Violation, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs by metric name, with the unit in the name (``makespan_s``, ``peak_bytes``); empty where
    undefined."""

    @property
    def valid(self) -> bool:
        return not self.violations

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid,
            "costs": dict(self.costs),
            "violations": [
                {"rule": v.rule, "culprits": list(v.culprits), "detail": v.detail}
                for v in self.violations
            ],
        }

    def _repr_html_(self) -> str:
        return f'<code style="white-space:pre-wrap">{html.escape(str(self))}</code>'

    def __str__(self) -> str:
        costs = ", ".join(f"{name} {value:.6g}" for name, value in self.costs.items())
        if self.valid:
            return f"valid: {costs}"
        return "\n".join(
            [f"invalid: {len(self.violations)} violation(s)", *(f"  {v}" for v in self.violations)]
        )
