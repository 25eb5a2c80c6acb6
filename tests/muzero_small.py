"""A configuration so small that everything compiles in seconds; shared, because equal configurations share compiled
functions."""

from __future__ import annotations

import dataclasses

from learned_mapping.mmap.muzero.config import MuZeroConfig, NetworkConfig, RepresentationConfig

SMALL = MuZeroConfig(
    representation=RepresentationConfig(
        next_buffers=1, same_tensor_buffers=1, window=16, profile=16, supply=8, prices=True
    ),
    network=NetworkConfig(block=8, channels=(4,), part=8, embedding=16, hidden=(16,), bins=17),
    simulations=4,
    temperature_decay_steps=20,
    batch_size=8,
    learning_rate=3e-3,
    replay_size=300,
    unroll_steps=2,
    n_step=3,
    parallel_games=4,
    moves_per_iteration=10,
    updates_per_iteration=2,
    max_gradient_norm=1.0,
)
IMPROVED = dataclasses.replace(
    SMALL,
    search="gumbel",
    demonstrations="greedy-tuned",
    shaped=True,
    pretraining_updates=2,
    n_step=0,
    exploiting_games=1,
    demonstration_confidence=0.8,
)
