"""The table of models: each a JAX function whose keyword arguments are the model's options, at
realistic shapes."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import jax.numpy as jnp
import optax

from learned_mapping.doors.user_function import Example
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.programs.trace import dataflow, primitive_costs
from learned_mapping.programs.trace.dataflow import flatten
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.operations import Dataflow
from learned_mapping.programs.trace.schedule import schedule_dataflow

from . import games, pixels, plain, recurrent, residual, tabular, temporal, transformer
from .examples import array, inference, train_step
from .layers import cross_entropy

integers = partial(array, dtype=jnp.int32)
STORED_RULES = ("stack", "unstack", "random_split", "integer_pow")
"""Primitives that had no rule when the stored sets were made, or one FLOP per element for one."""
STORED_OPS = frozenset(("stop_gradient", "random_wrap", "random_unwrap"))
"""Marks that were operations."""


@dataclasses.dataclass(frozen=True)
class Model:
    """One member of the zoo."""

    build: Callable[..., Example]
    """Makes the example; its keyword arguments, all with defaults, are the model's options."""
    source: str  # The publication.


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
      forward: uses haiku modules; of the inputs, to results, or to a loss where there is an
        optimiser.
      inputs: of an `array` of the model's floating-point type, and of sizes that are options of the
        member.
      optimiser: the update rule.
      bf16: default of the option of this name: whether parameters and inputs are bfloat16, not
        float32.
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
        return train_step(
            partial(forward, **others), *arrays, optimiser=optimiser, dtype=dtype, random=random
        )

    return Model(build, source)


def images(size: int = 224, batch: int = 8, channels: int = 3) -> Callable[..., tuple]:
    return lambda f, batch=batch, size=size: (f(batch, size, size, channels),)


def labelled_images(f: Callable, batch: int = 32, size: int = 224) -> tuple:
    return f(batch, size, size, 3), integers(batch)


def steps(features: int = 1024, steps: int = 32) -> Callable[..., tuple]:
    return lambda f, batch=64, steps=steps, features=features: (f(steps, batch, features),)


def tokens(batch: int, length: int, further: int = 0) -> Callable[..., tuple]:
    """[batch, length + further]."""
    return lambda f, batch=batch, length=length: (integers(batch, length + further),)


def sequence_pair(f: Callable, batch: int = 64, length: int = 16) -> tuple:
    return integers(length, batch), integers(length + 1, batch)


def question(f: Callable, batch: int = 1, length: int = 384) -> tuple:
    return (integers(batch, length),) * 3


def answered_question(f: Callable, batch: int = 8, length: int = 128) -> tuple:
    return (*question(f, batch, length), *(integers(batch),) * 2)


def tensor_game(
    f: Callable, batch: int = 8, size: int = 4, history: int = 8, tokens: int = 12
) -> tuple:
    return f(batch, history, size, size, size), f(batch, 2), integers(batch, tokens), f(batch)


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


def translation(batch: int = 4, length: int = 64, bf16: bool = True, **options: Any) -> Example:
    dtype = jnp.bfloat16 if bf16 else jnp.float32
    loss = partial(
        transformer.translation_loss,
        **{"vocabulary": 8192, "layers": 10, "dtype": dtype, **options},
    )
    source, target = integers(batch, length), integers(batch, length + 1)
    return train_step(loss, source, target, optimiser=optax.adam(1e-3), dtype=dtype)


def decoding(
    batch: int = 8,
    room: int = 1024,
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    bf16: bool = True,
    **o: Any,
) -> Example:
    """One generated token per sequence; the caches are donated."""
    dtype = jnp.bfloat16 if bf16 else jnp.float32
    lane = array(batch, heads, room, width // heads, dtype=dtype)
    step = partial(transformer.decoder_step, width=width, heads=heads, **o)
    inputs = integers(batch), integers(), [(lane, lane)] * layers
    result = inference(step, *inputs, dtype=dtype)
    return result._replace(donated=(len(result.args) - 1,))


ADAM = optax.adam(1e-3)
IMAGE_MODELS = {
    "vgg16": ("Simonyan and Zisserman 2014, VGG", plain.vgg),
    "squeezenet": ("Iandola et al. 2016, SqueezeNet 1.1", plain.squeezenet),
    "densenet121": ("Huang et al. 2017, DenseNet", plain.densenet),
    "inception": ("Szegedy et al. 2014, GoogLeNet", plain.inception),
    "mobilenet": ("Howard et al. 2017, MobileNet v1", residual.mobilenet),
    "resnet50": ("He et al. 2015, Deep residual learning", residual.resnet),
    "mnasnet": ("Tan et al. 2019, MnasNet-B1", residual.mnasnet),
    "efficientnet": ("Tan and Le 2019, EfficientNet-B0", residual.efficientnet),
    "shufflenet": ("Ma et al. 2018, ShuffleNet v2 1x", residual.shufflenet),
    "convnext": ("Liu et al. 2022, ConvNeXt-T", residual.convnext),
    "vit": ("Dosovitskiy et al. 2020, ViT-B/16", transformer.vision_transformer),
}
"""Members ``NAME_inference`` and ``NAME_train``, the latter with momentum."""

ZOO: dict[str, Model] = {
    # The first four bear the names of the programs of paper 1, table 2.
    "alexnet_train_batch_32": model(
        "Krizhevsky et al. 2012, ImageNet classification with deep CNNs",
        trained(plain.alexnet),
        labelled_images,
        optax.sgd(0.01, momentum=0.9),
        bf16=True,
        random=True,
    ),
    "wavenet_coherent_batch32": model(
        "van den Oord et al. 2016, WaveNet",
        temporal.wavenet_loss,
        lambda f, batch=32, samples=256: (integers(batch, samples + 1),),
        ADAM,
        bf16=True,
        dilations=9,
    ),
    "AlphaTensor": model(
        "Fawzi et al. 2022, Discovering faster matrix multiplication algorithms",
        games.alphatensor_loss,
        tensor_game,
        optax.adamw(1e-4),
        iterations=6,
        channels=256,
        policy_width=512,
    ),
    "tensor2tensor_transformer_bf16": Model(
        translation, "Vaswani et al. 2017, Attention is all you need"
    ),
    "transformer_train": model(
        "Vaswani et al. 2017, decoder only, 6 layers",
        transformer.language_model_loss,
        tokens(2, 256, 1),
        ADAM,
        vocabulary=8192,
    ),
    "bert_large_inference": model(
        "Devlin et al. 2018, BERT", transformer.bert_question_answering, question
    ),
    "bert_train": model(
        "Devlin et al. 2018, BERT, fine-tuning",
        answer_loss,
        answered_question,
        optax.adamw(3e-5),
        bf16=True,
    ),
    "decoder_inference": Model(
        decoding, "Radford et al. 2019, GPT-2, one step with cached keys and values"
    ),
    "mlp_mixer_inference": model(
        "Tolstikhin et al. 2021, Mixer-S/16", transformer.mlp_mixer, images()
    ),
    "alexnet_inference": model("Krizhevsky et al. 2012", plain.alexnet, images()),
    "lenet_inference": model("LeCun et al. 1998, LeNet-5", plain.lenet, images(28, channels=1)),
    "ssd_inference": model("Liu et al. 2016, SSD300", plain.ssd, images(300)),
    "unet_inference": model("Ronneberger et al. 2015, U-Net", pixels.unet, images(256, batch=1)),
    "unet_train": model(
        "Ronneberger et al. 2015, U-Net",
        classified(pixels.unet),
        lambda f, batch=4, size=256: (f(batch, size, size, 3), integers(batch, size, size)),
        optax.adam(1e-4),
    ),
    "super_resolution_inference": model(
        "Lim et al. 2017, EDSR, baseline size", pixels.super_resolution, images(128)
    ),
    "super_resolution_train": model(
        "Lim et al. 2017, EDSR, baseline size",
        pixel_loss,
        lambda f, batch=16, size=48: (f(batch, size, size, 3), f(batch, 2 * size, 2 * size, 3)),
        optax.adam(1e-4),
    ),
    "autoencoder_train": model(
        "Kingma and Welling 2013, variational autoencoder",
        pixels.autoencoder_loss,
        images(64, 64),
        ADAM,
        random=True,
    ),
    "wavenet_inference": model(
        "van den Oord et al. 2016, WaveNet",
        temporal.wavenet,
        lambda f, batch=1, samples=4096: (integers(batch, samples),),
    ),
    "tcn_train": model(
        "Bai et al. 2018, TCN",
        trained(temporal.temporal_convolution),
        lambda f, batch=16, steps=1024, features=64: (
            f(batch, steps, features),
            integers(batch, steps),
        ),
        ADAM,
    ),
    "lstm": model(
        "Hochreiter and Schmidhuber 1997, stacked",
        recurrent.recurrent_classifier,
        steps(),
        core="lstm",
    ),
    "gru": model("Cho et al. 2014, stacked", recurrent.recurrent_classifier, steps(), core="gru"),
    "vanilla_rnn": model(
        "Elman 1990, stacked", recurrent.recurrent_classifier, steps(), core="rnn"
    ),
    "bidirectional_tagger": model(
        "Graves and Schmidhuber 2005, bidirectional LSTM",
        recurrent.bidirectional_tagger,
        steps(256, 12),
    ),
    "language_model_train": model(
        "Zaremba et al. 2014, LSTM language model; also GRU, simple RNN",
        recurrent.recurrent_language_model_loss,
        lambda f, batch=64, steps=35: (integers(steps + 1, batch),),
        optax.sgd(1.0),
    ),
    "seq2seq_train": model(
        "Sutskever et al. 2014, seq2seq", recurrent.seq2seq_loss, sequence_pair, ADAM
    ),
    "alphazero_train": model(
        "Silver et al. 2017, AlphaZero",
        games.alphazero_loss,
        lambda f, batch=64, planes=17: (f(batch, 19, 19, planes), array(batch, 362), array(batch)),
        optax.sgd(0.01, momentum=0.9),
    ),
    "dlrm_train": model(
        "Naumov et al. 2019, DLRM",
        tabular.dlrm_loss,
        lambda f, batch=2048, tables=26: (f(batch, 13), integers(batch, tables), f(batch)),
        optax.sgd(0.1),
    ),
}
"""Members by name."""
for _name, (_source, _forward) in IMAGE_MODELS.items():
    ZOO[f"{_name}_inference"] = model(
        _source, _forward, images(batch=16 if _name == "resnet50" else 8)
    )
    ZOO[f"{_name}_train"] = model(
        _source, trained(_forward), labelled_images, optax.sgd(0.1, momentum=0.9)
    )


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


@contextmanager
def stored_costs() -> Iterator[None]:
    """A context in which `STORED_RULES` have no rule and are charged one FLOP per element of their
    results, `STORED_OPS` are operations, and none is spelled out."""
    without = {name: None for name in STORED_RULES}
    marks = primitive_costs.MARKS - STORED_OPS
    with (
        mock.patch.dict(primitive_costs.RULES, without),
        mock.patch.object(dataflow, "MARKS", marks),
        mock.patch.object(dataflow, "SPELLED", {}),
    ):
        yield


def frozen_trace(case: Example, name: str) -> ComputationGraph:
    """The graph of an example by the rules of the stored sets: every op touches its tensors whole;
    `stored_costs`."""
    with stored_costs():
        graph = trace(case.function, *case.args, name=name, parameters=case.parameters)
    return dataclasses.replace(graph, op_untouched_bytes=None)


def graph(name: str, **options: Any) -> ComputationGraph:
    """The computation graph of a member, its parameters folded; raises `InputError` as
    `example`."""
    return frozen_trace(example(name, **options), name)


def stored_pairs(flow: Dataflow, leaves: Sequence[int]) -> list[tuple[int, int]]:
    """(argument, result) values as the stored programs pair them: each argument with the first
    result of its shape and type that is left, arguments that nothing uses included."""
    pairs: dict[int, int] = {}
    for leaf in leaves:
        kind = flow.values[leaf][1:3]
        left = (
            v for v in flow.outputs if v is not None and v not in pairs and v not in flow.arguments
        )
        result = next((v for v in left if flow.values[v][1:3] == kind), None)
        if result is not None:
            pairs[result] = leaf
    return [(leaf, result) for result, leaf in pairs.items()]


def program(name: str, machine: Any, **options: Any) -> Program:
    """The scheduled program of a member on a machine, by the rules of the stored sets; raises
    `InputError` as `example`."""
    case = example(name, **options)
    with stored_costs():
        flow = flatten(case.function, *case.args, name=name)
    leaves = flow.arguments_at(case.donated, "donated")
    return schedule_dataflow(flow, machine, pairs=stored_pairs(flow, leaves))
