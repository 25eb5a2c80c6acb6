"""MMap-MuZero as a method: a program and a budget in, a mapping and its learning curve out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.learning.networks import count_parameters
from learned_mapping.mmap.mapping import Mapping, all_dropped, make_mapping
from learned_mapping.mmap.muzero.agent import MuZeroAgent
from learned_mapping.mmap.muzero.config import EXACT, FULL, MuZeroConfig
from learned_mapping.mmap.muzero.curve import ResumableBudget
from learned_mapping.mmap.muzero.exact_search import exact_move
from learned_mapping.mmap.muzero.position import Position
from learned_mapping.mmap.rules.play import PlayedGame
from learned_mapping.problem import Result
from learned_mapping.programs.program import Program


@dataclass(frozen=True)
class LearnedResult(Result):
    """A `Result` with what learning adds. Its metrics also hold ``own_return``, the best return among the agent's own
    games (demonstrations left out), ``updates``, ``decisions`` and ``parameters``."""

    log: tuple[dict[str, Any], ...] = ()
    """The learning curve, a row per iteration; columns as in `curve.ROW`."""


def solve(
    program: Program,
    seed: int = 0,
    *,
    seconds: float | None = None,
    games: int | None = None,
    config: MuZeroConfig = FULL,
    cpu: bool = False,
    progress: Callable[[int, float, float | None], None] | None = None,
    demonstrations: Sequence[Mapping] = (),
    checkpoint: str | os.PathLike | None = None,
    every: int = 10,
    log: str | os.PathLike | None = None,
) -> LearnedResult:
    """Trains an agent from scratch on `program`, as the paper does, and returns the best mapping met.

    Compilation counts against a budget in seconds: an agent that is trained for one program pays for it.

    Args:
      program: what to map.
      seed: decides every random choice. With a limit in games the result depends on nothing else.
      seconds, games: the budget; ten seconds where both are None. A game that a search for demonstrations plays counts.
        Where no game ends in time, the most advanced one is ended by the policy head alone.
      config: every number of the agent.
      cpu, progress: as in `Budget`.
      demonstrations: mappings to learn from; they count as found.
      checkpoint: file to go on from if it exists, and to write every `every` iterations. The budget covers both runs.
      every: see `checkpoint`.
      log: file for the learning curve, JSON lines.

    Raises:
      InputError: a budget that is not positive, or a checkpoint of another run.
    """
    if seconds is None and games is None:
        seconds = 10.0
    budget = ResumableBudget(seconds=seconds, samples=games, cpu=cpu, progress=progress)
    start = Position(program, drop_backup=config.drop_backup)
    if start.over:
        best = None if start.lost else start.played()
        budget.record(start.value)
        return _result(program, best, budget, {}, ())
    if config.search == EXACT:
        return _result(program, _search_only(start, config, np.random.default_rng(seed), budget), budget, {}, ())
    agent = MuZeroAgent(program, config, seed, budget, demonstrations)
    if checkpoint is not None:
        resume(agent, checkpoint)
    curve = Log(log, agent.iterations)
    train(agent, budget.spent, log=curve, checkpoint=checkpoint, every=every)
    if agent.best is None and not budget.samples:
        _end_by_policy(agent)
    metrics = {
        "own_return": float(max(agent.own_best, 0.0)),
        "updates": float(agent.updates),
        "decisions": float(agent.decisions),
        "parameters": float(count_parameters(agent.learner.parameters)),
    }
    return _result(program, agent.best, budget, metrics, tuple(curve.rows))


def _end_by_policy(agent: MuZeroAgent) -> None:
    """Plays the games in progress on by the policy head until one ends."""
    positions = [record.position for record in agent.play.records]
    while not any(position.over for position in positions):
        found = agent.infer(agent.observer(positions), np.stack([position.legal for position in positions]))
        for position, action in zip(positions, np.asarray(found.action).tolist()):
            position.step(action)
    for position in positions:
        if position.over:
            agent.budget.record(position.value)
            agent.own_best = max(agent.own_best, position.value)
            if not position.lost:
                agent.play.offer(position.played())
            return


def _search_only(
    position: Position, config: MuZeroConfig, rng: np.random.Generator, budget: ResumableBudget
) -> PlayedGame | None:
    """The best of games by search with the true dynamics; a first game that runs out of time ends at random."""
    best: PlayedGame | None = None
    while not budget.spent():
        position.restart()
        while not position.over and not budget.spent():
            position.step(exact_move(position, config, rng))
        if not position.over:
            if best is not None:
                break
            while not position.over:
                position.step(int(rng.choice(np.flatnonzero(position.legal))))
        budget.record(position.value)
        if not position.lost and (best is None or position.value > best.value):
            best = position.played()
    return best


def _result(
    program: Program,
    best: PlayedGame | None,
    budget: ResumableBudget,
    metrics: dict[str, float],
    rows: tuple[dict[str, Any], ...],
) -> LearnedResult:
    """Without a complete game, everything is dropped."""
    if best is None:
        solution, value, resets = all_dropped(program), 0.0, 0
    else:
        solution = make_mapping(program, best.action, best.offset, best.start, best.end)
        value, resets = best.value, best.resets
    found = {
        "return": value,
        "saving_s": value * program.possible_saving_s,
        "latency_s": program_latency(program, solution).total_s,
        "resets": float(resets),
    }
    return LearnedResult(solution, found | metrics, budget.curve(), budget.samples, budget.seconds, rows)
