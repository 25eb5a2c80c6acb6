"""Inside the agent: trainings on each program of Table 2, and what its network then knows
(`mmap.insight`)."""

import numpy as np

from learned_mapping_companion import table
from learned_mapping_companion.artifact import NOTHING, Artifact, Run, Runs
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.table2 import WORKLOADS
from learned_mapping_companion.statistics import mean_difference
from learned_mapping_companion.table import Record, Records, Rows, row

AGENT, HEAD, MORE = "muzero", "policy head", "32 simulations"
ARMS = {AGENT: "search", MORE: "more", HEAD: "head"}
"""Who plays whole games -> the name in the records."""
EARLY = 0.2
"""Share of the training after which is looked a first time, while much is left to learn."""
SEEDS = 2  # At most.
STEPS = 5  # Decisions that are imagined in a row.
DECISIONS, LEAST_GAMES, MOST_GAMES = 200_000, 16, 64
"""Decisions of whole games with the search and without, and the least and most games for them."""
TEMPERATURE = 0.25  # At which these are played.
QUALITIES = (
    "rank_correlation", "moving_rank_correlation", "logit_rank_correlation", "scatter",
    "share_gain", "share_same", "alternatives",
)  # fmt: skip
"""Metrics of `mmap.insight.compared`, a row each."""


def run_inside(method: str, instance: str, config: Record, seed: int) -> Record:
    """Trains an agent for ``seconds`` of CPU and looks inside: its curve, and the findings of
    `mmap.insight`."""
    from learned_mapping.learning.loop import Log, train
    from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
    from learned_mapping.mmap.agent.config import config_for
    from learned_mapping_companion.mmap import insight

    program, _ = runs.load(instance)
    agent = MMapAgent(program, config_for(program.num_buffers, evaluate_every=0), seed)
    agent.compile()
    budget, log = (
        AgentBudget(seconds=config["seconds"], samples=config.get("samples"), cpu=True),
        Log(None),
    )
    agent.start(budget)
    count = config.get(
        "games", int(np.clip(DECISIONS // program.num_buffers, LEAST_GAMES, MOST_GAMES))
    )
    train(agent, lambda: budget.spent() or budget.seconds >= EARLY * config["seconds"], log=log)
    since = budget.seconds
    early = {
        "outcomes": insight.compared(insight.outcomes(agent, insight.along_best(agent))),
        "whole_games": insight.played(agent, count, TEMPERATURE)[0],
    }
    budget.skip(since)
    train(agent, budget.spent, log=log)
    spent, along = budget.seconds, insight.along_best(agent)
    games, actions = insight.played(agent, count, TEMPERATURE)
    return runs.judged(program, runs.replayed(program, "".join(map(str, along.guide.actions)))) | {
        "samples": budget.samples,
        "seconds": spent,
        "updates": float(agent.learner.updates),
        "decisions": float(agent.decisions),
        "log": runs.thinned(log.rows),
        "early": early,
        "unroll": insight.unroll(agent, insight.along(agent, actions), STEPS),
        "outcomes": insight.compared(insight.outcomes(agent, along)),
        "tree": insight.searched(agent, along),
        "whole_games": games,
    }


def plan_inside(seeds: int) -> Runs:
    """Trainings and a look on each program; long runs."""
    for name in WORKLOADS:
        config = {"seconds": runs.seconds_of(name), "program": runs.program_digest(name)}
        for seed in range(min(seeds, SEEDS)):
            yield Run("mmap.inside", AGENT, name, config, seed, long=True)


def assemble_inside(records: Records) -> Rows:
    """Per program: the curve of the value error; of imagined rewards the rank correlation after k
    steps, with their pairs (of the first seed), and the mean error over the mean size; of Q against
    exact outcomes the rank correlation; whole games with the search and without, and their
    difference, its interval over trainings and their games; the tree of one decision."""
    for (name, method), group in table.grouped(records).items():
        agents = [record["result"] for record in group]
        training = {name: group[0]["config"][name] for name in ("program", "seconds")}
        yield from runs.learning_rows(name, method, agents)
        yield table.summary_row(name, method, "return", [*map(runs.return_of, group)], **training)
        outcomes = [result["outcomes"] for result in agents]
        for metric in QUALITIES:
            yield row(name, method, metric, _mean(outcomes, metric), n=len(agents))
        early = [result["early"] for result in agents]
        for prefix, looks in (("early_", early), ("", agents)):
            scores = {
                arm: {str(i): look["whole_games"][key] for i, look in enumerate(looks)}
                for arm, key in ARMS.items()
            }
            for arm in (AGENT, MORE):
                ends = mean_difference(scores[arm], scores[HEAD], over_tasks=len(agents) > 1)
                yield table.interval_row(
                    name, arm, f"{prefix}search_gain", ends, n=len(group), baseline=HEAD
                )
            for arm, games in scores.items():
                means = [np.mean(look) for look in games.values()]
                yield table.mean_row(name, arm, f"{prefix}whole_games", means)
        curve = [look for look in agents[0]["log"] if look["value_error"] is not None]
        places = {"x": [look["updates"] for look in curve], "x_unit": "updates"}
        for metric in ("value_error", "entropy"):
            y = [look[metric] for look in curve]
            yield row(name, method, metric, y[-1], n=1, curve={**places, "y": y})
        for k, look in enumerate(agents[0]["unroll"]):
            steps = [result["unroll"][k] for result in agents]
            cells = {key: look[key] for key in ("step", "pairs", "error", "size")}
            correlation = _mean(steps, "rank_correlation")
            yield row(name, method, "reward_correlation", correlation, n=len(agents), **cells)
            share = _mean(steps, "error") / max(_mean(steps, "size"), 1e-9)
            yield row(name, method, "reward_error", share, n=len(agents), step=look["step"])
        correlation = _mean([look["outcomes"] for look in early], "rank_correlation")
        yield row(name, method, "early_rank_correlation", correlation, n=len(agents))
        tree = {key: value for key, value in agents[0]["tree"].items() if key != "changes_mind"}
        yield row(name, method, "tree", len(tree["nodes"]), n=1, **tree)


INSIDE = Artifact("mmap.inside", assemble_inside, plan_inside, NOTHING)


def _mean(outcomes: list[Record], key: str) -> float | None:
    values = [outcome[key] for outcome in outcomes if outcome[key] is not None]
    return float(np.mean(values)) if values else None
