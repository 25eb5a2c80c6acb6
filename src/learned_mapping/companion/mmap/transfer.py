"""One network over many programs (the paper's outlook): trained on eight, fine-tuned on three others, against training
from scratch for the same time. What the pre-training took is not charged, and is told."""

from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.mmap.runs import counted, judged, learning_rows, load, program_digest, replayed, thinned
from learned_mapping.companion.statistics import mean_difference
from learned_mapping.companion.table import Record, Row, assembled, grouped, row, summary_row
from learned_mapping.errors import InputError

TRAINED = (
    "rnn_0", "mlperf_ssd", "autoencoder_train_batch_256", "vgg16_train_batch_32", "inference_resnet",
    "tcn_train_batch_32", "rnn_5", "squeezenet_train_batch_64",
)  # fmt: skip
HELD_OUT = ("alexnet_train_batch_32", "mlperf_dlrm_batch_8192", "dcgan_train_batch_256")
"""None of them is among those trained on; all are short enough to be played in whole games."""
AGENT = "muzero"
FINE_TUNED, SCRATCH = "fine-tuned", "from scratch"
ARMS = (SCRATCH, FINE_TUNED)
PRETRAIN_SECONDS, SECONDS = 600.0, 120.0
"""CPU seconds of one core, over all programs trained on, and on the one held out; compiling apart."""
SEEDS = 3
"""At most; each with a pre-training of its own."""


def run_transfer(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Pre-trains where the arm says so, then trains on the instance; what the first games return, and the training."""
    from learned_mapping.learning.loop import Log, train
    from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
    from learned_mapping.mmap.agent.config import config_for
    from learned_mapping.mmap.agent.transfer import pretrain, take_over

    program, _ = load(instance)
    agent_config = config_for(0, evaluate_every=0)
    spent: dict[str, Any] = {}
    agent = MMapAgent(program, agent_config, seed)
    if config["arm"] == FINE_TUNED:
        programs = []
        for name, digest in config["trained_on"].items():
            if program_digest(name) != digest:
                raise InputError("data/compiled", name, "is another program than the one trained on")
            programs.append(load(name)[0])
        limits = {"seconds": config["pretrain_seconds"], "samples": config.get("pretrain_samples"), "cpu": True}
        parameters, spent = pretrain(programs, agent_config, seed, **limits)
    budget, log = AgentBudget(seconds=config["seconds"], samples=config.get("samples"), cpu=True), Log(None)
    agent.start(budget)
    if spent:
        take_over(agent.learner, parameters)
    first = agent.evaluate()
    train(agent, budget.spent, log=log)
    seconds, best = budget.seconds, agent.best_actions if agent.best_whole is None else agent.best_whole.actions
    return judged(program, replayed(program, "".join(map(str, best)))) | {
        "first_return": first,
        "recent_return": float(np.mean(agent.recent)) if agent.recent else first,
        "samples": budget.samples,
        "seconds": seconds,
        "updates": float(agent.learner.updates),
        "decisions": float(agent.decisions),
        "pretraining": spent,
        "log": thinned(log.rows),
        "curve": budget.curve(),
    }


def plan_transfer(profile: str, seeds: int) -> list[Run]:
    """Both arms on each program held out; long runs, and in ``quick`` none."""
    runs = []
    for name in HELD_OUT if profile != "quick" else ():
        common = {"seconds": SECONDS, "program": program_digest(name)}
        more = {
            SCRATCH: {},
            FINE_TUNED: {
                "pretrain_seconds": PRETRAIN_SECONDS, "trained_on": {each: program_digest(each) for each in TRAINED},
            },
        }  # fmt: skip
        for arm in ARMS:
            for seed in range(min(seeds, SEEDS)):
                config = {**common, "arm": arm, **more[arm]}
                runs.append(Run("mmap.transfer", AGENT, name, config, seed, long=True))
    return runs


def assemble_transfer(profile: str, records: list[Record]) -> Record:
    """Per program and arm: the return before any learning there (``first_return``), the best whole game, the mean of
    the last ones with its curve, games and updates; of the fine-tuned the difference to scratch, and the share of its
    time after which it has scratch's last mean (``share_of_time``; none where it never has)."""
    made: list[Row] = []
    groups = grouped(records)
    for name in dict.fromkeys(record["instance"] for record in records):
        arms = {arm: [r["result"] for r in groups.get((name, arm), ())] for arm in ARMS}
        about = {"program": program_digest(name)}
        for arm, found in arms.items():
            if not found:
                continue
            made.append(summary_row(name, arm, "first_return", [r["first_return"] for r in found]))
            made.append(summary_row(name, arm, "return", [r["costs"]["return"] for r in found], **about))
            shown = [each for each in found[0]["log"] if each["hot"] is not None]
            curve = {"x": [each["cpu_s"] for each in shown], "x_unit": "s", "y": [each["hot"] for each in shown]}
            recent = [r["recent_return"] for r in found]
            made.append(summary_row(name, arm, "recent_return", recent, curve=curve))
            made += learning_rows(name, arm, found)
        if arms[SCRATCH] and arms[FINE_TUNED]:
            made += _contrasts(name, arms)
    return assembled(made) | counted(records)


def _contrasts(name: str, arms: dict[str, list[dict[str, Any]]]) -> list[Row]:
    made, more = [], {"n": len(arms[FINE_TUNED]), "baseline": SCRATCH}
    for metric, of in (
        ("first_difference", lambda r: r["first_return"]),
        ("difference", lambda r: r["costs"]["return"]),
        ("recent_difference", lambda r: r["recent_return"]),
    ):
        value, low, high = mean_difference(*({name: [of(r) for r in arms[arm]]} for arm in (FINE_TUNED, SCRATCH)))
        made.append(row(name, FINE_TUNED, metric, value, low=low, high=high, **more))
    goal = float(np.mean([r["recent_return"] for r in arms[SCRATCH]]))
    when = [
        next((each["cpu_s"] / r["seconds"] for each in r["log"] if (each["hot"] or 0.0) >= goal), None)
        for r in arms[FINE_TUNED]
    ]
    if all(share is not None for share in when):
        made.append(row(name, FINE_TUNED, "share_of_time", float(np.mean(when)), **more))
    return made
