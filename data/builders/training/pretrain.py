"""Pre-training on many graphs, and the choice among its checkpoints (paper 2, Section 4.3, Fig. 4).

The training worker goes through the training graphs, one batch of rollouts and one update of PPO
each, and keeps copies of its parameters along the way. The validation worker gives every copy a
zero-shot score, and the best of them a score after fine-tuning, on other graphs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.agent.ppo import (
    Learned,
    fresh_optimiser,
    learn,
    make_policy,
    new_learned,
    rollouts,
    run,
)
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.searches.even_cut import Places

ZERO_SHOT_SAMPLES = 20
FINE_TUNE_SAMPLES = 100
SAMPLES = {"quick": 400, "full": 20_000, "paper": 20_000}
"""Partitions judged, by profile; the paper's 20,000 (Section 5.2)."""
# Copies kept, by profile, beside the untrained one.
SNAPSHOTS = {"quick": 2, "full": 20, "paper": 200}
FINALISTS = {"quick": 1, "full": 3, "paper": 200}
"""Copies that are fine-tuned on the validation graphs, the best by zero-shot score."""
SETTINGS = {"learning_rate": 3e-4, "entropy": 0.1, "epochs": 2, "op_weight": 1.0}
"""Gentler than on one graph, so that a policy over chips stays as wide as fine-tuning needs it.
With ten epochs on each graph, or ten times the weight on the ops' credits, it is soon sure of
itself. The policy of moves has a prior that keeps it wide, and needs none of this."""
SNAPSHOT, LEARNED, PLACES = "snapshot", "learned", "places"


class Pretraining:
    """The training worker: an agent as `learning.loop` runs it. One iteration is one batch on one
    graph.

    Args:
      envs: calls that give a training graph's environment; each is asked once and kept.
      samples: partitions to judge in all.
      snapshots: copies of the parameters to keep, evenly spaced, the last at the end.
    """

    def __init__(
        self,
        config: AgentConfig,
        envs: Sequence[Callable[[], PartitionEnv]],
        *,
        samples: int,
        snapshots: int,
        seed: int = 0,
    ):
        self.config, self.samples, self.seed = config, samples, seed
        self.policy = make_policy(config)
        self.learned = new_learned(self.policy, np.random.default_rng([seed, 0]))
        self.iterations = 0
        self.total = max(samples // config.rollouts, 1)
        self.snapshots: dict[int, Any] = {
            0: jax.tree_util.tree_map(np.asarray, self.learned.parameters)
        }
        """Iterations -> parameters; those of the untrained network are a row of the scores."""
        self._kept = set(
            np.unique(
                np.linspace(0, self.total, min(snapshots, self.total) + 1).round().astype(int)
            )[1:]
        )
        self._makers, self._envs = envs, {}
        self._places: dict[int, Places] = {}

    @property
    def done(self) -> bool:
        return self.iterations >= self.total

    def _next(self) -> tuple[int, PartitionEnv]:
        """Every graph once per round, in an order of that round: its index and environment."""
        round_number, place = divmod(self.iterations, len(self._makers))
        index = int(
            np.random.default_rng([self.seed, 1, round_number]).permutation(len(self._makers))[
                place
            ]
        )
        if index not in self._envs:
            self._envs[index] = self._makers[index]()
        return index, self._envs[index]

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        """One batch and one update. All randomness comes from the seed and the number of the
        iteration. A policy that begins at partitions goes on from those of the round before."""
        rng = np.random.default_rng([self.seed, 2, self.iterations])
        index, env = self._next()
        context, places = self.policy.context(env), self._places.get(index)
        if places is None and env.start is not None:
            places = env.start.draw(rng, self.config.rollouts)
        batch = rollouts(self.policy, self.learned.parameters, context, env, rng, places=places)
        if stop():
            return None
        if places is not None:
            self._places[index] = env.start.after(places, rng, batch.partitions, batch.throughput)
        self.learned, measured = learn(self.policy, self.learned, context, env, batch, rng)
        rewards = batch.throughput / env.unit
        self.iterations += 1
        if self.iterations in self._kept:
            self.snapshots[self.iterations] = jax.tree_util.tree_map(
                np.asarray, self.learned.parameters
            )
        facts = {
            "graph": env.graph.name,
            "reward": float(rewards.mean()),
            "best": float(rewards.max()),
        }
        return {"iteration": self.iterations, **facts, **measured}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = flatten(self.learned, LEARNED)
        for iteration, parameters in self.snapshots.items():
            arrays |= flatten(parameters, f"{SNAPSHOT}{iteration}")
        for index, places in self._places.items():
            arrays |= flatten(places, f"{PLACES}{index}")
        return arrays, {
            **self._identity(),
            "iterations": self.iterations,
            "places": sorted(self._places),
            "snapshots": sorted(self.snapshots),
        }

    def restore(
        self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object
    ) -> None:
        """Raises `InputError` where the state is of another training."""
        for name, expected in self._identity().items():
            if header.get(name) != expected:
                raise InputError(source, name, f"{header.get(name)!r}, expected {expected!r}")
        self.learned = Learned(*unflatten(self.learned, arrays, LEARNED, source))
        self.iterations = int(header["iterations"])
        for i in map(int, header["places"]):
            self._places[i] = Places(*(arrays[f"{PLACES}{i}.{name}"] for name in Places._fields))
        template = self.learned.parameters
        self.snapshots = {
            int(i): unflatten(template, arrays, f"{SNAPSHOT}{int(i)}", source)
            for i in header["snapshots"]
        }

    def _identity(self) -> dict[str, Any]:
        return {
            "config": repr(self.config),
            "samples": self.samples,
            "seed": self.seed,
            "graphs": len(self._makers),
        }


def score(
    config: AgentConfig,
    parameters: Any,
    envs: Sequence[PartitionEnv],
    *,
    samples: int,
    learning: bool,
) -> float:
    """Geometric mean over `envs` of the mean best throughput on the way, over the naive greedy.

    The mean over the samples of the best so far, rather than the last, so that an early good
    partition counts.
    """
    policy, logs = make_policy(config), []
    for env in envs:
        budget = Budget(samples=samples)
        start = fresh_optimiser(config, parameters)
        run(policy, start, env, np.random.default_rng(0), budget, learning=learning)
        curve = budget.curve()
        steps = np.diff([*curve["samples"][:-1], samples + 1])
        logs.append(np.log(max(float(np.dot(steps, curve["y"][:-1])) / samples / env.unit, 1e-9)))
    return float(np.exp(np.mean(logs)))


def choose(
    config: AgentConfig,
    snapshots: dict[int, Any],
    envs: Sequence[PartitionEnv],
    *,
    finalists: int = FINALISTS["full"],
    report: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[int, list[dict[str, Any]]]:
    """The validation worker: (the iteration whose copy is best after fine-tuning, all scores).

    The untrained network, iteration 0, is scored for comparison and never chosen.

    Args:
      envs: of validation graphs, none of them trained on.
      finalists: how many of the best by zero-shot score are fine-tuned.
      report: called with every row of the scores.
    """
    rows = []
    for iteration, parameters in sorted(snapshots.items()):
        value = score(config, parameters, envs, samples=ZERO_SHOT_SAMPLES, learning=False)
        rows.append({"iteration": iteration, "zeroshot": value})
        if report is not None:
            report(rows[-1])
    trained = sorted((row for row in rows if row["iteration"]), key=lambda row: -row["zeroshot"])
    for row in [*(row for row in rows if not row["iteration"]), *trained[:finalists]]:
        parameters = snapshots[row["iteration"]]
        row["finetune"] = score(config, parameters, envs, samples=FINE_TUNE_SAMPLES, learning=True)
        if report is not None:
            report(row)
    best = max(trained[:finalists], key=lambda row: row["finetune"])
    return best["iteration"], rows
