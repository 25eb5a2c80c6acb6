"""Eq. 4 itself as a CP-SAT model: what the repair's general strength is held to."""

from __future__ import annotations

from learned_mapping.mcm.bounds.cp_sat import Rules
from learned_mapping.programs.graph import ComputationGraph


class GeneralRules(Rules):
    """No chip edge beside a longer path."""

    def __init__(self, graph: ComputationGraph, chips: int):
        super().__init__(graph, chips)
        edges = graph.op_edges.tolist()
        chips, new = self.chips, self.model.new_bool_var
        pairs = [(a, b) for a in range(chips) for b in range(a + 1, chips)]
        direct, longer = {p: new("") for p in pairs}, {p: new("") for p in pairs}
        for u, v in edges:
            for a, b in pairs:
                self.model.add_bool_or([~self.on[u][a], ~self.on[v][b], direct[a, b]])
        for a, b in pairs:
            for c in range(b + 1, chips):
                for rest in (direct[b, c], longer[b, c]):
                    self.model.add_bool_or([~direct[a, b], ~rest, longer[a, c]])
            self.model.add_bool_or([~direct[a, b], ~longer[a, b]])

    def _chain(self, u: int, v: int, chip: int) -> None:
        """Not under Eq. 4."""


def rules_of(graph: ComputationGraph, chips: int, strength: str) -> Rules:
    """The model of a strength, ``chain`` or ``general``."""
    return Rules(graph, chips) if strength == "chain" else GeneralRules(graph, chips)
