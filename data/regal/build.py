"""Traces the graphs under data/regal/graphs anew and prints the table of the card.

Usage: python data/regal/build.py
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from learned_mapping.programs import zoo
from learned_mapping.programs.formats import write_graph

TEST = {
    "alexnet-train": ("alexnet_train_batch_32", {}),
    "squeezenet": ("squeezenet_inference", {}),
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
}
TRAIN = {
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
}


def main() -> None:
    print("| split | graph | model and options | ops | tensors | edges |")
    print("|---|---|---|---:|---:|---:|")
    for split, members in (("test", TEST), ("train", TRAIN)):
        for name, (member, options) in members.items():
            graph = zoo.graph(member, **options)
            # Weights would only raise the floor of both devices; the paper's model knows tensors alone.
            graph = dataclasses.replace(graph, name=name, op_weight_bytes=np.zeros_like(graph.op_weight_bytes))
            write_graph(Path(__file__).parent / "graphs" / split / f"{name}.json.gz", graph)
            text = ", ".join(f"{key}={value}" for key, value in options.items())
            print(
                f"| {split} | {name} | `{member}` {text} | {graph.num_ops} | {graph.num_tensors} | {graph.num_edges} |"
            )


if __name__ == "__main__":
    main()
