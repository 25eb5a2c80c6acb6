"""Models of families that the sixty workloads lack: convolutions beside attention, latents, fields,
diffusion, hourglasses, groups, pooled recurrence, two towers, attention over edges, flows,
capsules, gated mixing."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from .zoo.layers import (
    attention_layer,
    batch_norm,
    conv,
    cross_entropy,
    feed_forward,
    halved,
    layer_norm,
    multi_head_attention,
    pooled_scores,
)
from .zoo.models import ADAM, Model, images, integers, labelled_images, model, tokens, trained


def conformer(
    features: jax.Array, *, layers: int = 8, width: int = 256, heads: int = 4, classes: int = 1024
) -> jax.Array:
    """Conformer (Gulati et al. 2020): scores [B, S, classes] of frames [B, S, D]; attention and a
    depthwise convolution between two halves of a dense block."""
    x = hk.Linear(width, name="frames")(features)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            x = x + 0.5 * feed_forward(layer_norm(x, "first_norm"), jax.nn.silu)
            y = layer_norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads)
            y = hk.Linear(2 * width, name="gates")(layer_norm(x, "convolution_norm"))
            y = y[..., :width] * jax.nn.sigmoid(y[..., width:])
            y = hk.Conv1D(width, 31, feature_group_count=width, name="depthwise")(y)
            x = x + hk.Linear(width, name="pointwise")(jax.nn.silu(layer_norm(y, "middle_norm")))
            with hk.name_scope("second"):
                x = x + 0.5 * feed_forward(layer_norm(x, "second_norm"), jax.nn.silu)
            x = layer_norm(x, "norm")
    return hk.Linear(classes, name="scores")(x)


def perceiver(
    inputs: jax.Array,
    *,
    latents: int = 256,
    width: int = 512,
    heads: int = 8,
    reads: int = 4,
    layers: int = 4,
    classes: int = 1000,
) -> jax.Array:
    """Perceiver (Jaegle et al. 2021): scores [B, classes] of a set [B, N, D] that latents read
    `reads` times, `layers` of self-attention behind each."""
    start = hk.get_parameter(
        "latents", [latents, width], inputs.dtype, init=hk.initializers.TruncatedNormal(0.02)
    )
    x = jnp.broadcast_to(start, (inputs.shape[0], latents, width))
    memory = hk.Linear(width, name="inputs")(inputs)
    for i in range(reads):
        with hk.name_scope(f"read_{i}"):
            y = layer_norm(x, "read_norm")
            x = x + multi_head_attention(y, memory, heads=heads, name="cross")
            for j in range(layers):
                with hk.name_scope(f"layer_{j}"):
                    x = attention_layer(x, heads, activation=jax.nn.gelu)
    return hk.Linear(classes, name="scores")(jnp.mean(x, axis=1))


def radiance_loss(
    places: jax.Array, colours: jax.Array, *, layers: int = 8, width: int = 256, octaves: int = 10
) -> jax.Array:
    """Loss of a neural radiance field (Mildenhall et al. 2020).

    Args:
      places: [rays, samples, 3], along each ray.
      colours: [rays, 3], which the weighted samples should add up to.
    """
    scales = 2.0 ** jnp.arange(octaves, dtype=places.dtype)
    angles = (places[..., None] * scales).reshape(*places.shape[:-1], -1)
    encoded = jnp.concatenate([places, jnp.sin(angles), jnp.cos(angles)], axis=-1)
    x = encoded
    for i in range(layers):
        x = jnp.concatenate([x, encoded], axis=-1) if i == layers // 2 else x
        x = jax.nn.relu(hk.Linear(width, name=f"dense_{i}")(x))
    out = hk.Linear(4, name="colour_and_density")(x)
    passing = jnp.exp(-jax.nn.softplus(out[..., 3]) / places.shape[1])
    reached = jnp.cumprod(passing, axis=1) / passing
    weights = reached * (1 - passing)
    seen = jnp.sum(weights[..., None] * jax.nn.sigmoid(out[..., :3]), axis=1)
    return jnp.mean(jnp.square(seen - colours))


def diffusion_loss(
    images: jax.Array,
    noise: jax.Array,
    times: jax.Array,
    *,
    width: int = 96,
    depth: int = 3,
    blocks: int = 2,
    heads: int = 4,
) -> jax.Array:
    """Loss of a denoising diffusion model (Ho et al. 2020): residual blocks that hear the time,
    down and up again, attention at the bottom; images and noise [B, H, W, C], times [B] in (0, 1).
    """
    mixed = jnp.sqrt(1 - times)[:, None, None, None] * images
    mixed = mixed + jnp.sqrt(times)[:, None, None, None] * noise
    angles = times[:, None] * 2.0 ** jnp.arange(width // 2, dtype=times.dtype)
    heard = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    heard = jax.nn.silu(hk.Linear(4 * width, name="times")(heard))

    def block(x: jax.Array, channels: int, name: str) -> jax.Array:
        y = hk.Conv2D(channels, 3, name=f"{name}_first")(jax.nn.silu(_groups(x, f"{name}_norm_0")))
        y = y + hk.Linear(channels, name=f"{name}_times")(heard)[:, None, None]
        y = hk.Conv2D(channels, 3, name=f"{name}_second")(jax.nn.silu(_groups(y, f"{name}_norm_1")))
        match = x if x.shape == y.shape else hk.Conv2D(channels, 1, name=f"{name}_match")(x)
        return match + y

    x, skips = hk.Conv2D(width, 3, name="first")(mixed), []
    for level in range(depth):
        for i in range(blocks):
            x = block(x, width * 2**level, f"down_{level}_{i}")
            skips.append(x)
        x = hk.Conv2D(width * 2**level, 3, stride=2, name=f"halve_{level}")(x)
    batch, rows, columns, channels = x.shape
    flat = x.reshape(batch, rows * columns, channels)
    x = (flat + multi_head_attention(flat, flat, heads=heads)).reshape(x.shape)
    for level in reversed(range(depth)):
        x = hk.Conv2DTranspose(width * 2**level, 2, stride=2, name=f"double_{level}")(x)
        for i in range(blocks):
            x = jnp.concatenate([x, skips.pop()], axis=-1)
            x = block(x, width * 2**level, f"up_{level}_{i}")
    return jnp.mean(jnp.square(hk.Conv2D(images.shape[-1], 3, name="last")(x) - noise))


def _groups(x: jax.Array, name: str) -> jax.Array:
    return hk.GroupNorm(8, name=name)(x)


def hourglass(images: jax.Array, *, stacks: int = 2, depth: int = 4, width: int = 128) -> jax.Array:
    """Stacked hourglass (Newell et al. 2016): heat maps [B, H / 4, W / 4, 16] of joints."""

    def residual(x: jax.Array, name: str) -> jax.Array:
        y = conv(x, width // 2, 1, 1, f"{name}_in")
        y = conv(y, width // 2, 3, 1, f"{name}_middle")
        return x + conv(y, width, 1, 1, f"{name}_out", None)

    def glass(x: jax.Array, level: int, name: str) -> jax.Array:
        aside = residual(x, f"{name}_aside_{level}")
        x = residual(halved(x), f"{name}_down_{level}")
        x = glass(x, level - 1, name) if level > 1 else residual(x, f"{name}_bottom")
        x = residual(x, f"{name}_up_{level}")
        return aside + jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)

    x = halved(conv(images, width, 7, 2, "first"))
    for i in range(stacks):
        y = residual(glass(x, depth, f"glass_{i}"), f"after_{i}")
        maps = hk.Conv2D(16, 1, name=f"maps_{i}")(y)
        x = x + y + hk.Conv2D(width, 1, name=f"again_{i}")(maps)
    return maps


def resnext(
    images: jax.Array,
    *,
    stages: tuple[int, ...] = (3, 4, 6, 3),
    groups: int = 32,
    classes: int = 1000,
    training: bool = False,
) -> jax.Array:
    """ResNeXt (Xie et al. 2017): scores [B, classes]; the middle convolutions in groups."""
    x = halved(conv(images, 64, 7, 2, "first", training=training))
    for stage, blocks in enumerate(stages):
        width = 128 * 2**stage
        for i in range(blocks):
            name, stride = f"block_{stage}_{i}", 2 if stage and not i else 1
            y = conv(x, width, 1, 1, f"{name}_in", training=training)
            y = hk.Conv2D(
                width,
                3,
                stride=stride,
                feature_group_count=groups,
                with_bias=False,
                name=f"{name}_groups",
            )(y)
            y = jax.nn.relu(batch_norm(y, f"{name}_groups_norm", training))
            y = conv(y, 2 * width, 1, 1, f"{name}_out", None, training=training)
            same = x.shape == y.shape
            x = jax.nn.relu(
                y
                + (
                    x
                    if same
                    else conv(x, 2 * width, 1, stride, f"{name}_match", None, training=training)
                )
            )
    return pooled_scores(x, classes)


def pooled_recurrence_loss(
    tokens: jax.Array, *, layers: int = 2, width: int = 512, vocabulary: int = 8192
) -> jax.Array:
    """Mean cross-entropy of a quasi-recurrent language model (Bradbury et al. 2016): convolutions
    make gates, and a loop over the steps does nothing but pool; `tokens` is [B, S + 1] int32."""
    x = hk.Embed(vocabulary, width, name="embedding")(tokens[:, :-1])
    for i in range(layers):
        y = hk.Conv1D(3 * width, 2, padding=hk.pad.causal, name=f"gates_{i}")(x)
        new, keep, out = (part for part in jnp.split(y, 3, axis=-1))
        new, keep, out = jnp.tanh(new), jax.nn.sigmoid(keep), jax.nn.sigmoid(out)
        state, states = jnp.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            state = keep[:, t] * state + (1 - keep[:, t]) * new[:, t]
            states.append(state)
        x = x + out * jnp.stack(states, axis=1)
    return cross_entropy(hk.Linear(vocabulary, name="scores")(x), tokens[:, 1:])


def two_towers_loss(
    people: jax.Array,
    things: jax.Array,
    *,
    rows: int = 200_000,
    width: int = 256,
    hidden: tuple[int, ...] = (1024, 512, 256),
) -> jax.Array:
    """Loss of a retrieval model with in-batch negatives (Yi et al. 2019): each person [B, P] int32
    should be nearest to the own thing [B, T] int32."""
    ends = []
    for name, columns in (("people", people), ("things", things)):
        found = [
            hk.Embed(rows, width, name=f"{name}_{i}")(columns[:, i])
            for i in range(columns.shape[1])
        ]
        x = hk.nets.MLP(hidden, name=f"{name}_tower")(jnp.concatenate(found, axis=-1))
        ends.append(x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + 1e-6))
    return cross_entropy(20.0 * ends[0] @ ends[1].T, jnp.arange(people.shape[0]))


def graph_attention_loss(
    nodes: jax.Array,
    joined: jax.Array,
    labels: jax.Array,
    *,
    layers: int = 3,
    heads: int = 4,
    width: int = 64,
    classes: int = 16,
) -> jax.Array:
    """Loss of a graph attention network (Veličković et al. 2018) on nodes [N, F], whose edges are a
    dense matrix [N, N], one where joined."""
    x = nodes
    for i in range(layers):
        y = hk.Linear(heads * width, name=f"dense_{i}")(x).reshape(-1, heads, width)
        sent = jnp.sum(y * hk.get_parameter(f"sent_{i}", [heads, width], init=jnp.ones), axis=-1)
        met = jnp.sum(y * hk.get_parameter(f"met_{i}", [heads, width], init=jnp.ones), axis=-1)
        scores = jax.nn.leaky_relu(sent[:, None] + met[None], 0.2)
        weights = jax.nn.softmax(scores + 1e9 * (joined[..., None] - 1), axis=1)
        y = jnp.einsum("nmh,mhw->nhw", weights, y).reshape(-1, heads * width)
        x = jax.nn.elu(y) + (x if x.shape == y.shape else 0)
    return cross_entropy(hk.Linear(classes, name="scores")(x), labels)


def flow_loss(images: jax.Array, *, levels: int = 3, steps: int = 6, width: int = 256) -> jax.Array:
    """Negative log-likelihood of images [B, H, W, C] by a flow (Kingma and Dhariwal 2018): affine
    couplings between 1x1 convolutions; half of the channels leave at each level."""
    x, total = images, 0.0
    for level in range(levels):
        batch, rows, columns, channels = x.shape
        x = x.reshape(batch, rows // 2, 2, columns // 2, 2, channels)
        x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows // 2, columns // 2, 4 * channels)
        half = 2 * channels
        for step in range(steps):
            name = f"step_{level}_{step}"
            scale = hk.get_parameter(f"{name}_scale", [4 * channels], init=jnp.zeros)
            total = total + x.shape[1] * x.shape[2] * jnp.sum(scale)
            x = hk.Conv2D(4 * channels, 1, with_bias=False, name=f"{name}_mix")(x * jnp.exp(scale))
            y = jax.nn.relu(hk.Conv2D(width, 3, name=f"{name}_first")(x[..., :half]))
            y = jax.nn.relu(hk.Conv2D(width, 1, name=f"{name}_second")(y))
            y = hk.Conv2D(2 * half, 3, w_init=jnp.zeros, name=f"{name}_third")(y)
            log_scale = jax.nn.log_sigmoid(y[..., :half] + 2)
            moved = (x[..., half:] + y[..., half:]) * jnp.exp(log_scale)
            total = total + jnp.sum(log_scale) / batch
            x = jnp.concatenate([x[..., :half], moved], axis=-1)
        if level < levels - 1:
            x, gone = jnp.split(x, 2, axis=-1)
            total = total - jnp.sum(jnp.square(gone)) / (2 * batch)
    return (jnp.sum(jnp.square(x)) / (2 * images.shape[0]) - total) / images[0].size


def capsules(
    images: jax.Array, *, rounds: int = 3, channels: int = 32, size: int = 16, classes: int = 10
) -> jax.Array:
    """Capsules with routing by agreement (Sabour et al. 2017): lengths [B, classes] for images
    [B, 28, 28, 1]."""

    def squash(x: jax.Array) -> jax.Array:
        square = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
        return x * square / (1 + square) * jax.lax.rsqrt(square + 1e-7)

    x = jax.nn.relu(hk.Conv2D(256, 9, padding="VALID", name="first")(images))
    x = hk.Conv2D(8 * channels, 9, stride=2, padding="VALID", name="parts")(x)
    parts = squash(x.reshape(images.shape[0], -1, 8))
    weights = hk.get_parameter(
        "votes", [parts.shape[1], classes, 8, size], init=hk.initializers.TruncatedNormal(0.1)
    )
    votes = jnp.einsum("bpi,pcio->bpco", parts, weights)
    routes = jnp.zeros(votes.shape[:-1], votes.dtype)
    for _ in range(rounds):
        whole = squash(jnp.einsum("bpc,bpco->bco", jax.nn.softmax(routes, axis=-1), votes))
        routes = routes + jnp.einsum("bpco,bco->bpc", votes, whole)
    return jnp.sqrt(jnp.sum(jnp.square(whole), axis=-1) + 1e-7)


def gated_mixer(
    tokens: jax.Array, *, layers: int = 12, width: int = 512, vocabulary: int = 16_000
) -> jax.Array:
    """gMLP (Liu et al. 2021): scores [B, S, vocabulary] of tokens [B, S] int32; positions are mixed
    by a gate instead of by attention."""
    x = hk.Embed(vocabulary, width, name="embedding")(tokens)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = jax.nn.gelu(hk.Linear(4 * width, name="expand")(layer_norm(x, "norm")))
            kept, gate = jnp.split(y, 2, axis=-1)
            gate = layer_norm(gate, "gate_norm").transpose(0, 2, 1)
            gate = hk.Linear(tokens.shape[1], b_init=jnp.ones, name="positions")(gate)
            x = x + hk.Linear(width, name="contract")(kept * gate.transpose(0, 2, 1))
    return hk.Linear(vocabulary, name="scores")(layer_norm(x, "last_norm"))


def frames_loss(frames: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    return cross_entropy(conformer(frames, **options), labels)


def capsules_loss(images: jax.Array, labels: jax.Array, **options: Any) -> jax.Array:
    """Margins of the lengths (Sabour et al. 2017, equation 4)."""
    lengths = capsules(images, **options)
    right = jax.nn.one_hot(labels, lengths.shape[-1], dtype=lengths.dtype)
    near, far = jax.nn.relu(0.9 - lengths), jax.nn.relu(lengths - 0.1)
    return jnp.mean(jnp.sum(right * near**2 + 0.5 * (1 - right) * far**2, axis=-1))


def frames(f: Callable, batch: int = 16, length: int = 512, features: int = 80) -> tuple:
    return f(batch, length, features), integers(batch, length)


def diffused(f: Callable, batch: int = 16, size: int = 64) -> tuple:
    return f(batch, size, size, 3), f(batch, size, size, 3), f(batch)


FRESH: dict[str, Model] = {
    "conformer_train": model("Gulati et al. 2020, Conformer", frames_loss, frames, ADAM),
    "perceiver_inference": model("Jaegle et al. 2021, Perceiver", perceiver,
        lambda f, batch=16, inputs=2048, features=256: (f(batch, inputs, features),)),
    "radiance_train": model("Mildenhall et al. 2020, NeRF", radiance_loss,
        lambda f, rays=1024, samples=64: (f(rays, samples, 3), f(rays, 3)), ADAM),
    "diffusion_train": model("Ho et al. 2020, DDPM", diffusion_loss, diffused, ADAM),
    "hourglass_inference": model("Newell et al. 2016, stacked hourglass", hourglass, images(256)),
    "resnext_train": model("Xie et al. 2017, ResNeXt", trained(resnext), labelled_images,
        optax.sgd(0.1, momentum=0.9)),
    "qrnn_train": model("Bradbury et al. 2016, QRNN", pooled_recurrence_loss, tokens(64, 24, 1),
        ADAM),
    "two_towers_train": model("Yi et al. 2019, two towers", two_towers_loss,
        lambda f, batch=4096: (integers(batch, 6), integers(batch, 3)), optax.adagrad(0.05)),
    "graph_attention_train": model("Veličković et al. 2018, GAT", graph_attention_loss,
        lambda f, nodes=1024, features=256: (f(nodes, features), f(nodes, nodes), integers(nodes)),
        ADAM),
    "flow_train": model("Kingma and Dhariwal 2018, Glow", flow_loss, images(64, 32), ADAM),
    "capsules_train": model("Sabour et al. 2017, CapsNet", capsules_loss,
        lambda f, batch=128: (f(batch, 28, 28, 1), integers(batch)), ADAM),
    "gmlp_inference": model("Liu et al. 2021, gMLP", gated_mixer, tokens(32, 256)),
}  # fmt: skip
"""The models by name: none is of a family among `workload_models.MODELS`."""
