"""Tests of the analytical model of a chip package."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import (
    ChipModel,
    ChipPackage,
    chip_memory,
    graph_work,
)
from learned_mapping.hardware.in_jax import chip_latencies
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph


def fan():
    """One op whose tensor of 100 bytes goes to ops on two later chips, and one of 10 bytes."""
    return make_graph(
        name="fan",
        op_names=["a", "b", "c"],
        op_kinds=["input", "add", "add"],
        op_flop=[0, 40, 80],
        op_weight_bytes=[0, 1000, 0],
        tensor_names=["x", "y"],
        tensor_producer=[0, 1],
        tensor_bytes=[100, 10],
        edge_tensor=[0, 0, 1],
        edge_consumer=[1, 2, 2],
    )


PACKAGE = ChipPackage(
    chips=3,
    flop_per_s=10.0,
    sram_bytes_per_s=100.0,
    weight_bytes_per_s=200.0,
    link_bytes_per_s=50.0,
    op_overhead_s=0.5,
)


def test_times_by_hand():
    """Catches a wrong roofline term, a tensor charged once per consumer, or a link charged to one
    side only."""
    model = ChipModel(fan(), PACKAGE)
    # a is an input; b: max(40/10, 110/100 + 1000/200) + .5; c: max(80/10, 110/100) + .5
    np.testing.assert_allclose(model.op_seconds, [0.0, 6.6, 8.5])
    # Link 0 carries x (100); link 1 carries x (its last consumer is on chip 2) and y (10).
    np.testing.assert_allclose(
        model.latencies(np.array([0, 1, 2])), [2.0, 6.6 + 2.0 + 2.2, 8.5 + 2.2]
    )
    np.testing.assert_allclose(model.latencies(np.array([0, 0, 2])), [6.6 + 2.2, 4.4, 8.5 + 2.2])
    assert model.throughput(np.array([0, 0, 0])) == pytest.approx(1 / 15.1)


def test_memory_by_hand():
    """Catches weights left out, a tensor freed before its last use, or a received tensor not
    counted."""
    # Chip 1: weights 1000, x from the start (100), y made and sent on (10). Chip 2: x and y
    # received.
    assert chip_memory(fan(), np.array([0, 1, 2]), 3).tolist() == [100, 1110, 110]
    assert chip_memory(fan(), np.array([0, 0, 0]), 2).tolist() == [1110, 0]


def test_jax_agrees_with_numpy():
    """Catches a difference between the two versions of the model, on every family of graphs and
    with vmap."""
    rng = np.random.default_rng(0)
    for family in GRAPH_FAMILIES:
        graph = dataclasses.replace(random_graph(rng, family, 30), op_seconds=None)
        rank = np.argsort(graph.topological_order)
        assignments = np.stack([rank * 5 // graph.num_ops, rank * 0, rank * 2 // graph.num_ops])
        model = ChipModel(graph, ChipPackage(chips=5))
        work = jax.tree.map(jnp.asarray, graph_work(graph))
        actual = jax.vmap(chip_latencies, (None, 0, None))(
            work, jnp.asarray(assignments), ChipPackage(chips=5)
        )
        np.testing.assert_allclose(actual, [model.latencies(a) for a in assignments], rtol=2e-5)


def test_parameters_can_be_mapped_over():
    """Catches a parameter that is baked in instead of traced."""
    graph = fan()
    work = jax.tree.map(jnp.asarray, graph_work(graph))

    def runtime(link):
        return chip_latencies(
            work, jnp.array([0, 1, 2]), dataclasses.replace(PACKAGE, link_bytes_per_s=link)
        ).max()

    actual = jax.vmap(runtime)(jnp.array([50.0, 5.0]))
    np.testing.assert_allclose(actual, [10.8, 6.6 + 20 + 22], rtol=1e-5)


@pytest.mark.parametrize(
    "field, value", [("chips", 0), ("link_bytes_per_s", 0.0), ("op_overhead_s", -1.0)]
)
def test_unusable_parameters_are_refused(field, value):
    """Catches a division by zero later on."""
    with pytest.raises(InputError, match=field):
        dataclasses.replace(ChipPackage(), **{field: value})


@pytest.mark.parametrize(
    "name", ["flop_per_s", "sram_bytes_per_s", "weight_bytes_per_s", "link_bytes_per_s"]
)
@pytest.mark.filterwarnings("error")
def test_rates_next_to_nothing_are_one_line(name):
    """Would catch a warning with a path before the refusal: an op of infinite time that is an input
    takes none."""
    with pytest.raises(InputError, match="rates are too low"):
        ChipModel(fan(), ChipPackage(chips=3, **{name: 1e-320}))
