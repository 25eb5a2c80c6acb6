"""Tests of the silicon: by hand, against the plain reference, and what a search gets to see of
it."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import (
    MIB,
    OP_CLASSES,
    ChipModel,
    ChipPackage,
    chip_memory,
    op_classes,
)
from learned_mapping.hardware.silicon import (
    Silicon,
    SiliconModel,
    SiliconParameters,
    check_parameters,
    tables_on_host,
)
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.validate import stages_by_definition
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph

PACKAGE = ChipPackage(
    chips=2,
    flop_per_s=10.0,
    sram_bytes=700.0,
    sram_bytes_per_s=100.0,
    weight_bytes_per_s=200.0,
    link_bytes_per_s=50.0,
)
PARAMETERS = SiliconParameters(
    attention=2.0,
    elementwise=3.0,
    transcendental=1.0,
    reduction=1.0,
    movement=1.0,
    half_efficiency_s=3.0,
    efficiency_exponent=0.5,
    launch_s=0.5,
    switch_s=0.25,
    contention=0.5,
    message_s=0.1,
    sync_s=0.125,
    noise=0.0,
)
KINDS = ("dot_general", "add", "exp", "reduce_sum", "reshape", "gather", "input")


def chain():
    """a -> b -> c: a program input of 100 bytes, a matrix product with 400 bytes of weights, an
    addition."""
    return make_graph(
        name="chain",
        op_names=["a", "b", "c"],
        op_kinds=["input", "dot_general", "add"],
        op_flop=[0, 10, 40],
        op_weight_bytes=[0, 400, 0],
        tensor_names=["x", "y", "z"],
        tensor_producer=[0, 1, 2],
        tensor_bytes=[100, 100, 50],
        tensor_is_output=[False, False, True],
        edge_tensor=[0, 1],
        edge_consumer=[1, 2],
    )


def random_kinds(rng, family, ops):
    """A random graph with ops of every class, weights and arithmetic, times left to the
    hardware."""
    graph = random_graph(rng, family, ops)
    return dataclasses.replace(
        graph,
        op_kinds=tuple(rng.choice(KINDS, ops)),
        op_flop=np.exp(rng.normal(18, 3, ops)),
        op_weight_bytes=(rng.random(ops) < 0.5) * rng.integers(0, 4 * MIB, ops),
        op_seconds=None,
    )


def partitions(rng, graph, chips, count):
    """Random assignments that obey Eq. 2, most of which skip over chips and join distant ones, and
    some valid ones."""
    rank = np.argsort(graph.topological_order)
    loose = [np.sort(rng.integers(0, chips, graph.num_ops))[rank] for _ in range(count)]
    return [*loose, *repair_batch(repair_arrays(graph), chips, mode="sample", rng=rng, count=count)]


def test_stages_by_hand():
    """Catches each term left out: class, size, launch, weights streamed, switch, contention,
    message, sync."""
    stages = Silicon(chain(), PACKAGE, PARAMETERS).stages(np.array([0, 0, 1]))
    # b: roofline max(10/10, 200/100 + 400/200) = 4, times (1 + 3/4)^.5, plus .5. Of its weights 350
    # bytes stay and 50 stream, for a second. It holds x, y and a buffer for y, which leaves. The
    # input takes no time.
    b = 4 * 1.75**0.5 + 0.5 + 50 / 50
    # c: max(40/10, 150/100) = 4, an addition takes 3 times as long. It holds y twice and z.
    c = 4 * 3 * 1.75**0.5 + 0.5
    link = 100 / 50 + 0.1
    np.testing.assert_allclose(stages.link_s, [link, 0.0])
    expected = [b + 0.5 * b * link / (b + link) + 0.125, c + 0.5 * c * link / (c + link) + 0.125]
    np.testing.assert_allclose(stages.chip_s, expected)
    np.testing.assert_allclose(stages.needed_bytes, [600.0, 500.0])
    together = Silicon(chain(), PACKAGE, PARAMETERS).stages(np.array([0, 0, 0]))
    np.testing.assert_allclose(together.chip_s, [b + c + 0.25 + 0.125, 0.125])
    np.testing.assert_allclose(together.needed_bytes, [400.0, 0.0])


@pytest.mark.parametrize("family", GRAPH_FAMILIES)
def test_agrees_with_the_reference(family):
    """Catches any difference between the compiled simulator and its definition, memory included."""
    rng = np.random.default_rng(5)
    for given in (False, True):
        graph = random_kinds(rng, family, 30)
        if given:
            graph = dataclasses.replace(
                graph, op_seconds=rng.random(30) * (rng.random(30) < 0.8) * 1e-3
            )
        package = ChipPackage(chips=5, sram_bytes=8 * MIB)  # Weights stream.
        silicon = Silicon(graph, package, SiliconParameters())
        for assignment in partitions(rng, graph, 5, 4):
            chip_s, link_s, needed = stages_by_definition(
                graph, assignment.tolist(), package, silicon.parameters
            )
            stages = silicon.stages(assignment)
            np.testing.assert_allclose(stages.chip_s, chip_s, rtol=1e-9)
            np.testing.assert_allclose(stages.link_s, link_s, rtol=1e-9)
            assert stages.needed_bytes.tolist() == needed


def test_ops_have_a_factor_of_their_own_where_asked():
    """Catches factors in chips of the tables, of another spread, the same in every world, and a
    simulator that parts from its definition with them."""
    rng = np.random.default_rng(3)
    graph, package = random_kinds(rng, "layered", 400), ChipPackage(chips=4)

    def chips(spread, seed):
        parameters = SiliconParameters(op_spread=spread, op_seed=seed, launch_s=0.0)
        return Silicon(graph, package, parameters)

    plain = chips(0.0, 0).op_seconds
    assert chips(0.0, 1).op_seconds.tolist() == plain.tolist()
    assert SiliconParameters().op_spread == 0.0
    takes = plain > 0
    worlds = [np.log(chips(0.5, seed).op_seconds[takes] / plain[takes]) for seed in (0, 0, 1)]
    assert worlds[0].tolist() == worlds[1].tolist()
    assert abs(np.corrcoef(worlds[0], worlds[2])[0, 1]) < 0.2
    assert worlds[2].std() == pytest.approx(0.5, rel=0.1) and abs(worlds[2].mean()) < 0.1
    for assignment in partitions(rng, graph, 4, 2):
        silicon = chips(0.5, 1)
        chip_s, _, _ = stages_by_definition(graph, assignment.tolist(), package, silicon.parameters)
        np.testing.assert_allclose(silicon.stages(assignment).chip_s, chip_s, rtol=1e-9)


@pytest.mark.parametrize(
    "field, value", [("op_seed", 0.5), ("op_seed", -1), ("op_spread", -0.1), ("op_spread", np.inf)]
)
def test_factors_that_cannot_be_are_refused(field, value):
    """Catches a seed that the generator refuses with its own words, and a spread below 0."""
    with pytest.raises(InputError, match=field):
        check_parameters(dataclasses.replace(SiliconParameters(), **{field: value}))


def test_memory_is_the_models_and_the_buffers_of_what_crosses():
    """On one chip nothing crosses, and half of the memory holds what `chip_memory` says of a graph
    without weights."""
    rng = np.random.default_rng(2)
    graph = random_kinds(rng, "layered", 40)
    alone = np.zeros(40, int)
    stages = Silicon(graph, ChipPackage(chips=1)).stages(alone)
    bare = dataclasses.replace(graph, op_weight_bytes=np.zeros(40, np.int64))
    assert stages.needed_bytes.tolist() == (2 * chip_memory(bare, alone, 1)).tolist()
    assert tables_on_host(graph).op_weight_bytes.sum() < graph.op_weight_bytes.sum()


def test_what_does_not_fit_is_worth_nothing():
    """Catches a partition that runs beyond the memory, or backwards."""
    rng = np.random.default_rng(0)
    for size, valid in ((600.0, True), (599.0, False)):
        package = dataclasses.replace(PACKAGE, sram_bytes=size)
        measured = Silicon(chain(), package, PARAMETERS).measure(np.array([0, 0, 1]), rng)
        assert (measured > 0) == valid
    assert Silicon(chain(), PACKAGE, PARAMETERS).measure(np.array([1, 1, 0]), rng) == 0.0


def test_noise_is_multiplicative_and_the_generators():
    """Catches noise that is not drawn from the generator given, that shifts the median, or of
    another size."""
    silicon = Silicon(chain(), PACKAGE, dataclasses.replace(PARAMETERS, noise=0.05))
    where = np.array([0, 0, 1])
    first, second = (
        [silicon.measure(where, r) for _ in range(4000)] for r in map(np.random.default_rng, (7, 7))
    )
    assert first == second
    logs = np.log(np.array(first) / silicon.throughput(where))
    assert abs(np.median(logs)) < 0.004 and np.std(logs) == pytest.approx(0.05, rel=0.05)


def test_the_model_plans_with_the_analytical_model_and_measures():
    """Catches a search that is told the silicon's own costs, or measurements that are not
    counted."""
    silicon = Silicon(chain(), PACKAGE, PARAMETERS)
    model = SiliconModel(silicon, np.random.default_rng(0))
    where = np.array([0, 0, 1])
    assert model.throughput(where) == silicon.throughput(where)
    planned = model.runtime(where)
    assert (
        planned
        == ChipModel(chain(), PACKAGE).runtime(where)
        != pytest.approx(1 / model.throughput(where))
    )
    assert len(model.ran) == 2


def test_classes_by_hand():
    graph = chain()
    assert [OP_CLASSES[i] for i in op_classes(graph)] == ["movement", "matrix", "elementwise"]
    bare = dataclasses.replace(
        graph, op_weight_bytes=np.zeros(3, np.int64), op_kinds=("exp", "dot_general", "argmax")
    )
    assert [OP_CLASSES[i] for i in op_classes(bare)] == ["transcendental", "attention", "reduction"]


@pytest.mark.parametrize(
    "change",
    [{"noise": -1.0}, {"attention": 0.0}, {"contention": np.inf}, {"launch_s": float("nan")}],
)
def test_bad_parameters(change):
    """Catches negative, infinite or missing numbers that would come out as a throughput."""
    with pytest.raises(InputError, match=next(iter(change))):
        Silicon(chain(), PACKAGE, dataclasses.replace(PARAMETERS, **change))


@pytest.mark.parametrize("assignment", [[0, 0], [0, 0, 2], [0.0, 0.0, 1.0], [-1, 0, 0]])
def test_bad_assignments(assignment):
    """Catches an index outside the package, which the compiled code would not notice."""
    with pytest.raises(InputError, match="assignment"):
        Silicon(chain(), PACKAGE, PARAMETERS).stages(np.array(assignment))
