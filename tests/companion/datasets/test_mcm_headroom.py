"""Paper 2's second test set: the rule that chose its graphs holds, and nothing of the first set is in it."""

from __future__ import annotations

import pytest
from learned_mapping_builders.verify import verify_set

from learned_mapping.companion.datasets.registry import SETS, builder
from learned_mapping.companion.mcm import graphs
from learned_mapping.companion.mcm.learning_runs import model_run
from learned_mapping.programs.formats import read_graph

MEASURED = ("elman_3x3", "tagger_3", "vit_1", "layered_60_5", "series_parallel_40_0", "attention_120_5")
MADE = ("elman_3x3", "vit_1", "gru_2x3")

headroom, topology = builder("mcm_headroom"), builder("topology")
ITEMS = graphs.manifest(graphs.HEADROOM).items


def stored(name: str):
    return read_graph(SETS[graphs.HEADROOM].path / graphs.manifest(graphs.HEADROOM).item(name).file)


def test_it_is_as_its_manifest_says():
    """Would catch a file changed, lost, or there without being listed."""
    assert verify_set(SETS[graphs.HEADROOM]).faults == ()
    kinds = [item.facts["kind"] for item in ITEMS]
    assert kinds == ["traced"] * 8 + ["generated"] * 8 and {item.split for item in ITEMS} == {"test"}
    for item in ITEMS:
        graph = stored(item.name)
        assert topology.topology_digest(graph) == item.facts["topology"]
        assert graphs.load_graph(item.name).num_ops == item.facts["ops_folded"]
        assert graphs.chips(item.name) == item.facts["chips"] <= item.facts["longest_chain_chips"]


def test_every_graph_fulfils_the_rule():
    """Would catch a graph on which the careful greedy is, or nearly is, the optimum."""
    for item in ITEMS:
        found = item.facts
        assert found["proof"] == "ideals" and found["optimum_over_careful"] >= headroom.LEAST == 1.10
        assert 100 * (found["optimum_over_careful"] - 1) == pytest.approx(
            found["greedy_careful_above_percent"], abs=0.02
        )


@pytest.mark.parametrize("name", MEASURED)
def test_the_rule_measured_anew(name):
    """Would catch a ratio that no longer follows from graph, chips, optimum and greedy rule."""
    known = graphs.manifest(graphs.HEADROOM).item(name).facts["optimum_over_careful"]
    assert headroom.headroom(stored(name)) == pytest.approx(known, abs=1e-4)


def test_a_run_takes_a_graph_of_the_set_on_its_chips():
    """By the two rules, which the choice has looked at already: no search and no learner is run here."""
    rules = {rule: model_run(rule, "vit_1", {"samples": 1}, 0) for rule in ("greedy-careful", "optimum")}
    item = graphs.manifest(graphs.HEADROOM).item("vit_1")
    ratio = rules["optimum"]["throughput"] / rules["greedy-careful"]["throughput"]
    assert ratio == pytest.approx(item.facts["optimum_over_careful"], abs=1e-4)
    assert rules["optimum"]["valid"] and rules["optimum"]["chips"] == item.facts["chips"]


def test_nothing_is_shared_with_the_first_set():
    """Would catch a graph, a shape, a name or an architecture that a policy was trained on, chosen by or tested on."""
    first = graphs.manifest().items
    for of in (lambda item: item.name, lambda item: item.digest, lambda item: item.facts["topology"]):
        assert len({of(item) for item in ITEMS}) == 16 and not {of(item) for item in ITEMS} & {
            of(item) for item in first
        }
    assert not {item.facts["family"] for item in ITEMS} & {item.facts["family"] for item in first}
    folded = {topology.topology_digest(graphs.load_graph(item.name)) for item in ITEMS}
    assert len(folded) == 16
    assert not folded & {topology.topology_digest(graphs.load_graph(item.name)) for item in first}


def test_graphs_are_what_the_code_makes():
    """Would catch a stored graph that no longer follows from the code: all generated ones, some of the traced."""
    traced = {name: make for sizes in headroom.TRACED.values() for name, make in sizes.items()}
    for name in MADE:
        assert traced[name]().digest == graphs.manifest(graphs.HEADROOM).item(name).digest
    for item in ITEMS:
        if item.facts["kind"] == "generated":
            _, ops, copy = item.name.rsplit("_", 2)
            assert headroom.generated(item.facts["family"], int(ops), int(copy)).digest == item.digest


def test_candidates_are_taken_in_their_order():
    """Would catch a size passed over that fulfils the rule, where a larger one of the same architecture does not."""
    names = [item.name for item in ITEMS if item.facts["kind"] == "traced"]
    order = [name for sizes in headroom.TRACED.values() for name in sizes]
    assert [order.index(name) for name in names] == sorted(order.index(name) for name in names)
    assert list(headroom.TRACED) == sorted(headroom.TRACED)
    for name in ("vit_4", "vit_2", "elman_3x4", "gru_2x4"):
        (make,) = [sizes[name] for sizes in headroom.TRACED.values() if name in sizes]
        assert (headroom.headroom(make()) or 0) < headroom.LEAST
