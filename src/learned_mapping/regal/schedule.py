"""A placed schedule and its file, ``learned-mapping/schedule/1``."""

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from learned_mapping.drawn import DrawnOn
from learned_mapping.errors import expect_whole
from learned_mapping.hardware.devices import MAX_DEVICES
from learned_mapping.programs.formats import index_of, placed_ops
from learned_mapping.programs.graph import MAX_EDGES, MAX_OPS, ComputationGraph, whole_array
from learned_mapping.programs.json_io import read_json

RUN_OP = -1  # Second entry of a step that runs an op instead of sending a tensor.


@dataclass(frozen=True, eq=False)
class Schedule(DrawnOn):
    """The place of each of N ops, and S steps in order. Whether it obeys the rules is for
    `regal.validate` to say.

    Raises:
      InputError: placement or order are no integers of 32 bits or of another shape, or there cannot
        be so many devices.
    """

    placement: np.ndarray  # [N] int32, device of each op.
    order: np.ndarray
    """[S, 2] int32: ``(op, RUN_OP)`` runs an op on its device; ``(tensor, target)`` sends a tensor
    from its producer's device to device `target`. Each device runs its own part of the order, in
    order."""
    devices: int  # Number of devices d.

    def __post_init__(self):
        for name, columns in (("placement", None), ("order", 2)):
            array = whole_array(getattr(self, name), "schedule", name, np.int32, columns)
            object.__setattr__(self, name, array)
        object.__setattr__(
            self, "devices", expect_whole(self.devices, "schedule", "devices", 1, MAX_DEVICES)
        )

    @classmethod
    def of(cls, placement: Any, order: Any, devices: int) -> Self:
        """A schedule from anything array-like; copies."""
        return cls(placement, order, devices)


def exchanged(schedule: Schedule, instance: Any) -> Schedule:
    """A schedule for two devices with their parts exchanged, on the graph and the machine of an
    `instance.Instance`."""
    order = np.array(schedule.order)
    sent = order[:, 1] != RUN_OP
    order[sent, 1] = 1 - order[sent, 1]
    return Schedule.of(1 - schedule.placement, order, 2).on(instance.graph, instance.machine)


def schedule_to_json(schedule: Schedule, graph: ComputationGraph) -> dict[str, Any]:
    """The JSON object of a schedule's file, from which `read_schedule` makes an equal one."""
    order: list[dict[str, Any]] = []
    for what, target in schedule.order.tolist():
        if target == RUN_OP:
            order.append({"op": graph.op_names[what]})
        else:
            order.append({"transfer": graph.tensor_names[what], "to": target})
    return {
        "schema": "learned-mapping/schedule/1",
        "graph": graph.name,
        "digest": graph.digest,
        "devices": schedule.devices,
        "placement": dict(zip(graph.op_names, schedule.placement.tolist())),
        "order": order,
    }


def read_schedule(path: str | os.PathLike, graph: ComputationGraph) -> Schedule:
    """Reads a schedule of `graph`.

    Raises:
      InputError: another graph's schedule, an unknown or missing op, a device that does not exist,
        a malformed step. Broken scheduling rules are no error here.
    """
    fields = ("schema", "graph", "digest", "devices", "placement", "order")
    top = read_json(path, "schedule").object(fields, ("made",))
    devices = top["devices"].integer(1, MAX_DEVICES)
    placement = placed_ops(top, graph, "placement", devices)
    ops = {name: i for i, name in enumerate(graph.op_names)}
    tensors = {name: i for i, name in enumerate(graph.tensor_names)}
    order = []
    for step in top["order"].elements(MAX_OPS + MAX_EDGES):
        if isinstance(step.value, dict) and "op" in step.value:
            order.append((index_of(step.object(("op",))["op"], "op", ops), RUN_OP))
        else:
            parts = step.object(("transfer", "to"))
            order.append(
                (
                    index_of(parts["transfer"], "tensor", tensors),
                    parts["to"].integer(0, devices - 1),
                )
            )
    return Schedule.of(placement, order, devices).on(graph)
