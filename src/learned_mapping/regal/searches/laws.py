"""Where the Beta laws of mutants come from: one for all graphs, a hand-made one, or a learner's logits over bins.

A learner gives, for each op and each of its d + 1 entries of a chromosome (d affinities and a priority), two
categorical laws over `BINS`: one for alpha, one for beta (REGAL, Section 2.3). The paper samples both once for each
run; the mean of each is a variant here.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numba
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.regal.agent.features import NODE_FEATURES, Features, freed_bytes, rank_share, slack
from learned_mapping.regal.rules.decode import fitness_of, make_workspace
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw, tables_of
from learned_mapping.regal.searches.draws import draw
from learned_mapping.regal.searches.list_schedule import upward_rank

BINS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
"""Values of alpha and of beta to choose from; the paper prints none."""


def chromosome_law(affinity: np.ndarray, priority: np.ndarray, **options: object) -> MutantLaw:
    """A `MutantLaw` from its parts.

    Args:
      affinity: [N, d, 2] alpha and beta of each affinity.
      priority: [N, 2] the same of each priority.
      options: of `MutantLaw`.
    """
    alpha = np.concatenate([affinity[..., 0].ravel(), priority[:, 0]])
    beta = np.concatenate([affinity[..., 1].ravel(), priority[:, 1]])
    return MutantLaw(alpha, beta, **options)


def constant_law(instance: Instance, affinity: tuple[float, float], priority: tuple[float, float]) -> MutantLaw:
    """One Beta for every affinity of device 0, mirrored for the others, and one for every priority.

    Args:
      instance: what to schedule.
      affinity: alpha and beta for device 0; beta and alpha for every other device.
      priority: alpha and beta.
    """
    n, d = instance.graph.num_ops, instance.pair.devices
    entries = np.ones((n, d, 2))
    entries[:, 0] = affinity
    entries[:, 1:] = affinity[::-1]
    return chromosome_law(entries, np.tile(np.asarray(priority, float), (n, 1)))


def spectral_law(instance: Instance, seen: Features, vector: str, strength: float) -> MutantLaw:
    """Biases every op towards the side of a smooth vector on which it lies, halves (or d parts) holding equal cost.

    Args:
      instance: what to schedule.
      seen: its features.
      vector: the column that holds the ranks, such as ``eigenvector_2``, the Fiedler vector.
      strength: alpha of the affinity for that side; all else is uniform.
    """
    n, d = instance.graph.num_ops, instance.pair.devices
    rank = (seen.nodes[:, NODE_FEATURES.index(vector)].astype(float) + 1) / 2
    side = np.minimum((rank * d).astype(int), d - 1)
    entries = np.ones((n, d, 2))
    entries[np.arange(n), side, 0] = strength
    return chromosome_law(entries, np.ones((n, 2)))


RULES = ("freed", "height")
"""Of `priority_law`: bytes an op frees, `features.freed_bytes`; seconds of the longest path from it to the end."""
FREED_LATE = "freed_late"
"""One more, for peak memory: as ``freed``, but ops with slack wait, so that their outputs are held for less time."""
LATE = 0.6
"""Weight of the rank by slack in ``freed_late``, beside 1 for the rank by bytes freed."""


def priority_law(instance: Instance, rule: str, strength: float, base: MutantLaw | None = None) -> MutantLaw:
    """Biases every op's priority by its rank under a rule; nothing is learned.

    Args:
      instance: N ops.
      rule: of `RULES`, or `FREED_LATE`.
      strength: the op of the highest rank has Beta(1 + strength, 1), that of the lowest Beta(1, 1 + strength).
      base: where the affinities come from; uniform where None.
    """
    n, d = instance.graph.num_ops, instance.pair.devices
    rank = rank_share(upward_rank(instance) if rule == "height" else freed_bytes(instance))
    if rule == FREED_LATE:
        rank = rank_share(rank - LATE * rank_share(slack(instance)))
    priority = np.stack([1 + strength * rank, 1 + strength * (1 - rank)], axis=1)
    if base is None:
        return chromosome_law(np.ones((n, d, 2)), priority)
    affinity = np.stack([base.alpha[: n * d], base.beta[: n * d]], axis=1).reshape(n, d, 2)
    options = {name: getattr(base, name) for name in ("in_initial", "mutant_share", "turns")}
    return chromosome_law(affinity, priority, **options)


def ordered_law(instance: Instance, law: MutantLaw, height: float, transfers: float) -> MutantLaw:
    """The same affinities, the order by a rule: ops of the longest remaining path first, transfers before ops.

    Not the paper's, which leaves transfers uniform (Appendix A.2); chosen where validation graphs gain by it.

    Args:
      instance: N ops.
      law: where the affinities come from, at least [N d] entries.
      height: strength of `priority_law`'s rule ``height``; at 0 priorities of ops stay as they are in `law`.
      transfers: every transfer's priority has Beta(1 + transfers, 1).
    """
    ops = instance.graph.num_ops * (instance.pair.devices + 1)
    ranked = priority_law(instance, "height", height, law) if height else law
    alpha, beta = np.ones((2, instance.chromosome_length))
    alpha[: len(ranked.alpha)], beta[: len(ranked.beta)] = ranked.alpha, ranked.beta
    alpha[ops:] = 1 + transfers
    return replace(ranked, alpha=alpha, beta=beta)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def sample_bins(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N, d + 1, 2] int64: a bin of alpha and of beta drawn for every entry from logits [N, d + 1, 2, bins]."""
    # The largest of logit plus Gumbel noise is a draw from the softmax.
    return np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)


def sampled_law(logits: np.ndarray, rng: np.random.Generator, *, priorities: bool = True, **options) -> MutantLaw:
    """The law with bins drawn once, as the paper does (equation 1)."""
    return law_of(np.asarray(BINS)[sample_bins(logits, rng)], priorities=priorities, **options)


def mean_law(logits: np.ndarray, *, strength: float = 1.0, priorities: bool = True, **options) -> MutantLaw:
    """The law with the mean of alpha and of beta; not the paper's.

    Args:
      logits: [N, d + 1, 2, bins].
      strength: how far both go from 1, the uniform law: 0 not at all, 1 as the learner has it.
      priorities: whether priorities follow the learner or are uniform.
      options: of `MutantLaw`.
    """
    mean = softmax(np.asarray(logits, float)) @ np.asarray(BINS)
    return law_of(1 + strength * (mean - 1), priorities=priorities, **options)


def law_of(parameters: np.ndarray, *, priorities: bool = True, **options) -> MutantLaw:
    """The `MutantLaw` of [N, d + 1, 2] alpha and beta, the last entry of the middle axis being the priority."""
    priority = parameters[:, -1] if priorities else np.ones_like(parameters[:, -1])
    return chromosome_law(parameters[:, :-1], priority, **options)


@functools.cache
def larger_table() -> np.ndarray:
    """[bins, bins, bins, bins] probability that X > Y, X ~ Beta(BINS[i], BINS[j]), Y ~ Beta(BINS[k], BINS[l])."""
    from scipy.stats import beta

    edges = np.linspace(0, 1, 4001)
    alphas, betas = (grid.ravel()[:, None] for grid in np.meshgrid(BINS, BINS, indexing="ij"))
    mass = np.diff(beta.cdf(edges, alphas, betas), axis=1)
    below = beta.cdf((edges[1:] + edges[:-1]) / 2, alphas, betas)
    table = mass @ below.T
    table = (table + 1 - table.T) / 2
    return table.reshape((len(BINS),) * 4)


@numba.njit(cache=True)
def _sample(a, work, rng, best, trial, fitness, tables, start, values):
    """Scores one chromosome drawn from the law per entry of `values`, which receives the best so far; returns it.

    The laws of `tables` are taken in turn, `start` chromosomes having been drawn before.
    """
    for sample in range(len(values)):
        draw(trial, rng, tables, (start + sample) % len(tables.rows), tables.rows.shape[1])
        found = fitness_of(a, trial, work)
        if found < fitness:
            fitness = found
            best[:] = trial
        values[sample] = fitness
    return fitness


def law_search(instance: Instance, rng: np.random.Generator, budget: Budget, law: MutantLaw) -> np.ndarray:
    """The best of chromosomes drawn from `law`: instance-dependent random search (REGAL, Section 3.2, baseline 6).

    One sample of the budget is one chromosome. Returns [L] float64.
    """
    a, work = instance.arrays, make_workspace(instance)
    best, trial = np.zeros(instance.chromosome_length), np.zeros(instance.chromosome_length)
    tables = tables_of(law)
    fitness, chunk = np.inf, 50
    while not budget.spent():
        left = budget.remaining_samples
        values = np.zeros(chunk if left is None else min(chunk, left))
        before = budget.seconds
        fitness = _sample(a, work, rng, best, trial, fitness, tables, budget.samples, values)
        for value in values:
            budget.record(value, better=float.__lt__)
        chunk = max(10, min(100_000, int(len(values) * 0.05 / max(budget.seconds - before, 1e-6))))
    return best
