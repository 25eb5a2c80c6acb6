"""What paper 2's constraint repair may touch."""

from __future__ import annotations

import pytest

from learned_mapping.companion.provenance import module_closure

REPAIR = {f"learned_mapping.mcm.repair.{name}" for name in ("engine", "kernel", "solver", "trace")}
ALLOWED = REPAIR | {
    "learned_mapping.mcm.rules.constraints",
    "learned_mapping.mcm.rules.structure",  # lists of a graph's edges
    "learned_mapping.errors",
    "learned_mapping.programs.graph",
    "learned_mapping.hardware.chip_package",  # for the largest number of chips
}


@pytest.mark.parametrize("module", sorted(REPAIR))
def test_a_repair_knows_rules_and_graphs_alone(module):
    """Catches a repair that comes to rest on a method, a learner or an experiment."""
    assert module_closure([module]) <= ALLOWED
