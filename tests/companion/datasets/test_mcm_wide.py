"""The wide graphs of paper 2 and those of the paper's own kinds: as their manifests say, and by
their rules."""

import math

import numpy as np
import pytest
from learned_mapping_builders import mcm_cnn_rnn, mcm_wide
from learned_mapping_builders.mcm_chips import chip_count, longest_chain
from learned_mapping_builders.topology import topology_digest
from learned_mapping_builders.verify import verify_set

from learned_mapping.mcm.bounds.optimum import MAX_IDEALS
from learned_mapping_companion.datasets.registry import SETS, stored_manifest
from learned_mapping_companion.mcm import graphs, learning

NAMES = (graphs.WIDE, graphs.CNN_RNN)


def sizes_of(name):
    """Family, width, length and copy of a wide graph."""
    family, size, copy = name.rsplit("_", 2)
    return family, *map(int, size.split("x")), int(copy)


@pytest.mark.parametrize("of", NAMES)
def test_it_is_as_its_manifest_says(of):
    """Would catch a file changed, lost, or there without being listed, and a shape twice or of
    another set."""
    assert verify_set(SETS[of]).faults == ()
    items = stored_manifest(of).items
    for item in items:
        assert graphs.load_graph(item.name).num_ops == item.facts["ops_folded"]
        assert graphs.chips(item.name) == item.facts["chips"] <= item.facts["longest_chain_chips"]
    shapes = [item.facts["topology"] for item in items]
    others = [
        item.facts["topology"]
        for name in graphs.SET_NAMES
        if name != of
        for item in stored_manifest(name).items
    ]
    assert len(set(shapes)) == len(shapes) and not set(shapes) & set(others)


def test_splits_of_the_wide_graphs():
    """Would catch a family that is tested and never trained on, or another number of graphs."""
    items = stored_manifest(graphs.WIDE).items
    for family in mcm_wide.FAMILIES:
        splits = [item.split for item in items if item.facts["family"] == family]
        assert [splits.count(split) for split in ("train", "validation", "test")] == [3, 1, 3]
    assert all(150 <= item.facts["ops"] <= 600 for item in items)


def test_wide_graphs_are_what_the_code_makes():
    """Would catch a stored graph that no longer follows from the code, and bounds out of order."""
    for item in stored_manifest(graphs.WIDE).items:
        graph = mcm_wide.generated(*sizes_of(item.name))
        assert graph.digest == item.digest and topology_digest(graph) == item.facts["topology"]
        folded = graphs.load_graph(item.name)
        assert longest_chain(folded) >= chip_count(folded) == mcm_wide.CHIPS
        seconds = [item.facts[name] for name in ("bound_s", "cut_bound_s", "chain_bound_s")]
        assert seconds == sorted(seconds)
        assert 0 <= item.facts["greedy_careful_above_percent"]


def ideals(family, width, length):
    """The number of ideals by products of matrices: how far each layer, column or tile is done
    says how far the next can be."""
    if family == "experts":  # of a layer whose router is done: each expert is three ops long
        return length * 4**width
    here, other = np.indices((length + 1, length + 1))
    if family == "columns":  # in a ring; the last stage done that reads the next column
        read = (here - 3) // 3 * 3 + 2
        free = (other >= read).astype(float)
        return np.trace(np.linalg.matrix_power(free, width))
    free = here >= other if family == "recurrence" else abs(here - other) <= 1
    return np.linalg.matrix_power(free.astype(float), width - 1).sum()


def test_wide_graphs_are_too_wide():
    """Would catch a set that the exact programme answers: ideals counted in another way."""
    assert ideals("recurrence", 8, 24) == math.comb(32, 8)
    for item in stored_manifest(graphs.WIDE).items:
        family, width, length, _ = sizes_of(item.name)
        assert ideals(family, width, length) > MAX_IDEALS
    narrow = mcm_wide.generated("tiles", 4, 40, 0)
    assert ideals("tiles", 4, 40) < 2000 and not mcm_wide.is_wide(narrow)


def test_half_of_the_papers_kinds_are_on_the_whole_package():
    """Would catch a set like the last one, of which no graph had more than 16 chips, and one whose
    architectures were seen before."""
    items = stored_manifest(graphs.CNN_RNN).items
    whole = [item for item in items if item.facts["chips"] == mcm_cnn_rnn.WHOLE]
    assert len(items) == 16 and len(whole) == 8
    assert all(item.split == "test" and item.facts["proof"] == "ideals" for item in items)
    families = {item.facts["family"] for item in items}
    before = (graphs.PLAIN, graphs.HEADROOM, graphs.FRESH)
    seen = {item.facts["family"] for of in before for item in stored_manifest(of).items}
    assert len(families) == 8 and not families & seen
    for kind in (mcm_cnn_rnn.CONVOLUTIONAL, mcm_cnn_rnn.RECURRENT):
        assert sum(item.facts["kind"] == kind for item in items) == 8


def test_graphs_of_the_papers_kinds_are_what_the_code_makes():
    """Would catch a stored graph that no longer follows from the code; one of each kind."""
    manifest = stored_manifest(graphs.CNN_RNN)
    for family in ("denoiser", "independent"):
        stored = [item for item in manifest.items if item.facts["family"] == family]
        for options in mcm_cnn_rnn.ARCHITECTURES[family][-1]:
            name = f"{family}_{'x'.join(map(str, options.values()))}"
            for item in stored:
                if item.name == name:
                    assert mcm_cnn_rnn.made(family, options).digest == item.digest


def test_the_table_of_the_papers_kinds_is_planned():
    """Would catch a plan that leaves a graph or the paper's own credit out, and a ``quick`` that
    opens the set."""
    runs = learning.CNN_RNN.runs("full", 5)
    assert {run.instance for run in runs} == set(graphs.names("test", graphs.CNN_RNN))
    assert {"rl", "rl-sample-credit", "random", "sa", "optimum"} <= {run.method for run in runs}
    quick = {run.instance for run in learning.CNN_RNN.runs("quick", 1)}
    assert not quick & set(graphs.names(of=graphs.CNN_RNN))
