"""MMap-MuZero: self-play, replay, updates; whole iterations that a checkpoint can stand between."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.compiling import compiling
from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import AgentConfig, config_to_json
from learned_mapping.mmap.agent.first_game import first_game
from learned_mapping.mmap.agent.following import SHARE as FOLLOWED
from learned_mapping.mmap.agent.following import Followed
from learned_mapping.mmap.agent.games import Games
from learned_mapping.mmap.agent.learner import Learner, make_update
from learned_mapping.mmap.agent.network import Networks
from learned_mapping.mmap.agent.priced_view import priced_view, view_by
from learned_mapping.mmap.agent.replay import Batch, Replay, joined
from learned_mapping.mmap.agent.rounds import Rounds, round_config
from learned_mapping.mmap.agent.search import Decisions, make_decide
from learned_mapping.mmap.agent.selfplay import SelfPlay, WholeGame, WindowResult
from learned_mapping.mmap.agent.true_search import make_true_decide
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.searches.priced import Rule
from learned_mapping.programs.program import Program

RECENT = 500
"""Games whose mean return is reported."""
STAGES = 1.5
"""A whole game is kept as a stage of the training once there are this many times as many as at the
stage before."""
CONFIDENCE = 0.8
"""Policy target of the best game's actions, where it is imitated."""
RENEW = 20
"""Iterations after which the game to imitate is replaced by the best one."""

COMPILED = (
    "simulations",
    "unroll",
    "frozen",
    "value_scale",
    "discount",
    "network",
    "width",
    "ids",
    "log_values",
    "limit",
    "learning_rate",
    "priced",
)
"""Settings that compiled functions depend on, besides the shapes of their arguments."""


@functools.lru_cache(maxsize=8)
def _functions(config: AgentConfig, counts: tuple[int, int, int]):
    """Networks, search, optimiser and update; agents of equal sizes share what is compiled."""
    networks = Networks(config, counts)
    return networks, make_decide(networks, config), *make_update(networks, config)


COUNTED = (
    "iterations",
    "owed",
    "decisions",
    "searches",
    "own_return",
    "evaluation_s",
)
"""Attributes that a checkpoint keeps in its header as they are."""


class AgentBudget(Budget):
    """A `Budget` over the agent's own whole games, which can stand still and go on where an earlier
    run stopped."""

    def skip(self, since: float) -> float:
        """Takes back what has passed since `seconds` was `since`; returns how much."""
        passed = self.seconds - since
        self.spent_before(-passed)
        return passed

    def state(self) -> dict[str, Any]:
        """The state as JSON."""
        curve = [self.curve_s, self.curve_samples, self.curve_best]
        return {"seconds": self.seconds, "samples": self.samples, "best": self.best, "curve": curve}

    def restore(self, state: dict[str, Any]) -> None:
        """Adds what an earlier run spent, and takes over its curve."""
        self.spent_before(float(state["seconds"]))
        self.samples, self.best = int(state["samples"]), state["best"]
        self.curve_s, self.curve_samples, self.curve_best = (
            list(column) for column in state["curve"]
        )


class MMapAgent:
    """An agent for one program, untrained until `start`."""

    def __init__(self, program: Program, config: AgentConfig, seed: int):
        self.program = program
        self.seed, self._first = int(seed), config
        self.rng = np.random.default_rng(seed)
        self._key = np.uint32(self.seed % 2**32).astype(np.int32)
        """The seed as compiled functions take it."""
        self.searches = self.iterations = self.decisions = 0
        self.owed = 0
        """Steps of learning that the last iteration lacks, since a budget in seconds ended within
        them."""
        self.rounds = Rounds()
        self.best_whole: WholeGame | None = None
        """The best game of the agent alone."""
        self.stages: list[tuple[int, np.ndarray]] = []
        """Numbers and actions [B] of whole games from all along the training, good or bad (section
        5.3)."""
        self.own_return: float | None = None
        """Mean return of the latest evaluation games."""
        self.evaluation_s = 0.0
        self._build()

    def _build(self) -> None:
        """Builds what a round begins with, by its configuration."""
        program = self.program
        self.config = config = round_config(self._first, self.rounds.number)
        """The configuration of this round."""
        self.recent: list[float] = []
        """Returns of the last whole games."""
        self.play = SelfPlay(program, config)
        counts = (program.num_buffers, program.num_tensors, program.num_alias_groups + 1)
        compiled = AgentConfig(**{name: getattr(config, name) for name in COMPILED})
        self.networks, self._decide, optimiser, update = _functions(compiled, counts)
        if config.true_dynamics:
            self._search_games = make_true_decide(config)
        self.learner = Learner(self.networks, optimiser, update, self.rng, config.drop_start)
        self.replay = Replay(config.replay)
        self.followed = Followed() if config.windows else None

    def compile(self) -> None:
        """Runs what is compiled once, so that no budget pays for compiling."""
        searches = self.searches
        rows = Replay(1)
        rows.add({name: store.copy() for name, store in rows.fields.items()})
        batch = rows.batch(np.zeros(self.config.batch, np.int64), self.config.unroll)
        self.learner.compile(batch)
        if self.config.priced:
            toy = Games(toy_program(), 1)
            toy.prices = priced_view(toy_program())[1]
            toy.observe()
        self.play.compile(self.decide)
        self.searches = searches

    @property
    def done(self) -> bool:
        return 0 < self._first.iterations <= self.iterations

    def decide(self, games: Games, temperature: np.ndarray) -> Decisions:
        """The agent's decisions at positions, by temperatures [G]."""
        if self.config.true_dynamics:
            rng = np.random.default_rng((self.seed, self.searches))
            self.searches += 1
            return self._search_games(games, self.play.to_go, self.play.unit, rng, temperature)
        seen = (games.vector, games.ids, games.legal)
        decisions = self._decide(
            self.learner.parameters, *seen, self._key, self.searches, temperature
        )
        self.searches += 1
        return Decisions(*(np.asarray(part) for part in decisions))

    def start(self, budget: AgentBudget) -> None:
        """Makes the first best game."""
        self.budget, config = budget, self.config
        if config.priced:
            game, prices = priced_view(self.program, budget)
            self.play.see(prices)
            value, actions, to_go = game.value, game.action.astype(np.int64), None
        else:
            value, actions, to_go = first_game(self.program, config, self.rng)
        self._offer(actions, value)
        self.play.begin(self.play.best.to_go if to_go is None else to_go)
        self._renew_demonstration()
        self.rounds.begin(self.learner.updates, self.play.best.value)

    def _start_anew(self) -> None:
        """The next round, whose budget does not pay for what it compiles."""
        self.rounds.end(self.play.best.value, self.recent_return)
        updates = self.learner.updates
        with self.budget.uncounted(), compiling():
            self._build()
            self.compile()
        self.learner.updates = updates
        self.start(self.budget)

    @property
    def recent_return(self) -> float | None:
        """Mean of the last `RECENT` whole games of a round, of the round where it is highest."""
        settled = self.rounds.settled
        if not self.recent or (settled is not None and len(self.recent) < RECENT):
            return settled
        mean = float(np.mean(self.recent))
        return mean if settled is None else max(mean, settled)

    def _offer(self, actions: np.ndarray, value: float) -> bool:
        """Takes a game for the best one where it is; returns whether it is."""
        better = self.play.offer(actions, value)
        if better and self.config.priced:
            self.budget.record(value, 0)
        return better

    def _renew_demonstration(self) -> None:
        if self.config.imitation > 0.0:
            self.demonstration = self.play.demonstration(self.play.best.actions, CONFIDENCE)

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        """Self-play and updates; returns a row of the curve, see `_row`, or None where `stop` cut
        it short."""
        if self.owed:
            self._learn(stop)
            if self.owed:
                return None
            self._evaluate_when_due()
            self._start_anew_when_due()
        chunk = self.play.play(self.decide, self.rng, stop)
        if chunk is None:
            return None
        self.replay.add(chunk.columns)
        if self.followed is not None:
            self.followed.take(chunk.columns, self.play.best.actions)
        self.decisions += len(chunk.columns["action"])
        self._take_whole(chunk.whole)
        self._take_windows(chunk.windows)
        if (self.iterations + 1) % RENEW == 0:
            self._renew_demonstration()
            if self.followed is not None:
                self.followed.renew(self.play.best.actions)
        self.owed = 0 if self.config.frozen else self.config.reanalyse + self.config.updates
        losses = self._learn(stop)
        self.iterations += 1
        self._evaluate_when_due()
        row = self._row(chunk, jax.device_get(losses))
        self._start_anew_when_due()
        return row

    def _learn(self, stop: Callable[[], bool]) -> list[dict[str, Any]]:
        """Reanalyses and updates until none is owed, or until `stop` where the budget is one in
        seconds; losses."""
        timed, losses = self.budget.limit_s is not None, []
        while self.owed and not (timed and stop()):
            if self.owed > self.config.updates:
                self._reanalyse()
            else:
                losses.append(self.learner.step(self._batch(self.config.imitation)))
                if timed:
                    # else updates wait in a queue that no clock sees
                    jax.block_until_ready(losses[-1])
            self.owed -= 1
        return losses

    @property
    def _evaluates(self) -> bool:
        every = self.config.evaluate_every
        return bool(every) and self.iterations % every == 0 and not self.owed

    def _evaluate_when_due(self) -> None:
        if self._evaluates:
            self.evaluate()

    def _start_anew_when_due(self) -> None:
        patience = 0 if self._first.windows or self.owed else self._first.patience
        best = self.play.best.value
        if patience and self.rounds.stands_still(self.learner.updates, best, patience):
            self._start_anew()

    def _take_whole(self, finished: Sequence[WholeGame]) -> None:
        for game in finished:
            self.budget.record(game.value)
            if not self.stages or self.budget.samples >= STAGES * self.stages[-1][0]:
                self.stages.append((self.budget.samples, game.actions))
            if self.best_whole is None or game.value > self.best_whole.value:
                self.best_whole = game
            self.rounds.whole = max(self.rounds.whole, game.value)
            self._offer(game.actions, game.value)
        self.recent = (self.recent + [game.value for game in finished])[-RECENT:]
        cold = [game for game in finished if game.cold]
        if cold:
            self.play.follow_own(cold[-1].actions)
        self.play.expect(finished)

    def _take_windows(self, windows: Sequence[WindowResult]) -> None:
        """Joins the gains of windows, the largest first, into one best game as far as they add up:
        a local search."""
        for window in windows:
            actions = self.play.best.actions.copy()
            actions[window.start : window.stop] = window.actions
            value, actions = self.play.best.value_of(actions)
            self._offer(actions, value)

    def _batch(self, imitation: float) -> Batch:
        """A batch of which this share is the best game, and `following.SHARE` what it does in
        positions of other games, as far as there is room."""
        size, followed = self.config.batch, 0
        copied = round(size * imitation)
        if self.followed is not None and self.followed.size:
            followed = min(round(size * FOLLOWED), size - copied)
        shares = (
            (getattr(self, "demonstration", None), copied),
            (self.followed, followed),
            (self.replay, size - copied - followed),
        )
        return joined(
            *(
                s.batch(s.rows(count, self.rng), self.config.unroll)
                for s, count in shares
                if s and count
            )
        )

    def _reanalyse(self) -> None:
        """Searches replayed positions anew with today's network and stores the policies (section 3,
        Reanalyse)."""
        rows = self.replay.rows(self.config.games, self.rng)
        seen = self.replay.fields
        decisions = self._decide(
            self.learner.parameters,
            seen["vector"][rows].astype(np.float32),
            seen["ids"][rows],
            seen["legal"][rows],
            self._key,
            self.searches,
            np.ones(len(rows), np.float32),
        )
        self.searches += 1
        seen["policy"][rows] = np.asarray(decisions.policy)

    def evaluate(self) -> float:
        """The mean return of whole games by the most probable action of the search; no budget pays
        for them."""
        since, searches = self.budget.seconds, self.searches
        self.own_return = self.play.evaluate(self.decide)
        self.searches = searches
        self.evaluation_s += self.budget.skip(since)
        return self.own_return

    def _row(self, chunk, losses: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """So far: iterations, ``cpu_s`` of the budget (compiling and evaluation left out), whole
        games, decisions and updates. Of this iteration, None where there is none: ``hot`` and
        ``cold``, mean returns of whole games at temperature 1 and at the low one; ``dead_ends`` per
        whole game; ``own_return``, of evaluation games; ``equal``, the share of windows that end
        like the best game; ``entropy`` of the policy targets, nats; ``value_error``, mean
        |network's value - target|, share of the possible saving; mean losses, cross-entropies in
        nats. ``best`` is the return of the agent's own best whole game, ``best_found`` of this
        round's best by whatever means."""

        def mean(values) -> float | None:
            values = list(values)
            return float(np.mean(values)) if values else None

        return {
            "iteration": self.iterations,
            "cpu_s": self.budget.seconds,
            "games": self.budget.samples,
            "decisions": self.decisions,
            "updates": self.learner.updates,
            "hot": mean(game.value for game in chunk.whole if not game.cold),
            "cold": mean(game.value for game in chunk.whole if game.cold),
            "dead_ends": mean(game.resets for game in chunk.whole),
            "own_return": self.own_return if self._evaluates else None,
            "best": None if self.best_whole is None else self.best_whole.value,
            "best_found": self.play.best.value,
            "equal": chunk.equal,
            "entropy": chunk.entropy,
            "value_error": chunk.value_error,
            **{
                name: mean(row[name] for row in losses)
                for name in ("policy_loss", "value_loss", "reward_loss")
            },
        }

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything that the future depends on: windows start anew, so only whole games in
        progress are kept."""
        arrays = {
            **self.learner.arrays(),
            **self.replay.arrays("replay"),
            **self.play.games.arrays(),
            "to_go": self.play.to_go,
            "best_actions": self.play.best.actions,
            "own_actions": self.play.best.actions
            if self.play.own_guide is None
            else self.play.own_guide.actions,
            "partial": self.play.partial,
            "recent": np.array(self.recent),
            "stages": np.array(
                [np.zeros(self.program.num_buffers), *(a for _, a in self.stages)], np.int8
            )[1:],
        }
        if self.config.imitation > 0.0:
            arrays |= self.demonstration.arrays("demonstration")
        if self.followed is not None:
            arrays |= self.followed.arrays("followed")
        whole = self.best_whole
        if whole is not None:
            arrays |= {"whole.actions": whole.actions, "whole.saved_before": whole.saved_before}
        header = {
            "identity": self._identity(),
            **{name: getattr(self, name) for name in COUNTED},
            "best": self.play.best.value,
            "rounds": dataclasses.asdict(self.rounds),
            "updates": self.learner.updates,
            "unit": self.play.unit,
            "hot_moves": self.play.hot_moves,
            "own": self.play.own_guide is not None,
            "stages": [number for number, _ in self.stages],
            "whole": None if whole is None else [whole.value, whole.cold, whole.resets],
            "budget": self.budget.state(),
            "random": self.rng.bit_generator.state,
        }
        if self.play.games.prices is not None:
            header["rule"] = self.play.games.prices.rule
        return arrays, header

    def _identity(self) -> dict[str, Any]:
        config = {
            name: value
            for name, value in config_to_json(self._first).items()
            if name != "iterations"
        }
        return {"program": self.program.digest, "seed": self.seed, "config": config}

    def restore(
        self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object
    ) -> None:
        """Back to a state; `budget` is set. Raises `InputError` where it is another agent's."""
        if header.get("identity") != self._identity():
            raise InputError(source, "identity", "is another program's, seed's or configuration's")
        self.rounds = Rounds(**header["rounds"])
        if self.rounds.number:
            self._build()
        for name in COUNTED:
            setattr(self, name, header[name])
        self.learner.restore(arrays, int(header["updates"]), source)
        self.replay.restore(arrays, "replay", source)
        self.play.best.offer(arrays["best_actions"], float(header["best"]))
        self.play.to_go, self.play.partial = arrays["to_go"], arrays["partial"]
        self.play.unit, self.play.hot_moves = float(header["unit"]), int(header["hot_moves"])
        if header["own"]:
            self.play.follow_own(arrays["own_actions"])
        if self.config.priced:
            self.play.see(view_by(self.program, Rule(*header["rule"])))
        self.play.games.restore(arrays, source)
        if self.config.imitation > 0.0:
            self.demonstration = Replay(len(arrays["demonstration.action"]))
            self.demonstration.restore(arrays, "demonstration", source)
        if self.followed is not None:
            self.followed.restore(arrays, "followed", source)
        if header["whole"] is not None:
            value, cold, resets = header["whole"]
            self.best_whole = WholeGame(
                value, cold, resets, arrays["whole.actions"], arrays["whole.saved_before"]
            )
        self.recent = arrays["recent"].tolist()
        self.stages = list(zip(header["stages"], arrays["stages"].astype(np.int64)))
        self.rng.bit_generator.state = header["random"]
        self.budget.restore(header["budget"])
