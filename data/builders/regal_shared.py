"""How much of the noise of REINFORCE's rewards common random numbers take away, by the length of a
run.

In the folder ``data`` ``python -m builders.regal_shared`` writes ``regal/shared.json``, in a
minute: distributions of an untrained network on training graphs, each in runs on several streams of
random numbers, as `rollouts` gives one stream to all distributions of a graph. Of the variance of a
run that is not the distribution's, the share that is the stream's is what a comparison on one
stream does not have.
"""

import numpy as np

from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal.agent.policy import BINS, sample
from learned_mapping.regal.agent.reinforce import (
    ReinforceAgent,
    ReinforceConfig,
    Stage,
    probabilities,
)
from learned_mapping.regal.agent.rollouts import rollouts
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.random_numbers import stream
from learned_mapping_companion.regal.graphs import graph_names, load_graph

from .training.command import say

EVALUATIONS = (180, 1060, 5000)
OPS, GRAPHS, LAWS, STREAMS = (60, 130), 4, 8, 12


def shares(costs: np.ndarray) -> tuple[float, float]:
    """(variance that runs of one stream share, variance that is left) of logarithms of costs [laws,
    streams], by the mean squares of an analysis of variance with one run a cell."""
    laws, streams = costs.shape
    rest = costs - costs.mean(axis=0) - costs.mean(axis=1, keepdims=True) + costs.mean()
    left = (rest**2).sum() / ((laws - 1) * (streams - 1))
    shared = (laws * costs.mean(axis=0).var(ddof=1) - left) / laws
    return max(float(shared), 0.0), float(left)


def main() -> None:
    names = [
        name
        for name in graph_names("synthetic", "train")
        if OPS[0] <= int(name.split("-")[-1]) <= OPS[1]
    ][:GRAPHS]
    instances = [Instance(load_graph("synthetic", name, "train")) for name in names]
    config = ReinforceConfig((Stage(1.0, 180, 16, 1, 1000),), seconds=1.0, seed=0)
    agent, record = ReinforceAgent(instances, config), {}
    for evaluations in EVALUATIONS:
        parts = []
        for g, instance in enumerate(instances):
            ops = instance.graph.num_ops
            bins = sample(
                np.asarray(probabilities(agent.parameters, agent.batch([g])))[:ops],
                LAWS,
                np.random.default_rng(g),
            )
            runs = [
                rollouts(instance.arrays, bins, BINS, stream(g, s), evaluations)
                for s in range(STREAMS)
            ]
            parts.append(shares(np.log(np.stack(runs, axis=1))))
        shared, left = np.mean(parts, axis=0).tolist()
        record[str(evaluations)] = {
            "shared": shared,
            "left": left,
            "removed": shared / (shared + left),
        }
        say(
            f"{evaluations} evaluations: {100 * shared / (shared + left):.0f} % of the noise is the"
            " stream's"
        )
    facts = {"graphs": names, "laws": LAWS, "streams": STREAMS}
    write_json(
        data_folder() / "regal" / "shared.json",
        {"schema": "learned-mapping/tuning/1", **facts, "noise": record},
        indent=1,
    )


if __name__ == "__main__":
    main()
