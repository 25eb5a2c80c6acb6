"""The set ``mcm-cnn-rnn``: sixteen test graphs of paper 2 of the kinds that the paper prints,
convolutional and recurrent networks without attention, half of them on 36 chips.

Of architectures that no other set has, each gives two graphs: the first of its sizes, from large to
small, on the whole package, and the first on fewer chips, by the rule of `mcm_chips`. A candidate
needs an optimum that dynamic programming proves; no value of any method decides.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import haiku as hk
import jax
import jax.numpy as jnp

from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items
from .mcm_chips import chip_count
from .mcm_facts import facts
from .mcm_fresh import has_proven_optimum
from .topology import topology_digest
from .zoo.examples import array, inference
from .zoo.layers import batch_norm, conv, halved, initial_state, pooled_scores
from .zoo.models import frozen_trace

NAME = "mcm-cnn-rnn"
WHOLE = 36
CONVOLUTIONAL, RECURRENT = "convolutional", "recurrent"


def denoiser(images: jax.Array, *, depth: int, channels: int = 64) -> jax.Array:
    """DnCNN (Zhang et al. 2016): convolutions one after another that find the noise of an image."""
    x = jax.nn.relu(hk.Conv2D(channels, 3, name="first")(images))
    for i in range(depth - 2):
        x = conv(x, channels, 3, 1, f"conv_{i}")
    return images - hk.Conv2D(images.shape[-1], 3, name="noise")(x)


def preactivation_resnet(images: jax.Array, *, blocks: int, width: int = 64) -> jax.Array:
    """Residual networks with the activation first (He et al. 2016), three stages of blocks."""
    x = hk.Conv2D(width, 3, with_bias=False, name="stem")(images)
    for stage in range(3):
        for i in range(blocks):
            name, channels = f"{stage}_{i}", width * 2**stage
            stride = 2 if stage and not i else 1
            y = jax.nn.relu(batch_norm(x, f"norm_{name}"))
            same = stride == 1
            skip = x if same else hk.Conv2D(channels, 1, stride=2, name=f"skip_{name}")(y)
            y = conv(y, channels, 3, stride, f"conv_{name}")
            x = skip + hk.Conv2D(channels, 3, with_bias=False, name=f"out_{name}")(y)
    return pooled_scores(jax.nn.relu(batch_norm(x, "last_norm")), 1000)


def highway_network(images: jax.Array, *, depth: int, channels: int = 64) -> jax.Array:
    """Highway networks (Srivastava et al. 2015, section 4): convolutions gated against their
    input, a pool after each third."""
    x = jax.nn.relu(hk.Conv2D(channels, 3, name="first")(images))
    for i in range(depth):
        both = hk.Conv2D(2 * channels, 3, name=f"highway_{i}")(x)
        new, gate = jax.nn.relu(both[..., :channels]), jax.nn.sigmoid(both[..., channels:])
        x = x + gate * (new - x)
        if i in (depth // 3, 2 * depth // 3):
            x = halved(x)
    return pooled_scores(x, 1000)


def network_in_network(images: jax.Array, *, stages: int, channels: int = 192) -> jax.Array:
    """Network in network (Lin et al. 2013): each convolution is followed by two of single
    pixels."""
    x = images
    for stage in range(stages):
        for i, size in enumerate((3, 1, 1)):
            x = jax.nn.relu(hk.Conv2D(channels, size, name=f"conv_{stage}_{i}")(x))
        x = x if stage else halved(x)
    return jnp.mean(x, axis=(1, 2))


def minimal_gated_forecaster(start: jax.Array, *, steps: int, width: int = 1024) -> list[jax.Array]:
    """The minimal gated unit (Zhou et al. 2016, eq. 6-8) forecasts a series from its first value;
    a forecast is the next input."""
    state, x, made = jnp.zeros((start.shape[0], width), start.dtype), start, []
    forget, update = hk.Linear(width, name="forget"), hk.Linear(width, name="update")
    out = hk.Linear(start.shape[1], name="forecast")
    for _ in range(steps):
        gate = jax.nn.sigmoid(forget(jnp.concatenate([state, x], axis=-1)))
        new = jnp.tanh(update(jnp.concatenate([gate * state, x], axis=-1)))
        state = state + gate * (new - state)
        x = out(state)
        made.append(x)
    return made


def independent_forecaster(
    start: jax.Array, *, layers: int, steps: int, width: int = 1024
) -> list[jax.Array]:
    """IndRNN (Li et al. 2018, eq. 2): each neuron reads its own past alone; a forecast is the next
    input."""
    inputs = [hk.Linear(width, name=f"input_{i}") for i in range(layers)]
    past = [hk.get_parameter(f"past_{i}", [width], init=jnp.ones) for i in range(layers)]
    states = [jnp.zeros((start.shape[0], width), start.dtype)] * layers
    out, x, made = hk.Linear(start.shape[1], name="forecast"), start, []
    for _ in range(steps):
        y = x
        for i in range(layers):
            y = states[i] = jax.nn.relu(inputs[i](y) + past[i] * states[i])
        x = out(y)
        made.append(x)
    return made


def neural_gpu(image: jax.Array, *, steps: int) -> jax.Array:
    """Neural GPU (Kaiser and Sutskever 2015, eq. 2): one convolutional gated unit applied to an
    image again and again."""
    channels = image.shape[-1]
    gates, new = (hk.Conv2D(n * channels, 3, name=f"gates_{n}") for n in (2, 1))
    state = image
    for _ in range(steps):
        both = jax.nn.sigmoid(gates(state))
        update, reset = both[..., :channels], both[..., channels:]
        state = state + update * (jnp.tanh(new(reset * state)) - state)
    return state


def residual_writer(
    start: jax.Array, *, layers: int, steps: int, width: int = 1024
) -> list[jax.Array]:
    """Stacked LSTMs with residual connections (Wu et al. 2016, eq. 6) write a series: an output is
    the next input."""
    cells = [hk.LSTM(width, name=f"layer_{i}") for i in range(layers)]
    states, x, made = [initial_state(cell, start) for cell in cells], start, []
    out = hk.Linear(width, name="out")
    for _ in range(steps):
        y = x
        for i, cell in enumerate(cells):
            z, states[i] = cell(y, states[i])
            y = z + y
        x = out(y)
        made.append(x)
    return made


def _by(option: str, values: tuple[int, ...]) -> list[dict[str, int]]:
    return [{option: value} for value in values]


def _unrolled(sizes: tuple[tuple[int, int], ...]) -> list[dict[str, int]]:
    return [{"layers": layers, "steps": steps} for layers, steps in sizes]


SERIES, IMAGES = (32, 1024), (1, 64, 64, 3)
ARCHITECTURES: dict[str, tuple[str, Callable, tuple[int, ...], list[dict[str, int]]]] = {
    "denoiser": (CONVOLUTIONAL, denoiser, (1, 128, 128, 3), _by("depth", (64, 48, 20, 17, 12))),
    "preactivation_resnet": (CONVOLUTIONAL, preactivation_resnet, IMAGES,
        _by("blocks", (18, 12, 9, 5, 3))),
    "highway_network": (CONVOLUTIONAL, highway_network, IMAGES, _by("depth", (60, 48, 32, 19, 10))),
    "network_in_network": (CONVOLUTIONAL, network_in_network, IMAGES,
        _by("stages", (40, 34, 15, 9, 4))),
    "minimal_gated": (RECURRENT, minimal_gated_forecaster, SERIES,
        _by("steps", (40, 30, 20, 12, 8))),
    "independent": (RECURRENT, independent_forecaster, SERIES,
        _unrolled(((2, 24), (1, 40), (2, 12), (2, 8), (1, 8)))),
    "neural_gpu": (RECURRENT, neural_gpu, (1, 64, 32, 48), _by("steps", (40, 30, 20, 12, 6))),
    "residual_writer": (RECURRENT, residual_writer, SERIES,
        _unrolled(((2, 20), (2, 16), (2, 12), (2, 8), (2, 4)))),
}  # fmt: skip
"""Architecture -> kind, model, shape of its input, sizes from large to small."""


def made(family: str, options: dict[str, int]) -> ComputationGraph:
    """The graph of an architecture at a size, as traced, nothing folded."""
    _, forward, shape, _ = ARCHITECTURES[family]
    name = "_".join([family, "x".join(map(str, options.values()))])
    return frozen_trace(inference(partial(forward, **options), array(*shape)), name)


def chosen() -> Iterator[tuple[str, ComputationGraph]]:
    """Architecture and graph of the set, in its order: the whole package first, then fewer
    chips."""
    for family, (*_, sizes) in ARCHITECTURES.items():
        found: dict[bool, ComputationGraph] = {}
        for options in sizes:
            graph = made(family, options)
            whole = chip_count(fold_cheap_sources(graph)) == WHOLE
            if whole not in found and has_proven_optimum(graph):
                found[whole] = graph
            if len(found) == 2:
                break
        yield from ((family, found[whole]) for whole in (True, False) if whole in found)


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Writes the set into ``FOLDER/NAME.json.gz``; there is no randomness. Some minutes."""
    items = Items(folder, 2 * len(ARCHITECTURES), progress)
    for family, graph in chosen():
        kind = ARCHITECTURES[family][0]
        about = facts(graph) | {"topology": topology_digest(graph)}
        items.add(f"{graph.name}.json.gz", graph, split="test", family=family, kind=kind, **about)
    whole = sum(item.facts["chips"] == WHOLE for item in items)
    return Manifest(NAME, SETS[NAME].about, None, tuple(items), {"graphs_whole_package": whole})
