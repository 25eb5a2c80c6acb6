"""What the stored sets of papers 2 and 3 would cost, had an op been charged for what it touches when they were made.

`saved`, a module's function as `registry.builder` finds it, traces all models of a set again; some minutes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from learned_mapping.companion.datasets.registry import stored_manifest
from learned_mapping.hardware.chip_package import ChipPackage, graph_work
from learned_mapping.hardware.chip_package import op_seconds as chip_seconds
from learned_mapping.hardware.device_pair import DevicePair, op_seconds
from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.trace.graph import trace

from . import mcm_members
from . import regal_traced_graphs as traced


def graphs(name: str) -> Iterator[ComputationGraph]:
    """The graphs of a set, traced now, with what they do not touch; those of paper 3 without their weights."""
    for item in stored_manifest(name).items:
        made = (
            mcm_members.model_of(item.name)
            if name == "mcm-graphs"
            else traced.model_of(traced.configuration(item.name))
        )
        graph = trace(made.function, *made.args, name=item.name, parameters=made.parameters)
        if name == "regal-traced" and graph.op_untouched_bytes is not None:
            untouched = np.maximum(graph.op_untouched_bytes - graph.op_weight_bytes, 0)
            graph = dataclasses.replace(graph, op_untouched_bytes=frozen_array(untouched, np.int64))
        if name == "regal-traced":
            none = frozen_array(np.zeros(graph.num_ops), np.int64)
            graph = dataclasses.replace(graph, op_weight_bytes=none)
        yield graph


def saved(name: str) -> np.ndarray:
    """Of each graph of a set, the share of the sum of its ops' times that is charged for bytes that no op touches."""

    def seconds(graph: ComputationGraph) -> float:
        if name == "regal-traced":
            return float(op_seconds(graph, DevicePair()).sum())
        return float(chip_seconds(graph_work(graph), ChipPackage()).sum())

    found = []
    for graph in graphs(name):
        whole = seconds(dataclasses.replace(graph, op_untouched_bytes=None))
        found.append(1 - seconds(graph) / whole if whole else 0.0)
    return np.array(found)
