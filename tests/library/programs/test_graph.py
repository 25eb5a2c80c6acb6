"""ComputationGraph: derived arrays against hand-worked values, and every kind of invalid graph."""

import numpy as np
import pytest

from by_hand import chain_edges, hand_graph
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import MAX_BYTES, make_graph
from learned_mapping.programs.synthetic import random_graph


def diamond(**changes):
    """a -> b, c -> d; a makes two tensors, b and c read the first, d reads b's, c's and a's
    second."""
    fields = {
        "name": "diamond",
        "op_names": ["a", "b", "c", "d"],
        "op_kinds": ["input", "map", "map", "merge"],
        "op_flop": [0, 10, 20, 30],
        "op_weight_bytes": [0, 8, 0, 0],
        "tensor_names": ["a:0", "a:1", "b", "c", "d"],
        "tensor_producer": [0, 0, 1, 2, 3],
        "tensor_bytes": [100, 50, 40, 30, 20],
        "tensor_is_output": [False, False, False, False, True],
        "edge_tensor": [0, 0, 1, 2, 3],
        "edge_consumer": [1, 2, 3, 3, 3],
    }
    return make_graph(**{**fields, **changes})


def test_derived_arrays():
    """Would catch a wrong adjacency: consumers, op-level edges, byte totals and the order are
    worked out by hand."""
    graph = diamond()
    assert (graph.num_ops, graph.num_tensors, graph.num_edges) == (4, 5, 5)
    assert graph.consumers(0).tolist() == [1, 2]
    assert graph.consumers(4).tolist() == []
    assert graph.op_edges.tolist() == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    assert graph.edge_producer.tolist() == [0, 0, 0, 1, 2]
    assert graph.topological_order.tolist() == [0, 1, 2, 3]
    assert graph.op_output_bytes.tolist() == [150, 40, 30, 20]
    assert graph.op_input_bytes.tolist() == [0, 100, 100, 120]


def test_edges_in_any_order_and_repeated_are_one_graph():
    """Would catch a digest that depends on how edges were listed."""
    shuffled = diamond(edge_tensor=[3, 0, 2, 1, 0, 0], edge_consumer=[3, 2, 3, 3, 1, 1])
    assert shuffled.digest == diamond().digest


def test_digest_sees_content_and_not_the_name():
    """Would catch a solution being accepted for a changed instance, or refused for a renamed
    one."""
    assert diamond(name="other", metadata={"a": 1}).digest == diamond().digest
    assert diamond(tensor_bytes=[100, 50, 40, 30, 21]).digest != diamond().digest
    assert diamond(op_seconds=[0, 0, 0, 0]).digest != diamond(op_seconds=[0, 0, 0, 1]).digest
    assert diamond(op_flop=[-0.0, 10, 20, 30]).digest == diamond().digest


def test_topological_order_of_graphs_whose_ops_stand_in_any_order():
    """Would catch an order that only works when ops are already sorted."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        graph = random_graph(rng, "random-dag", 40)
        shuffle = rng.permutation(40)
        place = np.argsort(shuffle)
        mixed = make_graph(
            name="mixed",
            op_names=[graph.op_names[i] for i in shuffle],
            op_kinds=[graph.op_kinds[i] for i in shuffle],
            op_flop=graph.op_flop[shuffle],
            tensor_names=graph.tensor_names,
            tensor_producer=place[graph.tensor_producer],
            tensor_bytes=graph.tensor_bytes,
            edge_tensor=graph.edge_tensor,
            edge_consumer=place[graph.edge_consumer],
        )
        rank = np.argsort(mixed.topological_order)
        assert np.all(rank[mixed.edge_producer] < rank[mixed.edge_consumer])


def test_arrays_are_read_only():
    """Would catch a graph that changes after its digest was taken."""
    with pytest.raises(ValueError):
        diamond().op_flop[0] = 1.0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"op_names": [], "op_kinds": []}, "ops"),
        ({"op_names": ["a", "b", "c", "a"]}, "ops[3].name"),
        ({"op_names": ["a", "b", "c", ""]}, "ops[3].name"),
        ({"op_names": ["a", "b", "c", 4]}, "ops[3].name"),
        ({"tensor_names": ["a:0", "a:0", "b", "c", "d"]}, "tensors[1].name"),
        ({"op_kinds": ["input"]}, "op_kinds"),
        ({"op_flop": [0, 10, 20]}, "op_flop"),
        ({"op_flop": [0, -1, 20, 30]}, "op_flop[1]"),
        ({"op_flop": [0, float("nan"), 20, 30]}, "op_flop[1]"),
        ({"op_flop": [0, 1e22, 20, 30]}, "op_flop[1]"),
        ({"op_flop": ["0", "1", "2", "3"]}, "op_flop"),
        ({"op_seconds": [0, float("inf"), 0, 0]}, "op_seconds[1]"),
        ({"op_weight_bytes": [0, 0, -1, 0]}, "op_weight_bytes[2]"),
        ({"tensor_bytes": [100, 50, 40, 30, MAX_BYTES * 2]}, "tensor_bytes[4]"),
        ({"tensor_producer": [0, 0, 1, 2, 4]}, "tensor_producer[4]"),
        ({"edge_tensor": [0, 0, 1, 2, 5]}, "edge_tensor[4]"),
        ({"edge_consumer": [1, 2, 3, 3, -1]}, "edge_consumer[4]"),
        ({"edge_consumer": [1, 2, 3, 3]}, "edge_consumer"),
        ({"edge_consumer": [0, 2, 3, 3, 3]}, "ops[0]"),
        ({"edge_tensor": [0, 0, 4, 2, 3], "edge_consumer": [1, 2, 2, 3, 3]}, "ops[2]"),
    ],
)
def test_invalid_graphs_are_named(changes, field):
    """Would catch an invalid graph let through, or an error that names the wrong field."""
    with pytest.raises(InputError) as caught:
        diamond(**changes)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_html_escapes_names():
    """Would catch a file's name injecting markup into a notebook."""
    assert "<script>" not in diamond(name="<script>")._repr_html_()


def test_sums_of_bytes_do_not_wrap_around():
    """Nine thousand tensors of a pebibyte had a peak below that of one op."""
    with pytest.raises(InputError, match=r"bytes: .*e\+19 in all"):
        hand_graph(9000, chain_edges(9000), tensor_bytes=np.full(9000, 2**50))
