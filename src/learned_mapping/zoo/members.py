"""The members of the zoo: each a builder whose keyword arguments are the model's options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax

from learned_mapping.programs.trace.user_function import Example
from learned_mapping.zoo import alphatensor, convolutional, recurrent, transformer, wavenet
from learned_mapping.zoo.alexnet import alexnet, alexnet_loss, cross_entropy
from learned_mapping.zoo.bert import bert_question_answering
from learned_mapping.zoo.inception import inception
from learned_mapping.zoo.mixer import mlp_mixer
from learned_mapping.zoo.model import array, inference, train_step
from learned_mapping.zoo.resnet import resnet

Builder = Callable[..., Example]


def alexnet_train(batch: int = 32) -> Example:
    images = array(batch, 224, 224, 3, dtype=jnp.bfloat16)
    optimiser = optax.sgd(0.01, momentum=0.9)
    labels = array(batch, dtype=jnp.int32)
    return train_step(alexnet_loss, images, labels, optimiser=optimiser, dtype=jnp.bfloat16, random=True)


def images_to_scores(forward: Callable, size: int = 224, channels: int = 3, batch: int = 8) -> Builder:
    """A builder for image models: options `batch`, `size`, `bf16` and the model's own."""

    def build(batch: int = batch, size: int = size, bf16: bool = False, **options: Any) -> Example:
        dtype = jnp.bfloat16 if bf16 else jnp.float32
        return inference(partial(forward, **options), array(batch, size, size, channels, dtype=dtype), dtype=dtype)

    return build


def sequence_to_scores(forward: Callable, features: int, steps: int = 32) -> Builder:
    """A builder for recurrent models: options `batch`, `steps`, `features`, `bf16` and the model's own."""

    def build(
        batch: int = 64, steps: int = steps, features: int = features, bf16: bool = False, **options: Any
    ) -> Example:
        dtype = jnp.bfloat16 if bf16 else jnp.float32
        return inference(partial(forward, **options), array(steps, batch, features, dtype=dtype), dtype=dtype)

    return build


def resnet50_train(batch: int = 32, depth: int = 50, bf16: bool = False) -> Example:
    dtype = jnp.bfloat16 if bf16 else jnp.float32

    def loss(images: Any, labels: Any) -> Any:
        return cross_entropy(resnet(images, depth=depth, training=True), labels)

    labels = array(batch, dtype=jnp.int32)
    images = array(batch, 224, 224, 3, dtype=dtype)
    return train_step(loss, images, labels, optimiser=optax.sgd(0.1, momentum=0.9), dtype=dtype)


def wavenet_inference(batch: int = 1, samples: int = 4096, **options: int) -> Example:
    return inference(partial(wavenet.wavenet, **options), array(batch, samples, dtype=jnp.int32))


def wavenet_train(batch: int = 32, samples: int = 256, cycles: int = 3, dilations: int = 9, **options: int) -> Example:
    loss = partial(wavenet.wavenet_loss, cycles=cycles, dilations=dilations, **options)
    audio = array(batch, samples + 1, dtype=jnp.int32)
    return train_step(loss, audio, optimiser=optax.adam(1e-3), dtype=jnp.bfloat16)


def transformer_train(batch: int = 2, length: int = 256, vocabulary: int = 8192, **options: int) -> Example:
    loss = partial(transformer.language_model_loss, vocabulary=vocabulary, **options)
    return train_step(loss, array(batch, length + 1, dtype=jnp.int32), optimiser=optax.adam(1e-3))


def translation_train(
    batch: int = 4, length: int = 64, vocabulary: int = 8192, layers: int = 10, bf16: bool = True, **options: int
) -> Example:
    dtype = jnp.bfloat16 if bf16 else jnp.float32
    loss = partial(transformer.translation_loss, vocabulary=vocabulary, layers=layers, dtype=dtype, **options)
    source, target = array(batch, length, dtype=jnp.int32), array(batch, length + 1, dtype=jnp.int32)
    return train_step(loss, source, target, optimiser=optax.adam(1e-3), dtype=dtype)


def alphatensor_train(
    batch: int = 8, size: int = 4, history: int = 8, tokens: int = 12, iterations: int = 6, channels: int = 256,
    policy_width: int = 512, **options: int,
) -> Example:  # fmt: skip
    sizes = {"iterations": iterations, "channels": channels, "policy_width": policy_width}
    loss = partial(alphatensor.alphatensor_loss, **sizes, **options)
    tensors, scalars = array(batch, history, size, size, size), array(batch, 2)
    actions, returns = array(batch, tokens, dtype=jnp.int32), array(batch)
    return train_step(loss, tensors, scalars, actions, returns, optimiser=optax.adamw(1e-4))


def bert_inference(batch: int = 1, length: int = 384, **options: int) -> Example:
    tokens = array(batch, length, dtype=jnp.int32)
    return inference(partial(bert_question_answering, **options), tokens, tokens, tokens)


BUILDERS: dict[str, tuple[Builder, str]] = {
    "alexnet_train_batch_32": (alexnet_train, "Krizhevsky et al. 2012, ImageNet classification with deep CNNs"),
    "wavenet_coherent_batch32": (wavenet_train, "van den Oord et al. 2016, WaveNet"),
    "AlphaTensor": (alphatensor_train, "Fawzi et al. 2022, Discovering faster matrix multiplication algorithms"),
    "tensor2tensor_transformer_bf16": (translation_train, "Vaswani et al. 2017, Attention is all you need"),
    "transformer_train": (transformer_train, "Vaswani et al. 2017, decoder only, 6 layers"),
    "resnet50_train": (resnet50_train, "He et al. 2015, Deep residual learning"),
    "bert_large_inference": (bert_inference, "Devlin et al. 2018, BERT"),
    "alexnet_inference": (images_to_scores(alexnet), "Krizhevsky et al. 2012"),
    "lenet_inference": (images_to_scores(convolutional.lenet, 28, 1), "LeCun et al. 1998, LeNet-5"),
    "vgg16_inference": (images_to_scores(convolutional.vgg), "Simonyan and Zisserman 2014, VGG"),
    "squeezenet_inference": (images_to_scores(convolutional.squeezenet), "Iandola et al. 2016, SqueezeNet 1.1"),
    "mobilenet_inference": (images_to_scores(convolutional.mobilenet), "Howard et al. 2017, MobileNet v1"),
    "unet_inference": (images_to_scores(convolutional.unet, 256, batch=1), "Ronneberger et al. 2015, U-Net"),
    "densenet121_inference": (images_to_scores(convolutional.densenet), "Huang et al. 2017, DenseNet"),
    "resnet50_inference": (images_to_scores(resnet, batch=16), "He et al. 2015, Deep residual learning"),
    "inception_inference": (images_to_scores(inception), "Szegedy et al. 2014, GoogLeNet"),
    "mlp_mixer_inference": (images_to_scores(mlp_mixer), "Tolstikhin et al. 2021, Mixer-S/16"),
    "wavenet_inference": (wavenet_inference, "van den Oord et al. 2016, WaveNet"),
    "lstm": (sequence_to_scores(recurrent.lstm, 1024), "Hochreiter and Schmidhuber 1997, stacked"),
    "gru": (sequence_to_scores(recurrent.gru, 1024), "Cho et al. 2014, stacked"),
    "bidirectional_tagger": (
        sequence_to_scores(recurrent.bidirectional_tagger, 256, 12),
        "Graves and Schmidhuber 2005, bidirectional LSTM",
    ),
}
"""Builder and publication by name. The first four bear the names of the programs of paper 1, table 2."""
