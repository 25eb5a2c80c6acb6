"""What the traced set of paper 3 consists of: configurations of the zoo by architecture family, and
the split.

A configuration changes the shape of the graph: depth, blocks, time steps, forward or backward pass,
optimiser. Batch and width do not, so they stay at the zoo's values.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .regal_traced_graphs import GRADIENT, INFERENCE, TRAINING, Configuration
from .zoo.plain import INCEPTION_BLOCKS
from .zoo.residual import CONVNEXT_TINY, EFFICIENTNET_B0, MNASNET_B1, SHUFFLENET_STAGES

SPLIT_OF_FAMILY: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        (
            "alexnet",
            "lenet",
            "vgg",
            "squeezenet",
            "mobilenet",
            "unet",
            "resnet",
            "inception",
            "mnasnet",
            "efficientnet",
            "shufflenet",
            "ssd",
            "autoencoder",
            "alphazero",
            "transformer",
            "gpt",
            "lstm",
        ),
        "train",
    )
    | dict.fromkeys(("convnext", "mixer", "vit", "elman", "tcn", "dlrm"), "validation")
    | dict.fromkeys(("densenet", "edsr", "gru", "wavenet", "bert"), "test")
)
"""The rule of the split: all configurations of a family stand on one side, about 60, 20 and 20% of
the graphs."""


def _grid(
    family: str, model: str, modes: Sequence[str], name: str = "", **options: Iterable[Any]
) -> list:
    """All combinations of the options' values, each in all modes; `name` where it is not the
    family's."""
    rows = []
    for mode, values in itertools.product(modes, itertools.product(*options.values())):
        chosen = dict(zip(options, values))
        text = [
            f"{key}-{'-'.join(map(str, v)) if isinstance(v, tuple) else v}"
            for key, v in chosen.items()
        ]
        rows.append(
            Configuration("-".join([name or family, *text, mode]), family, model, mode, chosen)
        )
    return rows


def _staged(
    family: str, model: str, modes: Sequence[str], stages: Sequence[Sequence], rows: str
) -> list:
    """Configurations by blocks per stage, such as "1 2": the stages' own channels, that many blocks
    in each.

    Args:
      stages: tuples that hold the number of blocks where the third of five or the last of two
        stands.
      rows: blocks per stage, stages separated by blanks, configurations by commas; at most as many
        as there are stages.
    """
    configurations = []
    for mode, row in itertools.product(modes, rows.split(",")):
        counts = [int(count) for count in row.split()]
        value = tuple(_with_blocks(stage, count) for stage, count in zip(stages, counts))
        name = "-".join([family, *map(str, counts), mode])
        configurations.append(Configuration(name, family, model, mode, {"stages": value}))
    return configurations


def _with_blocks(stage: Sequence[int], count: int) -> tuple[int, ...]:
    place = 2 if len(stage) == 5 else len(stage) - 1
    return (*stage[:place], count, *stage[place + 1 :])


_I, _G, _T = (INFERENCE,), (GRADIENT,), (TRAINING,)
_IG = (INFERENCE, GRADIENT)
_SMALL_STAGES = "1,2,3,1 1,2 1,1 2,2 2,1 1 1"
_STAGES = (
    f"{_SMALL_STAGES},4,3 3,2 3,1 1 2,2 1 1,2 2 2,3 2 1,1 2 3,3 3 3,"
    "1 1 1 1,2 2 2 2,1 1 1 1 1,2 2 2 1 1,1 1 1 1 1 1,2 2 2 2 2 1"
)

CONFIGURATIONS: tuple[Configuration, ...] = (
    # Convolutional, training families.
    *_grid("alexnet", "alexnet_inference", _IG),
    *_grid("alexnet", "alexnet_train_batch_32", _T),
    *_grid("lenet", "lenet_inference", _IG),
    *_grid("vgg", "vgg16_inference", _IG, depth=(11, 13, 16, 19)),
    *_grid("vgg", "vgg16_train", _T, depth=(11, 13, 16, 19)),
    *_grid("squeezenet", "squeezenet_inference", _IG),
    *_grid("squeezenet", "squeezenet_train", _T),
    *_grid("mobilenet", "mobilenet_inference", _I),
    *_grid("unet", "unet_inference", _IG, depth=(1, 2, 3, 4, 5, 6)),
    *_grid("unet", "unet_train", _T, depth=(1, 2)),
    *_grid("resnet", "resnet50_inference", _I, depth=(14, 50, 101)),
    *_grid("resnet", "resnet50_inference", _G, depth=(14,)),
    *(
        Configuration(
            f"inception-blocks-{n}-{mode}",
            "inception",
            "inception_inference",
            mode,
            {"blocks": INCEPTION_BLOCKS[:n]},
        )
        for mode, most in ((INFERENCE, 9), (GRADIENT, 8))
        for n in range(1, most + 1)
    ),
    *_staged("mnasnet", "mnasnet_inference", _I, MNASNET_B1, _STAGES + ",3 3 3 2 4 1"),
    *_staged("mnasnet", "mnasnet_inference", _G, MNASNET_B1, _STAGES),
    *_staged(
        "efficientnet", "efficientnet_inference", _I, EFFICIENTNET_B0, _STAGES + ",1 2 2 3 3 4 1"
    ),
    *_staged("efficientnet", "efficientnet_inference", _G, EFFICIENTNET_B0, _SMALL_STAGES),
    *_staged(
        "shufflenet",
        "shufflenet_inference",
        _IG,
        SHUFFLENET_STAGES,
        "1,2,3,4,1 1,2 1,1 2,2 2,3 2,1 1 1,2 1 1",
    ),
    *_staged(
        "shufflenet", "shufflenet_inference", _I, SHUFFLENET_STAGES, "2 2 2,3 3 3,4 4 4,4 8 4"
    ),
    *_grid("ssd", "ssd_inference", _IG),
    *_grid("autoencoder", "autoencoder_train", _T, levels=(1, 2, 3, 4, 5)),
    *_grid("alphazero", "alphazero_train", _T, blocks=(0, 1, 2)),
    # Attention, training families.
    *_grid("transformer", "transformer_train", _T, layers=(1,)),
    *_grid("gpt", "decoder_inference", _I, layers=(1, 2, 3, 4, 5)),
    # Recurrent, training family: LSTM cells in every arrangement.
    *_grid("lstm", "lstm", _I, layers=(1, 2, 3, 4), steps=(2, 3, 4, 5, 6, 8, 10)),
    *_grid("lstm", "lstm", _I, layers=(1, 2), steps=(12, 16)),
    *_grid("lstm", "lstm", _G, layers=(1, 2, 3), steps=(2, 3, 4)),
    *_grid("lstm", "lstm", _G, layers=(1,), steps=(5, 6, 8)),
    *_grid(
        "lstm",
        "bidirectional_tagger",
        _I,
        "lstm-tagger",
        steps=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16),
    ),
    *_grid("lstm", "bidirectional_tagger", _G, "lstm-tagger", steps=(2, 3, 4, 5)),
    *_grid(
        "lstm",
        "language_model_train",
        _T,
        "lstm-language",
        core=("lstm",),
        layers=(1, 2),
        steps=(2, 3, 4, 5),
    ),
    *_grid(
        "lstm",
        "language_model_train",
        _T,
        "lstm-language",
        core=("lstm",),
        layers=(1,),
        steps=(6, 7, 8),
    ),
    *_grid("lstm", "seq2seq_train", _T, "lstm-seq2seq", layers=(1,), length=(2, 3)),
    # Validation families.
    *_staged(
        "convnext",
        "convnext_inference",
        _I,
        CONVNEXT_TINY,
        "1,2,3,1 1,2 1,2 2,1 1 1,2 2 2,1 1 1 1,2 2 2 2,3 3 3 1",
    ),
    *_staged("convnext", "convnext_inference", _G, CONVNEXT_TINY, "1,2,3,1 1,2 1,2 2,1 1 1"),
    *_grid("mixer", "mlp_mixer_inference", _I, layers=(1, 2, 3, 4, 5, 6, 7, 8)),
    *_grid("mixer", "mlp_mixer_inference", _G, layers=(1, 2)),
    *_grid("vit", "vit_inference", _I, layers=(1, 2, 3, 4, 5, 6)),
    *_grid("vit", "vit_inference", _G, layers=(1, 2)),
    *_grid("vit", "vit_train", _T, layers=(1,)),
    *_grid("elman", "vanilla_rnn", _I, layers=(1, 2, 3), steps=(4, 6, 8, 12, 16)),
    *_grid("elman", "vanilla_rnn", _G, layers=(1, 2), steps=(3, 4, 6, 8)),
    *_grid(
        "elman",
        "language_model_train",
        _T,
        "elman-language",
        core=("rnn",),
        layers=(1, 2),
        steps=(2, 3, 4, 6),
    ),
    *_grid("tcn", "tcn_train", _T, levels=(1, 2, 3, 4, 5)),
    *_grid("dlrm", "dlrm_train", _T, tables=(4, 8, 13, 26)),
    # Test families.
    *_grid(
        "densenet",
        "densenet121_inference",
        _I,
        blocks=(
            (2,),
            (4,),
            (6,),
            (2, 2),
            (2, 4),
            (4, 4),
            (3, 6),
            (6, 12),
            (2, 2, 2),
            (3, 6, 6),
            (4, 4, 4),
            (6, 12, 8),
        ),
    ),
    *_grid(
        "densenet",
        "densenet121_inference",
        _G,
        blocks=((1,), (2,), (3,), (4,), (6,), (1, 1), (2, 2), (2, 4), (4, 4), (2, 2, 2)),
    ),
    *_grid(
        "edsr", "super_resolution_inference", _I, blocks=(3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
    ),
    *_grid("edsr", "super_resolution_inference", _G, blocks=(1, 2, 3, 4, 6, 8, 12)),
    *_grid("edsr", "super_resolution_train", _T, blocks=(1, 2, 3, 4)),
    *_grid("gru", "gru", _I, layers=(1, 2, 3), steps=(2, 3, 4, 6, 8)),
    *_grid("gru", "gru", _I, layers=(1, 2), steps=(12,)),
    *_grid("gru", "gru", _G, layers=(1, 2), steps=(2, 3, 4)),
    *_grid(
        "gru",
        "language_model_train",
        _T,
        "gru-language",
        core=("gru",),
        layers=(1, 2),
        steps=(2, 3, 4),
    ),
    *_grid("wavenet", "wavenet_inference", _I, cycles=(1,), dilations=(2, 4, 6, 8, 10)),
    *_grid("wavenet", "wavenet_inference", _I, cycles=(2, 3), dilations=(6, 8, 10)),
    *_grid("wavenet", "wavenet_inference", _G, cycles=(1,), dilations=(2, 3, 4, 6)),
    *_grid("wavenet", "wavenet_coherent_batch32", _T, cycles=(1,), dilations=(1, 2, 3)),
    *_grid("bert", "bert_large_inference", _I, layers=(1, 2, 3, 4, 5, 6)),
    *_grid("bert", "bert_large_inference", _G, layers=(1,)),
)
"""All graphs of the set, in order; none has the topology of another."""
