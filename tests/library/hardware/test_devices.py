import dataclasses
import re

import jax
import numpy as np
import pytest

from by_hand import hand_graph
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import check_sizes, op_seconds, simulate
from learned_mapping.hardware.in_jax import Devices


def fork(**changes):
    """a makes x (8 bytes) for b on the same device and c on the other; sizes of their results 4 and
    2, both outputs."""
    sizes = {
        "op_weight_bytes": [0, 100, 0],
        "tensor_bytes": [8, 4, 2],
        "tensor_is_output": [False, True, True],
    }
    seconds = {"op_flop": [2.0, 30.0, 4.0], "op_seconds": [1.0, 4.0, 2.0]}
    return hand_graph(3, [(0, 1), (0, 2)], **sizes | seconds | changes)


EAGER = [(0, -1), (0, 1), (1, -1), (2, -1)]
LAZY = [(0, -1), (1, -1), (0, 1), (2, -1)]


@pytest.mark.parametrize(
    ("transfers", "order", "makespan"),
    [
        ("rendezvous", EAGER, 5.0),
        ("rendezvous", LAZY, 7.0),
        ("free", EAGER, 5.0),
        ("free", LAZY, 5.0),
    ],
)
def test_running_time_by_hand(transfers, order, makespan):
    """Catches a rendezvous that does not wait for the sender's queue, and a free transfer that
    does."""
    result = simulate(fork(), np.array([0, 0, 1]), order, Devices(transfers=transfers))
    assert result.makespan_s == makespan


@pytest.mark.parametrize(
    ("transfers", "order", "makespan"),
    [
        ("rendezvous", EAGER, 8.0),  # x is sent 1-4, b runs 4-8 beside c 4-6
        ("rendezvous", LAZY, 10.0),  # b 1-5, x 5-8, c 8-10
        ("free", LAZY, 6.0),  # x 1-4 beside b 1-5, c 4-6
        ("queued", LAZY, 6.0),
    ],
)
def test_a_link_takes_latency_and_bytes(transfers, order, makespan):
    """8 bytes at 4 bytes/s after 1 s are 3 s. Catches a transfer that stops nobody, or the wrong
    end."""
    links = {"link_bytes_per_s": ((1.0, 4.0), (0.5, 1.0)), "link_latency_s": 1.0}
    result = simulate(fork(), np.array([0, 0, 1]), order, Devices(transfers=transfers, **links))
    assert result.makespan_s == makespan


def test_a_queue_sends_in_the_order_of_the_schedule():
    """Two tensors of 8 bytes from device 0 to 1 at 4 bytes/s, made at 1 and 2: one arrives at 3,
    the other at 5, or 4 where the link serves both at once."""
    graph = hand_graph(4, [(0, 2), (1, 3)], op_seconds=[1.0, 1.0, 0.0, 0.0])
    graph = dataclasses.replace(graph, tensor_bytes=np.array([8, 8, *graph.tensor_bytes[2:]]))
    order = [(0, -1), (1, -1), (0, 1), (1, 1), (2, -1), (3, -1)]
    for transfers, makespan in (("free", 4.0), ("queued", 5.0)):
        machine = Devices(transfers=transfers, link_bytes_per_s=4.0)
        result = simulate(graph, np.array([0, 0, 1, 1]), order, machine)
        assert result.makespan_s == makespan


def test_memory_by_hand():
    """Catches a tensor freed too early or too late, an output freed at all, weights forgotten."""
    result = simulate(fork(), np.array([0, 0, 1]), LAZY, Devices())
    # Device 0: weights 100; x 8; then x and y 112, and x still waits for its transfer. Device 1: x,
    # then x and z.
    assert [b for _, _, b in result.memory[0]] == [108, 112, 112]
    assert [b for _, _, b in result.memory[1]] == [8, 10]
    assert result.peak_bytes == 112


def test_a_result_nobody_uses_is_held_while_its_op_runs():
    graph = fork(tensor_is_output=[False, False, True])
    result = simulate(graph, np.array([0, 0, 0]), [(0, -1), (1, -1), (2, -1)], Devices())
    assert [b for _, _, b in result.memory[0]] == [108, 112, 110]


def test_seconds_come_from_the_graph_or_a_roofline():
    """Catches weights left out of the traffic, and an input that takes time."""
    machine = Devices(flop_per_s=10.0, bytes_per_s=56.0)
    assert op_seconds(fork(), machine).tolist() == [1.0, 4.0, 2.0]
    derived = op_seconds(fork(op_seconds=None, op_kinds=["input", "map", "map"]), machine)
    np.testing.assert_allclose(derived, [0.0, 3.0, 0.4])


def test_parameters_are_a_pytree():
    """A sensitivity sweep maps over the numbers; the number of devices and the kind of transfer
    stay static."""
    doubled = jax.tree.map(lambda value: 2 * value, Devices())
    assert doubled == Devices(memory_bytes=2**35, flop_per_s=123e12, bytes_per_s=900e9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("devices", 0),
        ("devices", 9),
        ("devices", 2.5),
        ("transfers", "async"),
        ("memory_bytes", 0.0),
        ("bytes_per_s", float("nan")),
        (r"memory_bytes\[1\]", (1.0, -1.0)),
        ("flop_per_s", (1.0, 1.0, 1.0)),
        ("link_bytes_per_s", 0.0),
        ("link_bytes_per_s", float("nan")),
        ("link_latency_s", float("inf")),
        ("link_latency_s", -1.0),
        (r"link_bytes_per_s\[0\]", (1.0, 1.0)),
        (r"link_latency_s\[1\]", ((0.0, 0.0), (0.0,))),
        (r"link_bytes_per_s\[1\]\[0\]", ((1.0, 1.0), (-1.0, 1.0))),
    ],
)
def test_unusable_devices_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        Devices(**{re.match(r"\w+", field).group(): value})


def test_sizes_that_overflow_are_refused():
    with pytest.raises(InputError, match="bytes in all devices"):
        check_sizes(
            fork(
                tensor_names=["x"] + [f"y{i}" for i in range(999)],
                tensor_producer=[0] * 1000,
                tensor_bytes=[2**50] * 1000,
                tensor_is_output=[False] * 1000,
            )
        )
