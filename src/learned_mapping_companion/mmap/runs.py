"""One run of paper 1: a compiled program mapped by one method, judged by the validator; and the
stored trainings.

The compiler's own mapping is a method too, ``xla``. It copies more freely than the game allows, so
its time is the shorter of two: with one copy at a time, as for all others, and with several copies
under way that leave instructions their bandwidth.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.hardware.copy_engines import shared_copy_latency
from learned_mapping.hardware.memory_hierarchy import (
    LatencyBreakdown,
    placed_latency_s,
    program_latency,
)
from learned_mapping.mmap.mapping import Mapping, claimed_share
from learned_mapping.mmap.methods import METHODS, PLANS, solve
from learned_mapping.mmap.rules.play import Game, mapping_of
from learned_mapping.mmap.searches.priced import GAMES
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import read_json
from learned_mapping.programs.program import Program
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.table import Record, Records, Rows, rows

XLA = "xla"  # The production baseline: the compiler's own mapping.
LEARNED = (
    "muzero",
    "muzero-priced",
    "muzero-priced-frozen",
    "muzero-no-backup",
    "muzero-frozen",
    "search-only",
    "learning-only",
    "imitation",
)
"""The paper's agent and its controls: they train for minutes to hours, so their runs are long."""
LEARNING = (
    "updates",
    "rounds",
    "decisions",
    "own_return",
    "recent_return",
    "best_found",
    "parameters",
    "compile_s",
)
"""Metrics of a training that a record keeps; `mmap.agent.solve` says what each is."""
SECONDS, LARGE, SECONDS_LARGE = 120.0, 1_000, 240.0
"""CPU seconds of one core that every search and training of the tables has, compilation apart; and
those on programs of more buffers than `LARGE`."""
LESS: dict[str, Record] = {
    "random": {"seconds": 20.0},
    "greedy-tuned": {"seconds": 12.0},
    "priced": {"samples": GAMES},
}
"""A method that needs no such time -> the limits of its runs."""
DIGEST_LENGTH = 16
STALLS = ("arrival_stall_s", "overwrite_stall_s", "write_back_s", "contention_s", "drain_s")


load = functools.lru_cache(maxsize=4)(compiled.load)


def program_of(name: str, config: Record) -> Program:
    """A compiled program; with ``memory`` that much fast memory, as a share of its own."""
    program, _ = load(name)
    fast_bytes = int(config.get("memory", 1.0) * program.fast_bytes)
    return (
        program if fast_bytes == program.fast_bytes else program.with_memory(fast_bytes=fast_bytes)
    )


def program_digest(name: str) -> str:
    """The start of a program's digest, of the manifest; raises `InputError` for an unknown one."""
    return compiled.item(name).digest[:DIGEST_LENGTH]


def num_buffers(name: str) -> int:
    """Buffers of a compiled program, from the manifest."""
    return int(compiled.item(name).facts["buffers"])


def seconds_of(name: str) -> float:
    """CPU seconds of a search or training on a program."""
    return SECONDS_LARGE if num_buffers(name) > LARGE else SECONDS


def plan_run(
    method: str, instance: str, config: Record, seed: int = 0, *, long: bool = False
) -> Run:
    """A run of `run_method`; the agent's are `long`. The program's digest is part of its key."""
    config = {**config, "program": program_digest(instance)}
    return Run("mmap.map", method, instance, config, seed, long=long or method in LEARNED)


def plan_runs(method: str, instance: str, config: Record, seeds: int, **more: bool) -> list[Run]:
    """A `plan_run` for each seed."""
    return [plan_run(method, instance, config, seed, **more) for seed in range(seeds)]


def plan_by_clock(method: str, instance: str, seeds: int) -> list[Run]:
    """A method's runs on a program for as long as all have, or less where it needs less; one where
    nothing in it is random. Those of minutes are long."""
    by_chance, limits = METHODS[method].random, LESS.get(method)
    config = limits or {"seconds": seconds_of(instance)}
    count = seeds if by_chance else 1
    return plan_runs(method, instance, config, count, long=by_chance and not limits)


def plan_one_round(
    instance: str,
    seconds: float,
    seed: int = 0,
    arm: str = "muzero",
    memory: float | None = None,
    **settings: Any,
) -> Run:
    """A training in one round, some settings changed, which `model.run_model` performs."""
    config = {
        "seconds": seconds,
        "program": program_digest(instance),
        "arm": arm,
        "settings": settings,
    } | ({} if memory is None else {"memory": memory})
    return Run("mmap.ablation", "muzero", instance, config, seed, long=True)


def run_method(method: str, instance: str, config: Record, seed: int) -> Record:
    """Maps a program under a budget of CPU seconds or games; the validator judges and prices the
    mapping.

    Args:
      method: any of `mmap.methods`, or `XLA`.
      config: ``program``, the digest of the compiled one; ``seconds`` or ``samples``; ``memory``,
        see `program_of`; ``keep``, to have the mapping; ``games``, how many games from all along a
        training to have.

    Returns:
      The record. Of a game it has ``actions``, a digit per buffer, which `replayed` plays. Of the
      agent it has the metrics of `LEARNING`, the learning curve ``log`` and ``stages`` (number,
      return and latency of games from all along the training); ``games`` are stages with their
      actions, evenly spread over them.

    Raises:
      InputError: the program is not the one that the run was planned for.
    """
    program, compiler = load(instance)
    if program.digest[:DIGEST_LENGTH] != config.get("program", program.digest[:DIGEST_LENGTH]):
        raise InputError(
            instance, "digest", "is not the manifest's; `lmap data verify compiled` says more"
        )
    if method == XLA:
        return compiler_record(program, compiler)
    program = program_of(instance, config)
    limits = {name: config[name] for name in ("seconds", "samples") if name in config}
    result = solve(program, method, seed=seed, cpu=True, **limits)
    record_of = learner_record if method in LEARNED else searcher_record
    record = record_of(program, result, exact=method not in PLANS)
    if config.get("keep"):
        names = ("action", "offset", "start", "end")
        record["mapping"] = {name: getattr(result.solution, name).tolist() for name in names}
    if config.get("games"):
        spread = np.linspace(0, len(result.stages) - 1, config["games"]).astype(int)
        record["games"] = [list(result.stages[i]) for i in spread]
    return record


def searcher_record(program: Program, result: Any, *, exact: bool = True) -> Record:
    """The record of a method's `Result` on a program, with the actions where its mapping is a game,
    an `exact` one."""
    return judged(program, result.solution, exact=exact) | {
        "resets": result.metrics["resets"],
        "samples": result.samples,
        "seconds": result.seconds,
        "curve": result.curve,
        **{name: result.metrics[name] for name in ("updates",) if name in result.metrics},
        **({"actions": "".join(map(str, result.solution.action.tolist()))} if exact else {}),
    }


def learner_record(program: Program, result: Any, *, exact: bool = True) -> Record:
    """The same of a training's `LearnedResult`, with what it learned, its curve and its games."""
    return searcher_record(program, result, exact=exact) | {
        **{name: result.metrics[name] for name in LEARNING if name in result.metrics},
        "log": thinned(result.log),
        "stages": [list(stage[:3]) for stage in result.stages],
    }


def return_of(record: Record) -> float:
    """The return of a record of `run_method`, 0 of an invalid mapping."""
    return record["result"]["costs"].get("return", 0.0)


def judged(program: Program, mapping: Mapping, *, exact: bool = True) -> Record:
    """The validator's verdict on a mapping, and what the latency model says of it."""
    verdict = validate(program, mapping, exact=exact)
    return {
        "judged": True,
        "valid": verdict.valid,
        "violations": [str(violation) for violation in verdict.violations[:5]],
        "costs": dict(verdict.costs),
        "slow_s": float(program.slow_s.sum()),
        "stalls": _stalls(program_latency(program, mapping)) if verdict.valid else {},
    }


def replayed(program: Program, actions: str) -> Mapping:
    """The mapping of a game from the actions that its record keeps."""
    game = Game(program)
    game.play_actions([int(action) for action in actions])
    return mapping_of(program, game.played())


def compiler_record(program: Program, mapping: Mapping) -> Record:
    """The record of the compiler's mapping, timed by the better of the two models of copying."""
    serial, shared = program_latency(program, mapping), shared_copy_latency(program, mapping)
    best = min(serial, shared, key=lambda latency: latency.total_s)
    saving = float(program.slow_s.sum() - placed_latency_s(program, mapping.placed).sum())
    return {
        "resets": 0.0,
        "samples": 1,
        "seconds": 0.0,
        "judged": False,
        "valid": False,
        "violations": [],
        "costs": {
            "return": claimed_share(program, mapping),
            "saving_s": saving,
            "latency_s": best.total_s,
        },
        "slow_s": float(program.slow_s.sum()),
        "stalls": _stalls(best),
        "serial_latency_s": serial.total_s,
        "shared_latency_s": shared.total_s,
    }


def _stalls(latency: LatencyBreakdown) -> dict[str, float]:
    return {name: float(getattr(latency, name)) for name in STALLS}


def learning_rows(instance: str, method: str, outcomes: Records, memory: float = 1.0) -> Rows:
    """Rows ``games``, ``games_worth`` and ``updates`` of a method that learns: the least of its
    runs, for the claims. A game is worth the decisions of the best one, where the record has its
    actions, else one for each buffer; those made in windows count. `memory` as in `program_of`."""
    if any("updates" not in result for result in outcomes):  # some records of PPO count games alone
        played = float(min((result["samples"] for result in outcomes), default=0))
        return rows(instance, method, {"games": played}, n=len(outcomes)) if method == "ppo" else []
    least = {
        "games": float(min(r["samples"] for r in outcomes)),
        "updates": float(min(r["updates"] for r in outcomes)),
    }
    if all("decisions" in r for r in outcomes):
        worth = (
            r["decisions"] / decisions_of(instance, r.get("actions"), memory) for r in outcomes
        )
        least["games_worth"] = float(min(worth))
    return rows(instance, method, least, n=len(outcomes))


def decisions_of(instance: str, actions: str | None, memory: float = 1.0) -> int:
    """The number of decisions of a game that had a choice; of unknown actions, as many as
    buffers."""
    if actions is None:
        return num_buffers(instance)
    return max(len(decision_starts(instance, actions, memory)), 1)


@functools.lru_cache(maxsize=256)
def decision_starts(instance: str, actions: str, memory: float) -> np.ndarray:
    """The buffers at which a game had a choice."""
    from learned_mapping.mmap.agent.games import Guide

    guide = Guide(program_of(instance, {"memory": memory}))
    guide.follow(np.array([int(action) for action in actions]))
    return guide.decisions


def learned(table: Record) -> Rows:
    """The rows of `learning_rows` in a result."""
    return [
        entry for entry in table["rows"] if entry["metric"] in ("games", "games_worth", "updates")
    ]


SCHEMA = "learned-mapping/mmap-training/1"
TRAINING = ("program", "seed", "config", "cpu_seconds", "games", "updates", "best_whole", "curve")
"""Fields of a stored training, at least."""
CURVE_ROWS = 100
"""Rows of a learning curve that are stored, at most about."""
MEANS = ("hot", "cold", "dead_ends", "equal", "entropy", "value_error")
"""Columns of a learning curve that are averaged over the rows left out."""


def thinned(rows: Sequence[Record]) -> list[Record]:
    """A learning curve of about `CURVE_ROWS` of its rows, those with an evaluation among them."""
    every = max(-(-len(rows) // CURVE_ROWS), 1)
    kept, waiting = [], []
    for i, row in enumerate(rows, 1):
        waiting.append(row)
        if i % every and row["own_return"] is None and i < len(rows):
            continue
        means = {}
        for name in MEANS:
            values = [r[name] for r in waiting if r[name] is not None]
            means[name] = sum(values) / len(values) if values else None
        merged = row | means
        kept.append({k: round(v, 6) if isinstance(v, float) else v for k, v in merged.items()})
        waiting = []
    return kept


def trainings() -> list[Record]:
    """The stored trainings by program, method and seed: the record as it is, and ``method``, its
    name in the tables; raises `InputError` where a record is damaged."""
    known = []
    for path in sorted((data_folder() / "training" / "mmap").glob("*.json")):
        if path.name.endswith(".mapping.json"):
            continue
        node = read_json(path, "mmap-training")
        cells = node.mapping(100, TRAINING)
        cells["program"].string()
        cells["seed"].integer(0, 2**53)
        for row in cells["curve"].elements(100_000):
            columns = row.mapping(100, ("cpu_s", "cold", "best"))
            for name in ("cpu_s", "cold", "best"):
                if columns[name].value is not None:
                    columns[name].number(-1e6, 1e9)
        known.append({**node.value, "method": _method(node.value["config"])})
    return sorted(known, key=lambda record: (record["program"], record["method"], record["seed"]))


def _method(config: Record) -> str:
    if config["frozen"]:
        return "muzero-frozen"
    if config["imitation"] == 1.0:
        return "imitation"
    if not config["simulations"]:
        return "learning-only"
    if config.get("priced"):
        return "muzero-priced"
    return "muzero"
