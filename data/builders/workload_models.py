"""Models that the set ``compiled`` alone has: a mixture of experts, DCGAN, GNMT, TabNet, PointNet,
a graph network."""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import optax

from .zoo.layers import (
    batch_norm,
    causal_bias,
    cross_entropy,
    initial_state,
    layer_norm,
    multi_head_attention,
    unroll,
)
from .zoo.models import ADAM, ZOO, Model, integers, model, sequence_pair, tokens, trained


def mixture_of_experts_loss(
    tokens: jax.Array,
    *,
    layers: int = 4,
    width: int = 512,
    heads: int = 8,
    experts: int = 8,
    capacity: float = 1.25,
    vocabulary: int = 8192,
) -> jax.Array:
    """Mean cross-entropy of a Transformer whose dense layers are Switch layers (Fedus et al. 2021);
    `tokens` is [B, S + 1] int32."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    table = hk.get_parameter(
        "embedding", [vocabulary, width], init=hk.initializers.TruncatedNormal(0.02)
    )
    x = table[inputs]
    bias = causal_bias(inputs.shape[1], x.dtype)
    for i in range(layers):
        with hk.name_scope(f"layer_{i}"):
            y = layer_norm(x, "attention_norm")
            x = x + multi_head_attention(y, y, heads=heads, bias=bias)
            y = layer_norm(x, "switch_norm")
            x = x + _switch(y.reshape(-1, width), experts, capacity).reshape(x.shape)
    return cross_entropy(layer_norm(x, "norm") @ table.T, targets)


def _switch(x: jax.Array, experts: int, capacity: float) -> jax.Array:
    """Each of N tokens [N, D] goes to one expert, as long as that has room; products with one-hot
    codes route them."""
    room = int(capacity * x.shape[0] / experts)
    gates = jax.nn.softmax(hk.Linear(experts, name="router")(x))
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts, dtype=x.dtype)
    # its turn at its expert
    place = jnp.einsum("nm,me->ne", jnp.tri(x.shape[0], dtype=x.dtype), chosen) * chosen - 1
    route = chosen[:, :, None] * jax.nn.one_hot(place, room, dtype=x.dtype)
    size = x.shape[-1]
    first = hk.get_parameter(
        "expand", [experts, size, 4 * size], x.dtype, init=hk.initializers.VarianceScaling()
    )
    second = hk.get_parameter(
        "contract", [experts, 4 * size, size], x.dtype, init=hk.initializers.VarianceScaling()
    )
    inside = jnp.einsum("nec,nd->ecd", route, x)
    out = jnp.einsum("ech,ehd->ecd", jax.nn.relu(jnp.einsum("ecd,edh->ech", inside, first)), second)
    return jnp.einsum("nec,ecd->nd", route * jnp.sum(gates * chosen, axis=-1)[:, None, None], out)


def generator(noise: jax.Array, *, channels: int = 64) -> jax.Array:
    """DCGAN's generator (Radford et al. 2015): images [B, 64, 64, 3] from noise [B, Z]."""
    x = hk.Linear(4 * 4 * channels * 8, name="generator_dense")(noise).reshape(
        -1, 4, 4, channels * 8
    )
    x = jax.nn.relu(batch_norm(x, "generator_norm", True))
    for i, width in enumerate((channels * 4, channels * 2, channels)):
        x = hk.Conv2DTranspose(width, 4, stride=2, with_bias=False, name=f"generator_{i}")(x)
        x = jax.nn.relu(batch_norm(x, f"generator_norm_{i}", True))
    return jnp.tanh(hk.Conv2DTranspose(3, 4, stride=2, name="generator_image")(x))


def discriminator(images: jax.Array, *, channels: int = 64) -> jax.Array:
    """DCGAN's discriminator: one score [B] for each image [B, 64, 64, 3], positive where it looks
    real."""
    x = jax.nn.leaky_relu(hk.Conv2D(channels, 4, stride=2, name="discriminator_0")(images), 0.2)
    for i in (1, 2, 3):
        x = hk.Conv2D(channels * 2**i, 4, stride=2, with_bias=False, name=f"discriminator_{i}")(x)
        x = jax.nn.leaky_relu(batch_norm(x, f"discriminator_norm_{i}", True), 0.2)
    return hk.Linear(1, name="discriminator_score")(hk.Flatten()(x))[:, 0]


def adversarial_loss(images: jax.Array, noise: jax.Array, *, channels: int = 64) -> jax.Array:
    """Losses of both players, added (Goodfellow et al. 2014).

    Each player's loss reaches its own parameters only: the discriminator sees generated images
    whose gradient is stopped, and the generator's loss is scored by a second pass. The gradient of
    the second pass with respect to the discriminator is part of the program, as in a step that
    updates both players at once.
    """
    imagined = generator(noise, channels=channels)
    judge = hk.to_module(discriminator)("judge")
    real = judge(images, channels=channels)
    fake = judge(jax.lax.stop_gradient(imagined), channels=channels)
    convincing = judge(imagined, channels=channels)
    softplus = jax.nn.softplus
    return jnp.mean(softplus(-real)) + jnp.mean(softplus(fake)) + jnp.mean(softplus(-convincing))


def translation_by_lstm_loss(
    source: jax.Array,
    target: jax.Array,
    *,
    layers: int = 4,
    width: int = 1024,
    vocabulary: int = 32_000,
) -> jax.Array:
    """Mean cross-entropy of neural machine translation with attention (Wu et al. 2016, GNMT).

    The encoder's first layer runs in both directions, the layers above have residual connections,
    and the decoder's first layer asks for the context that all its layers read.

    Args:
      source: [S, B] int32.
      target: [T + 1, B] int32.
    """
    steps = list(hk.Embed(vocabulary, width, name="source_embedding")(source))
    left = unroll(hk.LSTM(width, name="encoder_left"), steps)[0]
    right = unroll(hk.LSTM(width, name="encoder_right"), steps[::-1])[0][::-1]
    steps = [jnp.concatenate(pair, axis=-1) for pair in zip(left, right)]
    for i in range(1, layers):
        outputs = unroll(hk.LSTM(width, name=f"encoder_{i}"), steps)[0]
        steps = [out + step for out, step in zip(outputs, steps)] if i > 1 else outputs
    memory = jnp.stack(steps, axis=1)
    keys = hk.Linear(width, with_bias=False, name="keys")(memory)
    query, score = hk.Linear(width, name="query"), hk.Linear(1, with_bias=False, name="energy")
    cores = [hk.LSTM(width, name=f"decoder_{i}") for i in range(layers)]
    states = [initial_state(core, memory[:, 0]) for core in cores]
    context, written = jnp.zeros_like(memory[:, 0]), []
    for step in hk.Embed(vocabulary, width, name="target_embedding")(target[:-1]):
        x, states[0] = cores[0](jnp.concatenate([step, context], axis=-1), states[0])
        energy = score(jnp.tanh(query(x)[:, None] + keys))
        context = jnp.sum(jax.nn.softmax(energy, axis=1) * memory, axis=1)
        for i in range(1, layers):
            out, states[i] = cores[i](jnp.concatenate([x, context], axis=-1), states[i])
            x = out + x if i > 1 else out
        written.append(x)
    return cross_entropy(hk.Linear(vocabulary, name="scores")(jnp.stack(written)), target[1:])


def tabnet(
    features: jax.Array,
    *,
    steps: int = 5,
    width: int = 64,
    classes: int = 2,
    training: bool = False,
) -> jax.Array:
    """TabNet (Arik and Pfister 2019): class scores [B, classes] of rows [B, D].

    The mask of each step is a softmax; the paper's sparsemax has to sort.
    """
    features = batch_norm(features, "features", training)

    def transform(x: jax.Array, name: str) -> jax.Array:
        for i in range(4):
            y = batch_norm(
                hk.Linear(4 * width, with_bias=False, name=f"{name}_{i}")(x),
                f"{name}_norm_{i}",
                training,
            )
            y = y[..., : 2 * width] * jax.nn.sigmoid(y[..., 2 * width :])
            x = y if x.shape != y.shape else (x + y) * 0.5**0.5
        return x

    prior, total = jnp.ones_like(features), 0.0
    attended = transform(features, "step_0")[:, width:]
    for i in range(1, steps + 1):
        scores = batch_norm(
            hk.Linear(features.shape[-1], name=f"mask_{i}")(attended), f"mask_norm_{i}", training
        )
        mask = jax.nn.softmax(scores * prior)
        prior = prior * (1.5 - mask)
        out = transform(features * mask, f"step_{i}")
        total, attended = total + jax.nn.relu(out[:, :width]), out[:, width:]
    return hk.Linear(classes, name="scores")(total)


def pointnet(
    points: jax.Array, *, classes: int = 40, width: int = 64, training: bool = False
) -> jax.Array:
    """PointNet (Qi et al. 2017): class scores [B, classes] of point clouds [B, N, 3]."""
    points = points @ _transform_net(points, 3, width, "input", training)
    x = _shared(points, (width, width), "first", training)
    x = x @ _transform_net(x, width, width, "features", training)
    x = jnp.max(_shared(x, (width, 2 * width, 16 * width), "second", training), axis=1)
    x = _shared(x, (8 * width, 4 * width), "head", training)
    return hk.Linear(classes, name="scores")(x)


def _transform_net(x: jax.Array, size: int, width: int, name: str, training: bool) -> jax.Array:
    """[B, size, size] matrix near the identity that aligns a cloud."""
    y = jnp.max(_shared(x, (width, 2 * width, 16 * width), f"{name}_points", training), axis=1)
    y = _shared(y, (8 * width, 4 * width), f"{name}_head", training)
    matrix = hk.Linear(size * size, name=f"{name}_matrix", w_init=jnp.zeros)(y).reshape(
        -1, size, size
    )
    return matrix + jnp.eye(size, dtype=matrix.dtype)


def _shared(x: jax.Array, widths: Sequence[int], name: str, training: bool) -> jax.Array:
    for i, width in enumerate(widths):
        x = jax.nn.relu(
            batch_norm(hk.Linear(width, name=f"{name}_{i}")(x), f"{name}_norm_{i}", training)
        )
    return x


def graph_network(
    nodes: jax.Array,
    edges: jax.Array,
    senders: jax.Array,
    receivers: jax.Array,
    *,
    steps: int = 4,
    width: int = 128,
) -> jax.Array:
    """Encode-process-decode graph network (Battaglia et al. 2018, Sanchez-Gonzalez et al. 2020):
    [N, 3] per node.

    Args:
      nodes: [N, F] features.
      edges: [E, G] features.
      senders, receivers: [E] int32.
      steps: rounds of message passing, each with weights of its own.
    """

    def block(x: jax.Array, name: str) -> jax.Array:
        return layer_norm(hk.nets.MLP([width, width], name=name)(x), f"{name}_norm")

    nodes, edges = block(nodes, "encode_nodes"), block(edges, "encode_edges")
    for i in range(steps):
        messages = block(
            jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=-1), f"edges_{i}"
        )
        received = jax.ops.segment_sum(messages, receivers, nodes.shape[0])
        nodes = nodes + block(jnp.concatenate([nodes, received], axis=-1), f"nodes_{i}")
        edges = edges + messages
    return hk.nets.MLP([width, 3], name="decode")(nodes)


def simulation(f: Callable, nodes: int = 8192, edges: int = 32_768, features: int = 32) -> tuple:
    ends = integers(edges)
    return f(nodes, features), f(edges, features), ends, ends, f(nodes, 3)


def motion_loss(*inputs: Any, **options: Any) -> Any:
    return jnp.mean(jnp.square(graph_network(*inputs[:-1], **options) - inputs[-1]))


MODELS: dict[str, Model] = ZOO | {
    "mixture_of_experts_train": model("Fedus et al. 2021, Switch Transformer",
        mixture_of_experts_loss, tokens(4, 256, 1), ADAM, bf16=True),
    "dcgan_train": model("Radford et al. 2015, DCGAN", adversarial_loss,
        lambda f, batch=128, noise=100: (f(batch, 64, 64, 3), f(batch, noise)),
        optax.adam(2e-4, b1=0.5)),
    "nmt_train": model("Wu et al. 2016, GNMT with attention", translation_by_lstm_loss,
        sequence_pair, ADAM),
    "tabnet_train": model("Arik and Pfister 2019, TabNet", trained(tabnet),
        lambda f, batch=4096, features=512: (f(batch, features), integers(batch)),
        optax.adam(1e-2)),
    "pointnet_train": model("Qi et al. 2017, PointNet", trained(pointnet),
        lambda f, batch=32, points=1024: (f(batch, points, 3), integers(batch)), ADAM),
    "graph_network_train": model("Sanchez-Gonzalez et al. 2020, graph network simulator",
        motion_loss, simulation, optax.adam(1e-4)),
}  # fmt: skip
"""The zoo, and the models that this set alone has."""
