"""What Drop-backup is worth: dead ends and returns with it and without, under random play and for an agent that learns.

Without it a dead end ends the game with a return of 0 (section 4.3.2). Up to the first dead end both games are the
same, so that random play needs to be performed only once: a game is lost if it meets a dead end at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, load, manifest, plan_run, program_digest
from learned_mapping.companion.mmap.table2 import CURVE_POINTS, grouped
from learned_mapping.companion.statistics import bootstrap_interval, summary_row
from learned_mapping.mmap.methods import METHODS
from learned_mapping.mmap.rules.play import Game

WITH, WITHOUT = "muzero", "muzero-no-backup"
LEARNING_PROGRAMS = ("mlperf_dlrm_batch_8192", "rnn_2")
"""Of the compiled programs with alias groups, those on which random play met a dead end when this was written."""
QUICK_PROGRAMS = (*LEARNING_PROGRAMS, "alexnet_train_batch_32")
RANDOM_GAMES = {"quick": 40, "full": 400, "paper": 4000}
LEARNING_SECONDS = {"full": 300.0, "paper": 3600.0}
LAST_SHARE = 0.25
"""Of an agent's games, over which ``mean_return`` and ``dead_ends`` are taken."""


def with_alias_groups() -> tuple[str, ...]:
    """The compiled programs in which a dead end is possible, smallest first."""
    items = [item for item in manifest().items if item.facts["alias_groups"]]
    return tuple(item.name for item in sorted(items, key=lambda item: (item.facts["buffers"], item.name)))


def run_random(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Games of random legal moves with Drop-backup: the return and the number of dead ends of each."""
    program, _ = load(instance)
    game, rng = Game(program), np.random.default_rng(seed)
    values, dead_ends = [], []
    for _ in range(config["games"]):
        game.restart()
        game.play_random(rng)
        values.append(float(game.value))
        dead_ends.append(int(game.resets))
    return {"returns": values, "dead_ends": dead_ends}


def plan_dropbackup(profile: str, seeds: int) -> list[Run]:
    """Random play on every program with alias groups, once; the agent on two of them, with every seed (long runs)."""
    names = QUICK_PROGRAMS if profile == "quick" else with_alias_groups()
    runs = [
        Run("mmap.random", "random", name, {"games": RANDOM_GAMES[profile], "program": program_digest(name)})
        for name in names
    ]
    learners = [method for method in (WITH, WITHOUT) if method in METHODS and profile != "quick"]
    config = {"seconds": LEARNING_SECONDS[profile]} if learners else {}
    return runs + [
        plan_run(method, name, config, seed, profile=profile)
        for name in LEARNING_PROGRAMS
        for method in learners
        for seed in range(seeds)
    ]


def assemble_dropbackup(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows ``dead_ends`` and ``mean_return`` per game, ``lost`` (share of games), and of the agent ``return``.

    ``random`` plays with Drop-backup, ``random-no-backup`` without. The agent's means are over its last games.
    """
    rows: list[dict[str, Any]] = []
    learned = []
    for (name, method), group in grouped(records).items():
        found = [record["result"] for record in group]
        config = group[0]["config"]
        extra = {"program": config["program"]} | {key: config[key] for key in ("profile", "seconds") if key in config}
        if method == "random":
            rows += _random_rows(name, found[0], extra)
            continue
        learned += group
        values = [result["costs"].get("return", 0.0) for result in found]
        rows.append(summary_row(name, method, "return", values, **extra))
        rows.append(summary_row(name, method, "samples", [float(result["samples"]) for result in found]))
        ends = [last_games(result["log"]) for result in found if result["log"]]
        if ends:
            curve = {"curve": _curve([result["log"] for result in found if result["log"]])}
            rows.append(summary_row(name, method, "mean_return", [end["return"] for end in ends], **curve))
            rows.append(summary_row(name, method, "dead_ends", [end["dead_ends"] for end in ends]))
    return {"rows": rows, "paper": [], **counted(learned)}


def _random_rows(name: str, result: dict[str, Any], extra: dict[str, Any]) -> list[dict[str, Any]]:
    values, dead_ends = np.array(result["returns"]), np.array(result["dead_ends"], float)
    lost = dead_ends > 0
    columns = {
        ("random", "dead_ends"): dead_ends,
        ("random", "mean_return"): values,
        ("random-no-backup", "lost"): lost.astype(float),
        ("random-no-backup", "mean_return"): np.where(lost, 0.0, values),
    }
    rows = []
    for (method, metric), column in columns.items():
        low, high = bootstrap_interval(column, np.mean)
        row = {"instance": name, "method": method, "metric": metric, "value": float(column.mean())}
        rows.append({**row, "low": low, "high": high, "n": len(column), **extra})
    return rows


def _games_between(log: Sequence[dict[str, Any]]) -> np.ndarray:
    return np.diff([0, *(row["games"] for row in log)]).astype(float)


def last_games(log: Sequence[dict[str, Any]], share: float = LAST_SHARE) -> dict[str, float]:
    """Mean return and dead ends per game over the last games, at least `share` of all.

    Args:
      log: rows with ``games`` so far, and the means over the games since the row before.
      share: in (0, 1].
    """
    games = _games_between(log)
    chosen = np.cumsum(games[::-1])[::-1] - games < share * games.sum()
    return {
        name: float(np.average([row[name] for row in log], weights=games * chosen)) for name in ("return", "dead_ends")
    }


def _curve(logs: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """The mean return of the games an agent is playing, against the games it has played; the mean over the seeds."""
    last = min(log[-1]["games"] for log in logs)
    first = max(log[0]["games"] for log in logs)
    x = np.linspace(min(first, last), last, CURVE_POINTS)
    y = np.array([np.interp(x, [r["games"] for r in log], [r["return"] for r in log]) for log in logs])
    return {
        "x": [round(float(v), 3) for v in x],
        "y": [round(float(v), 6) for v in y.mean(axis=0)],
        "low": [round(float(v), 6) for v in y.min(axis=0)],
        "high": [round(float(v), 6) for v in y.max(axis=0)],
        "x_unit": "games",
    }
