"""What REGAL's learners are trained on: graphs of the training split, elites to imitate, and
references for validation.

Elites and references are searches of minutes; they are kept in the build folder.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import jax
import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.folders import build_folder
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.learner import Learner, Variant
from learned_mapping.regal.agent.policy import BINS
from learned_mapping.regal.agent.rollouts import rollouts, uniform_cost
from learned_mapping.regal.agent.written import rule_bins, uniform_bins
from learned_mapping.regal.methods import EVALUATIONS, best_spectral_law, floor
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import TUNED_BRKGA, MutantLaw, brkga
from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search
from learned_mapping.regal.searches.random_numbers import stream
from learned_mapping_companion.regal.graphs import DATASETS, graph_names, load_graph

from .. import regal_synthetic_graphs as synthetic
from .. import regal_traced_graphs as traced
from ..topology import topology_digest
from .command import say
from .elites import Elites, find_elites, joined, origin_laws, own_elite
from .imitation import Example

LARGEST_OPS = 600  # Of a training or validation graph: larger ones cost too much to search.
SYNTHETIC_GRAPHS = 120  # Training graphs taken of the synthetic set, from the first on.
ELITE_EVALUATIONS = 5_000
OWN_EVALUATIONS = 4_000
"""Of BRKGA with a guide's law, and again of the climb from its best."""
GUIDED = {
    "runtime": Variant(strength=3.0, mutant_share=0.5, priorities=True),
    "memory": Variant(priorities=True),
}
"""How the guide's law is used."""
REFERENCE_EVALUATIONS = 30_000
SEARCHES = 1
"""Raised by hand when the searches that find elites and references change."""
ROOM = 1.002
"""A training graph on which BRKGA comes this close to what no schedule can beat has nothing to
teach."""


LOOKED_AT = 480
"""Graphs taken of the training split for learning by reward, from the first on; traced ones with
noise, every topology once or twice."""
RULE_EVALUATIONS, RULE_ROOM = 2020, 0.985
"""Peak memory is learned on graphs on which `rule_bins` gets to this share of what uniform mutants
get to, in so many evaluations: on the others no law of the action space is known to help."""
LEARNING_ROOM = 1.02
"""A graph on which 1,060 uniform evaluations come this close to what no schedule can beat has
nothing to teach it."""


def training_instances(dataset: str) -> list[Instance]:
    """Graphs of the training split, up to `LARGEST_OPS`, none of a test graph's topology; traced
    ones with noise."""
    kind, objective = DATASETS[dataset]
    count, tested = (
        len(traced.names("train")) if kind == "traced" else SYNTHETIC_GRAPHS,
        _tested(kind),
    )
    graphs = [_generated(dataset, "train", i) for i in range(count)]
    graphs = [
        graph
        for graph in graphs
        if graph.num_ops <= LARGEST_OPS and topology_digest(graph) not in tested
    ]
    return [Instance(graph, objective=objective) for graph in graphs]


def validation_instances(dataset: str, count: int) -> list[Instance]:
    """`count` graphs of the validation split spread evenly, up to `LARGEST_OPS`."""
    (kind, objective), chosen = DATASETS[dataset], list(range(count))
    if kind == "traced":
        small = [
            i
            for i, name in enumerate(traced.names("validation"))
            if traced.load(name).num_ops <= LARGEST_OPS
        ]
        chosen = [small[len(small) * i // count] for i in range(count)]
    return [Instance(_generated(dataset, "validation", i), objective=objective) for i in chosen]


def _generated(dataset: str, split: str, index: int) -> ComputationGraph:
    if DATASETS[dataset][0] == "traced":
        return traced.generate(dataset, split, index)
    return synthetic.generate(split, index)


def examples(
    dataset: str, guide: Learner | None = None, *, from_chosen: bool = False
) -> list[Example]:
    """The training graphs that leave room, with their elites; minutes on the first call.

    Args:
      guide: a network whose laws find one more elite of each graph.
      from_chosen: one elite of each graph, of the spectral law that training graphs chose, instead
        of several vectors'.
    """
    result = []
    for instance in training_instances(dataset):
        name = f"{instance.graph.digest[:16]}-{instance.objective}"
        uniform = _cached_cost(f"uniform-{name}", lambda i=instance: search(i, None, 0))
        if uniform > ROOM * floor(instance):
            say(f"elites of {instance.graph.name}")
            seen = features(instance)
            laws = [best_spectral_law(instance)] if from_chosen else origin_laws(instance, seen)
            digest = _digest(array for law in laws for array in (law.alpha, law.beta))
            elites = Elites(
                **_cached(f"elites-{digest}-{name}", lambda i=instance, ls=laws: _elites(i, ls))
            )
            if guide is not None:
                weights = _digest(jax.tree_util.tree_leaves(guide.parameters))
                arrays = _cached(f"own-orders-{weights}-{name}", lambda i=instance: _own(i, guide))
                elites = joined(elites, Elites(**arrays))
            result.append(Example(instance, seen, elites))
    return result


def search(instance: Instance, law: MutantLaw | None, seed: int) -> float:
    """What BRKGA finds with this law in `EVALUATIONS`."""
    budget = Budget(samples=EVALUATIONS)
    brkga(instance, np.random.default_rng(seed), budget, law=law)
    return budget.best


def _elites(instance: Instance, laws: Sequence[MutantLaw]) -> dict[str, np.ndarray]:
    return find_elites(
        instance, laws, np.random.default_rng(1), evaluations=ELITE_EVALUATIONS
    )._asdict()


def _own(instance: Instance, guide: Learner) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    law, climb = (
        guide.law(instance, rng, GUIDED[instance.objective]),
        TUNED_LOCAL_SEARCH[instance.objective],
    )
    return own_elite(instance, law, rng, evaluations=OWN_EVALUATIONS, climb=climb)._asdict()


def elites_digest(chosen: Sequence[Example]) -> str:
    """16 hexadecimal digits over the elites of training graphs."""
    return _digest(values for example in chosen for values in example.elites)


def _digest(arrays: Iterable[np.ndarray]) -> str:
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()[:16]


def references(instances: list[Instance]) -> np.ndarray:
    """[G] the best cost known of each graph: of a long evolution and of long climbs, one from its
    end."""
    names = []
    for instance in instances:
        linked = f"-{_digest(instance.machine.links)}" if instance.arrays.costly_links else ""
        names.append(f"reference-{instance.graph.digest[:16]}-{instance.objective}{linked}")
    return np.array(
        [
            _cached_cost(name, lambda i=instance: _reference(i))
            for name, instance in zip(names, instances)
        ]
    )


def _reference(instance: Instance) -> float:
    rng, climb, costs = np.random.default_rng(2), TUNED_LOCAL_SEARCH[instance.objective], []
    evolution = Budget(samples=REFERENCE_EVALUATIONS)
    evolved = brkga(instance, rng, evolution, parameters=TUNED_BRKGA[instance.objective])
    costs.append(evolution.best)
    for start in (evolved, None):
        budget = Budget(samples=REFERENCE_EVALUATIONS)
        local_search(instance, rng, budget, parameters=climb, start=start)
        costs.append(budget.best)
    return min(costs)


def _folder() -> Path:
    return build_folder() / "regal-training" / f"searches-{SEARCHES}"


def _cached_cost(name: str, make: Callable[[], float]) -> float:
    return float(_cached(name, lambda: {"cost": np.float64(make())})["cost"])


def _cached(name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    path = _folder() / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(path, {key: np.asarray(value) for key, value in make().items()}, {})
    return read_checkpoint(path)[0]


def training_graphs(dataset: str, largest_ops: int) -> list[Instance]:
    """Up to `LOOKED_AT` graphs of the training split that leave room, of at most `largest_ops`
    ops."""
    kind, objective = DATASETS[dataset]
    kept, tested = [], _tested(kind)
    for index in range(LOOKED_AT):
        graph = _generated(dataset, "train", index)
        if graph.num_ops > largest_ops or topology_digest(graph) in tested:
            continue
        instance = Instance(graph, objective=objective)
        if uniform_cost(instance.arrays, (index,), 1060, 1) <= LEARNING_ROOM * floor(instance):
            continue
        if objective == "memory":
            laws = np.stack([rule_bins(instance, features(instance)), uniform_bins(instance)])
            ruled, uniform = rollouts(
                instance.arrays, laws, BINS, stream(index, 5), RULE_EVALUATIONS
            )
            if ruled > RULE_ROOM * uniform:
                continue
        kept.append(instance)
    return kept


def watched_graphs(dataset: str, count: int, largest_ops: int) -> list[Instance]:
    """`count` graphs of the validation split, none of a test graph's topology, of at most
    `largest_ops` ops."""
    tested = _tested(DATASETS[dataset][0])
    graphs = [
        instance
        for instance in validation_instances(dataset, 2 * count)
        if instance.graph.num_ops <= largest_ops and topology_digest(instance.graph) not in tested
    ]
    return [
        graphs[i]
        for i in np.linspace(0, len(graphs) - 1, min(count, len(graphs))).round().astype(int)
    ]


def _tested(kind: str) -> set[str]:
    return {topology_digest(load_graph(kind, name)) for name in graph_names(kind)}
