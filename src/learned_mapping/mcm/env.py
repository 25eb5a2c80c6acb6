"""The environment of paper 2 in JAX: a chip package that runs whatever partition it is given, after
a repair.

A graph's ops have no chips at first. An action is a candidate y, one chip per op, or a distribution
P over chips per op. The constraint repair turns it into a valid partition y' (Algorithm 2 or 1),
which the package then runs; the reward is its throughput by the model of `hardware.chip_package`,
in results per second. An episode is one step: the paper's T refinements of y (Eq. 7) happen inside
the policy.

    env = PartitionEnv(model)
    state = env.reset(package)
    state, reward = env.step(state, candidate, key)

`reset`, `observe` and `step` are pure: jit them, vmap them over actions, keys, or parameters of the
package. Only the repair leaves JAX, through a callback to its compiled kernel. A search that judges
batch after batch on one machine calls `rollout`, the same step without the round trip, with the
judge its model has: analytical, or measured on silicon.
"""

from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learned_mapping.errors import InputError, expect_type
from learned_mapping.hardware.chip_package import (
    LEAST_S,
    ChipModel,
    ChipPackage,
    GraphWork,
    expect_alike,
)
from learned_mapping.hardware.in_jax import chip_latencies
from learned_mapping.mcm.agent.features import GraphFeatures, graph_features
from learned_mapping.mcm.repair.engine import Repair, repair_arrays, repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays, tighten
from learned_mapping.mcm.searches.even_cut import Start
from learned_mapping.mcm.searches.greedy import naive_greedy
from learned_mapping.mcm.searches.moves import MoveArrays, move_arrays


class PackageState(NamedTuple):
    """A graph of N ops on a package. A pytree."""

    work: GraphWork  # What every op and tensor costs; traced.
    package: ChipPackage  # The chips; all its parameters but their number are traced.
    # [N] int32 chip of each op, the repaired partition; -1 before the first step.
    assignment: jax.Array


class PartitionEnv:
    """One graph to partition, as a decision process of one step. No number in a state is NaN.

    - Reset: `reset`, a package in place of the model's where one is given; no randomness.
    - Step: `step`, a chip or a distribution over chips for every op, and a key for the repair; the
      same key, the same result.
    - Observe: `observe`, attributes of ops and edges.
    - Mask: none, since the repair makes every candidate valid; a chip that is not there changes
      nothing and earns nothing.
    - Reward: throughput by the analytical model, results per second; `unit` is that of the naive
      greedy.
    - Termination: after the step.
    - Units: results per second, seconds, bytes.

    Args:
      model: the graph, without groups (a task's model has one op for each), a package, and what
        judges a partition in
        `rollout`: `ChipModel` or `SiliconModel`.
      arrays: of the repair, where they are known already.
      start: where a policy's samples begin; nowhere where None.
      repair: who makes actions valid; the compiled engine under the chain rule where None.

    Raises:
      InputError: chips that differ in speed.
    """

    def __init__(
        self, model: ChipModel, arrays: RepairArrays | None = None, start: Start | None = None,
        repair: Repair | None = None,
    ):  # fmt: skip
        expect_type(model, ChipModel, "model")
        expect_alike(model.package, "networks and their environment see")
        self.model, self.graph, self.start = model, model.graph, start
        self.chips, self.num_ops = model.package.chips, model.graph.num_ops
        self.arrays = repair_arrays(model.graph) if arrays is None else arrays
        self._repair = partial(repair_batch, self.arrays, self.chips) if repair is None else repair

    @cached_property
    def features(self) -> GraphFeatures:
        """The features of the graph on the model's own package; NumPy arrays."""
        return graph_features(self.graph, self.model.work, self.model.package)

    @cached_property
    def unit(self) -> float:
        """Learners see throughput over this: that of the naive greedy by the analytical model."""
        return 1.0 / max(self.model.runtime(naive_greedy(self.model, self.arrays)), LEAST_S)

    @cached_property
    def moves(self) -> MoveArrays:
        """The graph as `searches.moves` reads it."""
        return move_arrays(self.model)

    def reset(self, package: ChipPackage | None = None) -> PackageState:
        """The graph on a package of as many chips as the model's, the model's own where None; no op
        has a chip."""
        package = self.model.package if package is None else package
        if package.chips != self.chips:
            raise InputError(
                "environment", "package", f"has {package.chips} chips, the environment {self.chips}"
            )
        return PackageState(self.model.work, package, jnp.full(self.num_ops, -1, jnp.int32))

    def observe(self, state: PackageState) -> GraphFeatures:
        """The observation of a policy: every op relative to an even share of the package, the
        edges; `ops` varies."""
        return graph_features(self.graph, state.work, state.package, jnp)

    def step(
        self, state: PackageState, action: jax.Array, key: jax.Array
    ) -> tuple[PackageState, jax.Array]:
        """(state with the repaired partition, [] its throughput in results per second).

        An illegal action changes nothing and earns nothing: a candidate with a chip that is not
        there, weights that are negative, not finite or all 0 of some op.

        Args:
          action: [N] int candidate for Algorithm 2, or [N, C] float distributions for Algorithm 1.
          key: [2] uint32 of `jax.random.PRNGKey`, for the repair's order and draws.

        Raises:
          InputError: an action or a key of another shape or type.
        """
        action, key = jnp.asarray(action), jnp.asarray(key)
        shape, one = jax.ShapeDtypeStruct((self.num_ops,), jnp.int32), action.shape
        kinds = {(self.num_ops,): jnp.integer, (self.num_ops, self.chips): jnp.number}
        if not jnp.issubdtype(action.dtype, kinds.get(one, np.void)) or key.shape != (2,):
            given = f"{action.dtype} of shape {one} with a key of shape {key.shape}"
            wanted = (
                f"[{self.num_ops}] integers or [{self.num_ops}, {self.chips}] numbers, and a"
                " key [2]"
            )
            raise InputError("environment", "action", f"expected {wanted}, got {given}")
        if len(one) == 1:
            legal = ((action >= 0) & (action < self.chips)).all()
        else:
            legal = (jnp.isfinite(action) & (action >= 0)).all() & (action > 0).any(axis=-1).all()
        action = jnp.where(legal, action, jnp.ones_like(action) * (len(one) > 1))

        def repair_rows(actions: jax.Array, keys: jax.Array) -> np.ndarray:
            return self._rows(np.asarray(actions).reshape(-1, *one), np.asarray(keys))

        assignment = jax.pure_callback(repair_rows, shape, action, key, vmap_method="broadcast_all")
        runtime = chip_latencies(state.work, assignment, state.package).max()
        reward = jnp.where(legal, 1.0 / jnp.maximum(runtime, LEAST_S), 0.0)
        return state._replace(assignment=jnp.where(legal, assignment, state.assignment)), reward

    def rollout(
        self, actions: np.ndarray, rng: np.random.Generator, count: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Partitions [B, N] int32, valid ones, of a batch of actions; [B] float64 their throughput
        as the model judges it; [B, C] float64 seconds of each chip.

        Args:
          actions: [B, N] candidates, or [B, N, C] distributions.
          count: take the first so many actions, all where None; a measurement counts.
        """
        partitions = self.repair(actions[:count], rng)
        judged = [self.model.judged(row) for row in partitions]
        return (
            partitions,
            np.array([value for value, _ in judged]),
            np.stack([latencies for _, latencies in judged]),
        )

    def repair(self, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """[B, N] int32 valid partitions of [B, N] candidates (Algorithm 2) or [B, N, C]
        distributions (Algorithm 1)."""
        if actions.ndim == 2:
            return self._repair(mode="fix", candidates=actions, rng=rng, count=len(actions))
        return self._repair(mode="sample", weights=actions, rng=rng, count=len(actions))

    def _rows(self, actions: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Each row by its own key, so that it does not matter what it is batched with."""
        rows = [
            self.repair(a[None], np.random.default_rng(k))[0]
            for a, k in zip(actions, keys.reshape(-1, 2))
        ]
        return np.stack(rows).reshape(*keys.shape[:-1], self.num_ops)


class Domains:
    """The chips that each op can still have under the chain rule, as Algorithm 1 narrows them an op
    at a time. Decided in `order`, every chip of a domain leads to a valid partition.

    Args:
      arrays: of the graph's repair.
      chips: C.
    """

    def __init__(self, arrays: RepairArrays, chips: int):
        n = len(arrays.in_main)
        self._arrays, self._anchors = arrays, arrays.anchors
        self._lows = np.append(arrays.lows, chips).astype(np.int32)
        self._drops = np.append(np.maximum(arrays.drops, 1 - chips), chips).astype(np.int32)
        self._queue = np.empty((2, n), np.uint32)
        if len(self._anchors) == 1:
            tighten(arrays.before, self._anchors[0], 0, self._drops, self._queue)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """([N] int32 smallest, [N] int32 largest) chip of each op. Once the main component is
        decided, the others stay within the chips that it uses."""
        main, lows, drops = self._arrays.in_main, self._lows[:-1], self._drops[:-1]
        limit = -drops
        if len(self._anchors) > 1:
            alive = np.searchsorted(self._arrays.anchors, self._anchors)
            reach = self._arrays.anchor_reach[alive, :-1].max(axis=0)
            limit = np.where(main, np.minimum(limit, reach), limit)
        if not main.all() and (lows == limit)[main].all():
            top = lows[main].max()
            drops[~main] = np.maximum(drops[~main], -top)
            lows[~main] = np.minimum(lows[~main], top)
            limit = np.where(main, limit, -drops)
        return lows.copy(), limit

    def order(self, wanted: np.ndarray) -> np.ndarray:
        """[N] ops in this order, but for those of the main component, which come first: they decide
        which chips are in use."""
        return wanted[np.argsort(~self._arrays.in_main[wanted], kind="stable")]

    def decide(self, op: int, chip: int) -> None:
        """Gives an op a chip of its domain, and narrows the others' domains."""
        arrays, lows, drops = self._arrays, self._lows, self._drops
        if chip > lows[op]:
            tighten(arrays.after, op, chip, lows, self._queue)
            if len(self._anchors) > 1 and arrays.in_main[op]:
                self._anchors = self._anchors[lows[self._anchors] == 0]
                if len(self._anchors) == 1:
                    tighten(arrays.before, self._anchors[0], 0, drops, self._queue)
        if chip < -drops[op]:
            tighten(arrays.before, op, -chip, drops, self._queue)
