"""Paper 2's 87 graphs and BERT: sizes, splits without a family or topology in common, chips,
facts."""

import itertools

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import optimum
from learned_mapping.mcm.rules.constraints import is_valid, obeys_chain_rule
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import file_sha256
from learned_mapping_companion.datasets.manifest import SPLITS
from learned_mapping_companion.datasets.registry import SETS, builder, stored_manifest
from learned_mapping_companion.mcm import graphs as mcm

REBUILT = ("lenet", "squeezenet", "gru_writer_1x6")
PRODUCTS = ("dot_general", "conv_general_dilated")

topology_digest = builder("topology").topology_digest
mcm_chips, mcm_facts, mcm_graphs, mcm_members = map(
    builder, ("mcm_chips", "mcm_facts", "mcm_graphs", "mcm_members")
)


def products_of_activations(graph: ComputationGraph) -> list[str]:
    """Products neither of whose operands is a parameter: attention has two a layer and head."""
    every = zip(graph.op_names, graph.op_kinds, graph.op_weight_bytes)
    return [name for name, kind, weights in every if kind in PRODUCTS and not weights]


def sources_of_parameters(graph: ComputationGraph) -> list[str]:
    """Ops that start from parameters alone: a parameter kept as an op. A product without producers
    is the first step of a recurrent network, whose state of zeros is folded into it."""
    fed, own = set(graph.op_edges[:, 1].tolist()), (*PRODUCTS, "input")
    return [
        graph.op_names[op]
        for op in range(graph.num_ops)
        if op not in fed and graph.op_kinds[op] not in own
    ]


@pytest.fixture(scope="module")
def stored():
    """Name -> graph as it stands in its file."""
    return {
        name: read_graph(SETS["mcm-graphs"].path / stored_manifest(mcm.PLAIN).item(name).file)
        for name in mcm.names()
    }


@pytest.fixture(scope="module")
def bert():
    return SETS["mcm-bert"].manifest()


def bert_graph() -> ComputationGraph:
    return read_graph(SETS["graphs"].path / f"{mcm_graphs.BERT}.json.gz")


def test_counts_are_the_papers():
    """Would catch a graph lost, moved to another split, or added to the table but not to the
    files."""
    manifest = stored_manifest(mcm.PLAIN)
    assert {split: len(manifest.split(split)) for split in SPLITS} == {
        "train": 66,
        "validation": 5,
        "test": 16,
    }
    assert {
        item.name: (item.split, item.facts["family"]) for item in manifest.items
    } == mcm_members.members()


def test_splits_share_no_family_and_no_two_graphs_a_topology():
    """Would catch a test graph of an architecture, or of a shape, that training has seen."""
    manifest = stored_manifest(mcm.PLAIN)
    families = [{item.facts["family"] for item in manifest.split(split)} for split in SPLITS]
    assert not any(a & b for a, b in itertools.combinations(families, 2))
    assert len({item.facts["topology"] for item in manifest.items}) == 87
    for split in SPLITS:
        assert {item.facts["kind"] for item in manifest.split(split)} == {
            "convolutional",
            "recurrent",
        }


def test_files_are_as_listed_and_distinct_after_folding_too(stored):
    """Would catch a file changed without its manifest, and folding that makes two graphs the
    same."""
    for item in stored_manifest(mcm.PLAIN).items:
        graph = stored[item.name]
        assert graph.name == item.name and graph.digest == item.digest
        assert file_sha256(SETS["mcm-graphs"].path / item.file) == item.sha256
        assert topology_digest(graph) == item.facts["topology"]
        assert (graph.num_ops, graph.num_edges) == (item.facts["ops"], item.facts["edges"])
        assert mcm.load_graph(item.name).num_ops == item.facts["ops_folded"]
    assert len({topology_digest(mcm.load_graph(name)) for name in stored}) == 87


def test_graphs_have_tens_to_hundreds_of_ops_no_attention_and_no_parameter_as_op(stored):
    """Would catch a network with attention, and a parameter, or what is made of it alone, that
    stands as an op."""
    for name, graph in stored.items():
        assert 20 <= graph.num_ops <= 800, name
        assert products_of_activations(graph) == [], name
        assert sources_of_parameters(graph) == [], name


def test_attention_is_told():
    """Would catch a test for attention that finds none anywhere: BERT has two products per
    layer."""
    assert len(products_of_activations(bert_graph())) == 48


def test_graphs_are_what_the_code_makes():
    """Would catch stored graphs that no longer follow from the code; three, since all would take
    half a minute."""
    for name in REBUILT:
        assert mcm_members.generate(name).digest == stored_manifest(mcm.PLAIN).item(name).digest


def test_facts_are_what_the_code_measures(stored):
    """Would catch facts that no longer follow from graph, chip model, folding, optimum and greedy
    rules."""
    for name in ("squeezenet", "gru_writer_1x6"):
        item = stored_manifest(mcm.PLAIN).item(name)
        measured = mcm_facts.facts(stored[name])
        assert measured == {key: item.facts[key] for key in measured}


def test_chips_obey_their_rule():
    """Would catch more chips than the chain rule or the largest op allow, and test graphs that need
    but a few."""
    for item in stored_manifest(mcm.PLAIN).items:
        count, actual = mcm.chips(item.name), item.facts
        assert count in mcm_chips.CHIP_COUNTS and count <= actual["longest_chain_chips"]
        assert count == min(mcm_chips.CHIP_COUNTS) or actual["largest_op_share"] * count <= 1.001
    test = [mcm.chips(name) for name in mcm.names("test")]
    assert sum(count >= 8 for count in test) >= 12 and len(set(test)) >= 4


def test_facts_do_not_contradict_each_other():
    """Would catch an optimum below its bound, and a greedy rule below the optimum."""
    for item in stored_manifest(mcm.PLAIN).items:
        actual = item.facts
        assert (
            actual["greedy_naive_above_percent"] >= 0
            and actual["greedy_careful_above_percent"] >= 0
        )
        assert actual["exact"] == (actual["optimum_s"] is not None)
        if actual["exact"]:
            assert actual["bound_s"] <= actual["optimum_s"] <= actual["one_chip_s"] * (1 + 1e-5)
            assert 1 <= actual["optimum_chips_used"] <= actual["chips"]
        assert actual["exact"], item.name


def test_bert_is_about_as_large_as_the_papers(bert):
    """Would catch a change of the model or of what counts as an op that moves BERT away from
    Section 5.1."""
    (item,) = bert.items
    assert item.facts["ops"] == pytest.approx(mcm_graphs.BERT_PAPER["ops"], rel=0.05)
    assert item.facts["parameters"] == pytest.approx(mcm_graphs.BERT_PAPER["parameters"], rel=0.05)
    assert item.facts["chips"] == 36 <= item.facts["longest_chain_chips"]
    assert item.digest == SETS["graphs"].manifest().item(item.name).digest


def test_berts_parameters_are_no_ops():
    """Would catch a parameter that became an input or a chain of its own: 1.3 GB of them must stay
    on their users."""
    graph = bert_graph()
    inputs = [op for op, kind in enumerate(graph.op_kinds) if kind == "input"]
    assert len(inputs) <= 3 and graph.op_output_bytes[inputs].sum() < 1e5
    assert sources_of_parameters(graph) == []


def test_names_cover_the_set():
    """Would catch a split left out of a table or counted twice."""
    assert (
        sum((mcm.names(split) for split in SPLITS), ())
        == mcm.names()
        == tuple(mcm_members.members())
    )


def test_unknown_graphs_are_refused():
    for ask in (mcm.load_graph, mcm.chips, mcm_members.generate):
        with pytest.raises(InputError, match="no-such-graph"):
            ask("no-such-graph")


def toy_graph(
    num_ops: int, edges: list[tuple[int, int]], tensor_bytes: int = 32_000_000
) -> ComputationGraph:
    """Ops of a millisecond each, on the default package; a tensor takes so long over a link, by
    default as well."""
    return hand_graph(
        num_ops, edges, op_seconds=[1e-3] * num_ops, tensor_bytes=[tensor_bytes] * num_ops
    )


def chain(num_ops: int, tensor_bytes: int) -> ComputationGraph:
    return toy_graph(num_ops, chain_edges(num_ops), tensor_bytes)


def test_longest_chain_against_all_assignments():
    """Would catch a longest chain that misses a shortcut, or counts chips a graph in several parts
    cannot join."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        edges = [(u, v) for u in range(5) for v in range(u + 1, 5) if rng.random() < 0.4]
        graph = toy_graph(5, edges)
        valid = [
            max(a) + 1
            for a in itertools.product(range(5), repeat=5)
            if obeys_chain_rule(np.array(a), graph.op_edges)
            and is_valid(np.array(a), graph.op_edges)
        ]
        within_one_part = mcm_chips.longest_chain(graph)
        assert within_one_part <= max(valid)
        if len(_parts(5, edges)) == 1:
            assert within_one_part == max(valid)


def _parts(num_ops: int, edges: list[tuple[int, int]]) -> set[int]:
    """Connected parts, each by its smallest op."""
    part = list(range(num_ops))
    for _ in range(num_ops):
        for u, v in edges:
            part[u] = part[v] = min(part[u], part[v])
    return set(part)


def test_linear_split_of_a_chain_by_hand_and_against_the_optimum():
    """Would catch a transfer charged once instead of at both ends, or at the ends of the graph.

    Six ops of 1 ms, tensors of 0.25 ms: two chips take 3 + 0.25, three take 0.25 + 2 + 0.25 in the
    middle, and six 0.25 + 1 + 0.25. On a chain every partition is a linear split, so the exact
    optimum is the same number.
    """
    graph = chain(6, 8_000_000)
    split = mcm_chips.linear_split(graph, 6)
    assert split[[0, 1, 2, 5]] * 1e3 == pytest.approx([6.0, 3.25, 2.5, 1.5])
    for chips in (1, 2, 3, 4, 6):
        model = ChipModel(graph, ChipPackage(chips=chips))
        assert model.runtime(optimum(model)) == pytest.approx(split[chips - 1])


def test_chips_follow_the_graph():
    """Would catch a chip that nothing runs on, one that gains nothing, and one beyond a short cut
    of the chain.

    With transfers of 10 ms, 72 ops of 1 ms over c chips take (72 + 20 (c - 1)) / c ms, rounded up
    to whole ops: 27 over 8 chips, 25 over 12, 24 over 16, 23 over 24, 22 over 36. The first of
    these steps is the last worth 5%.
    """
    assert mcm_chips.chip_count(chain(72, 0)) == 36
    # over 12 as over 16 chips some chip has two ops
    assert mcm_chips.chip_count(chain(18, 0)) == 12
    assert mcm_chips.chip_count(chain(72, 320_000_000)) == 12
    tied = toy_graph(9, [*chain_edges(9), (0, 8)], 0)
    assert mcm_chips.longest_chain(tied) == 2 and mcm_chips.chip_count(tied) == 4
