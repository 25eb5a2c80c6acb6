"""Learning the chips: op times from the seconds that chips tell of each run, and the partition that
follows from them.

A measurement of a partition tells how long each chip was busy. That is nearly linear in what nobody
knows: with τ_u the seconds of op u and l_d the model's seconds of chip d's links,

    t_d = Σ τ_u (ops u on chip d) + a l_d + b + error,

where a is the share of its links' time that a chip waits, and b what each result costs every chip.
From a normal prior the posterior is normal and exact, at most C equations a measurement.

The prior is the analytical model's. With m_u its seconds of op u and m their mean,

    τ_u = m_u (1 + (f_k + z_u) / 2) + z'_u m / 10,   a = 1 + z'',   b = m z''',

all f and z standard normal, f_k of all ops of u's class k (`chip_package.op_classes`): the model
may be off by half, for a class and for an op. The error of an equation has a deviation of `ERROR`
of the busiest chip, and one of `ERROR` of t_d that all chips of a measurement share.

Plans are by the posterior's mean and by draws from it in turn: a draw cuts at other places where
times are not sure, and its measurement tells them apart.
"""

import numpy as np
from scipy.linalg import blas
from scipy.sparse import csr_array

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import LEAST_S, OP_CLASSES, ChipModel, op_classes
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.searches.even_cut import even_cut
from learned_mapping.mcm.searches.learned_room import Room
from learned_mapping.mcm.searches.moves import MoveArrays, best_push, move_arrays
from learned_mapping.programs.graph import late_order

OFF, LEAST_OFF = 0.5, 0.1
"""Prior deviations: of a factor, and of an op that the model takes to cost nothing, in mean ops."""
ERROR = 0.01
DRAWS = 8
"""Draws of the prior that every measurement turns into draws of the posterior (Matheron's rule);
any more are mixtures of theirs."""
NEAR = 32.0
"""After a plan that cannot run, the next is half as many pushes from the best partition that ran:
half as many again after each that cannot, twice as many after each that can, and past so many plans
are free again."""
MAX_OPS = 8_000
"""With more ops their covariance does not fit the memory of a usual machine."""


class Believed:
    """A normal distribution over [N + 2] numbers: seconds of each op, a and b.

    Args:
      model: what the prior comes from.
      rng: of the draws.

    Raises:
      InputError: a graph of more than `MAX_OPS` ops.
    """

    def __init__(self, model: ChipModel, rng: np.random.Generator):
        known, n = model.op_seconds, model.graph.num_ops
        if n > MAX_OPS:
            raise InputError("learned-times", "", f"{n} ops: at most {MAX_OPS} are supported")
        typical = max(float(known.mean()), LEAST_S)
        shared = np.zeros((n + 2, len(OP_CLASSES)))  # what a class's factor is worth to each op
        shared[np.arange(n), op_classes(model.graph)] = OFF * known
        own = np.concatenate([np.hypot(OFF * known, LEAST_OFF * typical), [1.0, typical]])
        self.mean = np.concatenate([known, [1.0, 0.0]])
        # by columns: the matrix product below then changes it in its place
        self.covariance = np.asfortranarray(shared @ shared.T + np.diag(own**2))
        self._draws = self.mean[:, None] + own[:, None] * rng.standard_normal((n + 2, DRAWS))
        self._draws += shared @ rng.standard_normal((shared.shape[1], DRAWS))
        self._rng = rng

    def draw(self) -> np.ndarray:
        """[N + 2] numbers that may be the true ones."""
        weights = self._rng.standard_normal(DRAWS)
        apart = (self._draws - self.mean[:, None]) @ weights
        return self.mean + apart / np.linalg.norm(weights)

    def learn(
        self, partition: np.ndarray, links: np.ndarray, chips: np.ndarray, seconds: np.ndarray
    ) -> None:
        """Takes in what some chips of a run told.

        Args:
          partition: [N] chip of each op.
          links: [C] the model's seconds of each chip's links.
          chips: [K] the chips, each with an op.
          seconds: [K] how long they were busy, above 0.
        """
        on_chip = np.zeros((len(chips), len(self.mean)))
        on_chip[:, :-2] = partition == chips[:, None]
        on_chip[:, -2], on_chip[:, -1] = links[chips], 1.0
        error = ERROR**2 * (np.outer(seconds, seconds) + seconds.max() ** 2 * np.eye(len(chips)))
        spread = csr_array(on_chip) @ self.covariance.T  # [K, N + 2]
        root = np.linalg.cholesky(spread @ on_chip.T + error)
        part = np.linalg.solve(root, spread)
        gain = np.linalg.solve(root.T, part).T
        blas.dgemm(-1, part, part, 1, self.covariance, trans_a=True, overwrite_c=True)
        self.mean = self.mean + gain @ (seconds - on_chip @ self.mean)
        noise = np.linalg.cholesky(error) @ self._rng.standard_normal((len(chips), DRAWS))
        self._draws += gain @ (seconds[:, None] + noise - on_chip @ self._draws)


def costs(model: ChipModel, times: np.ndarray) -> tuple[np.ndarray, float]:
    """([N] seconds of each op, the share of its links' time that a chip waits) by [N + 2] numbers
    of `Believed`; no op costs less than a thousandth of what the model says, and no wait below
    0."""
    least = np.maximum(model.op_seconds, LEAST_S) / 1000
    return np.maximum(times[:-2], least), max(float(times[-2]), 0.0)


def relieved(
    model: ChipModel,
    moves: MoveArrays,
    seconds: np.ndarray,
    wait: float,
    partition: np.ndarray,
    most: float = np.inf,
) -> np.ndarray:
    """[N] int32, a partition after `most` pushes of ops on the busiest chip or beside it, fewer
    where none gains.

    Args:
      moves: of the model.
      seconds, wait: of `costs`.
      partition: [N] a valid one.
    """
    moves = moves._replace(seconds=seconds, tensor_seconds=wait * model.tensor_seconds)
    while most > 0:
        load = np.bincount(partition, seconds, model.package.chips)
        latencies = load + wait * model.link_seconds(partition)
        near = np.flatnonzero(np.abs(partition - latencies.argmax()) <= 1)
        after = best_push(moves, partition, latencies, near)
        if after is None:
            break
        partition, most = after, most - 1
    return partition


def learned_times(
    model: ChipModel,
    arrays: RepairArrays,
    rng: np.random.Generator,
    budget: Budget,
    *,
    of_each_chip: bool = True,
) -> np.ndarray:
    """[N] int32, the partition that measured best: learn, plan, measure, again and again.

    A plan is the even cut of the late order by what is believed, relieved, and where it holds more
    than is believed to fit, that of `Room`. After one that cannot run, the next ones are few pushes
    from the best that ran, see `NEAR`.

    Args:
      of_each_chip: learn from each chip's seconds; else from the throughput alone, one equation a
        measurement: the chip that the mean takes to be the busiest was busy that long.
    """
    believed, moves, order = Believed(model, rng), move_arrays(model), late_order(model.graph)
    room = Room(model)
    best, ran, reach = None, True, np.inf
    while not budget.spent():
        # after a plan that cannot run the mean would be the same plan again
        times = believed.mean if ran and budget.samples % 2 == 0 else believed.draw()
        seconds, wait = costs(model, times)
        if best is not None and reach <= NEAR:
            partition = relieved(model, moves, seconds, wait, best, reach)
        else:
            cut = even_cut(seconds, order, arrays, model.package.chips)
            partition = room.plan(seconds, wait, relieved(model, moves, seconds, wait, cut))
        throughput, told = model.judged(partition)
        ran = throughput > 0
        room.learn(partition, ran)
        if budget.record(throughput) and ran:
            best = partition
        reach = 2 * reach if ran else max(min(reach, NEAR) // 2, 1)
        if ran:
            links, chips = model.link_seconds(partition), np.unique(partition)
            if not of_each_chip:
                load = np.bincount(partition, believed.mean[:-2], len(links))
                chips = np.array([np.argmax(load + believed.mean[-2] * links)])
                told = np.full(len(links), 1.0 / throughput)
            believed.learn(partition, links, chips, np.maximum(told[chips], LEAST_S))
    return np.zeros(model.graph.num_ops, np.int32) if best is None else best
