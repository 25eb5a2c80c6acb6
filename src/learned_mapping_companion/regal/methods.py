"""The learners of paper 3 in a run: a method's network, how it is used, and how it learned."""

from pathlib import Path

import numpy as np

from learned_mapping.folders import data_folder, kept_while_unchanged
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.programs.json_io import file_sha256, read_json
from learned_mapping.regal.agent.learner import read_learner, variant_to
from learned_mapping.regal.agent.policy import REINFORCED
from learned_mapping.regal.methods import (
    LEARNED,
    METHODS,
    chosen,
    chosen_variant,
    imitated_law,
    network_file,
)
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.regal.graphs import DATASETS
from learned_mapping_companion.table import Record, Records, Rows, gap_row, row

LAWS = {name: name for name in ("constant-law", "spectral-law", "priority-law")} | {
    "spectral-local-search": "spectral-law", "spectral-race": "spectral-law",
}  # fmt: skip
"""Searches with laws that no network makes -> the law."""
# Those that use it as validation graphs chose.
CHOSEN = ("regal-imitation", "regal-imitation-local-search")
NETWORKS = (*REINFORCED, "regal-vector", *CHOSEN)
"""Methods that ask a network, in the order of the tables; what learns by REINFORCE is not run
without checkpoints."""
SHORT_TRAININGS = tuple(
    f"{model}-{seen}" for seen in ("all", "printed") for model in ("gnn", "mlp", "gas")
)
"""Networks that `regal.network` trains for itself, a run each."""
WITH_LINKS = ("gnn-all", "gnn-links")
"""Those that `regal.links` trains: for free links, and on links drawn in turn."""
LEARNERS = ("cut", *LAWS, *NETWORKS)  # In table 1, in the order of its rows.
CLASSICAL = tuple(name for name in METHODS if name not in LEARNED and name not in ("cut", *LAWS))
"""Methods that learn nothing, and have no laws."""
COMPARED = (
    "brkga",
    "brkga-tuned",
    "local-search",
    "constant-law",
    "cut",
    "spectral-law",
    "spectral-local-search",
    "spectral-race",
    "priority-law",
    *NETWORKS,
)
"""Methods that learn and those they have to beat, in the order of the page on the learner."""
DRAWN = (
    "brkga",
    "brkga-tuned",
    "local-search",
    "spectral-law",
    "spectral-local-search",
    "idrs",
    "regal-average",
    "regal",
    "regal-cloned-average",
    "regal-cloned",
    "gas",
    "regal-imitation",
)
"""Of these, what the page's figure shows; its table has all."""
TESTED = (
    *COMPARED[:9],
    "regal-untrained",
    "regal-average",
    "regal",
    "regal-no-skip",
    "gas",
    "regal-clone",
    "regal-cloned-average",
    "regal-cloned",
    "idrs",
    "regal-vector",
    *CHOSEN,
)
"""The same on the held-out test sets."""
TRAINING_SEEDS = (0, 1, 2)  # Networks of each model and dataset, at most.
SEARCH_SEEDS = 3  # Of a search with each network, at most.
DIGEST_LENGTH = 16
AGAINST = {
    "brkga": "over uniform mutants",
    "regal-average": "over its average",
    "regal-untrained": "over random weights",
}
"""Methods that a trained network is compared with on validation graphs; its average law knows no
graph."""


def brought(method: str, dataset: str) -> list[Record]:
    """The settings besides seeds and graphs of a run of a method on one of `DATASETS`, once for
    each variety of it: nothing; or a chosen law; or one of the networks of `TRAINING_SEEDS` of this
    dataset, as in the paper, of those that there are."""
    if method in LAWS:
        return [{"law": chosen()[LAWS[method]][DATASETS[dataset][1]]["chosen"]}]
    if method not in NETWORKS:
        return [{}]
    if method == "regal-untrained":
        return [{"network": str(seed)} for seed in TRAINING_SEEDS]
    names = [f"{dataset}-{seed}" for seed in TRAINING_SEEDS]
    return [
        network_named(method, name)
        for name in names
        if method in CHOSEN or _path(method, name).exists()
    ]


def _path(method: str, network: str) -> Path:
    return network_file(DATASETS[network.rpartition("-")[0]][1], f"{method}:{network}")


def network_named(method: str, name: str) -> Record:
    """The facts of a network in a run: its name, its digest, and its use where validation graphs
    chose one."""
    path = _path(method, name)
    facts = {"network": name, "weights": _sha256(path)[:DIGEST_LENGTH]}
    return facts | (
        {"variant": variant_to(chosen_variant(read_learner(path)))} if method in CHOSEN else {}
    )


_sha256 = kept_while_unchanged(file_sha256)


def asked(method: str, config: Record) -> str:
    """A method of `regal.methods` with the network that a run's configuration names, where it names
    one."""
    return f"{method}:{config['network']}" if "network" in config else method


def _networks_of(records: Records) -> dict[tuple[str, str], set[str]]:
    """(instance, method) -> the networks that its runs asked."""
    networks: dict[tuple[str, str], set[str]] = {}
    for record in records:
        network = record.get("config", {}).get("network")
        if network is not None:
            networks.setdefault((record["instance"], record["method"]), set()).add(network)
    return networks


def training_seeds(records: Records) -> dict[tuple[str, str], dict[str, int]]:
    """(instance, method) -> what its rows say of how many trainings they are, where the method asks
    a network."""
    return {
        key: {"training_seeds": len(networks)} for key, networks in _networks_of(records).items()
    }


def trainings_of(method: str, dataset: str, runs: int) -> list[int] | None:
    """The training behind each of so many runs of a method on a graph, in the order of `brought`;
    None of a method that asks no network."""
    if method in (*SHORT_TRAININGS, *WITH_LINKS):
        return list(range(runs))
    count = len(brought(method, dataset)) if method in NETWORKS else 0
    return [run * count // runs for run in range(runs)] if count and runs % count == 0 else None


def updates_rows(records: Records) -> Rows:
    """The updates of the paper's learner: of each instance the least of its networks, by their
    headers."""
    for (instance, method), networks in _networks_of(records).items():
        if method not in (*CHOSEN, "regal-untrained"):
            paths = [_path(method, name) for name in networks]
            updates = min(read_checkpoint(path)[1]["updates"] for path in paths)
            cells = {"n": len(paths), "training_seeds": len(paths)}
            yield row(instance, method, "updates", updates, **cells)


def training_records(which: str = "reinforce") -> Records:
    """The records of ``data/training/regal``, by ``dataset`` and ``seed``; none where nothing was
    trained. Raises `InputError` where a record is of another network than the one that is there.

    `which` is how the names of their networks begin: ``reinforce``, of those that the tables call
    ``regal``; or ``plain``, of those without the skip.
    """
    folder, networks = (data_folder() / name / "regal" for name in ("training", "checkpoints"))
    trainings = []
    for dataset in DATASETS:
        for path in sorted(folder.glob(f"{which}-{dataset}-*.json")):
            seed = int(path.stem.rpartition("-")[2])
            node, network = read_json(path, "regal-training"), networks / f"{path.stem}.npz"
            if network.exists() and node.value.get("network") != file_sha256(network)[:16]:
                node.fail(f"is of another network than {network}: end that training once more")
            trainings.append(node.value | {"dataset": dataset, "seed": seed})
    return trainings


def validation_rows(records: Records) -> Rows:
    """`regal` over each of `AGAINST` on validation graphs after the training, by dataset:
    ``improvement_percent``, by how much the cost is lower; geometric means over the trainings of a
    dataset, then over its graphs, with an interval over the graphs."""
    for dataset in DATASETS:
        trainings = [
            record["validation"]["log_ratio_to_brkga"]
            for record in records
            if record["dataset"] == dataset
        ]
        for other in AGAINST if trainings else ():
            ratios = np.exp(
                np.mean(
                    [np.subtract(points["regal"], points[other]) for points in trainings], axis=0
                )
            )
            cells = {"against": other, "training_seeds": len(trainings)}
            yield gap_row(dataset, "regal", "improvement_percent", ratios, below=True, **cells)


def law_of(instance: Instance, network: str, seed: int) -> MutantLaw:
    """The law of a network for an instance, used as validation graphs chose."""
    return imitated_law(instance, np.random.default_rng(seed), network)


def trained_table(title: str, records: Records) -> Html:
    """The trainings of each dataset, and by how many percent their schedules cost less on
    validation graphs than those of uniform mutants, of the network's average law and of random
    weights, with intervals over the graphs."""
    lines = []
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        trainings = [record for record in records if record["dataset"] == dataset]
        savings = {row["against"]: row for row in validation_rows(trainings)}
        words = [
            f"{r['value']:+.1f} [{r['low']:+.1f}, {r['high']:+.1f}]"
            for r in map(savings.get, AGAINST)
        ]
        least, most = (
            min(r.get("iterations", r["updates"]) for r in trainings),
            max(r["cpu_s"] for r in trainings),
        )
        lines.append((dataset, len(trainings), f"{least:,}", f"{most:,.0f}", *words))
    return listing(
        title, ["", "trainings", "updates, least", "CPU s, most", *AGAINST.values()], lines
    )
