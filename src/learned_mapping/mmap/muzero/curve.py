"""Learning curves: one row per iteration, and a budget whose curve goes on after a stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.muzero.search import temperature_at
from learned_mapping.mmap.muzero.selfplay import FinishedGame

if TYPE_CHECKING:
    from learned_mapping.mmap.muzero.agent import MuZeroAgent

LOSSES = ("loss", "policy_loss", "value_loss", "reward_loss", "gradient_norm")
ROW = {
    "iteration": "finished so far",
    "updates": "training steps so far",
    "decisions": "made in self-play so far",
    "games": "finished so far, those of a search for demonstrations included",
    "seconds": "of the budget, earlier runs of the same training included",
    "best": "return of the best complete game, demonstrations included; null before there is one",
    "own_best": "return of the agent's own best game",
    "return": "mean return of the games this iteration finished; null if none, as the next three",
    "value_error": "mean |network's value - what followed|, shares of the possible saving",
    "visit_entropy": "mean entropy of the search's policy, nats",
    "dead_ends": "per game",
    "replay": "decisions kept",
    "temperature": "of the search, now",
    "loss": "means over this iteration's training steps; null if none. The parts are per sample and unrolled step",
    "policy_loss": "cross-entropy, nats",
    "value_loss": "cross-entropy, nats",
    "reward_loss": "cross-entropy, nats",
    "gradient_norm": "before clipping",
}
"""What the columns mean."""


class ResumableBudget(Budget):
    """A `Budget` that can go on where an earlier run stopped: seconds, games and curve."""

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "seconds": self.seconds,
            "samples": self.samples,
            "best": self.best,
            "curve": [self.curve_s, self.curve_samples, self.curve_best],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Adds what an earlier run spent, and takes over its curve."""
        self._start -= float(state["seconds"])
        self.samples, self.best = int(state["samples"]), state["best"]
        self.curve_s, self.curve_samples, self.curve_best = (list(column) for column in state["curve"])


def curve_row(
    agent: MuZeroAgent, finished: Sequence[FinishedGame], metrics: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The row of an iteration, see `ROW`."""

    def mean(values: Sequence[Any]) -> float | None:
        return float(np.mean([float(value) for value in values])) if len(values) else None

    return {
        "iteration": agent.iterations,
        "updates": agent.updates,
        "decisions": agent.decisions,
        "games": agent.budget.samples,
        "seconds": agent.budget.seconds,
        "best": None if agent.best is None else agent.best.value,
        "own_best": agent.own_best if np.isfinite(agent.own_best) else None,
        "return": mean([game.value for game in finished]),
        "value_error": mean([game.value_error for game in finished]),
        "visit_entropy": mean([game.entropy for game in finished]),
        "dead_ends": mean([game.dead_ends for game in finished]),
        "replay": len(agent.replay),
        "temperature": temperature_at(agent.config, agent.updates),
        **{name: mean([row[name] for row in metrics]) for name in LOSSES},
    }
