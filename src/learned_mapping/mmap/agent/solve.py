"""MMap-MuZero as a method: a program and a budget in, a mapping and its learning curve out."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from learned_mapping.compiling import compiling
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.learning.networks import count_parameters
from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
from learned_mapping.mmap.agent.config import AgentConfig
from learned_mapping.mmap.agent.result import LearnedResult, result_of, result_without_choice
from learned_mapping.programs.program import Program

NEVER = 2**62
SECONDS = 10.0
"""Seconds of a training unless said otherwise."""


def solve(
    program: Program,
    seed: int = 0,
    *,
    config: AgentConfig,
    seconds: float | None = None,
    games: int | None = None,
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
      seed: decides every random choice. With a limit in games or iterations the result depends on
        nothing else.
      config: every number of the agent; `config.config_for` has those for a program's length.
      seconds, games: the budget; ten seconds where neither is given and the configuration sets no
        iterations either.
      cpu, progress: as in `Budget`.
      checkpoint: file to go on from if it exists, and to write as `train` does. The budget covers
        both runs.
      every: see `checkpoint`.
      log: file for the learning curve, JSON lines.
      evaluate: play evaluation games, beside the budget; without, nothing takes time but what the
        budget pays for.

    Raises:
      InputError: a budget that is not positive, or a checkpoint of another run.
    """
    config = config if evaluate else replace(config, evaluate_every=0)
    if seconds is None and games is None:
        seconds, games = (None, NEVER) if config.iterations else (SECONDS, None)
    budget = AgentBudget(seconds=seconds, samples=games, cpu=cpu, progress=progress)
    if (
        program.possible_saving_s <= 0.0
        or (agent := MMapAgent(program, config, seed)).play.games.over.all()
    ):
        return result_without_choice(program, budget)
    # Compiling, which the budget does not pay for.
    with compiling():
        agent.compile()
    agent.budget, compile_s = budget, budget.skip(0.0)
    if checkpoint is None or not resume(agent, checkpoint):
        agent.start(budget)
    # Training, then evaluation beside the budget.
    curve = Log(log, agent.iterations)
    train(agent, budget.spent, log=curve, checkpoint=checkpoint, every=every)
    if evaluate:
        agent.evaluate()
    metrics: dict[str, Any] = {  # None is what was not evaluated.
        "own_return": agent.own_return,
        "recent_return": agent.own_return if agent.recent_return is None else agent.recent_return,
        "best_found": max(
            value for value in (agent.play.best.value, agent.rounds.found) if value is not None
        ),
        "updates": float(agent.learner.updates),
        "rounds": float(agent.rounds.number + 1),
        "decisions": float(agent.decisions),
        "parameters": float(count_parameters(agent.learner.parameters)),
        "compile_s": compile_s,
        "evaluation_s": agent.evaluation_s,
    }
    # The solution: the best game, or the best whole one of the agent alone.
    actions = agent.play.best.actions
    if agent.best_whole is not None and not config.priced:
        actions = agent.best_whole.actions
    elif evaluate and not config.priced:
        actions = agent.play.evaluation.played(int(np.argmax(agent.play.evaluation.saved)))
    return result_of(program, actions, budget, metrics, tuple(curve.rows), agent.stages)
