"""What an independent validator says of a solution: the costs, and every rule broken with its culprits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Violation:
    """One broken rule."""

    rule: str
    """The rule, with its equation: ``Eq. 2 acyclic dataflow``."""
    culprits: tuple[str, ...]
    """Names of the buffers, ops, tensors or chips at fault."""
    detail: str
    """One line that says how the rule is broken, with the values."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail} [{', '.join(self.culprits)}]"


@dataclass(frozen=True)
class Verdict:
    """The judgement over one solution of one instance."""

    violations: tuple[Violation, ...] = ()
    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs by metric name, with the unit in the name (``makespan_s``, ``peak_bytes``); empty where undefined."""

    @property
    def valid(self) -> bool:
        return not self.violations

    def to_json(self) -> dict[str, Any]:
        return {
            "valid": self.valid,
            "costs": dict(self.costs),
            "violations": [{"rule": v.rule, "culprits": list(v.culprits), "detail": v.detail} for v in self.violations],
        }

    def __str__(self) -> str:
        costs = ", ".join(f"{name} {value:.6g}" for name, value in self.costs.items())
        if self.valid:
            return f"valid: {costs}"
        return "\n".join([f"invalid: {len(self.violations)} violation(s)", *(f"  {v}" for v in self.violations)])
