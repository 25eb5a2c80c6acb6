"""The table of models: each a JAX function whose keyword arguments are the model's options, at realistic shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import schedule
from learned_mapping.programs.trace.user_function import Example
from learned_mapping.zoo import games, pixels, plain, recurrent, residual, tabular, temporal, transformer
from learned_mapping.zoo.examples import array, inference, train_step
from learned_mapping.zoo.layers import cross_entropy

INTEGERS = jnp.int32


@dataclass(frozen=True)
class Model:
    """One member of the zoo."""

    build: Callable[..., Example]
    """Makes the example; its keyword arguments, all with defaults, are the model's options."""
    source: str
    """The publication."""


def model(
    source: str,
    forward: Callable,
    inputs: Callable[..., tuple],
    optimiser: optax.GradientTransformation | None = None,
    *,
    bf16: bool = False,
    random: bool = False,
    **defaults: Any,
) -> Model:
    """A member: a forward pass, or with an optimiser a training step.

    Args:
      source: the publication.
      forward: uses haiku modules; of the inputs, to results, or to a loss where there is an optimiser.
      inputs: of an `array` of the model's floating-point type, and of sizes that are options of the member.
      optimiser: the update rule.
      bf16: default of the option of this name: whether parameters and inputs are bfloat16, not float32.
      random: whether the loss draws random numbers.
      **defaults: options of `forward` where they differ from its own defaults.
    """
    sizes = set(inspect.signature(inputs).parameters)

    def build(bf16: bool = bf16, **options: Any) -> Example:
        dtype = jnp.bfloat16 if bf16 else jnp.float32
        chosen = {name: value for name, value in options.items() if name in sizes}
        arrays = inputs(partial(array, dtype=dtype), **chosen)
        others = {name: value for name, value in (defaults | options).items() if name not in sizes}
        if optimiser is None:
            return inference(partial(forward, **others), *arrays, dtype=dtype)
        return train_step(partial(forward, **others), *arrays, optimiser=optimiser, dtype=dtype, random=random)

    return Model(build, source)


def images(size: int = 224, batch: int = 8, channels: int = 3) -> Callable[..., tuple]:
    return lambda f, batch=batch, size=size: (f(batch, size, size, channels),)


def labelled_images(batch: int = 32) -> Callable[..., tuple]:
    return lambda f, batch=batch, size=224: (f(batch, size, size, 3), array(batch, dtype=INTEGERS))


def steps(features: int = 1024, steps: int = 32) -> Callable[..., tuple]:
    return lambda f, batch=64, steps=steps, features=features: (f(steps, batch, features),)


def tokens(batch: int, length: int, further: int = 0) -> Callable[..., tuple]:
    """[batch, length + further]."""
    return lambda f, batch=batch, length=length: (array(batch, length + further, dtype=INTEGERS),)


def sequence_pair(f: Callable, batch: int = 64, length: int = 16) -> tuple:
    return array(length, batch, dtype=INTEGERS), array(length + 1, batch, dtype=INTEGERS)


def question(f: Callable, batch: int = 1, length: int = 384) -> tuple:
    return (array(batch, length, dtype=INTEGERS),) * 3


def answered_question(f: Callable, batch: int = 8, length: int = 128) -> tuple:
    return (*question(f, batch, length), *(array(batch, dtype=INTEGERS),) * 2)


def tensor_game(f: Callable, batch: int = 8, size: int = 4, history: int = 8, tokens: int = 12) -> tuple:
    return f(batch, history, size, size, size), f(batch, 2), array(batch, tokens, dtype=INTEGERS), f(batch)


def simulation(f: Callable, nodes: int = 8192, edges: int = 32_768, features: int = 32) -> tuple:
    ends = array(edges, dtype=INTEGERS)
    return f(nodes, features), f(edges, features), ends, ends, f(nodes, 3)


def classified(forward: Callable, **always: Any) -> Callable:
    """The loss of a model that returns scores: of its inputs and then the labels."""

    def loss(*inputs_and_labels: Any, **options: Any) -> Any:
        *inputs, labels = inputs_and_labels
        return cross_entropy(forward(*inputs, **always, **options), labels)

    return loss


def trained(forward: Callable) -> Callable:
    return classified(forward, training=True)


def answer_loss(*inputs: Any, **options: Any) -> Any:
    """Of the first and the last token of an answer."""
    *question, first, last = inputs
    starts, ends = transformer.bert_question_answering(*question, **options)
    return cross_entropy(jnp.log(starts), first) + cross_entropy(jnp.log(ends), last)


def pixel_loss(small: Any, large: Any, **options: Any) -> Any:
    return jnp.mean(jnp.abs(pixels.super_resolution(small, **options) - large))


def motion_loss(*inputs: Any, **options: Any) -> Any:
    return jnp.mean(jnp.square(tabular.graph_network(*inputs[:-1], **options) - inputs[-1]))


def translation(batch: int = 4, length: int = 64, bf16: bool = True, **options: Any) -> Example:
    dtype = jnp.bfloat16 if bf16 else jnp.float32
    loss = partial(transformer.translation_loss, **{"vocabulary": 8192, "layers": 10, "dtype": dtype, **options})
    source, target = array(batch, length, dtype=INTEGERS), array(batch, length + 1, dtype=INTEGERS)
    return train_step(loss, source, target, optimiser=optax.adam(1e-3), dtype=dtype)


def decoding(
    batch: int = 8, room: int = 1024, layers: int = 12, width: int = 768, heads: int = 12, bf16: bool = True, **o: Any
) -> Example:
    """One generated token per sequence; the caches are donated."""
    dtype = jnp.bfloat16 if bf16 else jnp.float32
    lane = array(batch, heads, room, width // heads, dtype=dtype)
    step = partial(transformer.decoder_step, width=width, heads=heads, **o)
    inputs = array(batch, dtype=INTEGERS), array(dtype=INTEGERS), [(lane, lane)] * layers
    made = inference(step, *inputs, dtype=dtype)
    return made._replace(donated=(len(made.args) - 1,))


MOMENTUM, ADAM = optax.sgd(0.1, momentum=0.9), optax.adam(1e-3)
_MOBILENET, _RESNET = "Howard et al. 2017, MobileNet v1", "He et al. 2015, Deep residual learning"
_SUPER = "Lim et al. 2017, EDSR, baseline size"

ZOO: dict[str, Model] = {
    # The first four bear the names of the programs of paper 1, table 2.
    "alexnet_train_batch_32": model(
        "Krizhevsky et al. 2012, ImageNet classification with deep CNNs", trained(plain.alexnet), labelled_images(),
        optax.sgd(0.01, momentum=0.9), bf16=True, random=True,
    ),
    "wavenet_coherent_batch32": model(
        "van den Oord et al. 2016, WaveNet", temporal.wavenet_loss,
        lambda f, batch=32, samples=256: (array(batch, samples + 1, dtype=INTEGERS),), ADAM, bf16=True, dilations=9,
    ),
    "AlphaTensor": model(
        "Fawzi et al. 2022, Discovering faster matrix multiplication algorithms", games.alphatensor_loss, tensor_game,
        optax.adamw(1e-4), iterations=6, channels=256, policy_width=512,
    ),
    "tensor2tensor_transformer_bf16": Model(translation, "Vaswani et al. 2017, Attention is all you need"),
    "transformer_train": model(
        "Vaswani et al. 2017, decoder only, 6 layers", transformer.language_model_loss, tokens(2, 256, 1), ADAM,
        vocabulary=8192,
    ),
    "bert_large_inference": model("Devlin et al. 2018, BERT", transformer.bert_question_answering, question),
    "bert_train": model(
        "Devlin et al. 2018, BERT, fine-tuning", answer_loss, answered_question, optax.adamw(3e-5), bf16=True
    ),
    "decoder_inference": Model(decoding, "Radford et al. 2019, GPT-2, one step with cached keys and values"),
    "mixture_of_experts_train": model(
        "Fedus et al. 2021, Switch Transformer", transformer.mixture_of_experts_loss, tokens(4, 256, 1), ADAM, bf16=True
    ),
    "vit_inference": model("Dosovitskiy et al. 2020, ViT-B/16", transformer.vision_transformer, images()),
    "vit_train": model(
        "Dosovitskiy et al. 2020, ViT-B/16", trained(transformer.vision_transformer), labelled_images(), MOMENTUM
    ),
    "mlp_mixer_inference": model("Tolstikhin et al. 2021, Mixer-S/16", transformer.mlp_mixer, images()),
    "alexnet_inference": model("Krizhevsky et al. 2012", plain.alexnet, images()),
    "lenet_inference": model("LeCun et al. 1998, LeNet-5", plain.lenet, images(28, channels=1)),
    "vgg16_inference": model("Simonyan and Zisserman 2014, VGG", plain.vgg, images()),
    "vgg16_train": model("Simonyan and Zisserman 2014, VGG", trained(plain.vgg), labelled_images(), MOMENTUM),
    "squeezenet_inference": model("Iandola et al. 2016, SqueezeNet 1.1", plain.squeezenet, images()),
    "squeezenet_train": model(
        "Iandola et al. 2016, SqueezeNet 1.1", trained(plain.squeezenet), labelled_images(), MOMENTUM
    ),
    "densenet121_inference": model("Huang et al. 2017, DenseNet", plain.densenet, images()),
    "densenet121_train": model("Huang et al. 2017, DenseNet", trained(plain.densenet), labelled_images(), MOMENTUM),
    "inception_inference": model("Szegedy et al. 2014, GoogLeNet", plain.inception, images()),
    "inception_train": model("Szegedy et al. 2014, GoogLeNet", trained(plain.inception), labelled_images(), MOMENTUM),
    "ssd_inference": model("Liu et al. 2016, SSD300", plain.ssd, images(300)),
    "mobilenet_inference": model(_MOBILENET, residual.mobilenet, images()),
    "mobilenet_train": model(_MOBILENET, trained(residual.mobilenet), labelled_images(), MOMENTUM),
    "resnet50_inference": model(_RESNET, residual.resnet, images(batch=16)),
    "resnet50_train": model(_RESNET, trained(residual.resnet), labelled_images(), MOMENTUM),
    "mnasnet_inference": model("Tan et al. 2019, MnasNet-B1", residual.mnasnet, images()),
    "mnasnet_train": model("Tan et al. 2019, MnasNet-B1", trained(residual.mnasnet), labelled_images(), MOMENTUM),
    "efficientnet_inference": model("Tan and Le 2019, EfficientNet-B0", residual.efficientnet, images()),
    "efficientnet_train": model(
        "Tan and Le 2019, EfficientNet-B0", trained(residual.efficientnet), labelled_images(), MOMENTUM
    ),
    "shufflenet_inference": model("Ma et al. 2018, ShuffleNet v2 1x", residual.shufflenet, images()),
    "shufflenet_train": model(
        "Ma et al. 2018, ShuffleNet v2 1x", trained(residual.shufflenet), labelled_images(), MOMENTUM
    ),
    "convnext_inference": model("Liu et al. 2022, ConvNeXt-T", residual.convnext, images()),
    "convnext_train": model("Liu et al. 2022, ConvNeXt-T", trained(residual.convnext), labelled_images(), MOMENTUM),
    "unet_inference": model("Ronneberger et al. 2015, U-Net", pixels.unet, images(256, batch=1)),
    "unet_train": model(
        "Ronneberger et al. 2015, U-Net", classified(pixels.unet),
        lambda f, batch=4, size=256: (f(batch, size, size, 3), array(batch, size, size, dtype=INTEGERS)),
        optax.adam(1e-4),
    ),
    "super_resolution_inference": model(_SUPER, pixels.super_resolution, images(128)),
    "super_resolution_train": model(
        _SUPER, pixel_loss,
        lambda f, batch=16, size=48: (f(batch, size, size, 3), f(batch, 2 * size, 2 * size, 3)), optax.adam(1e-4),
    ),
    "autoencoder_train": model(
        "Kingma and Welling 2013, variational autoencoder", pixels.autoencoder_loss, images(64, 64), ADAM, random=True
    ),
    "dcgan_train": model(
        "Radford et al. 2015, DCGAN", pixels.adversarial_loss,
        lambda f, batch=128, noise=100: (f(batch, 64, 64, 3), f(batch, noise)), optax.adam(2e-4, b1=0.5),
    ),
    "wavenet_inference": model(
        "van den Oord et al. 2016, WaveNet", temporal.wavenet,
        lambda f, batch=1, samples=4096: (array(batch, samples, dtype=INTEGERS),),
    ),
    "tcn_train": model(
        "Bai et al. 2018, TCN", trained(temporal.temporal_convolution),
        lambda f, batch=16, steps=1024, features=64: (f(batch, steps, features), array(batch, steps, dtype=INTEGERS)),
        ADAM,
    ),
    "lstm": model(
        "Hochreiter and Schmidhuber 1997, stacked", recurrent.recurrent_classifier, steps(), core="lstm"
    ),
    "gru": model("Cho et al. 2014, stacked", recurrent.recurrent_classifier, steps(), core="gru"),
    "vanilla_rnn": model("Elman 1990, stacked", recurrent.recurrent_classifier, steps(), core="rnn"),
    "bidirectional_tagger": model(
        "Graves and Schmidhuber 2005, bidirectional LSTM", recurrent.bidirectional_tagger, steps(256, 12)
    ),
    "language_model_train": model(
        "Zaremba et al. 2014, LSTM language model; also GRU, simple RNN", recurrent.recurrent_language_model_loss,
        lambda f, batch=64, steps=35: (array(steps + 1, batch, dtype=INTEGERS),), optax.sgd(1.0),
    ),
    "seq2seq_train": model("Sutskever et al. 2014, seq2seq", recurrent.seq2seq_loss, sequence_pair, ADAM),
    "nmt_train": model(
        "Wu et al. 2016, GNMT with attention", recurrent.translation_by_lstm_loss, sequence_pair, ADAM
    ),
    "alphazero_train": model(
        "Silver et al. 2017, AlphaZero", games.alphazero_loss,
        lambda f, batch=64, planes=17: (f(batch, 19, 19, planes), array(batch, 362), array(batch)),
        optax.sgd(0.01, momentum=0.9),
    ),
    "dlrm_train": model(
        "Naumov et al. 2019, DLRM", tabular.dlrm_loss,
        lambda f, batch=2048, tables=26: (f(batch, 13), array(batch, tables, dtype=INTEGERS), f(batch)), optax.sgd(0.1),
    ),
    "tabnet_train": model(
        "Arik and Pfister 2019, TabNet", trained(tabular.tabnet),
        lambda f, batch=4096, features=512: (f(batch, features), array(batch, dtype=INTEGERS)), optax.adam(1e-2),
    ),
    "pointnet_train": model(
        "Qi et al. 2017, PointNet", trained(tabular.pointnet),
        lambda f, batch=32, points=1024: (f(batch, points, 3), array(batch, dtype=INTEGERS)), ADAM,
    ),
    "graph_network_train": model(
        "Sanchez-Gonzalez et al. 2020, graph network simulator", motion_loss, simulation, optax.adam(1e-4)
    ),
}  # fmt: skip
"""Members by name."""


def example(name: str, **options: Any) -> Example:
    """A member's function and abstract arguments.

    Args:
      name: a key of `ZOO`.
      **options: keyword arguments of the member's builder, or of the model it builds.

    Raises:
      InputError: unknown member or option.
    """
    if name not in ZOO:
        raise InputError("zoo", "", f"no model is named {name!r}, known are {', '.join(ZOO)}")
    try:
        return ZOO[name].build(**options)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError("zoo", name, f"options {options} do not fit: {error}") from None


def graph(name: str, **options: Any) -> ComputationGraph:
    """The computation graph of a member, its parameters folded; raises `InputError` as `example`."""
    made = example(name, **options)
    return trace(made.function, *made.args, name=name, parameters=made.parameters)


def program(name: str, machine: Any, **options: Any) -> Program:
    """The scheduled program of a member on a machine (see `schedule`); raises `InputError` as `example`."""
    made = example(name, **options)
    return schedule(made.function, *made.args, machine=machine, name=name, donated=made.donated)
