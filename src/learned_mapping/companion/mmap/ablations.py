"""What each part of the agent is worth: trainings on AlexNet with one thing changed, for equal CPU seconds.

And one of these changes, a start near "Drop everything", where the agent's whole games fall furthest behind.
"""

from __future__ import annotations

from typing import Any

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, learner_record, learning_rows, load, plan_run, program_digest
from learned_mapping.companion.mmap.table2 import best_after
from learned_mapping.companion.statistics import mean_difference
from learned_mapping.companion.table import Record, Row, assembled, row, summary_row
from learned_mapping.mmap.agent.config import WHOLE, WINDOWS, config_for, config_to_json

INSTANCE = "alexnet_train_batch_32"
BEHIND = ("mlperf_dlrm_batch_8192", "inference_shufflenet", "rnn_5", "tcn_train_batch_32")
"""Of the programs that are played in whole games, those where `mmap.table3` has the agent furthest behind the edit
search."""
SECONDS = 300.0
SEEDS = 2
"""At most."""
AGENT, NEAR_DROP = "muzero", "near Drop"
WHOLE_NUMBERS, WINDOW_NUMBERS = config_to_json(WHOLE), config_to_json(WINDOWS)
ARMS: dict[str, dict[str, Any]] = {
    AGENT: {},
    "4 simulations": {"simulations": 4},
    "16 simulations": {"simulations": 16},
    "32 simulations": {"simulations": 32},
    "64 simulations": {"simulations": 64},
    "Q counts thrice": {"value_scale": 4.5},
    "Q counts a third": {"value_scale": 0.5},
    "Reanalyse": {"reanalyse": 36},
    "exploring": {"explore": 1 / 32},
    "no ids": {"ids": False},
    "no baseline": {"potential": False, "limit": 256.0},
    "demonstration": {"demonstration": True},
    "windows": {name: value for name, value in WINDOW_NUMBERS.items() if value != WHOLE_NUMBERS[name]},
    NEAR_DROP: {"drop_start": 3.0, "imitation": 0.1},
    "true dynamics": {"jax_games": True, "true_dynamics": True},
}
"""Name -> the settings of `AgentConfig` that differ. An iteration learns from 4,608 samples: 36 batches of 64 positions
searched anew are half of these. Without a baseline values are whole returns, and need wider atoms."""


def run_ablation(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """A training with the settings of ``config["settings"]`` changed; the record is that of `runs.run_method`."""
    from learned_mapping.mmap.agent.solve import solve

    program, _ = load(instance)
    changed = config_for(program.num_buffers, **config["settings"])
    limits = {"seconds": config["seconds"], "games": config.get("samples")}
    return learner_record(program, solve(program, seed, config=changed, cpu=True, evaluate=False, **limits))


def plan_ablations(profile: str, seeds: int) -> list[Run]:
    """All arms for the same CPU seconds, on `BEHIND` the agent of `mmap.table3` and `NEAR_DROP`; long, in ``quick``
    none."""
    if profile == "quick":
        return []

    def run(instance: str, arm: str, seed: int) -> Run:
        about = {"seconds": SECONDS, "program": program_digest(instance), "arm": arm, "settings": ARMS[arm]}
        return Run("mmap.ablation", AGENT, instance, about, seed, long=True)

    runs = [run(INSTANCE, arm, seed) for arm in ARMS for seed in range(min(seeds, SEEDS))]
    for name in BEHIND:
        runs += [plan_run(AGENT, name, {"seconds": SECONDS}), run(name, NEAR_DROP, 0)]
    return runs


def assemble_ablations(profile: str, records: list[Record]) -> Record:
    """Per program and arm: the best whole game, the mean of its last games, games and updates; and the difference of
    the best games to the agent as it is; on `BEHIND` ``by_games``: after as many games as the slower."""
    made: list[Row] = []
    for instance in (INSTANCE, *BEHIND):
        there = [record for record in records if record["instance"] == instance]
        arms = {arm: [r["result"] for r in there if r["config"].get("arm", AGENT) == arm] for arm in ARMS}
        bests = {arm: [result["costs"]["return"] for result in found] for arm, found in arms.items() if found}
        games = min((result["samples"] for found in arms.values() for result in found), default=0)
        for arm, values in bests.items():
            found = arms[arm]
            if instance in BEHIND:
                reached = [best_after(result["curve"], games) for result in found]
                made.append(summary_row(instance, arm, "by_games", reached, games=games))
            made.append(summary_row(instance, arm, "return", values, program=there[0]["config"]["program"]))
            made.append(summary_row(instance, arm, "recent_return", [result["recent_return"] for result in found]))
            made += learning_rows(instance, arm, found)
            if arm != AGENT and AGENT in bests:
                contrast = mean_difference({instance: values}, {instance: bests[AGENT]})
                if contrast is not None:
                    value, low, high = contrast
                    more = {"low": low, "high": high, "n": len(values), "baseline": AGENT}
                    made.append(row(instance, arm, "difference", value, **more))
    return assembled(made) | counted(records)
