"""A law for any number of devices, from a network for two: the graph is cut in half, and the halves
again.

The paper holds d fixed, and would train a network for each (REGAL, Section 2.3). Devices are alike,
so two halves of them are two devices; ours cuts by the network's expected side, at equal cost a
device, and asks the network again about each half.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from learned_mapping.hardware.devices import SPEEDS, Devices
from learned_mapping.programs.graph import without_ops
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import op_cost


class TwoSided(Protocol):
    """A policy for two devices."""

    def probabilities(self, instance: Instance) -> np.ndarray: ...


def halves(
    instance: Instance, policy: TwoSided, bins: np.ndarray
) -> Iterator[tuple[np.ndarray, slice, slice, np.ndarray, np.ndarray]]:
    """The cuts of a graph among its devices, from the whole on.

    Args:
      instance: N ops, d devices of one speed.
      policy: gives [n, 3, 2, bins] of a part with n ops.
      bins: the values of alpha and beta.

    Yields:
      The ops of a part, [n]; the devices of its two sides; which of its ops are on the second,
      [n] bool; and the policy's probabilities for the part.
    """
    cost, parts = (
        op_cost(instance),
        [(np.arange(instance.graph.num_ops), 0, instance.machine.devices)],
    )
    while parts:
        ops, first, count = parts.pop()
        if count < 2 or not len(ops):
            continue
        left = (count + 1) // 2
        p = policy.probabilities(_part(instance, ops))
        means = bins[:, None] / (bins[:, None] + bins)  # of Beta(alpha, beta)
        expected = np.einsum("nea,neb,ab->ne", p[:, :2, 0], p[:, :2, 1], means)
        order = np.argsort(expected[:, 1] - expected[:, 0], kind="stable")
        total = np.cumsum(cost[ops[order]])
        second = np.zeros(len(ops), bool)
        second[order] = total - cost[ops[order]] / 2 > total[-1] * left / count
        middle = first + left
        yield ops, slice(first, middle), slice(middle, first + count), second, p
        parts += [(ops[~second], first, left), (ops[second], middle, count - left)]


def _part(instance: Instance, ops: np.ndarray) -> Instance:
    """The ops as a graph of their own, on two of the devices."""
    machine = instance.machine
    if machine.devices == 2 and len(ops) == instance.graph.num_ops:
        return instance
    speeds: dict[str, Any] = {name: float(machine.each(name)[0]) for name in SPEEDS}
    two = Devices(memory_bytes=float(machine.each("memory_bytes").min()), **speeds)
    if len(ops) == instance.graph.num_ops:
        return replace(instance, machine=two)
    left_out = np.ones(instance.graph.num_ops, bool)
    left_out[ops] = False
    return Instance(without_ops(instance.graph, left_out, {}), two, instance.objective)
