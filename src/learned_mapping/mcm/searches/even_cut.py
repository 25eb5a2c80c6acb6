"""Cutting an order of the ops into as many runs as there are chips, evenly by what each op is taken
to cost.

Costs need not be those of the model: perturbed, they give *near-balanced* random partitions;
corrected class by class, they are what `class_search` searches over. Uniform distributions leave
some chip far too much work, so searches also begin about the even cut s of the model's own costs,
with the distribution

    p_i(c) ∝ exp(-λ |c - s_i|),    λ = log(2 N / m),

under which about m of the N ops leave their chip s_i, most of them for the next one.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from learned_mapping.budget import Budget
from learned_mapping.hardware.chip_package import OP_CLASSES, ChipModel, op_classes
from learned_mapping.mcm.repair.engine import repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.programs.graph import late_order, random_order

BISECTIONS = 50
SPREAD = (0.1, 0.5)
"""Standard deviations of the logarithm of perturbed costs: from nearly balanced partitions to some
twice as slow."""
MOVED = 10.0
"""m. On training graphs, with 10 most samples differ from the start and keep over 0.95 of its
throughput; with 20 on some graphs a third is lost, with 2 most samples are the start again."""
MOST_MOVED = 0.5  # m is at most this share of the ops.
# Partitions of a batch of `class_search`, and of those the best, which make the next one.
POPULATION, ELITE = 20, 5
PATIENCE, FOLLOW = 10, 0.3
"""Samples without a gain after which a row of them begins anew, and the share of rows that follow
the best; chosen on the validation graphs."""
ROUNDING = 1e-9  # Of throughputs: a closer ratio to 1 is one.
CLASS_STD, LEAST_CLASS_STD = 0.4, 0.05
"""Standard deviations of the logarithm of a class's factor: at the start of `class_search`, and at
least."""


@njit(cache=True)
def filled(seconds, cap):
    """[N] the run of each entry when every run takes what fits `cap`."""
    run_of = np.empty(len(seconds), np.int32)
    run, load = 0, 0.0
    for i in range(len(seconds)):
        if load > 0 and load + seconds[i] > cap:
            run, load = run + 1, 0.0
        load += seconds[i]
        run_of[i] = run
    return run_of


@njit(cache=True)
def _even_runs(seconds, chips, bisections):
    """[N] at most `chips` runs, the heaviest as light as runs of this order can be, to a
    bisection's precision."""
    low, high = max(seconds.max(), seconds.sum() / chips), seconds.sum()
    if filled(seconds, low)[-1] < chips:
        return filled(seconds, low)
    for _ in range(bisections):
        cap = (low + high) / 2
        if filled(seconds, cap)[-1] < chips:
            high = cap
        else:
            low = cap
    return filled(seconds, high)


@njit(cache=True)
def filled_by_chip(times, cap):
    """([N] the run of each entry when run c, by its own row of `times` [C, N], takes what fits
    `cap` and the last the rest, the largest sum of a run)."""
    chips, count = times.shape
    run_of = np.empty(count, np.int32)
    run, load, heaviest = 0, 0.0, 0.0
    for i in range(count):
        if load > 0 and run + 1 < chips and load + times[run, i] > cap:
            run, load = run + 1, 0.0
        load += times[run, i]
        heaviest = max(heaviest, load)
        run_of[i] = run
    return run_of, heaviest


@njit(cache=True)
def _even_runs_by_chip(times, bisections):
    """As `_even_runs`, of chips with times of their own."""
    low, high = 0.0, times[0].sum()
    for _ in range(bisections):
        cap = (low + high) / 2
        if filled_by_chip(times, cap)[1] <= cap:
            high = cap
        else:
            low = cap
    return filled_by_chip(times, high)[0]


def own_seconds(model: ChipModel) -> np.ndarray:
    """[N] float64 seconds of each op, or [C, N] on each chip where chips differ."""
    return model.op_seconds if model.alike else model.chip_seconds


def even_cut(
    seconds: np.ndarray, order: np.ndarray, arrays: RepairArrays, chips: int
) -> np.ndarray:
    """[N] int32: the order cut so that the costliest chip costs least, repaired to the nearest
    valid partition.

    Args:
      seconds: [N] what each op is taken to cost, links not counted; or [C, N] on each chip.
      order: [N] a topological order.
    """
    candidate = np.empty(len(order), np.int32)
    costs = np.asarray(seconds, np.float64)[..., order]
    if costs.ndim == 1:
        candidate[order] = _even_runs(costs, chips, BISECTIONS)
    else:
        candidate[order] = _even_runs_by_chip(costs, BISECTIONS)
    unused = np.random.default_rng(0)
    return repair_batch(
        arrays, chips, mode="nearest", rng=unused, candidates=candidate, order=order
    )[0]


def balanced_start(model: ChipModel, arrays: RepairArrays) -> np.ndarray:
    """[N] int32, the even cut of the model's own costs in late order."""
    return even_cut(own_seconds(model), late_order(model.graph), arrays, model.package.chips)


def log_weights(start: np.ndarray, chips: int, moved: float = MOVED) -> np.ndarray:
    """[N, C] float64, -λ |c - s_i|, with m = `moved`, at most `MOST_MOVED` of the N ops."""
    pull = float(np.log(2 * len(start) / min(moved, MOST_MOVED * len(start))))
    return -pull * np.abs(np.arange(chips) - np.asarray(start)[:, None])


def near_balanced(
    model: ChipModel,
    arrays: RepairArrays,
    rng: np.random.Generator,
    count: int,
    spread: tuple[float, float] = SPREAD,
    order: np.ndarray | None = None,
) -> np.ndarray:
    """[B, N] int32 random valid partitions whose chips have about equal work.

    Each is the even cut of `order`, of a random topological one where None, by perturbed costs:
    those of the model, times exp(s z), z standard normal for each op, s the partition's own, drawn
    log-uniformly from `spread`.
    """
    graph, chips = model.graph, model.package.chips
    partitions = np.empty((count, graph.num_ops), np.int32)
    for row in partitions:
        s = np.exp(rng.uniform(*np.log(spread)))
        seconds = own_seconds(model) * np.exp(s * rng.standard_normal(graph.num_ops))
        cut = random_order(graph, rng) if order is None else order
        row[:] = even_cut(seconds, cut, arrays, chips)
    return partitions


def starts(
    model: ChipModel, arrays: RepairArrays, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """[N] int32, one valid partition after another: the even cut, then near-balanced ones without
    end, of the late order and of random orders by turns. A random order interleaves the branches of
    a wide graph, so that every cut crosses all of them; the late one does not."""
    yield balanced_start(model, arrays)
    for order in itertools.cycle((late_order(model.graph), None)):
        yield near_balanced(model, arrays, rng, 1, order=order)[0]


class Places(NamedTuple):
    """Where each of B samples of a policy of moves begins. A pytree of arrays."""

    partitions: np.ndarray  # [B, N] int32.
    throughput: np.ndarray  # [B] float64, results per second as judged; 0 where it never was.
    idle: np.ndarray  # [B] int64 samples since it last grew.


class Start:
    """The start of a policy's samples: near-balanced partitions, half of them of the late order.
    Each sample then begins where the one before it in its row ended, unless that was worse; a row
    that has not gained for `PATIENCE` samples begins anew. The first rows follow the best of all.

    Args:
      model, arrays: the graph on a package.
      follow: the share of rows that do.
    """

    def __init__(self, model: ChipModel, arrays: RepairArrays, follow: float = FOLLOW):
        self._model, self._arrays, self._follow = model, arrays, follow
        self._late = late_order(model.graph)

    def first(self) -> np.ndarray:
        """[N] int32, the even cut, which is judged before any sample is drawn."""
        return balanced_start(self._model, self._arrays)

    def draw(self, rng: np.random.Generator, count: int) -> Places:
        """Where each of `count` samples begins at first."""
        parts = [
            near_balanced(self._model, self._arrays, rng, number, order=order)
            for number, order in ((count // 2, self._late), (count - count // 2, None))
        ]
        return Places(np.concatenate(parts), np.zeros(count), np.zeros(count, np.int64))

    def after(
        self,
        places: Places,
        rng: np.random.Generator,
        partitions: np.ndarray,
        throughput: np.ndarray,
    ) -> Places:
        """Where the next samples begin, after these [B, N] that were judged [B]."""
        worse = throughput < places.throughput * (1 - ROUNDING)
        gained = throughput > places.throughput * (1 + ROUNDING)
        after = Places(
            np.where(worse[:, None], places.partitions, partitions),
            np.maximum(places.throughput, throughput),
            np.where(gained, 0, places.idle + 1),
        )
        top, following = np.argmax(after.throughput), round(self._follow * len(after.idle))
        after.partitions[:following] = after.partitions[top]
        after.throughput[:following] = after.throughput[top]
        after.idle[:following] = 0
        anew = np.flatnonzero(after.idle >= PATIENCE)
        for entries, fresh in zip(after, self.draw(rng, len(anew))):
            entries[anew] = fresh
        return after


def balanced_search(
    model: ChipModel, arrays: RepairArrays, rng: np.random.Generator, budget: Budget
) -> np.ndarray:
    """[N] int32, the fastest of as many of `starts` as the budget allows."""
    best = np.zeros(model.graph.num_ops, np.int32)
    for assignment in starts(model, arrays, rng):
        if budget.spent():
            break
        if budget.record(model.throughput(assignment)):
            best = assignment
    return best


def class_search(
    model: ChipModel, arrays: RepairArrays, rng: np.random.Generator, budget: Budget
) -> np.ndarray:
    """[N] int32, the partition that measured best: a factor per class of ops
    (`chip_package.op_classes`), cut evenly.

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
