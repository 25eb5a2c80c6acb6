import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.rules.instance import Instance


def _random_graph(rng: np.random.Generator, num_ops: int):
    """Odder than the families of `programs.synthetic`: ops with no, one or two outputs, with many
    users or with none, empty tensors, graph outputs that are used inside too."""
    producer, sizes, outputs, edge_tensor, edge_consumer = [], [], [], [], []
    for op in range(num_ops):
        for _ in range(int(rng.integers(0, 3))):
            for consumer in rng.permutation(np.arange(op + 1, num_ops))[
                : rng.integers(0, 4)
            ].tolist():
                edge_tensor.append(len(producer))
                edge_consumer.append(consumer)
            producer.append(op)
            sizes.append(int(rng.integers(0, 100)))
            outputs.append(bool(rng.random() < 0.2))
    return make_graph(
        name="random",
        op_names=[f"op{i}" for i in range(num_ops)],
        op_kinds=["map"] * num_ops,
        op_flop=np.zeros(num_ops),
        op_weight_bytes=rng.integers(0, 20, num_ops),
        op_seconds=np.where(rng.random(num_ops) < 0.2, 0.0, rng.random(num_ops)),
        tensor_names=[f"t{i}" for i in range(len(producer))],
        tensor_producer=producer,
        tensor_bytes=sizes,
        tensor_is_output=outputs,
        edge_tensor=edge_tensor,
        edge_consumer=edge_consumer,
    )


@pytest.fixture(scope="session")
def odd_graph():
    """A function (rng, number of ops) -> graph."""
    return _random_graph


@pytest.fixture(scope="session")
def instance():
    """Forty ops in layers, for running time."""
    return Instance(random_graph(np.random.default_rng(7), "layered", 40))


@pytest.fixture(scope="session")
def diamond():
    """a makes x for b and c, whose results d joins; b is slow. The hand-worked example of the
    book's chapter."""
    return hand_graph(
        4,
        [(0, 1), (0, 2), (1, 3), (2, 3)],
        op_names=list("abcd"),
        op_seconds=[1.0, 4.0, 2.0, 1.0],
        tensor_names=list("xyzw"),
        tensor_bytes=[8, 4, 2, 1],
        tensor_is_output=[False, False, False, True],
    )
