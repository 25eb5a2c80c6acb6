"""Paper 2's 87 graphs without attention: which network, at which size, in which split. The whole split rule is here.

The paper divides its graphs at random, 66 to train, 5 to validate, 16 to test (Section 5.1). We divide them *by
architecture*: a family, such as the GRU, is in one split alone, so that a test graph is of a kind no training run has
seen. Each split has convolutional and recurrent families. Sizes were chosen for tens to hundreds of ops, distinct
topologies, enough chips to fill, and graphs narrow enough for an exact optimum; never for how well a method does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp

from learned_mapping import zoo
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.user_function import Example
from learned_mapping.zoo import more_convolutional, stepwise
from learned_mapping.zoo.inception import INCEPTION_BLOCKS
from learned_mapping.zoo.members import images_to_scores
from learned_mapping.zoo.model import array, inference
from learned_mapping.zoo.sequence import temporal_convolution

CONVOLUTIONAL, RECURRENT = "convolutional", "recurrent"
MOBILENET_V2 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)  # fmt: skip
"""Stages of MobileNet v2 (Sandler et al. 2018, table 2): expansion, channels, blocks, first stride, kernel size."""
MOBILENET_V2_SHORT = tuple((t, c, (n + 1) // 2, s, k) for t, c, n, s, k in MOBILENET_V2)
MNASNET_LONG = (
    (3, 24, 4, 2, 3), (3, 40, 4, 2, 5), (6, 80, 5, 2, 5), (6, 96, 3, 1, 3), (6, 192, 6, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
EFFICIENTNET_SHORT = (
    (1, 16, 1, 1, 3), (6, 24, 1, 2, 3), (6, 40, 1, 2, 5), (6, 80, 2, 2, 3), (6, 112, 2, 1, 5), (6, 192, 2, 2, 5),
    (6, 320, 1, 1, 3),
)  # fmt: skip
EFFICIENTNET_LONG = (
    (1, 16, 2, 1, 3), (6, 24, 3, 2, 3), (6, 48, 3, 2, 5), (6, 88, 4, 2, 3), (6, 120, 4, 1, 5), (6, 208, 5, 2, 5),
    (6, 352, 2, 1, 3),
)  # fmt: skip
"""Stages of EfficientNet-B2, near enough: B0 scaled by the rule of Tan and Le 2019, section 3."""


def tokens_to_scores(forward: Callable, length: int) -> Callable[..., Example]:
    def build(batch: int = 16, length: int = length, **options: Any) -> Example:
        return inference(partial(forward, **options), array(batch, length, dtype=jnp.int32))

    return build


def temporal(batch: int = 4, steps: int = 512, features: int = 64, **options: Any) -> Example:
    return inference(partial(temporal_convolution, **options), array(batch, steps, features))


def writer(batch: int = 32, **options: Any) -> Example:
    return inference(partial(stepwise.character_generator, **options), array(batch, dtype=jnp.int32))


def captioner(batch: int = 32, frames: int = 6, features: int = 128, **options: Any) -> Example:
    inputs = array(frames, batch, features), array(batch, dtype=jnp.int32)
    return inference(partial(stepwise.captioner, **options), *inputs)


def highway(batch: int = 32, features: int = 128, **options: Any) -> Example:
    return inference(partial(stepwise.highway_forecaster, features=features, **options), array(batch, features))


def weather(batch: int = 4, size: int = 64, **options: Any) -> Example:
    """Maps of `size` squared, each 4 by 4 patch a channel vector, as in section 4.2 of the paper."""
    return inference(partial(stepwise.weather_forecaster, **options), array(batch, size // 4, size // 4, 16))


def line_of_text(batch: int = 4, length: int = 128, **options: Any) -> Example:
    return inference(partial(stepwise.text_reader, **options), array(batch, 32, length, 1))


def member(name: str) -> Callable[..., Example]:
    return partial(zoo.example, name)


@dataclass(frozen=True)
class Family:
    """An architecture."""

    kind: str
    """`CONVOLUTIONAL` or `RECURRENT`."""
    source: str
    """The publication."""
    build: Callable[..., Example]
    members: Mapping[str, Mapping[str, Any]]
    """Options of each graph, by the graph's name."""
    always: Mapping[str, Any] = field(default_factory=dict)
    """Options all members have."""


def _by(option: str, pattern: str, values: tuple) -> dict[str, dict[str, Any]]:
    """Members that differ by one option, named after it."""
    return {pattern.format(value): {option: value} for value in values}


def _unrolled(prefix: str, sizes: tuple[tuple[int, int], ...]) -> dict[str, dict[str, Any]]:
    """Members by (layers, steps)."""
    return {f"{prefix}_{n}x{steps}": {"layers": n, "steps": steps} for n, steps in sizes}


ONE = {"batch": 1}
SPLITS: dict[str, dict[str, Family]] = {
    "train": {
        "lenet": Family(
            CONVOLUTIONAL, "LeCun et al. 1998", member("lenet_inference"), {"lenet": {}}, {"batch": 64}
        ),
        "alexnet": Family(
            CONVOLUTIONAL, "Krizhevsky et al. 2012", member("alexnet_inference"), {"alexnet": {}}, ONE
        ),
        "vgg": Family(
            CONVOLUTIONAL, "Simonyan and Zisserman 2014", member("vgg16_inference"),
            _by("depth", "vgg_{}", (11, 13, 16, 19)), ONE,
        ),
        "mobilenet": Family(
            CONVOLUTIONAL, "Howard et al. 2017", member("mobilenet_inference"), {"mobilenet": {}}, {"batch": 4}
        ),
        "inverted_bottleneck": Family(
            CONVOLUTIONAL, "Sandler et al. 2018, Tan et al. 2019", member("mnasnet_inference"),
            {
                "mnasnet_b1": {},
                "mnasnet_long": {"stages": MNASNET_LONG},
                "mobilenet_v2": {"stages": MOBILENET_V2},
                "mobilenet_v2_short": {"stages": MOBILENET_V2_SHORT},
            },
            {"batch": 4},
        ),
        "efficientnet": Family(
            CONVOLUTIONAL, "Tan and Le 2019", member("efficientnet_inference"),
            {
                "efficientnet_b0": {},
                "efficientnet_short": {"stages": EFFICIENTNET_SHORT},
                "efficientnet_b2": {"stages": EFFICIENTNET_LONG, "size": 256},
            },
            {"batch": 4},
        ),
        "shufflenet": Family(
            CONVOLUTIONAL, "Ma et al. 2018", member("shufflenet_inference"),
            {
                "shufflenet_1x": {},
                "shufflenet_short": {"stages": ((116, 2), (232, 4), (464, 2))},
                "shufflenet_2x_long": {"stages": ((244, 5), (488, 9), (976, 5))},
            },
            {"batch": 8},
        ),
        "densenet": Family(
            CONVOLUTIONAL, "Huang et al. 2017", member("densenet121_inference"),
            {
                "densenet_121": {},
                "densenet_short": {"blocks": (4, 6, 8, 6)},
                "densenet_shorter": {"blocks": (3, 5, 6, 4)},
                "densenet_3_blocks": {"blocks": (12, 12, 12), "growth": 24, "size": 128},
                "densenet_wide": {"blocks": (4, 8, 12, 8), "growth": 48},
            },
            ONE,
        ),
        "convnext": Family(
            CONVOLUTIONAL, "Liu et al. 2022", member("convnext_inference"),
            {
                "convnext_tiny": {},
                "convnext_pico": {"stages": ((64, 2), (128, 2), (256, 6), (512, 2))},
                "convnext_short": {"stages": ((96, 1), (192, 1), (384, 3), (768, 1))},
            },
            ONE,
        ),
        "unet": Family(
            CONVOLUTIONAL, "Ronneberger et al. 2015", member("unet_inference"),
            _by("depth", "unet_{}", (2, 3, 4)), {**ONE, "size": 128},
        ),
        "ssd": Family(CONVOLUTIONAL, "Liu et al. 2016", member("ssd_inference"), {"ssd_300": {}}, ONE),
        "autoencoder": Family(
            CONVOLUTIONAL, "Mao et al. 2016, without skips", images_to_scores(more_convolutional.denoising_autoencoder),
            {
                "autoencoder_3": {"levels": 3},
                "autoencoder_4": {"levels": 4},
                "autoencoder_3_long": {"levels": 3, "repeats": 4},
            },
            {**ONE, "size": 128},
        ),
        "tcn": Family(
            CONVOLUTIONAL, "Bai et al. 2018", temporal,
            _by("levels", "tcn_{}", (4, 6, 8, 10)),
        ),
        "wavenet": Family(
            CONVOLUTIONAL, "van den Oord et al. 2016", member("wavenet_inference"),
            {
                "wavenet_5": {"cycles": 1, "dilations": 5},
                "wavenet_10": {"cycles": 1},
                "wavenet_8": {"cycles": 2, "dilations": 4},
            },
        ),
        "text_classifier": Family(
            CONVOLUTIONAL, "Kim 2014", tokens_to_scores(more_convolutional.text_classifier, 64),
            {"text_cnn": {"sizes": (2, 3, 4, 5, 6, 7)}},
        ),
        "very_deep_text_classifier": Family(
            CONVOLUTIONAL, "Conneau et al. 2016",
            tokens_to_scores(more_convolutional.very_deep_text_classifier, 1024),
            _by("depth", "vdcnn_{}", (9, 17, 29)), {"batch": 2},
        ),
        "lstm": Family(
            RECURRENT, "Hochreiter and Schmidhuber 1997", member("lstm"),
            _unrolled("lstm", ((1, 6), (1, 10), (1, 16), (1, 24), (1, 32), (2, 4), (2, 8))),
            {"features": 128, "batch": 32},
        ),
        "lstm_writer": Family(
            RECURRENT, "Graves 2013", writer,
            _unrolled("lstm_writer", ((1, 6), (1, 12), (1, 20), (2, 4), (2, 8), (3, 6))), {"width": 1024},
        ),
        "captioner": Family(
            RECURRENT, "Venugopalan et al. 2015", captioner,
            {
                "captioner_4_to_4": {"frames": 4, "words": 4},
                "captioner_6_to_8": {"frames": 6, "words": 8},
                "captioner_12_to_10": {"frames": 12, "words": 10},
                "captioner_2_layers": {"frames": 4, "words": 5, "layers": 2},
            },
            {"width": 1024},
        ),
        "weather_forecaster": Family(
            RECURRENT, "Shi et al. 2015, convolutional LSTM", weather,
            _unrolled("convlstm", ((1, 4), (1, 8), (1, 14), (2, 4))),
        ),
        "text_reader": Family(
            RECURRENT, "Shi et al. 2015, CRNN", line_of_text, {"crnn_8": {}, "crnn_16": {"length": 256}}
        ),
    },
    "validation": {
        "squeezenet": Family(
            CONVOLUTIONAL, "Iandola et al. 2016", member("squeezenet_inference"), {"squeezenet": {}}, ONE
        ),
        "xception": Family(
            CONVOLUTIONAL, "Chollet 2016", images_to_scores(more_convolutional.xception, 299),
            {"xception": {}, "xception_short": {"middle": 3}}, ONE,
        ),
        "rnn_writer": Family(
            RECURRENT, "Elman 1990, Graves 2013", writer,
            _unrolled("rnn_writer", ((1, 12), (2, 8))), {"core": "rnn", "width": 1024},
        ),
    },
    "test": {
        "resnet": Family(
            CONVOLUTIONAL, "He et al. 2015, bottleneck blocks", member("resnet50_inference"),
            _by("depth", "resnet_{}", (14, 50, 101)), ONE,
        ),
        "resnet_plain": Family(
            CONVOLUTIONAL, "He et al. 2015, plain blocks", images_to_scores(more_convolutional.plain_block_resnet),
            {"resnet_18": {}, "resnet_34": {"blocks": (3, 4, 6, 3)}}, ONE,
        ),
        "inception": Family(
            CONVOLUTIONAL, "Szegedy et al. 2014", member("inception_inference"),
            {"googlenet": {}, "googlenet_5_blocks": {"blocks": INCEPTION_BLOCKS[:5]}}, ONE,
        ),
        "darknet": Family(
            CONVOLUTIONAL, "Redmon and Farhadi 2016", images_to_scores(more_convolutional.darknet_19),
            {"darknet_19": {}}, ONE,
        ),
        "darknet_residual": Family(
            CONVOLUTIONAL, "Redmon and Farhadi 2018", images_to_scores(more_convolutional.darknet_53),
            {"darknet_53": {}, "darknet_tiny": {"blocks": (1, 1, 2, 2, 1)}}, ONE,
        ),
        "gru_writer": Family(
            RECURRENT, "Cho et al. 2014, Graves 2013", writer,
            _unrolled("gru_writer", ((1, 6), (1, 12), (1, 20), (2, 6))), {"core": "gru", "width": 1024},
        ),
        "highway_forecaster": Family(
            RECURRENT, "Zilly et al. 2016", highway,
            {"highway_4x4": {"steps": 4, "depth": 4}, "highway_5x10": {"steps": 5, "depth": 10}},
        ),
    },
}  # fmt: skip
"""Split -> family -> what it is."""


def members() -> dict[str, tuple[str, str]]:
    """Name of each graph -> (split, family), in the order of the table."""
    table = ((split, family, each) for split, families in SPLITS.items() for family, each in families.items())
    return {name: (split, family) for split, family, each in table for name in each.members}


def generate(name: str) -> ComputationGraph:
    """The graph of this name, as traced, nothing folded; raises `InputError` where there is none."""
    for families in SPLITS.values():
        for family in families.values():
            if name in family.members:
                example = family.build(**{**family.always, **family.members[name]})
                return trace(example.function, *example.args, name=name, parameters=example.parameters)
    raise InputError("mcm-graphs", name, "there is no such graph")
