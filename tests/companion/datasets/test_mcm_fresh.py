"""Paper 2's held-out graphs: family and size alone chose them, and nothing of the other sets is among them."""

from __future__ import annotations

from learned_mapping_builders.verify import verify_set

from learned_mapping.companion.datasets.registry import SETS, builder
from learned_mapping.companion.mcm import graphs
from learned_mapping.programs.formats import read_graph

fresh, headroom, topology = builder("mcm_fresh"), builder("mcm_headroom"), builder("topology")
ITEMS = graphs.manifest(graphs.FRESH).items


def stored(name: str):
    return read_graph(SETS[graphs.FRESH].path / graphs.manifest(graphs.FRESH).item(name).file)


def test_it_is_as_its_manifest_says():
    """Would catch a file changed, lost, or there without being listed."""
    assert verify_set(SETS[graphs.FRESH]).faults == ()
    assert len(ITEMS) == fresh.COUNT and {item.split for item in ITEMS} == {"test"}
    for item in ITEMS:
        assert topology.topology_digest(stored(item.name)) == item.facts["topology"]
        assert graphs.load_graph(item.name).num_ops == item.facts["ops_folded"]
        assert item.facts["proof"] == "ideals"


def test_nothing_is_shared_with_the_other_sets():
    """Would catch a graph that a policy was trained on, chosen by or tested on."""
    others = [*graphs.manifest().items, *graphs.manifest(graphs.HEADROOM).items]
    for of in (lambda item: item.name, lambda item: item.digest, lambda item: item.facts["topology"]):
        assert len({of(item) for item in ITEMS}) == fresh.COUNT
        assert not {of(item) for item in ITEMS} & {of(item) for item in others}
    traced = {item.facts["family"] for item in ITEMS if item.facts["kind"] == "traced"}
    assert not traced & {item.facts["family"] for item in others}


def test_generated_graphs_are_what_the_code_makes():
    """Would catch a stored graph that no longer follows from its seed, or a copy that another set may have."""
    for item in ITEMS:
        if item.facts["kind"] == "generated":
            _, ops, copy = item.name.rsplit("_", 2)
            assert int(copy) in fresh.COPIES and int(ops) in fresh.OPS
            assert headroom.generated(item.facts["family"], int(ops), int(copy)).digest == item.digest


def test_traced_graphs_are_the_largest_that_have_a_proven_optimum():
    """Would catch a size that was passed over for what a method makes of it."""
    for family in fresh.FAMILIES:
        taken = [item.name for item in ITEMS if item.facts["family"] == family]
        names = list(headroom.TRACED[family])
        assert taken == [name for name in names if name in taken] and len(taken) <= fresh.SIZES
        for name in names[: names.index(taken[-1])] if taken else names:
            if name not in taken and family in ("seq2seq", "alphatensor"):  # the others take long to look at
                assert not fresh.has_proven_optimum(headroom.TRACED[family][name]())
