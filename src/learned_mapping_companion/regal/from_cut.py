"""The gain by learning over the spectral cut: REINFORCE begun at a policy that has cloned it,
effect against noise.

Laws are drawn from the policy before and after training, and run on the same random numbers as the
cut's exact law. How far they differ in truth, and how far runs of one law differ, is told apart by
running each on several streams.
"""

import numpy as np

from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import BINS, REINFORCED, policy_for, sample
from learned_mapping.regal.agent.rollouts import rollouts
from learned_mapping.regal.agent.written import cut_bins, uniform_bins
from learned_mapping.regal.methods import floor
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.random_numbers import stream
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.display import Html, listing, number
from learned_mapping_companion.regal.effect import (
    EVALUATIONS,
    GRAPHS,
    ROOM,
    STREAMS,
)
from learned_mapping_companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping_companion.regal.methods import brought
from learned_mapping_companion.statistics import geometric_mean
from learned_mapping_companion.table import Record, Row, assembled, gap_row, row

DATASET = "synthetic-runtime"
LEARNER = "regal-from-cut"
POLICIES = {"start": "cut", "trained": REINFORCED[LEARNER][0]}
"""The policy that has cloned the cut, and the same after REINFORCE -> how the names of their
networks' files begin."""
DRAWS = 8  # Laws drawn from a policy, of a graph.


def plan_from_cut(profile: str, seeds: int) -> list[Run]:
    kind, objective = DATASETS[DATASET]
    config = {
        "kind": kind,
        "split": "test",
        "objective": objective,
        "evaluations": list(EVALUATIONS[profile]),
    }
    config["graphs"] = list(graph_names(kind)[: GRAPHS[profile]])
    return [
        Run("regal.from_cut", method, DATASET, config | more, seed)
        for method in POLICIES
        for more in brought(LEARNER, DATASET)
        for seed in range(STREAMS)
    ]


def from_cut(method: str, instance: str, config: Record, seed: int) -> Record:
    """Runs BRKGA with uniform mutants, with the cut's law and with `DRAWS` laws of one of
    `POLICIES`, the same for every seed, which is that of the random numbers that all laws share.

    Returns:
      Graph name -> ``costs`` [lengths, 1 + DRAWS], of the cut's law and the drawn ones over uniform
      mutants', and whether the graph leaves room.
    """
    by_graph = {}
    for place, name in enumerate(config["graphs"]):
        problem = Instance(
            load_graph(config["kind"], name, config["split"]), objective=config["objective"]
        )
        policy = policy_for(problem, config["network"], POLICIES[method])
        drawn = sample(policy.probabilities(problem), DRAWS, np.random.default_rng([5, place]))
        laws = np.stack([uniform_bins(problem), cut_bins(problem, features(problem)), *drawn])
        costs = np.array([
            rollouts(problem.arrays, laws, BINS, stream(seed, place, evaluations), evaluations)
            for evaluations in config["evaluations"]
        ])  # fmt: skip
        room = bool(costs[-1, 0] > ROOM * floor(problem))
        by_graph[name] = {"costs": (costs[:, 1:] / costs[:, :1]).tolist(), "room": room}
    return {"graphs": by_graph}


def assemble_from_cut(profile: str, records: list[Record]) -> Record:
    """Rows by method and ``evaluations``, over the graphs that leave room and all networks:
    ``over_cut_percent``, the cost of drawn laws over that of the cut's law; ``law_spread_percent``,
    by how much drawn laws truly differ; and ``run_noise_percent``, by how much two runs of one law
    do, as standard deviations. The cut itself has ``effect_percent`` over uniform mutants."""
    entries: list[Row] = []
    for method in POLICIES:
        groups: dict[str, list[Record]] = {}
        for record in records:
            if record["method"] == method:
                groups.setdefault(record["config"]["network"], []).append(
                    record["result"]["graphs"]
                )
        for k, evaluations in enumerate(EVALUATIONS[profile] if groups else ()):
            ratios: dict[str, list[tuple[float, float]]] = {}
            variances = []
            for streams in groups.values():
                for name in [
                    name for name in streams[0] if all(graphs[name]["room"] for graphs in streams)
                ]:
                    # [streams, 1 + DRAWS]
                    costs = np.log([graphs[name]["costs"][k] for graphs in streams])
                    pair = np.exp([costs[:, 0].mean(), (costs[:, 1:] - costs[:, :1]).mean()])
                    ratios.setdefault(name, []).append(tuple(pair))
                    variances.append(_variances(costs[:, 1:]))
            # A graph's ratios are one, so that intervals are over graphs.
            cut, over = np.transpose([geometric_mean(pairs, axis=0) for pairs in ratios.values()])
            more = {
                "evaluations": evaluations,
                "graphs": len(ratios),
                "training_seeds": len(groups),
            }
            entries.append(gap_row(DATASET, method, "over_cut_percent", over, **more))
            if method == "start":
                entries.append(gap_row(DATASET, "cut", "effect_percent", cut, **more))
            for name, values in zip(("law_spread_percent", "run_noise_percent"), zip(*variances)):
                entries.append(
                    row(DATASET, method, name, 100 * np.sqrt(max(np.mean(values), 0.0)), **more)
                )
    return assembled(entries)


def _variances(costs: np.ndarray) -> tuple[float, float]:
    """The variance of log costs [S streams, L laws] between laws, less what noise makes of it, and
    the noise's."""
    centred = costs - costs.mean(axis=1, keepdims=True)
    streams, laws = costs.shape
    means = centred.mean(axis=0)
    noise = float(((centred - means) ** 2).sum() / max((streams - 1) * (laws - 1), 1))
    return float(means.var(ddof=1)) - noise / streams, noise


def from_cut_table(rows: list[Row]) -> Html:
    """The rows of `assemble_from_cut` by the length of a run; spread and noise are those of the
    trained policy."""
    value = {
        (row["method"], row["metric"], row["evaluations"]): number(row["value"]) for row in rows
    }
    columns = {
        "the cut over uniform mutants": ("cut", "effect_percent"),
        "start over the cut": ("start", "over_cut_percent"),
        "trained over the cut": ("trained", "over_cut_percent"),
        "drawn laws differ by": ("trained", "law_spread_percent"),
        "runs differ by": ("trained", "run_noise_percent"),
    }
    lengths = sorted({row["evaluations"] for row in rows})
    cells = [(f"{n:,}", *(value[(*of, n)] for of in columns.values())) for n in lengths]
    return listing(
        "Cost and spread in percent, by the evaluations of a run", ["evaluations", *columns], cells
    )
