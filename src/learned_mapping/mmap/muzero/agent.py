"""MMap-MuZero on one program: demonstrations, self-play and training steps in turns, in one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, unflatten
from learned_mapping.learning.replay import Replay
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.muzero.config import GREEDY_TUNED, SEARCH_TARGET, MuZeroConfig, config_digest
from learned_mapping.mmap.muzero.curve import ResumableBudget, curve_row
from learned_mapping.mmap.muzero.demonstrations import demonstrate, wanted_actions
from learned_mapping.mmap.muzero.learner import LearnerState, make_learner
from learned_mapping.mmap.muzero.position import Position, returns_so_far
from learned_mapping.mmap.muzero.reanalyse import make_batch
from learned_mapping.mmap.muzero.records import Record, replay_fields
from learned_mapping.mmap.muzero.representation import Observation, Observer
from learned_mapping.mmap.muzero.search import Decisions, make_decide, make_infer, temperatures
from learned_mapping.mmap.muzero.selfplay import SelfPlay
from learned_mapping.mmap.rules.play import Game, PlayedGame
from learned_mapping.mmap.searches.greedy import greedy_tuned
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program

GAME_FIELDS = ("action", "offset", "start", "end")
COUNTERS = ("iterations", "updates", "decisions", "prepared")


class MuZeroAgent:
    """An agent of `learning.loop`.

    Args:
      program: what to map; at least one of its buffers has a choice.
      config: every number.
      seed: decides every random choice.
      budget: counts games; demonstrations that are searched for count too.
      demonstrations: mappings to learn from, besides those of ``config.demonstrations``.
    """

    def __init__(
        self,
        program: Program,
        config: MuZeroConfig,
        seed: int,
        budget: ResumableBudget,
        demonstrations: Sequence[Mapping] = (),
    ):
        self.program, self.config, self.seed, self.budget = program, config, seed, budget
        self.mappings = list(demonstrations)
        self.rng = np.random.default_rng(seed)
        self.game = Game(program)
        self.observer = Observer(program, self.game.scale, config.representation)
        self.replay = Replay(config.replay_size, replay_fields(config.representation))
        self._decide, self._infer = make_decide(config), make_infer(config)
        init, self._update = make_learner(config)
        self.learner: LearnerState = init(self.rng)
        self.reference: np.ndarray | None = None
        self.own_best = -np.inf
        """The best return among the agent's own games."""
        self.iterations = self.updates = self.decisions = 0
        self.prepared = False
        self._start_play()

    def _start_play(self) -> None:
        self.play = SelfPlay(self.game.program, self.config, self.observer, self.budget, self.reference)

    @property
    def done(self) -> bool:
        return self.updates >= self.config.training_steps

    @property
    def best(self) -> PlayedGame | None:
        """The best complete game, demonstrations included."""
        return self.play.best

    def _key(self) -> jax.Array:
        return jax.random.key(int(self.rng.integers(2**32)))

    def _search(self, observation: Observation, legal: np.ndarray) -> Decisions:
        temperature = temperatures(self.config, self.updates)
        return self._decide(self.learner.parameters, observation, legal, self._key(), temperature)

    def infer(self, observation: Observation, legal: np.ndarray) -> Decisions:
        """The network alone, on a batch of ``config.parallel_games``."""
        return self._infer(self.learner.parameters, observation, legal)

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        """Demonstrations if there are any yet to learn from, some moves in every game, some training steps."""
        metrics: list[dict[str, Any]] = []
        if not self.prepared:
            self._prepare()
            self.prepared = True
            imitation = dataclasses.replace(self.config, reanalyse_fraction=0.0, policy_target=SEARCH_TARGET)
            if len(self.replay) and not self._train(self.config.pretraining_updates, imitation, metrics, stop):
                return None
        for _ in range(self.config.moves_per_iteration):
            if stop() or not self.play.move(self._search, self._keep, stop):
                return None
            self.decisions += self.config.parallel_games
        if len(self.replay) and not self._train(self.config.updates_per_iteration, self.config, metrics, stop):
            return None
        self.iterations += 1
        return curve_row(self, self.play.take_finished(), metrics)

    def _train(self, count: int, config: MuZeroConfig, metrics: list[dict[str, Any]], stop: Callable[[], bool]) -> bool:
        for _ in range(count):
            if self.done or stop():
                return self.done
            batch = make_batch(self.replay, config, self.rng, self._search, self.infer)
            self.learner, found = self._update(self.learner, batch)
            metrics.append(found)
            self.updates += 1
        return True

    def _keep(self, record: Record) -> None:
        self.replay.add(record.columns(self.config.network.value_scale))
        self.own_best = max(self.own_best, record.position.value)

    def _prepare(self) -> None:
        """Finds the demonstrations, plays them into the replay, and measures rewards against the best if asked to."""
        mappings = [wanted_actions(mapping) for mapping in self.mappings]
        if self.config.demonstrations == GREEDY_TUNED:
            search = Search(self.program, self.budget)
            greedy_tuned(search, share=self.config.demonstration_share)
            mappings.append(search.best.action.astype(np.int64))
        if not mappings:
            return
        scale, confidence = self.config.network.value_scale, self.config.demonstration_confidence
        games = [
            demonstrate(Position(self.game.program), wanted, self.observer, scale).position.played()
            for wanted in mappings
        ]
        if self.config.shaped:
            self.reference = returns_so_far(max(games, key=lambda game: game.value), self.program)
            self._start_play()
        for wanted, game in zip(mappings, games):
            position = Position(self.game.program, reference=self.reference)
            record = demonstrate(position, wanted, self.observer, scale, confidence)
            if record.rewards:
                self.replay.add(record.columns(scale))
            self.play.offer(game)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that the future depends on."""
        arrays = flatten(self.learner, "learner")
        arrays |= {f"replay.{name}": array for name, array in self.replay.arrays().items()}
        for i, record in enumerate(self.play.records):
            arrays |= {f"game.{i}.{name}": array for name, array in record.arrays().items()}
        if self.best is not None:
            arrays |= {f"best.{name}": getattr(self.best, name) for name in GAME_FIELDS}
        if self.reference is not None:
            arrays["reference"] = self.reference
        best = self.best
        header = {
            "agent": "mmap-muzero",
            "program": self.program.digest,
            "config": config_digest(self.config),
            "seed": self.seed,
            "rng": self.rng.bit_generator.state,
            "counters": {name: getattr(self, name) for name in COUNTERS},
            "own_best": self.own_best if np.isfinite(self.own_best) else None,
            "best": None if best is None else {"value": best.value, "resets": best.resets, "moves": best.moves},
            "budget": self.budget.state(),
        }
        return arrays, header

    def restore(self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object = "checkpoint") -> None:
        """Back to what `state` returned.

        Raises:
          InputError: the state is of another agent, program, configuration or seed, or it is damaged.
        """
        expected = {
            "agent": "mmap-muzero",
            "program": self.program.digest,
            "config": config_digest(self.config),
            "seed": self.seed,
        }
        for name, value in expected.items():
            if header.get(name) != value:
                raise InputError(source, name, f"{header.get(name)!r}, expected {value!r}")
        try:
            self.learner = unflatten(self.learner, arrays, "learner", source)
            self.replay.restore(_under(arrays, "replay."), source)
            self.rng.bit_generator.state = header["rng"]
            for name in COUNTERS:
                setattr(self, name, header["counters"][name])
            self.own_best = -np.inf if header["own_best"] is None else header["own_best"]
            self.reference = arrays.get("reference")
            self._start_play()
            for i, record in enumerate(self.play.records):
                record.restore(_under(arrays, f"game.{i}."), self.observer)
            if header["best"] is not None:
                best = {name: arrays[f"best.{name}"] for name in GAME_FIELDS}
                self.play.best = PlayedGame(**best, **header["best"])
            self.budget.restore(header["budget"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(source, "", f"is damaged ({type(error).__name__}: {error})") from None


def _under(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
