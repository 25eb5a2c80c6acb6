"""The parts of the agent: trainings of one round on AlexNet, with one thing changed in each, for
equal seconds; and on short programs more simulations for equal decisions."""

from learned_mapping.mmap.agent.config import config_for
from learned_mapping.mmap.agent.rounds import IN_WINDOWS
from learned_mapping_companion.artifact import NOTHING, Artifact, Runs
from learned_mapping_companion.mmap.runs import (
    learner_record,
    learning_rows,
    plan_one_round,
    program_of,
    return_of,
    seconds_of,
)
from learned_mapping_companion.statistics import mean_difference
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    grouped,
    interval_row,
    summary_row,
)

INSTANCE = "alexnet_train_batch_32"
SHORT = (INSTANCE, "mlperf_ssd", "vgg16_train_batch_32", "inference_vit")
"""Programs of arms for equal decisions: one of the smallest on which the compiler leaves half of
the saving, one of AlexNet's kind, and one with attention."""
SEEDS = 3
"""Seeds of an arm, at most."""
AGENT = "muzero"
ARMS: dict[str, Record] = {
    AGENT: {},
    "4 simulations": {"simulations": 4},
    "16 simulations": {"simulations": 16},
    "64 simulations": {"simulations": 64},
    "Reanalyse": {"reanalyse": 36},
    "no ids": {"ids": False},
    "no baseline": {"potential": False, "limit": 256.0},
    "windows": IN_WINDOWS,
}
"""Name -> the settings of `AgentConfig` that differ. An iteration learns from 4,608 samples: 36
batches of 64 positions searched anew are half of these. Without a baseline values are whole
returns, and need wider atoms."""


ITERATIONS, LONGEST = 60, 7200.0
"""Iterations of an arm for equal decisions, about one minute of the agent as it is; and the CPU
seconds that none of them takes."""
EQUAL = {f"{count} simulations, equal decisions": count for count in (8, 32, 64)}
"""Name of such an arm -> its simulations; the first is the agent as it is."""


def run_model(method: str, instance: str, config: Record, seed: int) -> Record:
    """A training with the settings of ``config["settings"]`` changed; the record is that of
    `runs.run_method`."""
    from learned_mapping.mmap.agent.solve import solve

    program = program_of(instance, config)
    changed = config_for(program.num_buffers, **config["settings"])
    limits = {"seconds": config["seconds"], "games": config.get("samples")}
    return learner_record(
        program, solve(program, seed, config=changed, cpu=True, evaluate=False, **limits)
    )


def plan_model(seeds: int) -> Runs:
    """All arms for the same CPU seconds, then those for the same decisions on `SHORT`; long."""
    for seed in range(min(seeds, SEEDS)):
        for arm, settings in ARMS.items():
            yield plan_one_round(INSTANCE, seconds_of(INSTANCE), seed, arm, **settings)
        for arm, simulations in EQUAL.items():
            settings = {"simulations": simulations, "iterations": ITERATIONS}
            yield from [plan_one_round(name, LONGEST, seed, arm, **settings) for name in SHORT]


def assemble_model(records: Records) -> Rows:
    """Per program and arm: the best whole game, the mean of its last games, games and updates; and
    the difference of the best games to the agent as it is, for equal seconds or equal decisions."""
    groups = grouped(records)
    bests = {key: [*map(return_of, group)] for key, group in groups.items()}
    for (name, arm), group in groups.items():
        trained, values = [record["result"] for record in group], bests[name, arm]
        cells = {"program": group[0]["config"]["program"]}
        yield summary_row(name, arm, "return", values, **cells)
        recent = [result["recent_return"] for result in trained]
        yield summary_row(name, arm, "recent_return", recent)
        yield from learning_rows(name, arm, trained)
        baseline = next(iter(EQUAL)) if arm in EQUAL else AGENT
        if arm != baseline and (name, baseline) in bests:
            ends = mean_difference({name: values}, {name: bests[name, baseline]})
            yield interval_row(name, arm, "difference", ends, n=len(values), baseline=baseline)


MODEL = Artifact("mmap.model", assemble_model, plan_model, NOTHING)
