"""What a step of the game and a game of the edit search cost against the size of the program."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import load, num_buffers, plan_run, program_digest
from learned_mapping.companion.mmap.table2 import grouped
from learned_mapping.mmap.rules.play import Game

PROGRAMS = (
    "rnn_0", "alexnet_train_batch_32", "inference_resnet", "inference_lstm", "wavenet_coherent_batch32",
    "mlperf_bert_batch_16", "AlphaTensor", "fleet_transformer_46_layers",
)  # fmt: skip
QUICK_PROGRAMS = ("rnn_0", "alexnet_train_batch_32")
PLAY_SECONDS = {"quick": 0.2, "full": 3.0, "paper": 3.0}
SEARCH_SECONDS = {"quick": 0.5, "full": 10.0, "paper": 10.0}
SEARCHES = ("edit-search",)


def run_play(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Random play on the compiled kernel: CPU seconds and steps, those taken back included."""
    program, _ = load(instance)
    game, rng = Game(program), np.random.default_rng(seed)
    game.play_random(rng)
    start, steps, games = time.process_time(), 0, 0
    while time.process_time() - start < config["seconds"] or games == 0:
        game.restart()
        game.play_random(rng)
        steps += game.played().moves
        games += 1
    return {"seconds": time.process_time() - start, "steps": steps, "games": games}


def plan_scaling(profile: str, seeds: int) -> list[Run]:
    """Two kinds of runs on each program: random play, and the edit search."""
    runs = []
    for name in QUICK_PROGRAMS if profile == "quick" else PROGRAMS:
        made_for = {"program": program_digest(name)}
        play = {"seconds": PLAY_SECONDS[profile], **made_for}
        runs.append(Run("mmap.play", "random", name, play))
        runs += [plan_run(m, name, {"seconds": SEARCH_SECONDS[profile]}) for m in SEARCHES]
    return runs


def assemble_scaling(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows ``step_us`` of random play, and games a second of the edit search, with ``buffers``."""
    rows: list[dict[str, Any]] = []
    judged = []
    for (name, method), (record,) in grouped(records).items():
        result = record["result"]
        extra = {"buffers": num_buffers(name), "program": record["config"]["program"]}
        if method == "random":
            values = {"step_us": [1e6 * result["seconds"] / result["steps"]]}
        else:
            judged.append(result["valid"])
            values = {"games_per_s": [result["samples"] / result["seconds"]]}
        for metric, found in values.items():
            row = {"instance": name, "method": method, "metric": metric, "value": float(np.median(found))}
            rows.append({**row, "low": min(found), "high": max(found), "n": len(found), **extra})
    return {"rows": rows, "paper": [], "validated": len(judged), "invalid": judged.count(False)}
