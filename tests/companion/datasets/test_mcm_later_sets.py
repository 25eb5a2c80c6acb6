"""Paper 2's second test set and its held-out graphs: the rules that chose them hold, and no set
shares a graph."""

import pytest
from learned_mapping_builders import mcm_fresh as fresh
from learned_mapping_builders import mcm_headroom as headroom
from learned_mapping_builders import topology
from learned_mapping_builders.verify import verify_set

from learned_mapping.programs.formats import read_graph
from learned_mapping_companion.datasets.registry import SETS, stored_manifest
from learned_mapping_companion.mcm import graphs
from learned_mapping_companion.mcm.learning_runs import model_run

MEASURED = (
    "elman_3x3",
    "tagger_3",
    "vit_1",
    "layered_60_5",
    "series_parallel_40_0",
    "attention_120_5",
)
MADE = ("elman_3x3", "vit_1", "gru_2x3")
BEFORE = {graphs.HEADROOM: [graphs.PLAIN], graphs.FRESH: [graphs.PLAIN, graphs.HEADROOM]}
"""Set -> the sets that were there before it."""


def items_of(name: str):
    return stored_manifest(name).items


def stored(of: str, name: str):
    return read_graph(SETS[of].path / stored_manifest(of).item(name).file)


@pytest.mark.parametrize("of", BEFORE)
def test_it_is_as_its_manifest_says(of):
    """Would catch a file changed, lost, or there without being listed."""
    assert verify_set(SETS[of]).faults == ()
    assert {item.split for item in items_of(of)} == {"test"}
    for item in items_of(of):
        assert topology.topology_digest(stored(of, item.name)) == item.facts["topology"]
        assert graphs.load_graph(item.name).num_ops == item.facts["ops_folded"]
        assert graphs.chips(item.name) == item.facts["chips"] <= item.facts["longest_chain_chips"]
        assert item.facts["proof"] == "ideals"
    kinds = [item.facts["kind"] for item in items_of(graphs.HEADROOM)]
    assert (
        kinds == ["traced"] * 8 + ["generated"] * 8 and len(items_of(graphs.FRESH)) == fresh.COUNT
    )


@pytest.mark.parametrize("of", BEFORE)
def test_nothing_is_shared_with_the_sets_before(of):
    """Would catch a graph, a shape, a name or an architecture that a policy was trained on, chosen
    by or tested on."""
    items, others = items_of(of), [item for name in BEFORE[of] for item in items_of(name)]
    shapes = {
        item.name: topology.topology_digest(graphs.load_graph(item.name))
        for item in (*items, *others)
    }
    for what in (
        lambda item: item.name,
        lambda item: item.digest,
        lambda item: item.facts["topology"],
        lambda item: shapes[item.name],
    ):
        assert len({what(item) for item in items}) == len(items)
        assert not {what(item) for item in items} & {what(item) for item in others}
    chosen = [item for item in items if of == graphs.HEADROOM or item.facts["kind"] == "traced"]
    assert not {item.facts["family"] for item in chosen} & {item.facts["family"] for item in others}


@pytest.mark.parametrize("of", BEFORE)
def test_graphs_are_what_the_code_makes(of):
    """Would catch a stored graph that no longer follows from the code: all generated ones, some of
    the traced."""
    traced = {name: make for sizes in headroom.TRACED.values() for name, make in sizes.items()}
    for name in MADE if of == graphs.HEADROOM else ():
        assert traced[name]().digest == stored_manifest(of).item(name).digest
    for item in items_of(of):
        if item.facts["kind"] == "generated":
            _, ops, copy = item.name.rsplit("_", 2)
            assert of == graphs.HEADROOM or (int(copy) in fresh.COPIES and int(ops) in fresh.OPS)
            assert (
                headroom.generated(item.facts["family"], int(ops), int(copy)).digest == item.digest
            )


def test_every_graph_fulfils_the_rule():
    """Would catch a graph on which the careful greedy is, or nearly is, the optimum."""
    for item in items_of(graphs.HEADROOM):
        actual = item.facts
        assert (
            actual["proof"] == "ideals" and actual["optimum_over_careful"] >= headroom.LEAST == 1.10
        )
        assert 100 * (actual["optimum_over_careful"] - 1) == pytest.approx(
            actual["greedy_careful_above_percent"], abs=0.02
        )


@pytest.mark.parametrize("name", MEASURED)
def test_the_rule_measured_anew(name):
    """Would catch a ratio that no longer follows from graph, chips, optimum and greedy rule."""
    known = stored_manifest(graphs.HEADROOM).item(name).facts["optimum_over_careful"]
    assert headroom.headroom(stored(graphs.HEADROOM, name)) == pytest.approx(known, abs=1e-4)


def test_a_run_takes_a_graph_of_the_set_on_its_chips():
    """By the two rules, which the choice has looked at already: no search and no learner is run
    here."""
    rules = {
        rule: model_run(rule, "vit_1", {"samples": 1}, 0) for rule in ("greedy-careful", "optimum")
    }
    item = stored_manifest(graphs.HEADROOM).item("vit_1")
    ratio = rules["optimum"]["throughput"] / rules["greedy-careful"]["throughput"]
    assert ratio == pytest.approx(item.facts["optimum_over_careful"], abs=1e-4)
    assert rules["optimum"]["valid"] and rules["optimum"]["chips"] == item.facts["chips"]


def test_candidates_are_taken_in_their_order():
    """Would catch a size passed over that fulfils the rule, where a larger one of the same
    architecture does not."""
    names = [item.name for item in items_of(graphs.HEADROOM) if item.facts["kind"] == "traced"]
    order = [name for sizes in headroom.TRACED.values() for name in sizes]
    assert [order.index(name) for name in names] == sorted(order.index(name) for name in names)
    assert list(headroom.TRACED) == sorted(headroom.TRACED)
    for name in ("vit_4", "vit_2", "elman_3x4", "gru_2x4"):
        (make,) = [sizes[name] for sizes in headroom.TRACED.values() if name in sizes]
        assert (headroom.headroom(make()) or 0) < headroom.LEAST


def test_traced_graphs_are_the_largest_that_have_a_proven_optimum():
    """Would catch a size that was passed over for what a method makes of it."""
    for family in fresh.FAMILIES:
        taken = [item.name for item in items_of(graphs.FRESH) if item.facts["family"] == family]
        names = list(headroom.TRACED[family])
        assert taken == [name for name in names if name in taken] and len(taken) <= fresh.SIZES
        for name in names[: names.index(taken[-1])] if taken else names:
            # the others take long to look at
            if name not in taken and family in ("seq2seq", "alphatensor"):
                assert not fresh.has_proven_optimum(headroom.TRACED[family][name]())
