"""Paper 3's sets: what is stored is what the generators make, nothing is there twice, the splits
share nothing."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
from learned_mapping_builders import regal_synthetic, regal_traced
from learned_mapping_builders import regal_synthetic_graphs as stored_synthetic
from learned_mapping_builders import regal_traced_graphs as stored_traced
from learned_mapping_builders.topology import topology_digest

from by_hand import hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices, op_seconds
from learned_mapping.programs.formats import read_graph
from learned_mapping_companion.datasets.manifest import SPLITS
from learned_mapping_companion.datasets.registry import SETS

CONFIGURATIONS, SPLIT_OF_FAMILY = regal_traced.CONFIGURATIONS, regal_traced.SPLIT_OF_FAMILY


@pytest.fixture(scope="module")
def synthetic():
    return SETS["regal-synthetic"].manifest()


@pytest.fixture(scope="module")
def traced():
    return SETS["regal-traced"].manifest()


def graph_of(edges, ops):
    """A graph whose op i produces tensor i."""
    return hand_graph(ops, edges, op_flop=np.ones(ops), tensor_bytes=np.arange(ops) + 8)


DIAMOND = ((0, 1), (0, 2), (1, 3), (2, 3))


@pytest.mark.parametrize("seed", range(5))
def test_topology_does_not_depend_on_numbering(seed):
    """Catches a digest that looks at the order of ops, under which one graph could enter a set
    twice."""
    graph = stored_synthetic.candidate(seed)
    place = np.random.default_rng(seed).permutation(graph.num_ops)
    edges = [(int(place[a]), int(place[b])) for a, b in graph.op_edges]
    assert topology_digest(graph_of(edges, graph.num_ops)) == topology_digest(graph)


def test_topology_sees_direction_edges_and_ops():
    """Catches a digest that loses the direction of an edge, an edge, or an op without edges."""
    fork = ((0, 1), (0, 2), (0, 3))
    join = ((0, 3), (1, 3), (2, 3))
    chain = ((0, 1), (1, 2), (2, 3))
    graphs = [graph_of(edges, 4) for edges in (DIAMOND, (*DIAMOND, (0, 3)), fork, join, chain)] + [
        graph_of(DIAMOND, 5)
    ]
    assert len({topology_digest(graph) for graph in graphs}) == len(graphs)


def test_synthetic_counts_and_splits(synthetic):
    """Catches a missing or repeated graph, and stored seeds that do not belong to the manifest."""
    assert {split: len(synthetic.split(split)) for split in SPLITS} == regal_synthetic.COUNTS
    assert len({item.digest for item in synthetic.items}) == len(synthetic.items) == 12_000
    seeds = [row.seed for split in SPLITS for row in stored_synthetic.accepted(split)]
    assert seeds == sorted(set(seeds))
    for split in SPLITS:
        for item, row in zip(synthetic.split(split), stored_synthetic.accepted(split), strict=True):
            assert item.digest.startswith(row.digest) and item.facts["ops"] == row.ops
            assert item.facts["family"] == row.family


def test_synthetic_graphs_are_made_anew(synthetic):
    """Catches a change of the generator: twenty graphs of all splits have the digests of those that
    were filtered."""
    rng = np.random.default_rng(0)
    chosen = [("train", i) for i in rng.integers(10_000, size=12)]
    chosen += [(split, i) for split in ("validation", "test") for i in rng.integers(1_000, size=4)]
    for split, index in chosen:
        graph = stored_synthetic.generate(split, int(index))
        item = synthetic.item(graph.name)
        assert (graph.digest, graph.num_ops, graph.num_edges) == (
            item.digest,
            item.facts["ops"],
            item.facts["edges"],
        )
        assert not graph.op_weight_bytes.any()


def test_synthetic_test_files_are_the_generated_graphs(synthetic):
    """Catches files that fell behind the generator."""
    for index in range(0, 1000, 111):
        item = synthetic.split("test")[index]
        stored = read_graph(SETS["regal-synthetic"].path / item.file)
        assert stored.digest == stored_synthetic.generate("test", index).digest == item.digest


def test_synthetic_topologies_are_distinct():
    """Catches a filter that lets a shape pass twice: the smallest graphs, where that is likeliest,
    over all splits."""
    rows = [
        (row.ops, split, i)
        for split in SPLITS
        for i, row in enumerate(stored_synthetic.accepted(split))
    ]
    actual = [
        topology_digest(stored_synthetic.generate(split, i)) for _, split, i in sorted(rows)[:1000]
    ]
    assert len(set(actual)) == len(actual)


def test_verdicts_of_stored_graphs():
    """Catches a filter, a search or a memory limit that changed: verdicts of accepted graphs, both
    conditions."""
    rows = sorted(stored_synthetic.accepted("validation"), key=lambda row: row.ops)
    fits = [row for row in rows if row.condition == stored_synthetic.FITS]
    faster = [row for row in rows if row.condition == stored_synthetic.FASTER]
    for row in (fits[0], faster[0], faster[5]):
        room = regal_synthetic.room(
            stored_synthetic.candidate(row.seed), regal_synthetic.search_rng(row.seed)
        )
        assert room.verdict == row.condition
        assert room.high < regal_synthetic.INFEASIBLE
        few_fail = row.condition == stored_synthetic.FITS
        assert room.low >= regal_synthetic.INFEASIBLE if few_fail else room.high <= 0.8 * room.low


def test_short_search_is_the_beginning_of_the_long_one(monkeypatch):
    """Catches a short search that is not what BRKGA finds with that many evaluations alone."""
    graph, seed = stored_synthetic.candidate(3), 11
    room = regal_synthetic.room(graph, np.random.default_rng(seed))
    monkeypatch.setattr(regal_synthetic, "HIGH_EVALUATIONS", regal_synthetic.LOW_EVALUATIONS)
    assert regal_synthetic.room(graph, np.random.default_rng(seed)).high == room.low


def test_memory_limit_by_hand():
    """Catches another limit, on a chain and on a chain whose first tensor is read again by the last
    op."""
    chain = dataclasses.replace(
        graph_of(((0, 1), (1, 2), (2, 3)), 4), tensor_bytes=np.array([10, 30, 20, 40])
    )
    # The last op needs 20 + 40, and a chain never holds more than an op.
    assert regal_synthetic.memory_limit(chain) == 60
    again = ((0, 1), (1, 2), (0, 3), (2, 3))
    graph = dataclasses.replace(graph_of(again, 4), tensor_bytes=np.array([10, 30, 20, 10]))
    # The third op needs 30 + 20; meanwhile one device holds the first tensor too.
    assert regal_synthetic.memory_limit(graph) == 50 + int(regal_synthetic.MEMORY_SHARE * (60 - 50))


def test_same_topology_is_refused():
    """Catches a set that takes a shape it has."""
    topology = topology_digest(stored_synthetic.candidate(7))
    assert regal_synthetic._judged(7, {topology}).outcome == regal_synthetic.SAME_TOPOLOGY


def test_filter_goes_on_where_it_stopped(monkeypatch, tmp_path):
    """Catches a resumed build that judges again, skips, or trips over a line cut short."""
    calls = []

    def cheap(graph, rng):
        calls.append(graph.name)
        return regal_synthetic.Room(
            stored_synthetic.FITS if graph.num_ops % 2 else regal_synthetic.NO_ROOM, 0.0, 0.0
        )

    monkeypatch.setattr(regal_synthetic, "room", cheap)
    journal = tmp_path / "journal.jsonl"
    whole = list(regal_synthetic.outcomes(8, journal))
    text = journal.read_bytes()
    journal.write_bytes(text[: len(text) // 2])
    half = text[: len(text) // 2].count(b"\n")
    calls.clear()
    assert list(regal_synthetic.outcomes(8, journal)) == whole
    assert journal.read_bytes() == text and len(calls) <= len(whole) - half

    counts = {"train": 5, "validation": 1, "test": 2}
    manifest = regal_synthetic.write(tmp_path / "set", whole, counts)
    assert Counter(item.split for item in manifest.items) == counts
    assert manifest.facts["candidates_by_family"]["all"]["candidates"] == len(whole)
    assert sorted(path.name for path in (tmp_path / "set" / "test").iterdir()) == [
        "0000.json.gz",
        "0001.json.gz",
    ]


def test_damaged_seeds(monkeypatch, tmp_path):
    """Catches stored seeds that are believed without a look, and a graph other than the one that
    passed."""
    monkeypatch.setenv("LEARNED_MAPPING_DATA", str(tmp_path))
    file = SETS["regal-synthetic"].path / stored_synthetic.ACCEPTED
    file.parent.mkdir(parents=True)
    good = [5, "attention", 21, "fits", "0" * 16]
    value = {
        "schema": "learned-mapping/accepted/1",
        "columns": list(stored_synthetic.Accepted._fields),
    }
    for row, fault in (
        (good, "another generator"),
        (["5", *good[1:]], "integer"),
        (good[:4], "4 entries"),
    ):
        stored_synthetic.read_accepted.cache_clear()
        regal_synthetic.write_json(file, value | {"train": [row], "validation": [], "test": []})
        with pytest.raises(InputError, match=fault):
            stored_synthetic.generate("train", 0)
    stored_synthetic.read_accepted.cache_clear()


@pytest.mark.parametrize("arguments", [("train", 10_000), ("train", -1), ("training", 0)])
def test_no_such_synthetic_graph(arguments):
    """Catches an index that wraps around, a split that is guessed."""
    with pytest.raises(InputError):
        stored_synthetic.generate(*arguments)


def test_traced_counts_and_splits(traced):
    """Catches too few graphs, a table and files that differ, a topology or a family on two sides of
    the split."""
    assert len(traced.items) >= 372
    assert [item.name for item in traced.items] == [
        name for split in SPLITS for name in stored_traced.names(split)
    ]
    assert len({item.facts["topology"] for item in traced.items}) == len(traced.items)
    families = {split: {item.facts["family"] for item in traced.split(split)} for split in SPLITS}
    assert set.union(*families.values()) == set(SPLIT_OF_FAMILY)
    assert sum(map(len, families.values())) == len(SPLIT_OF_FAMILY)
    models = {
        split: {item.facts["model"] for item in traced.split(split)} for split in ("train", "test")
    }
    # of two cells, families of their own
    assert models["train"] & models["test"] == {"language_model_train"}
    shares = {split: len(traced.split(split)) / len(traced.items) for split in SPLITS}
    assert shares == pytest.approx({"train": 0.6, "validation": 0.2, "test": 0.2}, abs=0.05)
    assert all(
        regal_traced.SMALLEST <= item.facts["ops"] <= regal_traced.LARGEST for item in traced.items
    )
    assert json.loads(json.dumps(traced.facts)) == traced.facts


def test_traced_files(traced):
    """Catches facts of another graph than the file holds, and weights that were left in."""
    for item in traced.items[::25]:
        graph = stored_traced.load(item.name)
        assert graph.digest == item.digest and topology_digest(graph) == item.facts["topology"]
        assert (
            graph.num_ops == item.facts["ops"]
            and not graph.op_weight_bytes.any()
            and graph.op_seconds is None
        )


@pytest.mark.parametrize(
    "name", ["vgg-depth-11-gradient", "lstm-layers-1-steps-2-inference", "edsr-blocks-1-training"]
)
def test_traced_graphs_are_made_anew(traced, name):
    """Catches a change of a model or of the tracer: one graph of each mode has the stored
    digest."""
    assert (
        stored_traced.trace_configuration(stored_traced.configuration(name)).digest
        == traced.item(name).digest
    )


def test_gradient_extends_the_forward_pass():
    """Catches a gradient mode that traces the forward pass alone."""
    sizes = Counter()
    for item in CONFIGURATIONS:
        if item.family == "alexnet":
            sizes[item.mode] = stored_traced.load(item.name).num_ops
    assert 2 * sizes["inference"] < sizes["gradient"] < sizes["training"]


def test_noise_is_seeded_and_multiplies():
    """Catches noise that adds, that depends on anything but its seed, or that touches the
    topology."""
    graph, spread = stored_traced.load("densenet-blocks-3-6-inference"), 0.3
    result = [
        stored_traced.noisy(graph, np.random.default_rng(s), spread, objective="memory")
        for s in (1, 1, 2)
    ]
    assert result[0].digest == result[1].digest != result[2].digest
    base, noise = op_seconds(graph, Devices()), np.random.default_rng(1)
    expected = base * np.exp(spread * noise.standard_normal(graph.num_ops))
    np.testing.assert_allclose(result[0].op_seconds, expected, atol=1e-12)
    ratios = graph.tensor_bytes * np.exp(spread * noise.standard_normal(graph.num_tensors))
    np.testing.assert_allclose(result[0].tensor_bytes, ratios, atol=1.0)
    assert np.array_equal(result[0].op_edges, graph.op_edges) and topology_digest(
        result[0]
    ) == topology_digest(graph)
    still = stored_traced.noisy(graph, np.random.default_rng(1), spread)
    assert np.array_equal(still.tensor_bytes, graph.tensor_bytes)
    assert np.array_equal(still.op_seconds, result[0].op_seconds)
    none = stored_traced.noisy(graph, np.random.default_rng(1), 0.0, objective="memory")
    np.testing.assert_allclose(none.op_seconds, base, atol=1e-12)
    assert np.array_equal(none.tensor_bytes, graph.tensor_bytes)


@pytest.mark.parametrize(
    ("spread", "objective"), [(-0.1, "runtime"), (float("nan"), "runtime"), (0.1, "both")]
)
def test_noise_refuses(spread, objective):
    """Catches noise of no meaning."""
    with pytest.raises(InputError):
        stored_traced.noisy(
            stored_synthetic.candidate(0), np.random.default_rng(0), spread, objective=objective
        )


def test_augmented_sets(traced):
    """Catches pairs that repeat, graphs of another split, counts other than the paper's, a sample
    that changed."""
    for dataset, members in (
        ("traced-runtime", (16_329, 5_470, 5_266)),
        ("traced-memory", (22_400, 7_400, 7_400)),
    ):
        assert tuple(stored_traced.AUGMENTED[dataset][split] for split in SPLITS) == members
        listed = traced.facts["augmented"][dataset]
        assert [listed["members"][split] for split in SPLITS] == list(members)
    names = stored_traced.names("test")
    pairs = [stored_traced.pair("traced-runtime", "test", i, names) for i in range(5_266)]
    assert len(set(pairs)) == 5_266 and {name for name, _ in pairs} == set(names)
    assert (
        len(
            {stored_traced.pair(d, s, 3, names)[1] for d in stored_traced.AUGMENTED for s in SPLITS}
        )
        == 6
    )
    graphs = {name: stored_traced.load(name) for name in stored_traced.names("validation")}
    for dataset in stored_traced.AUGMENTED:
        actual = regal_traced.sample_digest(dataset, "validation", graphs)
        assert actual == traced.facts["augmented"][dataset]["sample_digest"]["validation"]
    result = stored_traced.generate("traced-memory", "test", 7_399)
    assert (
        result.num_ops
        == stored_traced.load(stored_traced.pair("traced-memory", "test", 7_399, names)[0]).num_ops
    )


@pytest.mark.parametrize(
    "arguments",
    [("traced", "test", 0), ("traced-runtime", "dev", 0), ("traced-memory", "test", 7_400)],
)
def test_no_such_member(arguments):
    """Catches a member that the sets do not have."""
    with pytest.raises(InputError):
        stored_traced.generate(*arguments)
