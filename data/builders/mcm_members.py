"""Paper 2's 87 graphs without attention: which network, at which size, in which split. The whole
split rule is here.

The paper divides its graphs at random, 66 to train, 5 to validate, 16 to test (Section 5.1). We
divide them *by architecture*: a family, such as the GRU, is in one split alone, so that a test
graph is of a kind no training run has seen. Each split has convolutional and recurrent families.
Sizes were chosen for tens to hundreds of ops, distinct topologies, enough chips to fill, and graphs
narrow enough for an exact optimum; never for how well a method does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from learned_mapping.doors.user_function import Example
from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph

from . import mcm_models
from .zoo.models import ZOO, Model, frozen_trace, images, integers, model, tokens
from .zoo.plain import INCEPTION_BLOCKS
from .zoo.temporal import temporal_convolution

CONVOLUTIONAL, RECURRENT = "convolutional", "recurrent"
MOBILENET_V2 = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
"""Stages of MobileNet v2 (Sandler et al. 2018, table 2): expansion, channels, blocks, first stride,
kernel size."""
MOBILENET_V2_SHORT = tuple((t, c, (n + 1) // 2, s, k) for t, c, n, s, k in MOBILENET_V2)
MNASNET_LONG = (
    (3, 24, 4, 2, 3),
    (3, 40, 4, 2, 5),
    (6, 80, 5, 2, 5),
    (6, 96, 3, 1, 3),
    (6, 192, 6, 2, 5),
    (6, 320, 1, 1, 3),
)
EFFICIENTNET_SHORT = (
    (1, 16, 1, 1, 3),
    (6, 24, 1, 2, 3),
    (6, 40, 1, 2, 5),
    (6, 80, 2, 2, 3),
    (6, 112, 2, 1, 5),
    (6, 192, 2, 2, 5),
    (6, 320, 1, 1, 3),
)
EFFICIENTNET_LONG = (
    (1, 16, 2, 1, 3),
    (6, 24, 3, 2, 3),
    (6, 48, 3, 2, 5),
    (6, 88, 4, 2, 3),
    (6, 120, 4, 1, 5),
    (6, 208, 5, 2, 5),
    (6, 352, 2, 1, 3),
)
"""Stages of EfficientNet-B2, near enough: B0 scaled by the rule of Tan and Le 2019, section 3."""


MODELS: dict[str, Model] = ZOO | {
    "plain_block_resnet": model("He et al. 2015", mcm_models.plain_block_resnet, images()),
    "darknet_19": model("Redmon and Farhadi 2016", mcm_models.darknet_19, images()),
    "darknet_53": model("Redmon and Farhadi 2018", mcm_models.darknet_53, images()),
    "xception": model("Chollet 2016", mcm_models.xception, images(299)),
    "denoising_autoencoder": model("Mao et al. 2016", mcm_models.denoising_autoencoder, images()),
    "tcn": model("Bai et al. 2018", temporal_convolution,
        lambda f, batch=4, steps=512, features=64: (f(batch, steps, features),)),
    "text_classifier": model("Kim 2014", mcm_models.text_classifier, tokens(16, 64)),
    "very_deep_text_classifier": model("Conneau et al. 2016", mcm_models.very_deep_text_classifier,
        tokens(16, 1024)),
    "character_generator": model("Graves 2013", mcm_models.character_generator,
        lambda f, batch=32: (integers(batch),)),
    "captioner": model("Venugopalan et al. 2015", mcm_models.captioner,
        lambda f, batch=32, frames=6, features=128: (f(frames, batch, features), integers(batch))),
    "highway_forecaster": model("Zilly et al. 2016", mcm_models.highway_forecaster,
        lambda f, batch=32: (f(batch, 128),)),
    # Maps of 64 squared, each 4 by 4 patch a channel vector, as in section 4.2 of the paper.
    "weather_forecaster": model("Shi et al. 2015, convolutional LSTM",
        mcm_models.weather_forecaster, lambda f, batch=4: (f(batch, 16, 16, 16),)),
    "text_reader": model("Shi et al. 2015, CRNN", mcm_models.text_reader,
        lambda f, batch=4, length=128: (f(batch, 32, length, 1),)),
}  # fmt: skip
"""The zoo, and the models that this set alone has."""


@dataclass(frozen=True)
class Family:
    """An architecture."""

    kind: str  # `CONVOLUTIONAL` or `RECURRENT`.
    source: str  # The publication.
    model: str  # A key of `MODELS`.
    members: Mapping[str, Mapping[str, Any]]  # Options of each graph, by the graph's name.
    always: Mapping[str, Any] = field(default_factory=dict)  # Options all members have.


def _by(option: str, pattern: str, values: tuple) -> dict[str, dict[str, Any]]:
    """Members that differ by one option, named after it."""
    return {pattern.format(value): {option: value} for value in values}


def _unrolled(prefix: str, sizes: tuple[tuple[int, int], ...]) -> dict[str, dict[str, Any]]:
    """Members by (layers, steps)."""
    return {f"{prefix}_{n}x{steps}": {"layers": n, "steps": steps} for n, steps in sizes}


ONE = {"batch": 1}
_convolutional, _recurrent = (partial(Family, kind) for kind in (CONVOLUTIONAL, RECURRENT))
SPLITS: dict[str, dict[str, Family]] = {
    "train": {
        "lenet": _convolutional(
            "LeCun et al. 1998", "lenet_inference", {"lenet": {}}, {"batch": 64}
        ),
        "alexnet": _convolutional(
            "Krizhevsky et al. 2012", "alexnet_inference", {"alexnet": {}}, ONE
        ),
        "vgg": _convolutional(
            "Simonyan and Zisserman 2014",
            "vgg16_inference",
            _by("depth", "vgg_{}", (11, 13, 16, 19)),
            ONE,
        ),
        "mobilenet": _convolutional(
            "Howard et al. 2017", "mobilenet_inference", {"mobilenet": {}}, {"batch": 4}
        ),
        "inverted_bottleneck": _convolutional(
            "Sandler et al. 2018, Tan et al. 2019",
            "mnasnet_inference",
            {
                "mnasnet_b1": {},
                "mnasnet_long": {"stages": MNASNET_LONG},
                "mobilenet_v2": {"stages": MOBILENET_V2},
                "mobilenet_v2_short": {"stages": MOBILENET_V2_SHORT},
            },
            {"batch": 4},
        ),
        "efficientnet": _convolutional(
            "Tan and Le 2019",
            "efficientnet_inference",
            {
                "efficientnet_b0": {},
                "efficientnet_short": {"stages": EFFICIENTNET_SHORT},
                "efficientnet_b2": {"stages": EFFICIENTNET_LONG, "size": 256},
            },
            {"batch": 4},
        ),
        "shufflenet": _convolutional(
            "Ma et al. 2018",
            "shufflenet_inference",
            {
                "shufflenet_1x": {},
                "shufflenet_short": {"stages": ((116, 2), (232, 4), (464, 2))},
                "shufflenet_2x_long": {"stages": ((244, 5), (488, 9), (976, 5))},
            },
            {"batch": 8},
        ),
        "densenet": _convolutional(
            "Huang et al. 2017",
            "densenet121_inference",
            {
                "densenet_121": {},
                "densenet_short": {"blocks": (4, 6, 8, 6)},
                "densenet_shorter": {"blocks": (3, 5, 6, 4)},
                "densenet_3_blocks": {"blocks": (12, 12, 12), "growth": 24, "size": 128},
                "densenet_wide": {"blocks": (4, 8, 12, 8), "growth": 48},
            },
            ONE,
        ),
        "convnext": _convolutional(
            "Liu et al. 2022",
            "convnext_inference",
            {
                "convnext_tiny": {},
                "convnext_pico": {"stages": ((64, 2), (128, 2), (256, 6), (512, 2))},
                "convnext_short": {"stages": ((96, 1), (192, 1), (384, 3), (768, 1))},
            },
            ONE,
        ),
        "unet": _convolutional(
            "Ronneberger et al. 2015",
            "unet_inference",
            _by("depth", "unet_{}", (2, 3, 4)),
            {**ONE, "size": 128},
        ),
        "ssd": _convolutional("Liu et al. 2016", "ssd_inference", {"ssd_300": {}}, ONE),
        "autoencoder": _convolutional(
            "Mao et al. 2016, without skips",
            "denoising_autoencoder",
            {
                "autoencoder_3": {"levels": 3},
                "autoencoder_4": {"levels": 4},
                "autoencoder_3_long": {"levels": 3, "repeats": 4},
            },
            {**ONE, "size": 128},
        ),
        "tcn": _convolutional("Bai et al. 2018", "tcn", _by("levels", "tcn_{}", (4, 6, 8, 10))),
        "wavenet": _convolutional(
            "van den Oord et al. 2016",
            "wavenet_inference",
            {
                "wavenet_5": {"cycles": 1, "dilations": 5},
                "wavenet_10": {"cycles": 1},
                "wavenet_8": {"cycles": 2, "dilations": 4},
            },
        ),
        "text_classifier": _convolutional(
            "Kim 2014", "text_classifier", {"text_cnn": {"sizes": (2, 3, 4, 5, 6, 7)}}
        ),
        "very_deep_text_classifier": _convolutional(
            "Conneau et al. 2016",
            "very_deep_text_classifier",
            _by("depth", "vdcnn_{}", (9, 17, 29)),
            {"batch": 2},
        ),
        "lstm": _recurrent(
            "Hochreiter and Schmidhuber 1997",
            "lstm",
            _unrolled("lstm", ((1, 6), (1, 10), (1, 16), (1, 24), (1, 32), (2, 4), (2, 8))),
            {"features": 128, "batch": 32},
        ),
        "lstm_writer": _recurrent(
            "Graves 2013",
            "character_generator",
            _unrolled("lstm_writer", ((1, 6), (1, 12), (1, 20), (2, 4), (2, 8), (3, 6))),
            {"width": 1024},
        ),
        "captioner": _recurrent(
            "Venugopalan et al. 2015",
            "captioner",
            {
                "captioner_4_to_4": {"frames": 4, "words": 4},
                "captioner_6_to_8": {"frames": 6, "words": 8},
                "captioner_12_to_10": {"frames": 12, "words": 10},
                "captioner_2_layers": {"frames": 4, "words": 5, "layers": 2},
            },
            {"width": 1024},
        ),
        "weather_forecaster": _recurrent(
            "Shi et al. 2015, convolutional LSTM",
            "weather_forecaster",
            _unrolled("convlstm", ((1, 4), (1, 8), (1, 14), (2, 4))),
        ),
        "text_reader": _recurrent(
            "Shi et al. 2015, CRNN", "text_reader", {"crnn_8": {}, "crnn_16": {"length": 256}}
        ),
    },
    "validation": {
        "squeezenet": _convolutional(
            "Iandola et al. 2016", "squeezenet_inference", {"squeezenet": {}}, ONE
        ),
        "xception": _convolutional(
            "Chollet 2016", "xception", {"xception": {}, "xception_short": {"middle": 3}}, ONE
        ),
        "rnn_writer": _recurrent(
            "Elman 1990, Graves 2013",
            "character_generator",
            _unrolled("rnn_writer", ((1, 12), (2, 8))),
            {"core": "rnn", "width": 1024},
        ),
    },
    "test": {
        "resnet": _convolutional(
            "He et al. 2015, bottleneck blocks",
            "resnet50_inference",
            _by("depth", "resnet_{}", (14, 50, 101)),
            ONE,
        ),
        "resnet_plain": _convolutional(
            "He et al. 2015, plain blocks",
            "plain_block_resnet",
            {"resnet_18": {}, "resnet_34": {"blocks": (3, 4, 6, 3)}},
            ONE,
        ),
        "inception": _convolutional(
            "Szegedy et al. 2014",
            "inception_inference",
            {"googlenet": {}, "googlenet_5_blocks": {"blocks": INCEPTION_BLOCKS[:5]}},
            ONE,
        ),
        "darknet": _convolutional("Redmon and Farhadi 2016", "darknet_19", {"darknet_19": {}}, ONE),
        "darknet_residual": _convolutional(
            "Redmon and Farhadi 2018",
            "darknet_53",
            {"darknet_53": {}, "darknet_tiny": {"blocks": (1, 1, 2, 2, 1)}},
            ONE,
        ),
        "gru_writer": _recurrent(
            "Cho et al. 2014, Graves 2013",
            "character_generator",
            _unrolled("gru_writer", ((1, 6), (1, 12), (1, 20), (2, 6))),
            {"core": "gru", "width": 1024},
        ),
        "highway_forecaster": _recurrent(
            "Zilly et al. 2016",
            "highway_forecaster",
            {"highway_4x4": {"steps": 4, "depth": 4}, "highway_5x10": {"steps": 5, "depth": 10}},
        ),
    },
}
"""Split -> family -> what it is."""


def members() -> dict[str, tuple[str, str]]:
    """Name of each graph -> (split, family), in the order of the table."""
    table = (
        (split, family, group)
        for split, families in SPLITS.items()
        for family, group in families.items()
    )
    return {name: (split, family) for split, family, group in table for name in group.members}


def model_of(name: str) -> Example:
    """What is traced for the graph of this name; raises `InputError` where there is none."""
    for families in SPLITS.values():
        for family in families.values():
            if name in family.members:
                return MODELS[family.model].build(**{**family.always, **family.members[name]})
    raise InputError("mcm-graphs", name, "there is no such graph")


def generate(name: str) -> ComputationGraph:
    """The graph of this name, as traced, nothing folded; raises `InputError` where there is
    none."""
    return frozen_trace(model_of(name), name)
