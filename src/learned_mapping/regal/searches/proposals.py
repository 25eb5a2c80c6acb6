"""Proposal distributions of mutants, Beta laws: one for all graphs, a hand-made one, or a learner's
logits over bins.

A learner gives, for each op and each of its d + 1 entries of a chromosome (d affinities and a
priority), two categorical laws over `BINS`: one for alpha, one for beta (REGAL, Section 2.3). The
paper samples both once for each run; the mean of each is a variant here.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import softmax

from learned_mapping.regal.agent.features import NODE_FEATURES, Features
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import freed_bytes, rank_share, slack, upward_rank
from learned_mapping.regal.searches.brkga import MutantLaw

# Values of alpha and of beta to choose from; the paper prints none.
BINS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)


def law_of(parameters: np.ndarray, *, priorities: bool = True, **options: Any) -> MutantLaw:
    """A law from its parts.

    Args:
      parameters: [N, d + 1, 2] alpha and beta of each affinity and, last on the middle axis, of the
        priority.
      priorities: whether priorities follow them or are uniform.
      options: of `MutantLaw`.
    """
    priority = parameters[:, -1] if priorities else np.ones_like(parameters[:, -1])
    both = np.concatenate([parameters[:, :-1].reshape(-1, 2), priority])
    return MutantLaw(both[:, 0].copy(), both[:, 1].copy(), **options)


def constant_law(
    instance: Instance, affinity: tuple[float, float], priority: tuple[float, float]
) -> MutantLaw:
    """One Beta for every affinity of device 0, mirrored for the others, and one for every priority.

    Args:
      affinity: alpha and beta for device 0; beta and alpha for every other device.
      priority: alpha and beta.
    """
    entries = _uniform(instance)
    entries[:, 0], entries[:, 1:-1], entries[:, -1] = affinity, affinity[::-1], priority
    return law_of(entries)


def _uniform(instance: Instance) -> np.ndarray:
    """[N, d + 1, 2], all 1, as `law_of` takes it."""
    return np.ones((instance.graph.num_ops, instance.machine.devices + 1, 2))


def spectral_law(instance: Instance, seen: Features, vector: str, strength: float) -> MutantLaw:
    """Biases every op towards the side of a smooth vector on which it lies, halves (or d parts)
    holding equal cost.

    Args:
      vector: the column that holds the ranks, such as ``eigenvector_2``, the Fiedler vector.
      strength: alpha of the affinity for that side; all else is uniform.
    """
    d, entries = instance.machine.devices, _uniform(instance)
    rank = (seen.nodes[:, NODE_FEATURES.index(vector)].astype(float) + 1) / 2
    side = np.minimum((rank * d).astype(int), d - 1)
    entries[np.arange(len(side)), side, 0] = strength
    return law_of(entries)


RULES = ("freed", "height")
"""The rules of `priority_law`: bytes an op frees (`levels.freed_bytes`); seconds of the longest
path to the end."""
FREED_LATE = "freed_late"
"""One more, for peak memory: as ``freed``, but ops with slack wait, so that their outputs are held
for less time."""
LATE = 0.6  # Weight of the rank by slack in ``freed_late``, beside 1 for the rank by bytes freed.


def priority_law(
    instance: Instance, rule: str, strength: float, base: MutantLaw | None = None
) -> MutantLaw:
    """Biases every op's priority by its rank under a rule; nothing is learned.

    Args:
      instance: N ops.
      rule: of `RULES`, or `FREED_LATE`.
      strength: the op of the highest rank has Beta(1 + strength, 1), that of the lowest Beta(1, 1 +
        strength).
      base: where the affinities come from; uniform where None.
    """
    rank = rank_share(upward_rank(instance) if rule == "height" else freed_bytes(instance))
    if rule == FREED_LATE:
        rank = rank_share(rank - LATE * rank_share(slack(instance)))
    priority = np.stack([1 + strength * rank, 1 + strength * (1 - rank)], axis=1)
    base = law_of(_uniform(instance)) if base is None else base
    ops = instance.graph.num_ops * instance.machine.devices
    alpha, beta = (
        np.concatenate([getattr(base, k)[:ops], priority[:, i]])
        for i, k in enumerate(("alpha", "beta"))
    )
    return replace(base, alpha=alpha, beta=beta)


def ordered_law(instance: Instance, law: MutantLaw, height: float, transfers: float) -> MutantLaw:
    """The same affinities, the order by a rule: ops of the longest remaining path first, transfers
    before ops.

    Not the paper's, which leaves transfers uniform (Appendix A.2); chosen where validation graphs
    gain by it.

    Args:
      instance: N ops.
      law: where the affinities come from, at least [N d] entries.
      height: strength of `priority_law`'s rule ``height``; at 0 priorities of ops stay as they are
        in `law`.
      transfers: every transfer's priority has Beta(1 + transfers, 1).
    """
    ops = instance.graph.num_ops * (instance.machine.devices + 1)
    ranked = priority_law(instance, "height", height, law) if height else law
    alpha, beta = np.ones((2, instance.chromosome_length))
    alpha[: len(ranked.alpha)], beta[: len(ranked.beta)] = ranked.alpha, ranked.beta
    alpha[ops:] = 1 + transfers
    return replace(ranked, alpha=alpha, beta=beta)


def sample_bins(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N, d + 1, 2] int64: a bin of alpha and of beta drawn for every entry from logits [N, d + 1,
    2, bins]."""
    # The largest of logit plus Gumbel noise is a draw from the softmax.
    return np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)


def sampled_law(
    logits: np.ndarray, rng: np.random.Generator, *, priorities: bool = True, **options
) -> MutantLaw:
    """The law with bins drawn once, as the paper does (equation 1)."""
    return law_of(np.asarray(BINS)[sample_bins(logits, rng)], priorities=priorities, **options)


def mean_law(
    logits: np.ndarray, *, strength: float = 1.0, priorities: bool = True, **options
) -> MutantLaw:
    """The law with the mean of alpha and of beta; not the paper's.

    Args:
      logits: [N, d + 1, 2, bins].
      strength: how far both go from 1, the uniform law: 0 not at all, 1 as the learner has it.
      priorities: whether priorities follow the learner or are uniform.
      options: of `MutantLaw`.
    """
    mean = softmax(np.asarray(logits, float), axis=-1) @ np.asarray(BINS)
    return law_of(1 + strength * (mean - 1), priorities=priorities, **options)


@functools.cache
def larger_table() -> np.ndarray:
    """[bins, bins, bins, bins] probability that X > Y, X ~ Beta(BINS[i], BINS[j]), Y ~
    Beta(BINS[k], BINS[l])."""
    from scipy.stats import beta

    edges = np.linspace(0, 1, 4001)
    alphas, betas = (grid.ravel()[:, None] for grid in np.meshgrid(BINS, BINS, indexing="ij"))
    mass = np.diff(beta.cdf(edges, alphas, betas), axis=1)
    below = beta.cdf((edges[1:] + edges[:-1]) / 2, alphas, betas)
    table = mass @ below.T
    table = (table + 1 - table.T) / 2
    return table.reshape((len(BINS),) * 4)
