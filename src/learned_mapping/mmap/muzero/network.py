"""The networks of MMap-MuZero: representation (Fig. 4), dynamics, reward, value and policy (section 4.3.1).

The paper says: a ResNet over the memory map and embedding layers over the rest, concatenated, and an MLP to the
embedding h; policy, value, reward and dynamics are MLPs, the first three categorical. It gives no sizes.

Shapes: B states, three actions, E the width of h. Values and rewards leave the network in the units of
`NetworkConfig.value_scale`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.learning.categorical import Atoms, make_atoms
from learned_mapping.learning.networks import (
    draw_parameters,
    layer_norm,
    mlp,
    patches,
    residual_tower,
    unit_range,
    unpack_bits,
)
from learned_mapping.mmap.muzero.config import NetworkConfig, RepresentationConfig
from learned_mapping.mmap.muzero.representation import BUFFER_NUMBERS, Observation, empty_observation, layout
from learned_mapping.mmap.rules.actions import NUM_ACTIONS

Parameters = dict[str, Any]
ZERO = ("policy_out", "value_out", "reward_out")
"""Layers that start at 0: the policy begins uniform, value and reward near 0."""
LOWEST_LOGIT = -1e9
"""The logit of an illegal action."""


class Prediction(NamedTuple):
    """What the network says of latent states."""

    policy: jax.Array
    """[B, 3] logits."""
    value: jax.Array
    """[B, bins] logits."""


class Networks(NamedTuple):
    """Pure functions of parameters."""

    init: Callable[[np.random.Generator], Parameters]
    """Random parameters, drawn in NumPy: nothing to compile."""
    represent: Callable[[Parameters, Observation], jax.Array]
    """-> h [B, E], in [0, 1]."""
    dynamics: Callable[[Parameters, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    """h [B, E], actions [B] -> next h [B, E] and reward logits [B, bins]."""
    predict: Callable[[Parameters, jax.Array], Prediction]
    """h [B, E] -> policy and value."""
    atoms: Atoms
    """Of value and reward."""


def _encode(seen: RepresentationConfig, net: NetworkConfig, observation: Observation) -> jax.Array:
    """The representation encoder of Fig. 4."""
    where, vector = layout(seen), observation.vector
    count = 1 + seen.next_buffers + seen.same_tensor_buffers
    image = unpack_bits(observation.window)[..., None]
    image = residual_tower(patches(image, net.block), net.channels, net.blocks, name="map")
    buffers = vector[:, where.buffers].reshape(len(vector), count, BUFFER_NUMBERS)
    buffers = mlp(buffers, (net.part,), max(net.part // 4, 8), name="buffer").reshape(len(vector), -1)
    rest = jnp.concatenate([vector[:, where.actions], vector[:, where.globals], vector[:, where.prices]], axis=-1)
    current = vector[:, where.buffers.start : where.buffers.start + BUFFER_NUMBERS]
    parts = [
        hk.Linear(net.part, name="map_flat")(image.reshape(len(image), -1)),
        hk.Linear(net.part, name="profile")(unpack_bits(observation.profile)),
        hk.Linear(net.part, name="supply")(vector[:, where.supply]),
        hk.Linear(net.part, name="buffers")(buffers),
        hk.Linear(net.part, name="actions")(jnp.concatenate([current, rest], axis=-1)),
    ]
    joined = jnp.concatenate([jax.nn.relu(layer_norm(part, name=f"part_{i}")) for i, part in enumerate(parts)], axis=-1)
    return unit_range(mlp(joined, net.hidden, net.embedding, name="join"))


def _advance(net: NetworkConfig, state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Dynamics, residual in h, and reward."""
    x = jnp.concatenate([state, jax.nn.one_hot(action, NUM_ACTIONS)], axis=-1)
    state = unit_range(state + mlp(x, net.hidden, net.embedding, name="dynamics"))
    return state, mlp(x, net.hidden, net.bins, name="reward") + _atoms(net).near_zero()


def _predict(net: NetworkConfig, state: jax.Array) -> Prediction:
    """Policy and value."""
    return Prediction(
        mlp(state, net.hidden, NUM_ACTIONS, name="policy"),
        mlp(state, net.hidden, net.bins, name="value") + _atoms(net).near_zero(),
    )


def _atoms(net: NetworkConfig) -> Atoms:
    return make_atoms(net.value_scale, net.bins, net.transform)


@functools.lru_cache(maxsize=16)
def make_networks(seen: RepresentationConfig, net: NetworkConfig) -> Networks:
    """The networks of a configuration; equal configurations share their compiled functions."""
    encode = hk.without_apply_rng(hk.transform(functools.partial(_encode, seen, net)))
    advance = hk.without_apply_rng(hk.transform(functools.partial(_advance, net)))
    predict = hk.without_apply_rng(hk.transform(functools.partial(_predict, net)))

    def shapes(key: jax.Array, state: jax.Array, action: jax.Array, observation: Observation) -> Parameters:
        return {
            "representation": encode.init(key, observation),
            "dynamics": advance.init(key, state, action),
            "prediction": predict.init(key, state),
        }

    def init(rng: np.random.Generator) -> Parameters:
        state, action = jnp.zeros((1, net.embedding)), jnp.zeros(1, jnp.int32)
        return draw_parameters(
            jax.eval_shape(shapes, jax.random.key(0), state, action, empty_observation(seen, 1)), rng, ZERO
        )

    return Networks(
        init=init,
        represent=lambda parameters, observation: encode.apply(parameters["representation"], observation),
        dynamics=lambda parameters, state, action: advance.apply(parameters["dynamics"], state, action),
        predict=lambda parameters, state: predict.apply(parameters["prediction"], state),
        atoms=_atoms(net),
    )
