"""Laws written by hand in the paper's bins: what a policy can say, and so what learning has to
beat."""

import numpy as np

from learned_mapping.regal.agent.features import NODE_FEATURES, Features, features
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.rules.levels import freed_bytes, rank_share, upward_rank
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.regal.searches.proposals import law_of

RULES = {"memory": ("eigenvector_2", 2.0), "runtime": ("balanced_4_1", 8.0)}
"""Objective -> the smooth vector whose halves are the devices, and the bin of an op's own side."""


def rule_bins(instance: Instance, seen: Features, part: str = "both") -> np.ndarray:
    """[N, d + 1, 2] int8, the bins of a written law on two devices, ``devices`` or ``order`` alone,
    or ``both``.

    An op's priority is Beta(1 + 7 r, 8 - 7 r), r the rank of the bytes that it frees or, for
    running time, of the longest path from it; its affinity for the device of its side of a smooth
    vector is Beta(b, 1), and for the other Beta(1, b), by `RULES`.
    """
    bins = uniform_bins(instance)
    vector, strength = RULES[instance.objective]
    if part != "order":
        side = seen.nodes[:, NODE_FEATURES.index(vector)] > 0
        for device in (0, 1):
            own = np.where(side == bool(device), 0, 1)
            bins[np.arange(len(side)), device, own] = BINS.index(strength)
    if part != "devices":
        rank = rank_share(
            freed_bytes(instance) if instance.objective == "memory" else upward_rank(instance)
        )
        parameters = np.stack([1 + 7 * rank, 8 - 7 * rank], axis=1)
        bins[:, -1] = np.abs(np.log(parameters)[..., None] - np.log(BINS)).argmin(axis=-1)
    return bins


def cut_bins(instance: Instance, seen: Features) -> np.ndarray:
    """[N, d + 1, 2] int8, for running time, the bins of the spectral cut as a law: Beta(8, 1) for
    the affinity of an op's own part of `RULES`'s vector, nothing said of the others, and Beta(.5 to
    4, 8) for its priority, by the longest path from it."""
    bins, rank = uniform_bins(instance), rank_share(upward_rank(instance))
    place = (seen.nodes[:, NODE_FEATURES.index(RULES["runtime"][0])] + 1) / 2
    d = instance.machine.devices
    own = np.minimum(np.ceil(place * d).astype(int) - 1, d - 1).clip(0)
    bins[np.arange(len(own)), own, 0] = BINS.index(8.0)
    bins[:, -1, 0] = np.minimum(4 * rank, 3).astype(np.int8)
    bins[:, -1, 1] = BINS.index(8.0)
    return bins


def uniform_bins(instance: Instance) -> np.ndarray:
    """[N, d + 1, 2] int8, the bins of uniform laws."""
    return np.full(
        (instance.graph.num_ops, instance.machine.devices + 1, 2), BINS.index(1.0), np.int8
    )


def cut_law(instance: Instance, rng: object = None) -> MutantLaw:
    """The law of `cut_bins`, or for peak memory of `rule_bins`, for mutants alone."""
    bins = {"runtime": cut_bins, "memory": rule_bins}[instance.objective]
    return law_of(np.asarray(BINS)[bins(instance, features(instance))], in_initial=False)
