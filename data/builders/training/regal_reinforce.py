"""Trains REGAL's networks by REINFORCE on graphs of the training split; validation graphs watch.

    python -m builders.training.regal_reinforce --data synthetic-runtime --seed 0 --out runs/regal

With ``--start`` the first weights are those of a policy that this trained before, on other graphs,
or of one that cloned a rule (`regal_clone`). With ``--attributes links`` every training graph has
one of `live.LINKS`, and the network sees what a transfer takes.

Writes the checkpoint ``NAME-DATA-SEED.npz`` and the record ``NAME-DATA-SEED.json``, NAME by
`training_name`. The state of the training lies beside them; the same command goes on where an
interrupted one stopped, to the same bits.
"""

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.folders import build_folder
from learned_mapping.learning.loop import Log, resume, train
from learned_mapping.regal.agent.forward import MODELS, model_of
from learned_mapping.regal.agent.policy import BINS, Policy, read_policy, untrained, write_policy
from learned_mapping.regal.agent.policy import sample as sample_bins
from learned_mapping.regal.agent.reinforce import (
    ATTRIBUTES,
    BASELINES,
    RECIPES,
    SECONDS,
    ReinforceAgent,
    ReinforceConfig,
)
from learned_mapping.regal.agent.rollouts import rollouts
from learned_mapping.regal.searches.brkga import brkga
from learned_mapping.regal.searches.random_numbers import stream
from learned_mapping_companion.regal.graphs import DATASETS
from learned_mapping_companion.regal.live import linked

from .command import say, write_record
from .regal_sets import references, training_graphs, watched_graphs

EVALUATIONS = 5000
WATCHED = 24
"""Validation graphs."""
LARGEST_WATCHED = 400  # Ops.
WATCH_EVERY_S = 60.0
ROW_EVERY_S = 10.0
FINAL_SEEDS = 3
KEPT = ("reward", "spread", "entropy", "value_error", "reward_variance")
"""Averaged over the steps of a row of the curve."""


class Watch:
    """Gaps over the best known on validation graphs at `EVALUATIONS`, geometric means in
    percent."""

    def __init__(self, dataset: str, seed: int, *, links: bool = False):
        self.instances = watched_graphs(dataset, WATCHED, LARGEST_WATCHED)
        self.instances = linked(self.instances) if links else self.instances
        self.best = references(self.instances)
        self.dataset, self.seed = dataset, seed

    def policy(self, parameters: Any) -> Policy:
        plain = jax.tree.map(np.asarray, parameters)
        return Policy(plain, self.instances[0].objective, self.dataset, self.seed)

    def gap(self, costs: np.ndarray) -> float:
        return float(100 * np.expm1(np.log(costs / self.best).mean()))

    def curve(self, parameters: Any) -> dict[str, float]:
        """By the rollouts: the network, its average law for every op, and uniform mutants, one run
        of each."""
        policy, costs, uniform = self.policy(parameters), [], BINS.index(1.0)
        for number, instance in enumerate(self.instances):
            rng = np.random.default_rng([4, number])
            p = policy.probabilities(instance)
            laws = [
                sample_bins(array, 1, rng)[0]
                for array in (p, np.broadcast_to(p.mean(axis=0), p.shape))
            ]
            laws.append(np.full_like(laws[0], uniform))
            costs.append(
                rollouts(instance.arrays, np.stack(laws), BINS, stream(4, number), EVALUATIONS)
            )
        names = ("gap", "gap_average_law", "gap_uniform")
        return {name: round(self.gap(column), 3) for name, column in zip(names, np.array(costs).T)}

    def final(self, parameters: Any) -> dict[str, Any]:
        """By `brkga`, `FINAL_SEEDS` runs a graph: log ratios to its own uniform runs, and gaps."""
        costs: dict[str, list] = {}
        for instance in self.instances:
            trained, random = self.policy(parameters), untrained(instance, self.seed)
            for seed in range(FINAL_SEEDS):
                for name, policy, average in (
                    ("brkga", None, False),
                    ("regal", trained, False),
                    ("regal-average", trained, True),
                    ("regal-untrained", random, False),
                ):
                    rng, budget = np.random.default_rng(seed), Budget(samples=EVALUATIONS)
                    law = None if policy is None else policy.law(instance, rng, average=average)
                    brkga(instance, rng, budget, law=law)
                    costs.setdefault(name, []).append(budget.best)
        table = {
            name: np.exp(np.log(v).reshape(-1, FINAL_SEEDS).mean(axis=1))
            for name, v in costs.items()
        }
        ratios = {name: np.log(v / table["brkga"]) for name, v in table.items()}
        return {
            "graphs": [instance.graph.name for instance in self.instances],
            "gap_percent": {name: round(self.gap(v), 3) for name, v in table.items()},
            "log_ratio_to_brkga": {
                name: [round(float(x), 6) for x in v] for name, v in ratios.items()
            },
        }


def training_name(model: str, attributes: str, start: Policy | None, cloned: bool) -> str:
    """The begin of the names of a training's files."""
    if attributes != "all":
        return "links" if attributes == "links" else f"printed-{model}"
    if model == "gnn" and start is not None and cloned:
        return "cloned"
    return "reinforce" if model == "gnn" else model


def main() -> None:
    parser = argparse.ArgumentParser(description="Train REGAL's networks by REINFORCE.")
    parser.add_argument("--data", choices=tuple(DATASETS), required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="length, counted in work, not by a clock")
    parser.add_argument("--baseline", choices=BASELINES, default="group")
    parser.add_argument("--model", choices=MODELS, default="gnn")
    parser.add_argument("--attributes", choices=ATTRIBUTES, default="all")
    parser.add_argument("--start", type=Path, help="a policy, in the place of random weights")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    chosen = parser.parse_args()
    jax.config.update("jax_compilation_cache_dir", str(build_folder() / "jax-cache"))
    start, said, digest = None, {}, ""
    if chosen.start is not None:
        start, said = read_policy(chosen.start)
        digest = hashlib.sha256(chosen.start.read_bytes()).hexdigest()[:16]
        if model_of(start.parameters) != chosen.model:
            raise InputError(chosen.start, "model", f"expected {chosen.model}")
    name = training_name(chosen.model, chosen.attributes, start, bool(said.get("cloned")))
    before = said.get("updates", 0)
    settings = {
        "seconds": SECONDS[chosen.data] if chosen.seconds is None else chosen.seconds,
        "seed": chosen.seed,
        "baseline": chosen.baseline,
        "start": digest,
    }
    settings |= {"attributes": chosen.attributes, "model": chosen.model}
    config = ReinforceConfig(**RECIPES[chosen.data], **settings)
    graphs = training_graphs(chosen.data, max(stage.ops for stage in config.stages))
    if chosen.attributes == "links":
        graphs = linked(graphs)
    parameters = None if start is None else start.parameters
    agent = ReinforceAgent(graphs, config, parameters)
    watch = Watch(chosen.data, chosen.seed, links=chosen.attributes == "links")
    stem = f"{name}-{chosen.data}-{chosen.seed}"
    state = chosen.out / f"{stem}.state.npz"
    resume(agent, state)
    log = Log(chosen.out / f"{stem}.jsonl", agent.iterations)
    write = log.write

    def write_and_watch(row: dict[str, Any]) -> None:
        before = log.rows[-1]["seconds"] if log.rows else -WATCH_EVERY_S
        if before // WATCH_EVERY_S != row["seconds"] // WATCH_EVERY_S or agent.done:
            row = row | watch.curve(agent.parameters)
        write(row)
        if len(row) > 11 or agent.iterations % 20 == 0:
            words = " ".join(
                f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
            )
            say(f"{time.process_time():.0f} s {words}")

    log.write = write_and_watch
    train(agent, lambda: False, log=log, checkpoint=state, every=10)
    command = (
        f"python -m builders.training.regal_reinforce --data {chosen.data} --seed {chosen.seed} "
        f"--seconds {config.seconds:g} --baseline {chosen.baseline} "
        f"--attributes {chosen.attributes} --model {chosen.model} "
    )
    if chosen.start is not None:
        command += f"--start {chosen.start.name} "
    header = {
        "command": f"{command}--out {chosen.out.name}",
        "training_graphs": len(agent.instances),
        "updates": before + agent.iterations,
        "updates_before": before,
    }
    header |= agent.state()[1]
    validation, network = watch.final(agent.parameters), chosen.out / f"{stem}.npz"
    write_policy(network, watch.policy(agent.parameters), header)
    write_record(network, **header, curve=_curve(log.rows), validation=validation)


def _curve(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for about every `ROW_EVERY_S` seconds: counts at its end, means over its steps, gaps
    where watched."""
    thinned, waiting = [], []
    for row in rows:
        waiting.append(row)
        if "gap" not in row and row["seconds"] - waiting[0]["seconds"] < ROW_EVERY_S:
            continue
        means = {name: float(f"{np.mean([entry[name] for entry in waiting]):.5g}") for name in KEPT}
        thinned.append(row | {"updates": row["iteration"]} | means)
        waiting = []
    return thinned


if __name__ == "__main__":
    main()
