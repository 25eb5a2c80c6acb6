"""Graphs of instructions: what papers 2 and 3 charge for them is what paper 1 charges."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learned_mapping_builders import mcm_members, workload_models

from builders.zoo.test_zoo import SMALL
from learned_mapping import mcm, regal
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.formats import read_graph
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.trace.fused import fused_graph
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import schedule_graph

GRAPHS = sorted((Path(__file__).parents[3] / "data" / "graphs").glob("*.json.gz"))
MODELS = workload_models.MODELS | mcm_members.MODELS
CORE = MemoryHierarchy()
RATES = {"flop_per_s": CORE.peak_flop_per_s, "op_overhead_s": CORE.overhead_s}


def assert_three_papers_agree(graph):
    """One device's time by the judges of papers 2 and 3, and paper 1's with all in slow memory."""
    fused = fused_graph(graph)
    slow = float(schedule_graph(graph, CORE).slow_s.sum())
    speed = CORE.hbm_bytes_per_s
    package = ChipPackage(
        chips=1, sram_bytes_per_s=speed, weight_bytes_per_s=speed, sram_bytes=1e15, **RATES
    )
    partition = mcm.make_partition(np.zeros(fused.num_ops, int), 1)
    verdict = mcm.validate(fused, partition, package)
    assert verdict.valid and verdict.costs["runtime_s"] == pytest.approx(slow, rel=1e-12)
    device = Devices(devices=1, memory_bytes=1e15, bytes_per_s=speed, **RATES)
    order = [(op, -1) for op in fused.topological_order.tolist()]
    schedule = regal.Schedule.of([0] * fused.num_ops, order, 1)
    verdict = regal.validate(fused, schedule, device)
    assert verdict.valid and verdict.costs["makespan_s"] == pytest.approx(slow, rel=1e-12)
    assert fused.op_weight_bytes.sum() == graph.op_weight_bytes.sum()
    return fused


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.name.partition(".")[0])
def test_stored_graphs_cost_what_paper_1_charges(path):
    """Would catch a tensor that an instruction keeps to itself charged to memory, an overhead for
    scalars, weights or arithmetic lost."""
    graph = read_graph(path)
    fused = assert_three_papers_agree(graph)
    assert fused.num_ops < graph.num_ops
    assert fused.op_flop.sum() == pytest.approx(graph.op_flop.sum(), rel=1e-12)


@pytest.mark.slow
def test_every_model_of_the_zoo_costs_what_paper_1_charges():
    """The same of training steps: shared weights, scalars that are results, constants."""
    for name in sorted(MODELS):
        model = MODELS[name].build(**SMALL.get(name, {}))
        graph = trace(model.function, *model.args, name=name, parameters=model.parameters)
        flop = assert_three_papers_agree(graph).op_flop.sum()
        assert (1 - 1e-3) * graph.op_flop.sum() <= flop <= (1 + 1e-12) * graph.op_flop.sum()


def chain(**columns):
    """x, a product by 400 bytes of weights, relu, its scalar sum, that sorted, and two results: the
    sorted scalar twice, and relu by the scalar."""
    columns = {
        "op_names": ["x", "dot", "relu", "sum", "sort", "twice", "out"],
        "op_kinds": ["input", "dot_general", "max", "reduce_sum", "sort", "mul", "mul"],
        "op_flop": [0, 2000, 10, 10, 1, 1, 10],
        "op_weight_bytes": [0, 400, 0, 0, 0, 0, 0],
        "tensor_names": ["x", "dot", "relu", "sum", "sort", "twice", "out"],
        "tensor_producer": range(7),
        "tensor_bytes": [40, 80, 80, 4, 4, 4, 80],
        "tensor_is_output": [False] * 5 + [True] * 2,
        "edge_tensor": [0, 1, 2, 2, 3, 4, 4],
        "edge_consumer": [1, 2, 3, 6, 4, 5, 6],
    } | columns
    return make_graph(name="chain", **columns)


def test_instructions_worked_out_by_hand():
    """The product ends in relu, which two read; the scalars' two instructions take no time. Would
    catch scalars charged to memory or for an overhead, or an edge lost."""
    fused = assert_three_papers_agree(chain())
    ops = ["x", "relu", "sum", "sort", "twice", "out"]
    assert sorted(fused.op_names) == sorted(ops)
    place = [fused.op_names.index(op) for op in ops]
    kinds = [fused.op_kinds[op] for op in place]
    assert kinds == ["input", "fusion", "reduce_sum", "input", "input", "mul"]
    assert fused.op_flop[place].tolist() == [0, 2010, 10, 1, 1, 10]
    assert fused.op_weight_bytes[place].tolist() == [0, 400, 0, 0, 0, 0]
    touched = fused.op_tensor_traffic + fused.op_weight_traffic
    assert touched[place].tolist() == [40, 520, 80, 0, 0, 160]
    edges = {(fused.op_names[a], fused.op_names[b]) for a, b in fused.op_edges.tolist()}
    into = {("x", "relu"), ("relu", "sum"), ("sum", "sort"), ("sort", "twice")}
    assert edges == into | {("relu", "out"), ("sort", "out")}
    outputs = fused.tensor_is_output.tolist()
    assert {n for n, leaves in zip(fused.tensor_names, outputs) if leaves} == {"twice", "out"}


def test_shared_weights_stay_once():
    """A view of weights that two ops read. Would catch weights counted twice, or lost."""
    graph = make_graph(
        name="tied",
        op_names=["x", "embed", "left", "right"],
        op_kinds=["input", "reshape", "dot_general", "dot_general"],
        op_flop=[0, 0, 100, 200],
        op_weight_bytes=[0, 4000, 0, 0],
        tensor_names=["x", "table", "a", "b"],
        tensor_producer=[0, 1, 2, 3],
        tensor_bytes=[40, 4000, 80, 80],
        tensor_is_output=[False, False, True, True],
        edge_tensor=[0, 0, 1, 1],
        edge_consumer=[2, 3, 2, 3],
    )
    fused = assert_three_papers_agree(graph)
    assert fused.op_names == ("x", "embed", "left", "right")
    assert fused.op_weight_bytes.tolist() == [0, 4000, 0, 0]


def touched(graph):
    """Bytes that the ops of a graph read and write, without inputs."""
    of = graph.tensor_bytes
    rows = [(*graph.op_inputs[op], *graph.op_outputs[op]) for op in range(graph.num_ops)]
    whole = sum(int(of[list(row)].sum()) for row in rows if row)
    inputs = [op for op, kind in enumerate(graph.op_kinds) if kind == "input"]
    untouched = 0 if graph.op_untouched_bytes is None else int(graph.op_untouched_bytes.sum())
    made = sum(int(of[list(graph.op_outputs[op])].sum()) for op in inputs)
    return whole + int(graph.op_weight_bytes.sum()) - untouched - made


def test_parts_of_a_tensor_are_each_read():
    """Catches sixteen slices that are charged as one: the whole is read, and a sum is written."""
    x = jax.ShapeDtypeStruct((16, 256, 256), "float32")
    fused = fused_graph(trace(lambda x: sum(x[i] for i in range(16)), x))
    assert fused.num_ops == 2 and touched(fused) == 17 * 256 * 256 * 4
    twice = fused_graph(trace(lambda x: jnp.sin(x) * jnp.cos(x), x))
    assert touched(twice) == 2 * x.size * 4  # read once, however often


def test_an_update_in_place_touches_what_it_changes():
    """Catches a row that costs its whole table once its graph is fused."""

    def written(x):
        x = jnp.sin(x)
        for i in range(20):
            x = jax.lax.dynamic_update_slice(x, jnp.ones((1, 256)) * i, (3 * i, 0))
        return x

    x = jax.ShapeDtypeStruct((256, 256), "float32")
    graph = trace(written, x)
    assert touched(fused_graph(graph)) <= touched(graph) < 3 * x.size * 4


@pytest.mark.parametrize(
    "columns, field",
    [
        ({"op_seconds": np.ones(7)}, "ops[0].seconds"),
        ({"op_chip": [-1, 2, -1, -1, -1, -1, -1]}, "ops[1].chip"),
        ({"op_group": ["", "", "a", "", "", "a", ""]}, "ops[2].group"),
    ],
)
def test_what_is_said_of_an_op_does_not_fuse(columns, field):
    """Would catch times or places lost in silence."""
    with pytest.raises(InputError, match="nothing is fused") as caught:
        fused_graph(chain(**columns))
    assert caught.value.field == field
