"""What Drop-backup is worth in random play: dead ends and returns with it and without.

Without it a dead end ends the game with a return of 0 (section 4.3.2). Up to the first dead end both games are the
same, so one set of games tells both: a game is lost if it meets a dead end at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import load, manifest, program_digest
from learned_mapping.companion.statistics import bootstrap_interval
from learned_mapping.mmap.rules.play import Game

QUICK_PROGRAMS = ("mlperf_dlrm_batch_8192", "rnn_2", "alexnet_train_batch_32")
RANDOM_GAMES = {"quick": 40, "full": 400, "paper": 4000}


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
    """Random play on every program with alias groups, once."""
    names = QUICK_PROGRAMS if profile == "quick" else with_alias_groups()
    return [
        Run("mmap.random", "random", name, {"games": RANDOM_GAMES[profile], "program": program_digest(name)})
        for name in names
    ]


def assemble_dropbackup(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Per game: ``dead_ends``, ``mean_return`` and ``lost`` (share of games) of random play with Drop-backup
    (``random``) and without (``random-no-backup``)."""
    rows = [row for record in records for row in _random_rows(record)]
    return {"rows": rows, "paper": [], "validated": 0, "invalid": 0}


def _random_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    result, extra = record["result"], {"program": record["config"]["program"]}
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
        row = {"instance": record["instance"], "method": method, "metric": metric, "value": float(column.mean())}
        rows.append({**row, "low": low, "high": high, "n": len(column), **extra})
    return rows
