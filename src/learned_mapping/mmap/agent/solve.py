"""MMap-MuZero as a method: a program and a budget in, a mapping and its learning curve out."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.learning.networks import count_parameters
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig, config_for
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.searches.search import mapping_of
from learned_mapping.problem import Result
from learned_mapping.programs.program import Program

NEVER = 2**62
SECONDS = 10.0
"""Seconds of a training unless said otherwise."""


class Stage(NamedTuple):
    """A whole game of a training, good or bad."""

    number: int  # Of the game, from 1.
    value: float  # Its return.
    latency_s: float
    actions: str  # A digit per buffer.


@dataclass(frozen=True)
class LearnedResult(Result):
    """A `Result` with what learning adds. The solution is the best whole game of the agent alone. Further metrics:
    ``own_return`` (mean return of the evaluation games), ``best_found`` (the best game met by whatever means, windows
    and demonstrations included), ``recent_return`` (see `agent.MMapAgent`), ``updates``, ``rounds`` (see
    `rounds`), ``decisions``, ``parameters``, ``compile_s`` and ``evaluation_s`` (CPU seconds that no budget paid
    for)."""

    log: tuple[dict[str, Any], ...] = ()
    """The learning curve, a row per iteration; columns as in `MMapAgent._row`."""
    stages: tuple[Stage, ...] = ()
    """Whole games from all along the training."""


def solve(
    program: Program,
    seed: int = 0,
    *,
    seconds: float | None = None,
    games: int | None = None,
    config: AgentConfig | None = None,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], object] | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: int = 50,
    log: str | os.PathLike | None = None,
    evaluate: bool = True,
) -> LearnedResult:
    """Trains an agent on `program`, as the paper does, and returns its best whole game.

    Compiling happens ahead and evaluation beside: the budget pays for neither.

    Args:
      seed: decides every random choice. With a limit in games or iterations the result depends on nothing else.
      seconds, games: the budget; ten seconds where neither is given and the configuration sets no iterations either.
      config: every number of the agent; the default depends on the program's length.
      cpu, progress: as in `Budget`.
      checkpoint: file to go on from if it exists, and to write as `train` does. The budget covers both runs.
      every: see `checkpoint`.
      log: file for the learning curve, JSON lines.
      evaluate: play evaluation games, beside the budget; without, nothing takes time but what the budget pays for.

    Raises:
      InputError: a budget that is not positive, or a checkpoint of another run.
    """
    config = config_for(program.num_buffers) if config is None else config
    config = config if evaluate else replace(config, evaluate_every=0)
    if seconds is None and games is None:
        seconds, games = (None, NEVER) if config.iterations else (SECONDS, None)
    budget = AgentBudget(seconds=seconds, samples=games, cpu=cpu, progress=progress, strict=not evaluate)
    if program.possible_saving_s <= 0.0 or Games(program, 1, config.backup).over.all():
        dropped = np.full(program.num_buffers, DROP)  # or what is forced
        budget.record(_mapping_and_costs(program, dropped)[1]["return"])
        return _result(program, dropped, budget, {})
    agent = MMapAgent(program, config, seed)
    agent.compile()
    agent.budget, compile_s = budget, budget.skip(0.0)
    if checkpoint is None or not resume(agent, checkpoint):
        agent.start(budget)
    curve = Log(log, agent.iterations)
    train(agent, budget.spent, log=curve, checkpoint=checkpoint, every=every)
    if evaluate:
        agent.evaluate()
    metrics = {
        "own_return": agent.own_return,
        "recent_return": agent.own_return if agent.recent_return is None else agent.recent_return,
        "best_found": max(value for value in (agent.best_found, agent.rounds.found) if value is not None),
        "updates": float(agent.learner.updates),
        "rounds": float(agent.rounds.number + 1),
        "decisions": float(agent.decisions),
        "parameters": float(count_parameters(agent.learner.parameters)),
        "compile_s": compile_s,
        "evaluation_s": agent.evaluation_s,
    }
    actions = agent.best_actions
    if agent.best_whole is not None:
        actions = agent.best_whole.actions
    elif evaluate:
        actions = agent.evaluation.played(int(np.argmax(agent.evaluation.saved)))
    return _result(program, actions, budget, metrics, tuple(curve.rows), agent.stages)


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


def _result(
    program: Program,
    actions: np.ndarray,
    budget: AgentBudget,
    metrics: dict[str, float],
    rows: tuple[dict[str, Any], ...] = (),
    stages: Sequence[tuple[int, np.ndarray]] = (),
) -> LearnedResult:
    mapping, costs_alone = _mapping_and_costs(program, actions)
    games = [(number, _mapping_and_costs(program, game)[1], "".join(map(str, game))) for number, game in stages]
    return LearnedResult(
        mapping, costs_alone | metrics, budget.curve(), budget.samples, budget.seconds, log=rows,
        stages=tuple(Stage(number, costs["return"], costs["latency_s"], game) for number, costs, game in games),
    )  # fmt: skip
