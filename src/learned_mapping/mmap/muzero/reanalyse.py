"""Batches from the replay: Reanalyse for some of the samples, then the targets (section 3, Reanalyse)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from learned_mapping.learning.replay import VALUE, Replay, Unroll
from learned_mapping.mmap.muzero.config import NO_SEARCH, OUTCOME_TARGET, MuZeroConfig
from learned_mapping.mmap.muzero.learner import Batch
from learned_mapping.mmap.muzero.representation import Observation
from learned_mapping.mmap.muzero.search import Decisions

Ask = Callable[[Observation, np.ndarray], Decisions]
"""(observations [G, ...], legal [G, 3]) -> `Decisions`, for batches of one size."""
HEAVIEST = 5.0
"""The weight of an outcome-weighted policy target at most."""


def ask_rows(replay: Replay, rows: np.ndarray, ask: Ask, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Policies [R, 3] and values [R] of rows of the replay, asked in batches of `size`, the last one padded."""
    policies, values = [], []
    for start in range(0, len(rows), size):
        chunk = np.resize(rows[start : start + size], size)
        found = ask(observations_at(replay, chunk), replay.fields["legal"][chunk])
        policies.append(np.asarray(found.policy))
        values.append(np.asarray(found.value))
    return np.concatenate(policies)[: len(rows)], np.concatenate(values)[: len(rows)]


def observations_at(replay: Replay, rows: np.ndarray) -> Observation:
    """The observations of rows of the replay."""
    return Observation(*(replay.fields[name][rows] for name in Observation._fields))


def refresh(replay: Replay, where: Unroll, config: MuZeroConfig, search: Ask, infer: Ask) -> None:
    """Searches the positions of samples anew with the current network, and keeps policies and values in the replay.

    The values that n-step targets bootstrap from, n decisions on, are asked of the network alone.
    """
    rows = np.unique(where.index[where.inside])
    policies, values = ask_rows(replay, rows, search, config.parallel_games)
    if config.search != NO_SEARCH and config.policy_target != OUTCOME_TARGET:
        replay.fields["policy"][rows] = policies
    if config.n_step > 0:
        far = replay.left[where.index] >= config.n_step
        later = np.unique((where.index[far] + config.n_step) % replay.capacity)
        later = np.setdiff1d(later, rows)
        if len(later):
            replay.fields[VALUE][later] = ask_rows(replay, later, infer, config.parallel_games)[1]
    replay.fields[VALUE][rows] = values


def make_batch(replay: Replay, config: MuZeroConfig, rng: np.random.Generator, search: Ask, infer: Ask) -> Batch:
    """Draws a batch, reanalyses its share of it and computes the targets.

    Of unrolled positions past the end of a game the action is drawn at random, so that the model learns that nothing
    happens there whatever one does.
    """
    where = replay.sample(config.batch_size, config.unroll_steps, rng)
    renewed = round(config.reanalyse_fraction * config.batch_size)
    if renewed:
        refresh(replay, Unroll(where.index[:renewed], where.inside[:renewed]), config, search, infer)
    value = replay.value_targets(where, config.n_step, config.discount)
    action = replay.fields["action"][where.index]
    action = np.where(where.inside, action, rng.integers(3, size=action.shape)).astype(np.int32)
    policy, weight = replay.fields["policy"][where.index], where.inside.astype(np.float32)
    if config.policy_target == OUTCOME_TARGET or config.search == NO_SEARCH:
        advantage = value - replay.fields[VALUE][where.index]
        weight = weight * np.minimum(np.exp(advantage / config.outcome_scale), HEAVIEST).astype(np.float32)
        policy = np.eye(3, dtype=np.float32)[action]
    return Batch(
        observation=observations_at(replay, where.index[:, 0]),
        action=action[:, :-1],
        policy=policy,
        policy_weight=weight,
        value=value,
        reward=replay.reward_targets(where)[:, :-1],
    )
