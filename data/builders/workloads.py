"""The sixty workloads of paper 1's set: what each is, and the function that is compiled for it.

The paper takes 52 programs of the XLA benchmark and 8 from across a fleet (section 5.1). None is
public, though it names thirteen. Here each is a public model, of the zoo or of `workload_models`,
compiled; none is synthetic. Those that the paper names bear its names, and are models of the same
kind, not its programs; the others are named in the same spirit.

How the numbers of buffers were reached. They are what `hlo_program.hlo_program` finds in the
compiler's schedule (libtpu 0.0.42, TPU v4). What repeats in a model was chosen (layers, blocks,
time steps, cycles of dilations) so that the sixty spread evenly on a logarithmic scale over the
range of the paper's figure 9, and so that the four programs whose number the paper gives come
within 15% of it; most models have their published depth. Batch, width and sequence length change
the number little, except where the compiler tiles a large convolution differently; they were chosen
at sizes usual for the model, so that the arrays in use outgrow the 64 MiB of CMEM and the
compiler's own mapping leaves a good part of them in HBM. No method of this project was run to
choose anything. Another version of the compiler fuses differently and gives other numbers.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import jax

from learned_mapping.errors import InputError

from .fresh_models import FRESH
from .workload_models import MODELS

BENCHMARK = "benchmark"
FLEET = "fleet"
UNSEEN = "fresh"


@dataclass(frozen=True)
class Workload:
    """One program of the set."""

    name: str
    kind: str  # `BENCHMARK`, `FLEET` or `UNSEEN`.
    model: str  # A key of `MODELS`, or of `FRESH`.
    options: Mapping[str, Any] = field(default_factory=dict)
    """The member's options that differ from its defaults."""
    paper_buffers: int | None = None
    """Number of buffers that the paper reports for the program of this name, where it does (table
    2)."""


def _workload(
    kind: str, name: str, model: str, paper_buffers: int | None = None, **options: Any
) -> Workload:
    return Workload(name, kind, model, MappingProxyType(options), paper_buffers)


_benchmark, _fleet = (functools.partial(_workload, kind) for kind in (BENCHMARK, FLEET))
_TABLE = (
    # Named in the paper.
    _benchmark("alexnet_train_batch_32", "alexnet_train_batch_32", 300),
    _benchmark(
        "wavenet_coherent_batch32", "wavenet_coherent_batch32", 3020, cycles=4, samples=1024
    ),
    _benchmark(
        "tensor2tensor_transformer_bf16",
        "tensor2tensor_transformer_bf16",
        9888,
        batch=64,
        length=128,
    ),
    _benchmark(
        "tensor2tensor_transformer",
        "tensor2tensor_transformer_bf16",
        bf16=False,
        layers=6,
        batch=64,
        length=128,
    ),
    _benchmark("inference_lstm", "lstm", width=1280, layers=3, steps=40, batch=128),
    _benchmark("inference_resnet", "resnet50_inference", batch=32),
    _benchmark("mnasnet_b1_batch_128", "mnasnet_train", batch=128),
    _benchmark("mlperf_nmt_1_shard_batch_64", "nmt_train"),
    _benchmark("rnn_2", "language_model_train", core="gru", width=1024, steps=16),
    _benchmark("rnn_3", "language_model_train", core="lstm", width=1024, steps=16, batch=128),
    _benchmark("rnn_6", "language_model_train", core="lstm", width=1500, steps=35),
    _benchmark("rnn_7", "language_model_train", core="gru", width=1500, steps=24),
    # Recurrent.
    _benchmark("rnn_0", "vanilla_rnn", width=3072, layers=1, steps=19, batch=1024),
    _benchmark("rnn_1", "language_model_train", core="rnn", width=1024, steps=20),
    _benchmark(
        "rnn_4", "language_model_train", core="rnn", width=2048, layers=1, steps=6, batch=256
    ),
    _benchmark("rnn_5", "bidirectional_tagger", width=2048, features=1024, steps=24, batch=256),
    _benchmark("inference_gru", "gru", width=1536, steps=40, batch=128),
    _benchmark("seq2seq_train_batch_128", "seq2seq_train", batch=128, length=20),
    # Convolutional, inference.
    _benchmark("inference_mobilenet", "mobilenet_inference", batch=64),
    _benchmark("inference_mnasnet", "mnasnet_inference", batch=64),
    _benchmark("inference_efficientnet", "efficientnet_inference", batch=32),
    _benchmark("inference_shufflenet", "shufflenet_inference", batch=128),
    _benchmark("inference_inception", "inception_inference", batch=32),
    _benchmark("inference_densenet", "densenet121_inference", batch=32),
    _benchmark("inference_convnext", "convnext_inference", batch=16),
    _benchmark("inference_unet", "unet_inference", batch=2),
    _benchmark("inference_super_resolution", "super_resolution_inference", batch=4, blocks=24),
    _benchmark("inference_wavenet", "wavenet_inference", batch=4, samples=8192),
    _benchmark("mlperf_ssd", "ssd_inference", batch=8),
    # Convolutional, training.
    _benchmark("mlperf_resnet50_batch_32", "resnet50_train"),
    _benchmark("vgg16_train_batch_32", "vgg16_train"),
    _benchmark("squeezenet_train_batch_64", "squeezenet_train", batch=64),
    _benchmark("mobilenet_train_batch_64", "mobilenet_train", batch=64),
    _benchmark("inception_train_batch_32", "inception_train"),
    _benchmark("densenet_train_batch_32", "densenet121_train"),
    _benchmark("efficientnet_train_batch_32", "efficientnet_train"),
    _benchmark("shufflenet_train_batch_128", "shufflenet_train", batch=128),
    _benchmark("convnext_train_batch_32_bf16", "convnext_train", bf16=True),
    _benchmark("unet_train_batch_4", "unet_train"),
    _benchmark("autoencoder_train_batch_256", "autoencoder_train", batch=256, size=128),
    _benchmark("dcgan_train_batch_256", "dcgan_train", batch=256),
    _benchmark("tcn_train_batch_32", "tcn_train", batch=32),
    # Attention, mixing, tables, points, graphs.
    _benchmark("inference_mixer", "mlp_mixer_inference", batch=128),
    _benchmark("inference_vit", "vit_inference", batch=64),
    _benchmark("inference_bert", "bert_large_inference", batch=8, layers=12, width=768, heads=12),
    _benchmark("mlperf_bert_batch_16", "bert_train", layers=12, width=768, heads=12, batch=16),
    _benchmark("vit_train_batch_32_bf16", "vit_train", bf16=True),
    _benchmark("transformer_train_batch_16", "transformer_train", batch=16, layers=4),
    _benchmark("mlperf_dlrm_batch_8192", "dlrm_train", batch=8192),
    _benchmark("tabnet_train_batch_16384", "tabnet_train", batch=16384),
    _benchmark("pointnet_train_batch_32", "pointnet_train"),
    _benchmark("graph_network_train", "graph_network_train"),
    # Large footprints, as across a fleet.
    _fleet("AlphaTensor", "AlphaTensor", 9084, batch=256),
    _fleet("fleet_transformer_46_layers", "transformer_train", layers=46, batch=16),
    _fleet("fleet_bert_large", "bert_train", length=256),
    _fleet("fleet_vit_large", "vit_train", batch=16, layers=24, width=1024, heads=16, bf16=True),
    _fleet("fleet_resnet152", "resnet50_train", depth=152, batch=16, bf16=True),
    _fleet("fleet_alphazero", "alphazero_train", batch=128),
    _fleet("fleet_mixture_of_experts", "mixture_of_experts_train", layers=6, batch=8),
    _fleet(
        "fleet_decoder_batch_32", "decoder_inference", batch=32, layers=24, width=1024, heads=16
    ),
)

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {workload.name: workload for workload in _TABLE}
)
"""The sixty by name; names the paper gives first, then by family."""
_SMALLER: dict[str, dict[str, Any]] = {
    "conformer_train": {"layers": 4},
    "diffusion_train": {"blocks": 1},
    "resnext_train": {"stages": (2, 2, 2, 2)},
}
FRESH_WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {name: _workload(UNSEEN, name, name, **_SMALLER.get(name, {})) for name in FRESH}
)
"""Twelve of other families, in the sizes of their publications but for three. Families and sizes
were fixed before any method ran on them."""


def workload(name: str) -> Workload:
    """One of the sixty or of the twelve; raises `InputError` for a name that is not among them."""
    known = WORKLOADS | FRESH_WORKLOADS
    if name not in known:
        raise InputError(
            "workload", "", f"no workload is named {name!r}, known are {', '.join(known)}"
        )
    return known[name]


def function_and_arguments(
    name: str,
) -> tuple[Callable[..., list[Any]], tuple[Any, ...], tuple[int, ...]]:
    """What `extract.extract` takes for a workload: function, abstract arguments and the numbers of
    the donated ones.

    The function takes and returns arrays one by one, not in the nested containers of the model: the
    compiler's process cannot rebuild an optimiser's own types, and this way every donated array is
    an argument of its own.

    Raises:
      InputError: no workload has that name.
    """
    chosen = workload(name)
    model = (MODELS | FRESH)[chosen.model].build(**chosen.options)
    leaves, structure = jax.tree_util.tree_flatten(model.args)
    counts = [len(jax.tree_util.tree_leaves(argument)) for argument in model.args]
    starts = [0, *itertools.accumulate(counts)]
    donated = tuple(i for d in model.donated for i in range(starts[d], starts[d] + counts[d]))

    def function(*arrays: Any) -> list[Any]:
        return jax.tree_util.tree_leaves(
            model.function(*jax.tree_util.tree_unflatten(structure, arrays))
        )

    return function, tuple(leaves), donated
