"""The first steps of a training on one graph, short enough to turn its settings and look."""

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.regal.agent.reinforce import ReinforceAgent, ReinforceConfig, Stage
from learned_mapping.regal.rules.instance import Instance
from learned_mapping_companion.figures.charts import facets, finish, method_colour
from learned_mapping_companion.regal.graphs import load_graph

STEPS, WINDOW = 60, 10


def first_steps(
    entropy: float = 0.004,
    rate: float = 0.003,
    draws: int = 256,
    seed: int = 0,
    graph: str = "random-dag-120",
) -> Figure:
    """REINFORCE from random weights on one of table 1's synthetic graphs: rewards and entropy, step
    by step.

    Args:
      entropy: weight of the entropy in the loss.
      rate: Adam's.
      draws: K, drawn from the policy at each step and tried in runs of 180 evaluations.
    """
    stage = Stage(share=1.0, evaluations=180, rollouts=draws, graphs=1, ops=1000)
    config = ReinforceConfig(
        (stage,), seconds=np.inf, seed=seed, entropy=entropy, rate=rate, batch_ops=256
    )
    agent = ReinforceAgent([Instance(load_graph("synthetic", graph))], config)
    rows = [agent.iterate(lambda: False) for _ in range(STEPS)]
    drawn = {"reward": "reward (uniform mutants: -1)", "entropy": "entropy of a head (nats)"}
    figure, panels = facets(
        {words: [row[name] for row in rows] for name, words in drawn.items()}, 0.0, 2.2
    )
    for panel, words, values in panels:
        mean = [np.mean(values[max(i - WINDOW + 1, 0) : i + 1]) for i in range(STEPS)]
        if words == drawn["reward"]:
            panel.plot(values, ".", color=method_colour("brkga"), markersize=3)
        panel.plot(mean, color=method_colour("regal"))
    return finish(figure, "step")
