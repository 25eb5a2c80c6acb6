"""Further members of the zoo: training steps of image models, sequences, tables, generation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optax

from learned_mapping.programs.trace.user_function import Example
from learned_mapping.zoo import (
    bert,
    convolutional,
    decoder,
    generative,
    mobile,
    recurrent,
    sequence,
    tabular,
    vision,
)
from learned_mapping.zoo.alexnet import cross_entropy
from learned_mapping.zoo.detection import ssd
from learned_mapping.zoo.inception import inception
from learned_mapping.zoo.members import Builder, images_to_scores, sequence_to_scores
from learned_mapping.zoo.model import array, inference, train_step


def float_type(bf16: bool) -> Any:
    return jnp.bfloat16 if bf16 else jnp.float32


def image_training(forward: Callable, batch: int = 32, size: int = 224) -> Builder:
    """A builder of training steps of image models with momentum: options `batch`, `size`, `bf16`, the model's own."""

    def build(batch: int = batch, size: int = size, bf16: bool = False, **options: Any) -> Example:
        def loss(images: Any, labels: Any) -> Any:
            return cross_entropy(forward(images, training=True, **options), labels)

        images = array(batch, size, size, 3, dtype=float_type(bf16))
        optimiser = optax.sgd(0.1, momentum=0.9)
        labels = array(batch, dtype=jnp.int32)
        return train_step(loss, images, labels, optimiser=optimiser, dtype=float_type(bf16))

    return build


def segmentation_training(batch: int = 4, size: int = 256, bf16: bool = False, **options: Any) -> Example:
    def loss(images: Any, labels: Any) -> Any:
        return cross_entropy(convolutional.unet(images, **options), labels)

    images, labels = array(batch, size, size, 3, dtype=float_type(bf16)), array(batch, size, size, dtype=jnp.int32)
    return train_step(loss, images, labels, optimiser=optax.adam(1e-4), dtype=float_type(bf16))


def language_model_training(batch: int = 64, steps: int = 35, bf16: bool = False, **options: Any) -> Example:
    loss = partial(sequence.recurrent_language_model_loss, **options)
    tokens = array(steps + 1, batch, dtype=jnp.int32)
    return train_step(loss, tokens, optimiser=optax.sgd(1.0), dtype=float_type(bf16))


def sequence_pair_training(loss: Callable, batch: int = 64, length: int = 16) -> Builder:
    """A builder of training steps of LSTM translators: options `batch`, `length`, `bf16` and the model's own."""

    def build(batch: int = batch, length: int = length, bf16: bool = False, **options: Any) -> Example:
        source, target = array(length, batch, dtype=jnp.int32), array(length + 1, batch, dtype=jnp.int32)
        optimiser = optax.adam(1e-3)
        return train_step(partial(loss, **options), source, target, optimiser=optimiser, dtype=float_type(bf16))

    return build


def bert_training(batch: int = 8, length: int = 128, bf16: bool = True, **options: Any) -> Example:
    """Fine-tuning on the first and last token of an answer."""

    def loss(tokens: Any, segments: Any, mask: Any, first: Any, last: Any) -> Any:
        starts, ends = bert.bert_question_answering(tokens, segments, mask, **options)
        return cross_entropy(jnp.log(starts), first) + cross_entropy(jnp.log(ends), last)

    tokens, answer = array(batch, length, dtype=jnp.int32), array(batch, dtype=jnp.int32)
    optimiser = optax.adamw(3e-5)
    return train_step(loss, tokens, tokens, tokens, answer, answer, optimiser=optimiser, dtype=float_type(bf16))


def temporal_training(batch: int = 16, steps: int = 1024, features: int = 64, bf16: bool = False, **o: Any) -> Example:
    def loss(inputs: Any, labels: Any) -> Any:
        return cross_entropy(sequence.temporal_convolution(inputs, training=True, **o), labels)

    inputs, labels = array(batch, steps, features, dtype=float_type(bf16)), array(batch, steps, dtype=jnp.int32)
    return train_step(loss, inputs, labels, optimiser=optax.adam(1e-3), dtype=float_type(bf16))


def game_player_training(batch: int = 64, planes: int = 17, bf16: bool = False, **options: int) -> Example:
    loss = partial(sequence.game_player_loss, **options)
    boards, policy = array(batch, 19, 19, planes, dtype=float_type(bf16)), array(batch, 362)
    return train_step(
        loss, boards, policy, array(batch), optimiser=optax.sgd(0.01, momentum=0.9), dtype=float_type(bf16)
    )


def mixture_training(batch: int = 4, length: int = 256, bf16: bool = True, **options: Any) -> Example:
    loss = partial(decoder.mixture_of_experts_loss, **options)
    tokens = array(batch, length + 1, dtype=jnp.int32)
    return train_step(loss, tokens, optimiser=optax.adam(1e-3), dtype=float_type(bf16))


def decoder_inference(
    batch: int = 8, room: int = 1024, layers: int = 12, width: int = 768, heads: int = 12, bf16: bool = True, **o: Any
) -> Example:
    """One generated token per sequence; the caches are donated."""
    lane = array(batch, heads, room, width // heads, dtype=float_type(bf16))
    cache = [(lane, lane)] * layers
    tokens, position = array(batch, dtype=jnp.int32), array(dtype=jnp.int32)
    step = partial(decoder.decoder_step, width=width, heads=heads, **o)
    model = inference(step, tokens, position, cache, dtype=float_type(bf16))
    return model._replace(donated=(len(model.args) - 1,))


def autoencoder_training(batch: int = 64, size: int = 64, **options: int) -> Example:
    loss = partial(generative.autoencoder_loss, **options)
    return train_step(loss, array(batch, size, size, 3), optimiser=optax.adam(1e-3), random=True)


def adversarial_training(batch: int = 128, noise: int = 100, bf16: bool = False, **options: int) -> Example:
    images, seeds = array(batch, 64, 64, 3, dtype=float_type(bf16)), array(batch, noise, dtype=float_type(bf16))
    loss = partial(generative.adversarial_loss, **options)
    return train_step(loss, images, seeds, optimiser=optax.adam(2e-4, b1=0.5), dtype=float_type(bf16))


def super_resolution_training(batch: int = 16, size: int = 48, bf16: bool = False, **options: int) -> Example:
    def loss(small: Any, large: Any) -> Any:
        return jnp.mean(jnp.abs(generative.super_resolution(small, **options) - large))

    small = array(batch, size, size, 3, dtype=float_type(bf16))
    side = size * options.get("factor", 2)
    large = array(batch, side, side, 3, dtype=float_type(bf16))
    return train_step(loss, small, large, optimiser=optax.adam(1e-4), dtype=float_type(bf16))


def recommendation_training(batch: int = 2048, dense: int = 13, tables: int = 26, **options: Any) -> Example:
    loss = partial(tabular.dlrm_loss, **options)
    categories = array(batch, tables, dtype=jnp.int32)
    return train_step(loss, array(batch, dense), categories, array(batch), optimiser=optax.sgd(0.1))


def rows_training(batch: int = 4096, features: int = 512, **options: Any) -> Example:
    def loss(rows: Any, labels: Any) -> Any:
        return cross_entropy(tabular.tabnet(rows, training=True, **options), labels)

    return train_step(loss, array(batch, features), array(batch, dtype=jnp.int32), optimiser=optax.adam(1e-2))


def points_training(batch: int = 32, points: int = 1024, **options: Any) -> Example:
    def loss(cloud: Any, labels: Any) -> Any:
        return cross_entropy(tabular.pointnet(cloud, training=True, **options), labels)

    return train_step(loss, array(batch, points, 3), array(batch, dtype=jnp.int32), optimiser=optax.adam(1e-3))


def graph_network_training(nodes: int = 8192, edges: int = 32_768, features: int = 32, **options: Any) -> Example:
    def loss(*inputs: Any) -> Any:
        return jnp.mean(jnp.square(tabular.graph_network(*inputs[:-1], **options) - inputs[-1]))

    ends = array(edges, dtype=jnp.int32)
    inputs = (array(nodes, features), array(edges, features), ends, ends, array(nodes, 3))
    return train_step(loss, *inputs, optimiser=optax.adam(1e-4))


MORE_BUILDERS: dict[str, tuple[Builder, str]] = {
    "vgg16_train": (image_training(convolutional.vgg), "Simonyan and Zisserman 2014, VGG"),
    "squeezenet_train": (image_training(convolutional.squeezenet), "Iandola et al. 2016, SqueezeNet 1.1"),
    "mobilenet_train": (image_training(convolutional.mobilenet), "Howard et al. 2017, MobileNet v1"),
    "densenet121_train": (image_training(convolutional.densenet), "Huang et al. 2017, DenseNet"),
    "inception_train": (image_training(inception), "Szegedy et al. 2014, GoogLeNet"),
    "unet_train": (segmentation_training, "Ronneberger et al. 2015, U-Net"),
    "mnasnet_inference": (images_to_scores(mobile.mnasnet), "Tan et al. 2019, MnasNet-B1"),
    "mnasnet_train": (image_training(mobile.mnasnet), "Tan et al. 2019, MnasNet-B1"),
    "efficientnet_inference": (images_to_scores(mobile.efficientnet), "Tan and Le 2019, EfficientNet-B0"),
    "efficientnet_train": (image_training(mobile.efficientnet), "Tan and Le 2019, EfficientNet-B0"),
    "shufflenet_inference": (images_to_scores(mobile.shufflenet), "Ma et al. 2018, ShuffleNet v2 1x"),
    "shufflenet_train": (image_training(mobile.shufflenet), "Ma et al. 2018, ShuffleNet v2 1x"),
    "vit_inference": (images_to_scores(vision.vision_transformer), "Dosovitskiy et al. 2020, ViT-B/16"),
    "vit_train": (image_training(vision.vision_transformer), "Dosovitskiy et al. 2020, ViT-B/16"),
    "convnext_inference": (images_to_scores(vision.convnext), "Liu et al. 2022, ConvNeXt-T"),
    "convnext_train": (image_training(vision.convnext), "Liu et al. 2022, ConvNeXt-T"),
    "ssd_inference": (images_to_scores(ssd, 300), "Liu et al. 2016, SSD300"),
    "super_resolution_inference": (
        images_to_scores(generative.super_resolution, 128),
        "Lim et al. 2017, EDSR, baseline size",
    ),
    "super_resolution_train": (super_resolution_training, "Lim et al. 2017, EDSR, baseline size"),
    "autoencoder_train": (autoencoder_training, "Kingma and Welling 2013, variational autoencoder"),
    "dcgan_train": (adversarial_training, "Radford et al. 2015, DCGAN"),
    "vanilla_rnn": (sequence_to_scores(recurrent.vanilla_rnn, 1024), "Elman 1990, stacked"),
    "language_model_train": (language_model_training, "Zaremba et al. 2014, LSTM language model; also GRU, simple RNN"),
    "seq2seq_train": (sequence_pair_training(sequence.seq2seq_loss), "Sutskever et al. 2014, seq2seq"),
    "nmt_train": (sequence_pair_training(sequence.translation_by_lstm_loss), "Wu et al. 2016, GNMT with attention"),
    "tcn_train": (temporal_training, "Bai et al. 2018, TCN"),
    "bert_train": (bert_training, "Devlin et al. 2018, BERT, fine-tuning"),
    "decoder_inference": (decoder_inference, "Radford et al. 2019, GPT-2, one step with cached keys and values"),
    "mixture_of_experts_train": (mixture_training, "Fedus et al. 2021, Switch Transformer"),
    "alphazero_train": (game_player_training, "Silver et al. 2017, AlphaZero"),
    "dlrm_train": (recommendation_training, "Naumov et al. 2019, DLRM"),
    "tabnet_train": (rows_training, "Arik and Pfister 2019, TabNet"),
    "pointnet_train": (points_training, "Qi et al. 2017, PointNet"),
    "graph_network_train": (graph_network_training, "Sanchez-Gonzalez et al. 2020, graph network simulator"),
}
"""Builder and publication by name; `members.BUILDERS` has the others."""
