"""A training of REGAL that a reader waits for: half a minute from random weights, on small graphs
and in short runs."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping.regal.agent.policy import Policy
from learned_mapping.regal.agent.reinforce import ReinforceAgent, ReinforceConfig, Stage
from learned_mapping.regal.agent.rollouts import uniform_cost
from learned_mapping.regal.methods import floor
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.regal.graphs import graph_names, load_graph

GRAPHS, LEAST_OPS, MOST_OPS = 64, 20, 50
STAGE = Stage(share=1.0, evaluations=180, rollouts=256, graphs=GRAPHS, ops=MOST_OPS)
ROOM = 1.02
"""A graph on which uniform mutants come this close to what no schedule can beat teaches nothing."""
EVALUATIONS, SEEDS = 2000, 3
LINKS = (
    {"link_bytes_per_s": 450e9, "link_latency_s": 2e-6},
    {"link_bytes_per_s": 70e9, "link_latency_s": 1e-6},
)
"""Links as of NVLink and of a TPU's interconnect: fields of `Devices`."""


def training_graphs(seed: int = 0) -> list[Instance]:
    """Generated graphs with something to gain, in families that take turns; none of them is stored
    anywhere."""
    families, found, number = sorted(GRAPH_FAMILIES), list[Instance](), 0
    while len(found) < GRAPHS:
        rng = np.random.default_rng([77, seed, number])
        family, ops = families[number % len(families)], int(rng.integers(LEAST_OPS, MOST_OPS + 1))
        instance = Instance(random_graph(rng, family, ops, name=f"{family}-{number}"))
        number += 1
        if uniform_cost(instance.arrays, (seed, 9, number), 1060, 1) > ROOM * floor(instance):
            found.append(instance)
    return found


def linked(instances: Sequence[Instance]) -> list[Instance]:
    """The same graphs, each with one of `LINKS`, in turn."""
    return [
        replace(instance, machine=Devices(**LINKS[number % len(LINKS)]))
        for number, instance in enumerate(instances)
    ]


def trained_live(seconds: float = 24.0, seed: int = 0, **network: str) -> Policy:
    """REGAL from random weights, trained for so many counted seconds in runs of 180 evaluations;
    `network` names ``model`` and ``attributes`` of `ReinforceConfig`. With the attributes ``links``
    the graphs are `linked`."""
    config = ReinforceConfig((STAGE,), seconds=seconds, seed=seed, **network)
    graphs = training_graphs(seed)
    agent = ReinforceAgent(linked(graphs) if config.attributes == "links" else graphs, config)
    while not agent.done:
        agent.iterate(lambda: False)
    weights = jax.tree.map(np.asarray, agent.parameters)
    return Policy(weights, "runtime", "live", seed)


def live_savings(policy: Policy) -> dict[str, tuple[float, float]]:
    """Graph of the development set -> by how many percent BRKGA's running time falls with the
    policy's distributions, and with its average distribution for every op; means over `SEEDS`."""
    savings = {}
    for name in graph_names("synthetic"):
        instance = Instance(load_graph("synthetic", name))
        logs = {law: np.zeros(SEEDS) for law in ("uniform", "policy", "average")}
        for seed in range(SEEDS):
            for law, found in logs.items():
                budget, chosen = Budget(samples=EVALUATIONS), None
                if law != "uniform":
                    rng = np.random.default_rng([seed, 1])
                    chosen = policy.law(instance, rng, average=law == "average")
                brkga(instance, np.random.default_rng(seed), budget, law=chosen)
                found[seed] = np.log(budget.best)
        uniform = logs["uniform"].mean()
        savings[name] = tuple(
            -100 * float(np.expm1(logs[law].mean() - uniform)) for law in ("policy", "average")
        )
    return savings


def live_table(policy: Policy) -> Html:
    """`live_savings`, graph by graph, and their means."""
    savings = live_savings(policy)
    rows = [(name, *(f"{value:+.1f}" for value in saved)) for name, saved in savings.items()]
    means = [f"{value:+.1f}" for value in np.mean(list(savings.values()), axis=0)]
    return listing(
        "Percent of BRKGA's running time saved by the policy just trained",
        ["", "its distributions", "their average"],
        [*rows, ("mean", *means)],
    )
