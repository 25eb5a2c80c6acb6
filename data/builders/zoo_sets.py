"""The sets ``graphs`` and ``programs``: public models traced, and scheduled for the memory
hierarchy."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from . import zoo
from .building import Items
from .synthetic_programs import peak_live_bytes

GRAPHS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert_large_inference": ("bert_large_inference", {}),
    "alexnet_inference": ("alexnet_inference", {}),
    "lenet_inference": ("lenet_inference", {}),
    "vgg11_inference": ("vgg16_inference", {"depth": 11}),
    "vgg16_inference": ("vgg16_inference", {}),
    "vgg19_inference": ("vgg16_inference", {"depth": 19}),
    "squeezenet_inference": ("squeezenet_inference", {}),
    "mobilenet_inference": ("mobilenet_inference", {}),
    "mobilenet_half_inference": ("mobilenet_inference", {"width": 0.5}),
    "unet_inference": ("unet_inference", {}),
    "unet_depth_3_inference": ("unet_inference", {"depth": 3, "channels": 32}),
    "densenet121_inference": ("densenet121_inference", {}),
    "densenet_small_inference": ("densenet121_inference", {"blocks": (4, 6, 8, 6), "growth": 16}),
    "resnet50_inference": ("resnet50_inference", {}),
    "resnet101_inference": ("resnet50_inference", {"depth": 101}),
    "inception_inference": ("inception_inference", {}),
    "mlp_mixer_inference": ("mlp_mixer_inference", {}),
    "mlp_mixer_4_layers_inference": ("mlp_mixer_inference", {"layers": 4}),
    "wavenet_inference": ("wavenet_inference", {}),
    "wavenet_1_cycle_inference": ("wavenet_inference", {"cycles": 1}),
    "lstm_4_steps": ("lstm", {"steps": 4}),
    "lstm_8_steps": ("lstm", {"steps": 8}),
    "lstm_1_layer_16_steps": ("lstm", {"steps": 16, "layers": 1}),
    "gru_4_steps": ("gru", {"steps": 4}),
    "gru_8_steps": ("gru", {"steps": 8}),
    "bidirectional_tagger": ("bidirectional_tagger", {}),
    "bidirectional_tagger_6_steps": ("bidirectional_tagger", {"steps": 6}),
}
"""Stored graphs: member of the zoo and options. All but the first have no attention."""
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "alexnet_train_batch_32": ("alexnet_train_batch_32", {}),
    "wavenet_coherent_batch32": ("wavenet_coherent_batch32", {}),
    "AlphaTensor": ("AlphaTensor", {}),
    "tensor2tensor_transformer_bf16": ("tensor2tensor_transformer_bf16", {}),
    "transformer_train": ("transformer_train", {}),
    "resnet50_inference": ("resnet50_inference", {}),
    "lstm": ("lstm", {}),
    "gru": ("gru", {}),
    "resnet50_train_batch_4": ("resnet50_train", {"batch": 4}),
    "bert_large_inference": ("bert_large_inference", {}),
    "densenet121_inference": ("densenet121_inference", {"batch": 16}),
    "inception_inference": ("inception_inference", {"batch": 32}),
    "mobilenet_inference": ("mobilenet_inference", {"batch": 32}),
    "mlp_mixer_inference": ("mlp_mixer_inference", {"batch": 32}),
    "wavenet_inference": ("wavenet_inference", {}),
}
"""Stored programs: member of the zoo and options. The first four are paper 1's table 2."""


def build_graphs(
    folder: Path, *, progress: Progress | None = None, chosen: Iterable[str] = GRAPHS
) -> Manifest:
    """Traces the chosen of `GRAPHS` into ``FOLDER/NAME.json.gz``; there is no randomness."""
    items = Items(folder, len(GRAPHS), progress)
    for name in chosen:
        member, options = GRAPHS[name]
        graph = replace(zoo.graph(member, **options), name=name)
        facts = {
            "model": member,
            "ops": graph.num_ops,
            "edges": graph.num_edges,
            "gflop": round(float(graph.op_flop.sum()) / 1e9, 2),
            "parameters_millions": round(graph.metadata["parameters"] / 1e6, 2),
        }
        items.add(f"{name}.json.gz", graph, **facts)
    return Manifest("graphs", SETS["graphs"].about, None, tuple(items))


def build_programs(
    folder: Path, *, progress: Progress | None = None, chosen: Iterable[str] = PROGRAMS
) -> Manifest:
    """Schedules the chosen of `PROGRAMS` into ``FOLDER/NAME.json.gz``; there is no randomness."""
    items = Items(folder, len(PROGRAMS), progress)
    for name in chosen:
        member, options = PROGRAMS[name]
        program = replace(zoo.program(member, MemoryHierarchy(), **options), name=name)
        demand = float(program.buffer_demand_s[~program.buffer_is_output].sum())
        facts = {
            "model": member,
            "instructions": program.num_instructions,
            "buffers": program.num_buffers,
            "alias_groups": program.num_alias_groups,
            "slow_ms": round(float(program.slow_s.sum()) * 1e3, 3),
            "possible_saving_ms": round(program.possible_saving_s * 1e3, 3),
            "fast_over_peak_bytes": round(program.fast_bytes / peak_live_bytes(program), 3),
            "operand_demand_over_supply": round(demand / float(program.supply_s.sum()), 2),
        }
        items.add(f"{name}.json.gz", program, **facts)
    return Manifest("programs", SETS["programs"].about, None, tuple(items))
