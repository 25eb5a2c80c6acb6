"""The result of a training: a mapping, what it comes to, the learning curve and games from all
along."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.play import Game, mapping_of
from learned_mapping.problem import Result
from learned_mapping.programs.program import Program


class Stage(NamedTuple):
    """A whole game of a training, good or bad."""

    number: int  # Of the game, from 1.
    value: float  # Its return.
    latency_s: float
    actions: str  # A digit per buffer.


@dataclass(frozen=True)
class LearnedResult(Result):
    """A `Result` with what learning adds. The solution is the best whole game of the agent alone;
    with prices, or where it finished none, the best game met. Further metrics: ``own_return`` (mean
    return of the evaluation games), ``best_found`` (the best game met by whatever means, windows
    included), ``recent_return`` (see `agent.MMapAgent`), ``updates``, ``rounds`` (see `rounds`),
    ``decisions``, ``parameters``, ``compile_s`` and ``evaluation_s`` (seconds, by the budget's
    clock, that it did not pay for)."""

    log: tuple[dict[str, Any], ...] = ()
    """The learning curve, a row per iteration; columns as in `MMapAgent._row`."""
    stages: tuple[Stage, ...] = ()
    """Whole games from all along the training."""


def _mapping_and_costs(program: Program, actions: np.ndarray) -> tuple[Mapping, dict[str, float]]:
    """The mapping of a game by its actions [B], and what it comes to."""
    game = Game(program)
    game.play_actions(actions)
    played = game.played()
    mapping = mapping_of(program, played)
    return mapping, {
        "return": played.value,
        "saving_s": played.value * program.possible_saving_s,
        "latency_s": program_latency(program, mapping).total_s,
        "resets": float(played.resets),
    }


def result_of(
    program: Program,
    actions: np.ndarray,
    budget: Budget,
    metrics: dict[str, float],
    rows: tuple[dict[str, Any], ...] = (),
    stages: Sequence[tuple[int, np.ndarray]] = (),
) -> LearnedResult:
    """The result of a training whose game has these actions [B]; `stages` are numbers and actions
    of others."""
    mapping, costs_alone = _mapping_and_costs(program, actions)
    games = [
        (number, _mapping_and_costs(program, game)[1], "".join(map(str, game)))
        for number, game in stages
    ]
    return LearnedResult(
        mapping,
        costs_alone | metrics,
        budget.curve(),
        budget.samples,
        budget.seconds,
        log=rows,
        stages=tuple(
            Stage(number, costs["return"], costs["latency_s"], game)
            for number, costs, game in games
        ),
    )


def result_without_choice(program: Program, budget: Budget) -> LearnedResult:
    """The result where there is nothing to decide: all is dropped, but for what is forced."""
    dropped = np.full(program.num_buffers, DROP)
    mapping, costs = _mapping_and_costs(program, dropped)
    budget.record(costs["return"])
    return LearnedResult(mapping, costs, budget.curve(), budget.samples, budget.seconds)
