"""What paper 2's constraint repair may touch."""

import networkx

from test_arrows import arrows

ALLOWED = {
    "mcm.rules.constraints",
    "mcm.rules.cp_sat",
    "mcm.rules.pins",
    "hardware.chip_package",  # for the largest number of chips
}


def test_a_repair_knows_rules_and_graphs_alone():
    """Catches a repair that comes to rest on a method, a learner or an experiment."""
    house = networkx.DiGraph(arrows())
    repair = {name for name in house if name.startswith("mcm.repair.")}
    known = {name for item in repair for name in networkx.descendants(house, item)} - repair
    rooms = {name for name in known if name.startswith(("mcm.", "companion."))}
    assert {"mcm.repair.engine", "mcm.repair.kernel", "mcm.repair.solver"} <= repair
    assert rooms <= ALLOWED
    assert {
        other for item in repair for other in house[item] if other.startswith("hardware")
    } <= ALLOWED
