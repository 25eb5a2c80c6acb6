"""The set ``regal-graphs``: what paper 3's baselines are tuned on and compared on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.programs.graph import ComputationGraph
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from . import zoo
from .building import Items, as_json

MEMBERS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "test": {
        "alexnet-train": ("alexnet_train_batch_32", {}),
        "squeezenet": ("squeezenet_inference", {"padding": "SAME"}),
        "inception": ("inception_inference", {}),
        "unet": ("unet_inference", {}),
        "resnet50": ("resnet50_inference", {}),
        "densenet-15": ("densenet121_inference", {"blocks": (3, 6, 6)}),
        "mixer-4": ("mlp_mixer_inference", {"layers": 4}),
        "wavenet-20": ("wavenet_inference", {"cycles": 2}),
        "wavenet-4-train": ("wavenet_coherent_batch32", {"cycles": 1, "dilations": 4}),
        "lstm-2x8": ("lstm", {"steps": 8}),
        "lstm-3x6": ("lstm", {"steps": 6, "layers": 3}),
        "gru-3x8": ("gru", {"steps": 8, "layers": 3}),
        "tagger-6": ("bidirectional_tagger", {"steps": 6}),
        "transformer-1-train": ("transformer_train", {"layers": 1}),
        "translation-1-train": ("tensor2tensor_transformer_bf16", {"layers": 1}),
        "bert-2": ("bert_large_inference", {"layers": 2, "length": 128}),
    },
    "train": {
        "alexnet": ("alexnet_inference", {}),
        "lenet": ("lenet_inference", {}),
        "vgg16": ("vgg16_inference", {}),
        "mobilenet": ("mobilenet_inference", {}),
        "unet-3": ("unet_inference", {"depth": 3}),
        "densenet-6": ("densenet121_inference", {"blocks": (2, 4)}),
        "mixer-2": ("mlp_mixer_inference", {"layers": 2}),
        "wavenet-2-train": ("wavenet_coherent_batch32", {"cycles": 1, "dilations": 2}),
        "wavenet-8": ("wavenet_inference", {"cycles": 1, "dilations": 8}),
        "gru-2x5": ("gru", {"steps": 5}),
        "gru-4x3": ("gru", {"steps": 3, "layers": 4}),
        "tagger-3": ("bidirectional_tagger", {"steps": 3}),
        "bert-1": ("bert_large_inference", {"layers": 1, "length": 128}),
    },
}
"""Split -> name -> member of the zoo and its options. No test graph has the topology of a training
graph."""


def make(split: str, name: str) -> ComputationGraph:
    """One graph of the set, traced anew.

    Its weights are left out: they would only raise the floor of both devices, and the paper's cost
    model knows tensors alone (appendix A.1).
    """
    member, options = MEMBERS[split][name]
    graph = zoo.graph(member, **options)
    return replace(graph, name=name, op_weight_bytes=np.zeros_like(graph.op_weight_bytes))


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Traces `MEMBERS` into ``FOLDER/SPLIT/NAME.json.gz``; there is no randomness."""
    items = Items(folder, sum(map(len, MEMBERS.values())), progress)
    for split, members in MEMBERS.items():
        for name, (member, options) in members.items():
            graph = make(split, name)
            facts = {"model": member, "options": as_json(options)}
            facts |= {"ops": graph.num_ops, "tensors": graph.num_tensors, "edges": graph.num_edges}
            items.add(f"{split}/{name}.json.gz", graph, split=split, **facts)
    return Manifest("regal-graphs", SETS["regal-graphs"].about, None, tuple(items))
