from dataclasses import replace

import numpy as np
import pytest
from learned_mapping_builders.training.elites import ORDER_STRENGTH, ORIGINS, STRENGTH, origin_laws

from learned_mapping.budget import Budget
from learned_mapping.regal.agent.features import NODE_FEATURES, features
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import freed_bytes, slack, upward_rank
from learned_mapping.regal.searches.local_search import random_search
from learned_mapping.regal.searches.proposals import (
    BINS,
    FREED_LATE,
    constant_law,
    larger_table,
    mean_law,
    ordered_law,
    priority_law,
    sample_bins,
    sampled_law,
    spectral_law,
)


def one_hot(entries, bins):
    """Logits that all but force a bin for every entry: [N, 3, 2, bins]."""
    logits = np.full((*entries.shape, bins), -50.0)
    np.put_along_axis(logits, entries[..., None], 50.0, axis=-1)
    return logits


def test_certain_logits_give_the_bins_they_name():
    """The order of a chromosome's entries: affinities op by op, then priorities; catches a
    transposed law."""
    rng = np.random.default_rng(0)
    entries = rng.integers(len(BINS), size=(4, 3, 2))
    logits = one_hot(entries, len(BINS))
    for law in (sampled_law(logits, rng), mean_law(logits)):
        for name, which in (("alpha", 0), ("beta", 1)):
            values = np.asarray(BINS)[entries[..., which]]
            expected = np.concatenate([values[:, :2].ravel(), values[:, 2]])
            np.testing.assert_allclose(getattr(law, name), expected, rtol=1e-6)


def test_options_of_a_law():
    """Uniform priorities, a strength of 0, and the populations it feeds."""
    logits = np.random.default_rng(1).standard_normal((5, 3, 2, len(BINS)))
    law = mean_law(logits, priorities=False, in_initial=False, mutant_share=0.5)
    assert np.all(law.alpha[10:] == 1) and np.all(law.alpha[:10] > 1)
    assert not law.in_initial and law.mutant_share == 0.5
    assert np.all(mean_law(logits, strength=0.0).alpha == 1)
    np.testing.assert_allclose(
        mean_law(logits, strength=2.0).alpha - 1, 2 * (mean_law(logits).alpha - 1)
    )


def test_bins_are_drawn_with_the_softmax():
    logits = np.tile(np.log([0.1, 0.2, 0.3, 0.15, 0.05, 0.2]), (20_000, 1, 1, 1))
    share = np.bincount(sample_bins(logits, np.random.default_rng(0)).ravel(), minlength=6) / 20_000
    np.testing.assert_allclose(share, [0.1, 0.2, 0.3, 0.15, 0.05, 0.2], atol=0.015)


def test_probability_of_the_larger_of_two_betas():
    """Against draws; and one minus the probability with the two exchanged."""
    table, rng = larger_table(), np.random.default_rng(0)
    for i, j, k, m in ((0, 0, 0, 0), (3, 0, 0, 0), (1, 2, 4, 0), (5, 1, 2, 3)):
        x, y = rng.beta(BINS[i], BINS[j], 100_000), rng.beta(BINS[k], BINS[m], 100_000)
        assert table[i, j, k, m] == pytest.approx((x > y).mean(), abs=0.006)
        assert table[i, j, k, m] + table[k, m, i, j] == pytest.approx(1)


def test_spectral_law_biases_each_side_to_its_device(instance):
    seen = features(instance)
    law = spectral_law(instance, seen, "eigenvector_2", 3.0)
    side = seen.nodes[:, NODE_FEATURES.index("eigenvector_2")] >= 0
    alpha = law.alpha[:80].reshape(40, 2)
    assert np.array_equal(alpha[:, 1] == 3.0, side) and np.array_equal(alpha[:, 0] == 3.0, ~side)
    assert np.all(law.beta == 1) and np.all(law.alpha[80:] == 1)
    cost = instance.arrays.seconds
    assert abs(cost[side].sum() / cost.sum() - 0.5) <= cost.max() / cost.sum()


def test_priority_law_ranks_ops_by_the_rule(instance):
    """Catches a reversed rank, and affinities that are not the base's."""
    for rule, values in (("freed", freed_bytes(instance)), ("height", upward_rank(instance))):
        law = priority_law(instance, rule, 4.0)
        mean = law.alpha[80:] / (law.alpha[80:] + law.beta[80:])
        assert np.all(law.alpha[:80] == 1) and np.allclose(law.alpha[80:] + law.beta[80:], 6.0)
        one, other = np.argmax(values), np.argmin(values)
        assert mean[one] == mean.max() > 0.7 and mean[other] == mean.min() < 0.3
    base = spectral_law(instance, features(instance), "eigenvector_2", 3.0)
    both = priority_law(instance, "freed", 4.0, base)
    assert np.array_equal(both.alpha[:80], base.alpha[:80]) and both.alpha[80:].max() > 4


def test_constant_law_mirrors_the_devices(instance):
    law = constant_law(instance, (3.0, 1.0), (2.0, 0.5))
    assert law.alpha[:4].tolist() == [3, 1, 3, 1] and law.beta[:4].tolist() == [1, 3, 1, 3]
    assert law.alpha[-1] == 2.0 and law.beta[-1] == 0.5


def test_law_search_draws_from_its_law(instance):
    """A law that all but forces every op onto device 0: the serial time; within the budget, same
    seed same result."""
    law = constant_law(instance, (1000.0, 1.0), (1.0, 1.0))
    budget = Budget(samples=300)
    actual = random_search(instance, np.random.default_rng(0), budget, law)
    assert budget.best == pytest.approx(instance.arrays.seconds.sum()) and budget.samples == 300
    np.testing.assert_array_equal(
        actual, random_search(instance, np.random.default_rng(0), Budget(samples=300), law)
    )
    free = Budget(samples=300)
    random_search(
        instance, np.random.default_rng(0), free, constant_law(instance, (1.0, 1.0), (1.0, 1.0))
    )
    assert free.best < 0.99 * budget.best


def test_ordered_law_runs_long_paths_and_transfers_first(instance):
    """Catches affinities that change, a reversed order, and transfers that stay uniform or take the
    ops' entries."""
    base = replace(
        spectral_law(instance, features(instance), "eigenvector_2", 3.0),
        in_initial=False,
        turns=(0.5, 2.0),
    )
    law = ordered_law(instance, base, 6.0, 15.0)
    assert len(law.alpha) == instance.chromosome_length and (law.in_initial, law.turns) == (
        False,
        (0.5, 2.0),
    )
    assert np.array_equal(law.alpha[:80], base.alpha[:80]) and np.array_equal(
        law.beta[:80], base.beta[:80]
    )
    mean = law.alpha[80:120] / (law.alpha[80:120] + law.beta[80:120])
    rank = upward_rank(instance)
    assert mean[np.argmax(rank)] == mean.max() > 0.8 and mean[np.argmin(rank)] == mean.min() < 0.2
    assert np.all(law.alpha[120:] == 16.0) and np.all(law.beta[120:] == 1.0)
    plain = ordered_law(instance, base, 0.0, 15.0)
    assert np.all(plain.alpha[80:120] == 1) and np.all(plain.alpha[120:] == 16.0)


def test_freed_late_lets_ops_with_slack_wait(instance):
    """Catches a sign: of two ops that free alike, the one on the longer path has the higher
    priority."""
    freed, spare = freed_bytes(instance), slack(instance)
    seen = features(instance).nodes[:, NODE_FEATURES.index("slack")]
    np.testing.assert_allclose(spare, seen, atol=1e-6)
    law = priority_law(instance, FREED_LATE, 8.0)
    mean = law.alpha[80:] / (law.alpha[80:] + law.beta[80:])
    for one in range(40):
        for other in np.flatnonzero((freed <= freed[one]) & (spare > spare[one])):
            assert mean[one] > mean[other]
    # Far more than what it gives back for the slack, an op that frees the most goes before one that
    # takes the most.
    assert mean[np.argmax(freed)] > mean[np.argmin(freed)]


def test_elites_for_peak_memory_start_from_the_order(instance):
    """Catches laws of elites without their order, and one for running time with it."""
    for objective in ("runtime", "memory"):
        posed = Instance(instance.graph, objective=objective)
        laws = origin_laws(posed, features(posed))
        assert len(laws) == len(ORIGINS)
        ordered = priority_law(posed, FREED_LATE, ORDER_STRENGTH)
        for law, origin in zip(laws, ORIGINS):
            spectral = spectral_law(posed, features(posed), origin, STRENGTH)
            assert np.array_equal(law.alpha[:80], spectral.alpha[:80])
            assert np.array_equal(
                law.alpha[80:], ordered.alpha[80:] if objective == "memory" else np.ones(40)
            )
