"""Searches over what ops are taken to cost: corrected costs, cut exactly or evenly, by the cross-entropy method.

Node by node a partition has thousands of degrees of freedom; how a package differs from its model has few. A sample is
K global numbers z and one log-weight δ per op. They change what every op and tensor is taken to cost,

    cost_i = exp(δ_i) · (exp(0.3 z_class(i)) t_i + (exp(z_o) - 1) overhead + (exp(z_w) - 1) weight bytes / bandwidth)
    cost of a tensor's transfer = exp(0.5 z_x) · the model's,

and how ops are ordered: softmax of five further numbers mixes the places of `order_cut.keys_of`. `order_cut` then finds
the best partition for these costs. At zero the costs are the analytical model's. `class_search` has the six factors of
the classes alone, and cuts evenly.
"""

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import OP_CLASSES, ChipModel, op_classes
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.searches.even_cut import even_cut
from learned_mapping.mcm.searches.order_cut import NUM_KEYS, CutArrays, cut_arrays, cut_one
from learned_mapping.programs.graph import late_order

CLASS_LATENTS = slice(NUM_KEYS, NUM_KEYS + len(OP_CLASSES))
OVERHEAD, WEIGHT_BYTES, TRANSFER = range(CLASS_LATENTS.stop, CLASS_LATENTS.stop + 3)
NUM_LATENTS = CLASS_LATENTS.stop + 3
"""K: the mix of the order, a factor per op class, the overhead of an op, of its weights, of transfers."""
CLASS_SCALE, TRANSFER_SCALE = 0.3, 0.5
LATENT_LIMIT = 4.0  # Global numbers are cut off here before they become costs.
OP_STD = 0.15  # Standard deviation of the log-weights at the start; the global numbers' is 1.
LEAST_COST = 0.05  # A corrected cost is at least this share of the model's.
POPULATION, ELITE = 20, 5  # Partitions of a batch, and of those the best that draw the distribution to themselves.
STEP = 0.5  # How far the distribution moves to the elite's in one batch.
LEAST_STD = 0.1  # Deviations do not shrink below this share of their start.
CLASS_STD, LEAST_CLASS_STD = 0.4, 0.05
"""Standard deviations of the logarithm of a class's factor: at the start of `class_search`, and at least."""


def realise(
    model: ChipModel, arrays: CutArrays, classes: np.ndarray, latent: np.ndarray, log_weights: np.ndarray
) -> np.ndarray:
    """[N] int32 chips, a valid partition, for global numbers [K] and log-weights [N]; `classes` [N] of `op_classes`."""
    z, base, package = np.clip(latent, -LATENT_LIMIT, LATENT_LIMIT), model.op_seconds, model.package
    factors = np.exp(CLASS_SCALE * z[CLASS_LATENTS])[classes]
    cost = base * np.where(model.work.is_op > 0, factors, 1.0)  # an input has no class to correct
    cost = cost + (np.exp(z[OVERHEAD]) - 1.0) * package.op_overhead_s * (base > 0)
    cost = cost + (np.exp(z[WEIGHT_BYTES]) - 1.0) * model.work.weight_bytes / package.weight_bytes_per_s
    cost = np.maximum(cost, LEAST_COST * base) * np.exp(log_weights)
    mix = np.exp(z[:NUM_KEYS] - z[:NUM_KEYS].max())
    tensor_seconds = model.tensor_seconds * np.exp(TRANSFER_SCALE * z[TRANSFER])
    return cut_one(arrays, mix / mix.sum(), cost, tensor_seconds, package.chips)


def random_costs(model: ChipModel, rng: np.random.Generator, budget: Budget) -> np.ndarray:
    """[N] int32, the best partition of the distribution `cross_entropy` starts from."""
    return cross_entropy(model, rng, budget, step=0.0)


def cross_entropy(model: ChipModel, rng: np.random.Generator, budget: Budget, *, step: float = STEP) -> np.ndarray:
    """[N] int32, the best partition of a search by the cross-entropy method (Rubinstein 1999).

    A diagonal Gaussian over the K global numbers and N log-weights, whose mean begins every batch; after each its mean
    and deviations move by `step` to those of the elite.
    """
    arrays, classes, n = cut_arrays(model), op_classes(model.graph), model.graph.num_ops
    mean = np.zeros(NUM_LATENTS + n)
    deviation = np.ones_like(mean)
    best = np.zeros(n, np.int32)
    while not budget.spent():
        noise = rng.standard_normal((POPULATION, len(mean)))
        noise[0] = 0.0
        drawn = mean + deviation * noise
        rewards = np.zeros(POPULATION)
        for i, row in enumerate(drawn):
            if budget.spent():
                return best
            assignment = realise(model, arrays, classes, row[:NUM_LATENTS], row[NUM_LATENTS:] * OP_STD)
            rewards[i] = model.throughput(assignment)
            if budget.record(rewards[i]):
                best = assignment
        if step > 0:
            elite = drawn[np.argsort(-rewards, kind="stable")[:ELITE]]
            mean += step * (elite.mean(0) - mean)
            deviation += step * (elite.std(0) - deviation)
            deviation = np.maximum(deviation, LEAST_STD)
    return best


def class_search(model: ChipModel, arrays: RepairArrays, rng: np.random.Generator, budget: Budget) -> np.ndarray:
    """[N] int32, the partition that measured best: a factor per class of ops (`chip_package.op_classes`), cut evenly.

    Begins with the model's own costs; every batch's distribution is that of the elite before.
    """
    classes, order, chips = op_classes(model.graph), late_order(model.graph), model.package.chips
    mean, spread = np.zeros(len(OP_CLASSES)), np.full(len(OP_CLASSES), CLASS_STD)
    best = even_cut(model.op_seconds, order, arrays, chips)
    budget.record(model.throughput(best))
    while not budget.spent():
        logs = mean + spread * rng.standard_normal((POPULATION, len(mean)))
        values: list[float] = []
        for row in logs:
            if budget.spent():
                return best
            assignment = even_cut(model.op_seconds * np.exp(row[classes]), order, arrays, chips)
            values.append(model.throughput(assignment))
            if budget.record(values[-1]):
                best = assignment
        elite = logs[np.argsort(values)[-ELITE:]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), LEAST_CLASS_STD)
    return best
