"""Reanalyse: which decisions get new targets, from which function, and what a batch is made of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from learned_mapping.learning.replay import Replay
from learned_mapping.mmap.muzero.reanalyse import make_batch, refresh
from learned_mapping.mmap.muzero.records import replay_fields
from learned_mapping.mmap.muzero.search import Decisions
from muzero_small import SMALL

LENGTHS = (9, 5, 12, 7)


def replay() -> Replay:
    """Games whose observations are numbered from 0; stored values are -1 and policies 0."""
    fields = replay_fields(SMALL.representation)
    found, number = Replay(100, fields), 0
    for length in LENGTHS:
        game = {name: np.zeros((length, *np.shape(entry)), np.asarray(entry).dtype) for name, entry in fields.items()}
        game["vector"][:, 0] = np.arange(number, number + length)
        game["value"][:] = -1.0
        game["action"][:] = np.arange(length) % 3
        found.add(game)
        number += length
    return found


def asker(offset: float):
    """A search that answers with the observation's number plus an offset, and insists on its batch size."""

    def ask(observation, legal) -> Decisions:
        number = observation.vector[:, 0]
        assert len(number) == len(legal) == SMALL.parallel_games
        policy = np.tile(number[:, None], (1, 3))
        return Decisions(np.zeros(len(number), int), policy, number + offset, number)

    return ask


def test_positions_are_searched_and_what_they_bootstrap_from_is_asked_of_the_network():
    """Catches rows that are mixed up by batching, padding, or the end of a game."""
    kept = replay()
    where = kept.unroll(np.array([1, 8, 16, 20]), SMALL.unroll_steps)
    refresh(kept, where, SMALL, asker(0.0), asker(1000.0))
    searched = {1, 2, 3, 8, 16, 17, 18, 20, 21, 22}
    bootstrap = {1 + 3, 2 + 3, 3 + 3, 16 + 3, 20 + 3, 21 + 3, 22 + 3}
    for row in range(sum(LENGTHS)):
        expected = row if row in searched else 1000 + row if row in bootstrap else -1
        assert kept.fields["value"][row] == expected, row
        assert (kept.fields["policy"][row] == (row if row in searched else 0)).all()


@pytest.mark.parametrize("fraction", [0.0, 0.5, 1.0])
def test_the_fraction_decides_how_many_samples_are_renewed(fraction):
    config = dataclasses.replace(SMALL, reanalyse_fraction=fraction, batch_size=40, n_step=0, unroll_steps=1)
    asked = []

    def search(observation, legal):
        asked.append(set(observation.vector[:, 0].tolist()))
        return asker(0.0)(observation, legal)

    kept = replay()
    batch = make_batch(kept, config, np.random.default_rng(0), search, search)
    renewed = round(fraction * 40)
    numbers = batch.observation.vector[:, 0]
    assert set(numbers[:renewed].tolist()) <= set().union(set(), *asked)
    assert bool(asked) == (fraction > 0)
    fresh = batch.policy[:, 0, 0] == numbers
    assert fresh[:renewed].all()
    if fraction == 0.0:
        assert (batch.policy == 0).all()


def test_outcome_targets_are_actions_weighted_by_advantage():
    """Better than expected weighs more than 1, worse less, and what lies past the end nothing."""
    config = dataclasses.replace(SMALL, policy_target="outcome", reanalyse_fraction=0.0, n_step=0, batch_size=64)
    kept = replay()
    kept.fields["value"][:9] = 5.0
    batch = make_batch(kept, config, np.random.default_rng(0), asker(0.0), asker(0.0))
    numbers = batch.observation.vector[:, 0]
    np.testing.assert_allclose(batch.policy_weight[numbers < 9, 0], np.exp(-5.0 / config.outcome_scale), rtol=1e-5)
    np.testing.assert_allclose(batch.policy_weight[numbers >= 9, 0], np.exp(1.0 / config.outcome_scale), rtol=1e-5)
    last = np.isin(numbers, np.cumsum(LENGTHS) - 1)
    assert last.any() and (batch.policy_weight[last, 1:] == 0).all()
    assert (batch.policy[:, 0].argmax(axis=-1) == batch.action[:, 0]).all()
