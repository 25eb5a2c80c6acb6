"""The parts of the agent: trainings of one round on AlexNet, with one thing changed in each."""

from typing import Any

from learned_mapping.mmap.agent.config import config_for
from learned_mapping.mmap.agent.rounds import IN_WINDOWS
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.mmap.runs import (
    counted,
    learner_record,
    learning_rows,
    load,
    plan_one_round,
)
from learned_mapping_companion.statistics import mean_difference
from learned_mapping_companion.table import (
    Record,
    Row,
    assembled,
    grouped,
    interval_row,
    summary_row,
)

INSTANCE = "alexnet_train_batch_32"
SECONDS = 300.0
SEEDS = 3
"""Seeds of an arm, at most."""
AGENT = "muzero"
ARMS: dict[str, dict[str, Any]] = {
    AGENT: {},
    "4 simulations": {"simulations": 4},
    "16 simulations": {"simulations": 16},
    "64 simulations": {"simulations": 64},
    "Reanalyse": {"reanalyse": 36},
    "no ids": {"ids": False},
    "no baseline": {"potential": False, "limit": 256.0},
    "windows": IN_WINDOWS,
    "true dynamics": {"jax_games": True, "true_dynamics": True},
}
"""Name -> the settings of `AgentConfig` that differ. An iteration learns from 4,608 samples: 36
batches of 64 positions searched anew are half of these. Without a baseline values are whole
returns, and need wider atoms."""


def run_model(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """A training with the settings of ``config["settings"]`` changed; the record is that of
    `runs.run_method`."""
    from learned_mapping.mmap.agent.solve import solve

    program, _ = load(instance)
    changed = config_for(program.num_buffers, **config["settings"])
    limits = {"seconds": config["seconds"], "games": config.get("samples")}
    return learner_record(
        program, solve(program, seed, config=changed, cpu=True, evaluate=False, **limits)
    )


def plan_model(profile: str, seeds: int) -> list[Run]:
    """All arms for the same CPU seconds; long, in ``quick`` none."""
    return [
        plan_one_round(INSTANCE, SECONDS, seed, arm, **settings)
        for arm, settings in ARMS.items()
        for seed in range(0 if profile == "quick" else min(seeds, SEEDS))
    ]


def assemble_model(profile: str, records: list[Record]) -> Record:
    """Per arm: the best whole game, the mean of its last games, games and updates; and the
    difference of the best games to the agent as it is."""
    entries: list[Row] = []
    arms = {
        arm: [record["result"] for record in group] for (_, arm), group in grouped(records).items()
    }
    bests = {
        arm: [result["costs"]["return"] for result in trained] for arm, trained in arms.items()
    }
    for arm, trained in arms.items():
        values = bests[arm]
        entries.append(
            summary_row(INSTANCE, arm, "return", values, program=records[0]["config"]["program"])
        )
        entries.append(
            summary_row(
                INSTANCE, arm, "recent_return", [result["recent_return"] for result in trained]
            )
        )
        entries += learning_rows(INSTANCE, arm, trained)
        if arm != AGENT and AGENT in bests:
            ends = mean_difference({INSTANCE: values}, {INSTANCE: bests[AGENT]})
            entries.append(
                interval_row(INSTANCE, arm, "difference", ends, n=len(values), baseline=AGENT)
            )
    return assembled(entries) | counted(records)
