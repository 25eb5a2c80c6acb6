"""What `lmap trace` counts of a function by each door: the trace itself, StableHLO as JAX prints
it, and its exports for three platforms."""

import logging
from typing import Any

import jax
from jax import export
from learned_mapping_builders.zoo.door_cases import RULES, WHOLE

from learned_mapping.doors import models
from learned_mapping.programs.formats import graph_from_json
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import parse_json
from learned_mapping.programs.trace.graph import trace

CASES = RULES | WHOLE
CHECKS = [
    export.DisabledSafetyCheck.custom_call("ApproxTopK"),
    export.DisabledSafetyCheck.platform(),
]


def sizes(graph: ComputationGraph) -> list[int]:
    """FLOP, bytes of weights, bytes between ops."""
    sums = (graph.op_flop, graph.op_weight_bytes, graph.tensor_bytes)
    return [int(each.sum()) for each in sums]


def by_door(name: str, door: str) -> list[int] | str | None:
    """The sizes of a function by a door, the parser in this process; None where JAX has no such
    form of it, a fault as text."""
    function, args = CASES[name]
    if door == "trace":
        return sizes(trace(function, *args, name=name))
    jitted = jax.jit(function)
    if door == "text":
        text = jitted.lower(*args).as_text()
    else:
        try:
            exported = export.export(jitted, platforms=[door], disabled_checks=CHECKS)(*args)
        except (NotImplementedError, ValueError):
            return None
        text = exported.mlir_module()
    code, said = models.answer({"name": "f", "parameters": []}, text.encode())
    return said if code else sizes(graph_from_json(parse_json(said.encode(), "f")))


def door_run(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """The sizes of some functions, or of all, by the door that is the method."""
    logging.getLogger("jax").setLevel(logging.ERROR)
    return {"sizes": {name: by_door(name, method) for name in config.get("functions", CASES)}}
