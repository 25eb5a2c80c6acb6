"""The worth of a law to BRKGA, against the noise of a run: how much a reward can teach, by the
length of the run.

All laws of a graph start from one population and go on with the same random numbers, as in a
training. The noise is the spread of laws that say nothing, drawn from a network of random weights.
"""

import numpy as np

from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS, policy_for, sample, training_of, untrained
from learned_mapping.regal.agent.rollouts import rollouts
from learned_mapping.regal.agent.written import rule_bins, uniform_bins
from learned_mapping.regal.methods import floor
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.random_numbers import stream
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping_companion.regal.methods import brought
from learned_mapping_companion.table import Record, Records, Rows, by, gap_row, row, sweep

LAWS = ("order", "devices", "both", "learned")
LEARNED = {"runtime": "regal", "memory": "regal-cloned"}
"""Objective -> the learner whose laws, drawn once, are ``learned``."""
EVALUATIONS = (500, 1060, 2020, 5000)
QUICK = Quick(config={"graphs": 3, "evaluations": 2})
DRAWS = 16
"""Laws that say nothing, of a graph, length and stream."""
STREAMS = 3
ROOM = 1.02
"""A graph on which the longest uniform run comes this close to what no schedule can beat has
nothing to gain."""


def config_of(dataset: str) -> Record:
    """The graphs of a run, and its lengths."""
    kind, objective = DATASETS[dataset]
    return {
        "kind": kind,
        "split": "test",
        "objective": objective,
        "evaluations": list(EVALUATIONS),
        "graphs": list(graph_names(kind)),
    }


def plan_effect(seeds: int) -> Runs:
    for dataset, (_, objective) in DATASETS.items():
        for network in brought(LEARNED[objective], dataset)[:1]:
            config = config_of(dataset) | network
            yield from sweep("regal.effect", [LEARNED[objective]], [dataset], config, STREAMS)


def effect(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs BRKGA with uniform mutants, with each of `LAWS` and with `DRAWS` laws that say nothing;
    `method` is the learner of ``learned``, with its ``network``.

    Returns:
      Graph name -> ``costs``, the ratios to uniform mutants by law and length; ``noise``, the
      variance of the logarithm of the others by length; and whether the graph leaves `ROOM`.
    """
    effects = {}
    training = training_of(method, config["objective"])
    for number, name in enumerate(config["graphs"]):
        problem = Instance(
            load_graph(config["kind"], name, config["split"]), objective=config["objective"]
        )
        seen, rng = features(problem), np.random.default_rng([seed, number])
        learned = policy_for(problem, config["network"], training).choices(problem, rng)
        laws = [
            uniform_bins(problem),
            *(rule_bins(problem, seen, part) for part in LAWS[:-1]),
            learned,
        ]
        laws += list(sample(untrained(problem, seed).probabilities(problem), DRAWS, rng))
        costs = np.array(
            [
                rollouts(
                    problem.arrays,
                    np.stack(laws),
                    BINS,
                    stream(seed, number, evaluations),
                    evaluations,
                )
                for evaluations in config["evaluations"]
            ]
        )
        ratios = costs[:, 1 : 1 + len(LAWS)] / costs[:, :1]
        effects[name] = {
            "costs": dict(zip(LAWS, ratios.T.tolist())),
            "noise": np.log(costs[:, 1 + len(LAWS) :]).var(axis=1, ddof=1).tolist(),
            "room": bool(costs[-1, 0] > ROOM * floor(problem)),
        }
    return {"graphs": effects}


def assemble_effect(records: Records) -> Rows:
    """Rows by dataset, law and ``evaluations``: ``effect_percent``, the cost over uniform mutants',
    a geometric mean over the graphs that leave room and the streams; and ``noise_percent`` of laws
    that say nothing."""
    for dataset, group in by(records, "instance").items():
        runs = [r["result"]["graphs"] for r in group]
        roomy = [name for name in runs[0] if all(one_run[name]["room"] for one_run in runs)]
        for k, evaluations in enumerate(group[0]["config"]["evaluations"] if roomy else ()):
            cells = {"evaluations": evaluations, "graphs": len(roomy)}
            for law in LAWS:
                ratios = {
                    name: [one_run[name]["costs"][law][k] for one_run in runs] for name in roomy
                }
                yield gap_row(dataset, law, "effect_percent", ratios, **cells)
            variance = np.mean([one_run[name]["noise"][k] for one_run in runs for name in roomy])
            yield row(dataset, "noise", "noise_percent", 100 * np.sqrt(variance), **cells)


EFFECT = Artifact("regal.effect", assemble_effect, plan_effect, QUICK)
