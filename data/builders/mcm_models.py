"""Models that the set ``mcm-graphs`` alone has: further convolutional networks, and recurrent ones
that write.

Forward passes, none with attention. Image models take [B, H, W, 3] and, but for the autoencoder,
return class scores [B, classes]. In the recurrent ones, unrolled, each step reads what the step
before made: all a step knows of the past is in the state.
"""

from collections.abc import Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from .zoo.layers import batch_norm, conv, halved, initial_state, pooled_scores, stack, unroll

DARKNET_19 = (
    (64,),
    (128, 64, 128),
    (256, 128, 256),
    (512, 256, 512, 256, 512),
    (1024, 512, 1024, 512, 1024),
)
"""Channels of the convolutions of each stage, 3x3 and 1x1 in turn (Redmon and Farhadi 2016, table
6)."""
VDCNN_BLOCKS = {9: (1, 1, 1, 1), 17: (2, 2, 2, 2), 29: (5, 5, 2, 2)}
"""Blocks of two convolutions per width by depth (Conneau et al. 2016, table 2)."""


def plain_block_resnet(
    images: jax.Array, *, blocks: Sequence[int] = (2, 2, 2, 2), width: int = 64, classes: int = 1000
) -> jax.Array:
    """ResNet-18 and its like (He et al. 2015, table 1): residual blocks of two 3x3 convolutions."""
    x = halved(conv(images, width, 7, 2, "stem"), 3, "SAME")
    for stage, count in enumerate(blocks):
        for i in range(count):
            channels, stride = width * 2**stage, 2 if stage and not i else 1
            with hk.name_scope(f"stage_{stage}_{i}"):
                shortcut = conv(x, channels, 1, stride, "shortcut", None) if stride == 2 else x
                y = conv(conv(x, channels, 3, stride, "conv_1"), channels, 3, 1, "conv_2", None)
                x = jax.nn.relu(shortcut + y)
    return pooled_scores(x, classes)


def darknet_19(images: jax.Array, *, classes: int = 1000) -> jax.Array:
    """Darknet-19, the classifier behind YOLO v2 (Redmon and Farhadi 2016, table 6); for inference
    alone."""
    x = halved(conv(images, 32, 3, 1, "stem", _leaky))
    for stage, widths in enumerate(DARKNET_19):
        for i, channels in enumerate(widths):
            x = conv(x, channels, 1 if i % 2 else 3, 1, f"conv_{stage}_{i}", _leaky)
        x = halved(x) if stage < len(DARKNET_19) - 1 else x
    return jax.nn.softmax(jnp.mean(hk.Conv2D(classes, 1, name="scores")(x), axis=(1, 2)))


def darknet_53(
    images: jax.Array, *, blocks: Sequence[int] = (1, 2, 8, 8, 4), classes: int = 1000
) -> jax.Array:
    """Darknet-53, the classifier behind YOLO v3 (Redmon and Farhadi 2018, table 1)."""
    x = conv(images, 32, 3, 1, "stem", _leaky)
    for stage, count in enumerate(blocks):
        channels = 64 * 2**stage
        x = conv(x, channels, 3, 2, f"down_{stage}", _leaky)
        for i in range(count):
            with hk.name_scope(f"stage_{stage}_{i}"):
                x = x + conv(
                    conv(x, channels // 2, 1, 1, "reduce", _leaky), channels, 3, 1, "conv", _leaky
                )
    return pooled_scores(x, classes)


def _leaky(x: jax.Array) -> jax.Array:
    """Darknet's activation."""
    return jax.nn.leaky_relu(x, 0.1)


def xception(images: jax.Array, *, middle: int = 8, classes: int = 1000) -> jax.Array:
    """Xception (Chollet 2016, figure 5) for images [B, 299, 299, 3]; `middle` blocks between entry
    and exit."""
    x = conv(conv(images, 32, 3, 2, "stem_1", padding="VALID"), 64, 3, 1, "stem_2", padding="VALID")
    for i, channels in enumerate((128, 256, 728)):
        x = _narrowing(x, (channels, channels), f"entry_{i}", first_activation=i > 0)
    for i in range(middle):
        y = x
        for j in range(3):
            y = _separable(jax.nn.relu(y), 728, f"middle_{i}_{j}")
        x = x + y
    x = _narrowing(x, (728, 1024), "exit", first_activation=True)
    x = jax.nn.relu(_separable(x, 1536, "exit_1"))
    x = jax.nn.relu(_separable(x, 2048, "exit_2"))
    return pooled_scores(x, classes)


def _narrowing(
    x: jax.Array, widths: tuple[int, int], name: str, *, first_activation: bool
) -> jax.Array:
    """Two separable convolutions and a pool beside a strided convolution of single pixels."""
    shortcut = conv(x, widths[1], 1, 2, f"{name}_shortcut", None)
    y = jax.nn.relu(x) if first_activation else x
    y = jax.nn.relu(_separable(y, widths[0], f"{name}_1"))
    return shortcut + halved(_separable(y, widths[1], f"{name}_2"), 3, "SAME")


def _separable(x: jax.Array, channels: int, name: str) -> jax.Array:
    x = hk.DepthwiseConv2D(1, 3, padding="SAME", with_bias=False, name=f"{name}_depthwise")(x)
    return batch_norm(
        hk.Conv2D(channels, 1, with_bias=False, name=f"{name}_pointwise")(x), f"{name}_norm"
    )


def text_classifier(
    tokens: jax.Array,
    *,
    sizes: Sequence[int] = (3, 4, 5),
    width: int = 300,
    channels: int = 100,
    classes: int = 2,
) -> jax.Array:
    """Convolutions of several sizes side by side over word vectors (Kim 2014); `tokens` is [B, S]
    int32."""
    x = hk.Embed(20_000, width, name="embedding")(tokens)
    convolutions = [
        jax.nn.relu(hk.Conv1D(channels, size, padding="VALID", name=f"conv_{size}")(x))
        for size in sizes
    ]
    x = jnp.concatenate([jnp.max(y, axis=1) for y in convolutions], axis=-1)
    return jax.nn.softmax(hk.Linear(classes, name="scores")(x))


def very_deep_text_classifier(
    tokens: jax.Array, *, depth: int = 17, classes: int = 14
) -> jax.Array:
    """VDCNN (Conneau et al. 2016): up to 29 convolutions over characters [B, 1024] int32.

    The mean over eighths of the sequence stands for the paper's eight greatest values, which would
    have to sort.
    """
    x = hk.Conv1D(64, 3, name="stem")(hk.Embed(69, 16, name="embedding")(tokens))
    for stage, count in enumerate(VDCNN_BLOCKS[depth]):
        for i in range(2 * count):
            x = hk.Conv1D(64 * 2**stage, 3, with_bias=False, name=f"conv_{stage}_{i}")(x)
            x = jax.nn.relu(batch_norm(x, f"norm_{stage}_{i}"))
        if stage < 3:
            x = hk.max_pool(x, (3, 1), (2, 1), "SAME")
    eighth = x.shape[1] // 8
    x = hk.Flatten()(hk.avg_pool(x, (eighth, 1), (eighth, 1), "VALID"))
    for i in range(2):
        x = jax.nn.relu(hk.Linear(2048, name=f"dense_{i}")(x))
    return jax.nn.softmax(hk.Linear(classes, name="scores")(x))


def denoising_autoencoder(
    images: jax.Array, *, levels: int = 4, channels: int = 64, repeats: int = 2
) -> jax.Array:
    """Convolutions down and transposed convolutions up, without skips (after Mao et al. 2016):
    images again."""
    x = images
    for level in range(levels):
        for i in range(repeats):
            stride = 2 if i == repeats - 1 else 1
            x = jax.nn.relu(
                hk.Conv2D(channels * 2**level, 3, stride=stride, name=f"down_{level}_{i}")(x)
            )
    for level in reversed(range(levels)):
        for i in range(repeats):
            stride = 1 if i else 2
            x = jax.nn.relu(
                hk.Conv2DTranspose(channels * 2**level, 3, stride=stride, name=f"up_{level}_{i}")(x)
            )
    return jax.nn.sigmoid(hk.Conv2D(images.shape[-1], 3, name="image")(x))


def character_generator(
    token: jax.Array,
    *,
    core: str = "lstm",
    steps: int = 8,
    layers: int = 1,
    width: int = 512,
    vocabulary: int = 256,
) -> list[jax.Array]:
    """A recurrent network writes the likeliest next character, `steps` times (after Graves 2013).

    Args:
      token: [B] int32, the first character.
      core: ``rnn``, ``gru`` or ``lstm``.

    Returns:
      The characters written, `steps` times [B] int32. They stay apart, here and below: one tensor
      of all steps would need the first step's result until the last step is done.
    """
    return _write(
        stack(core, layers, width), None, token, steps=steps, width=width, vocabulary=vocabulary
    )


def captioner(
    frames: jax.Array,
    token: jax.Array,
    *,
    words: int = 6,
    layers: int = 1,
    width: int = 512,
    vocabulary: int = 4000,
) -> list[jax.Array]:
    """An LSTM reads video frames, a second one writes a sentence from its state (after Venugopalan
    et al. 2015).

    Args:
      frames: [S, B, D] features of the frames.
      token: [B] int32, the mark at a sentence's start.

    Returns:
      The words written, `words` times [B] int32.
    """
    _, state = unroll(stack("lstm", layers, width, "encoder"), frames)
    return _write(
        stack("lstm", layers, width, "decoder"),
        state,
        token,
        steps=words,
        width=width,
        vocabulary=vocabulary,
    )


def _write(
    core: hk.RNNCore, state: Any, token: jax.Array, *, steps: int, width: int, vocabulary: int
) -> list[jax.Array]:
    """`steps` times [B] int32: greedy decoding of `core` from `state`, or from zeros where it is
    None."""
    table = hk.get_parameter(
        "embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal()
    )
    scores = hk.Linear(vocabulary, name="scores")
    state = core.initial_state(token.shape[0]) if state is None else state
    written = []
    for _ in range(steps):
        x = table.at[token].get(mode="promise_in_bounds")
        x, state = core(x, state)
        token = jnp.argmax(scores(x), axis=-1).astype(jnp.int32)
        written.append(token)
    return written


def highway_forecaster(
    start: jax.Array, *, steps: int = 4, depth: int = 4, width: int = 830, features: int = 128
) -> list[jax.Array]:
    """A recurrent highway network (Zilly et al. 2016, eq. 7-9) forecasts a series from its first
    value [B, D].

    A step runs `depth` highway layers over the state, of which the first reads the input; the carry
    gate is what the transform gate leaves. The forecast is the next input.

    Returns:
      `steps` times [B, features].
    """
    state, x, forecast = jnp.zeros((start.shape[0], width), start.dtype), start, []
    layers = [hk.Linear(2 * width, name=f"highway_{i}") for i in range(depth)]
    out = hk.Linear(features, name="forecast")
    for _ in range(steps):
        for i, layer in enumerate(layers):
            both = layer(jnp.concatenate([x, state], axis=-1) if i == 0 else state)
            new, gate = jnp.tanh(both[:, :width]), jax.nn.sigmoid(both[:, width:])
            state = state + gate * (new - state)
        x = out(state)
        forecast.append(x)
    return forecast


def weather_forecaster(
    maps: jax.Array, *, steps: int = 6, layers: int = 1, channels: int = 64, size: int = 3
) -> list[jax.Array]:
    """Convolutional LSTM (Shi et al. 2015): each map [B, H, W, C] forecasts the next, `steps`
    times.

    Returns:
      `steps` times [B, H, W, C].
    """
    place = maps.shape[1:3]
    core = hk.DeepRNN(
        [hk.Conv2DLSTM(place, channels, size, name=f"layer_{i}") for i in range(layers)]
    )
    out = hk.Conv2D(maps.shape[-1], 1, name="map")
    state, x, forecast = initial_state(core, maps), maps, []
    for _ in range(steps):
        hidden, state = core(x, state)
        x = out(hidden)
        forecast.append(x)
    return forecast


def text_reader(
    images: jax.Array, *, channels: int = 64, width: int = 256, classes: int = 37
) -> list[jax.Array]:
    """CRNN (Shi et al. 2015) with one LSTM in place of its two of both directions: scores of each
    column of a line.

    Args:
      images: [B, 32, W, 1], a line of text.

    Returns:
      W / 16 times [B, classes].
    """
    x = images
    for i, (factor, pool) in enumerate(
        ((1, (2, 2)), (2, (2, 2)), (4, (1, 1)), (4, (2, 2)), (8, (1, 1)), (8, (2, 2)))
    ):
        x = jax.nn.relu(hk.Conv2D(channels * factor, 3, name=f"conv_{i}")(x))
        x = x if pool == (1, 1) else hk.max_pool(x, (*pool, 1), (*pool, 1), "VALID")
    x = jax.nn.relu(hk.Conv2D(channels * 8, (2, 1), padding="VALID", name="conv_6")(x))[:, 0]
    columns = unroll(hk.LSTM(width, name="lstm"), [x[:, i] for i in range(x.shape[1])])[0]
    scores = hk.Linear(classes, name="scores")
    return [scores(column) for column in columns]
