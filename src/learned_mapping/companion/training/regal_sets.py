"""What REGAL's learners are trained on: graphs of the training split, elites to imitate, and references for validation.

Elites and references are searches of minutes; they are kept in the build folder and found again by the searches' code.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.companion.datasets.topology import topology_digest
from learned_mapping.companion.regal import synthetic, traced
from learned_mapping.companion.regal.graphs import DATASETS, graph_names, load_graph
from learned_mapping.compiled import code_digest
from learned_mapping.errors import InputError
from learned_mapping.folders import build_folder
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.regal.agent.elites import Elites, find_elites, joined, origin_laws, own_elite
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.learner import Learner, Variant
from learned_mapping.regal.agent.losses import Example
from learned_mapping.regal.methods import EVALUATIONS, best_spectral_law
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.searches.brkga import TUNED_BRKGA, MutantLaw, brkga
from learned_mapping.regal.searches.list_schedule import upward_rank
from learned_mapping.regal.searches.local_search import TUNED_LOCAL_SEARCH, local_search

LARGEST_OPS = 600
"""Of a training or validation graph: larger ones cost too much to search."""
SYNTHETIC_GRAPHS = 120
"""Training graphs taken of the synthetic set, from the first on."""
TRACED_STEP = 1
"""Every so many-th traced training graph is taken: neighbours in the list differ little."""
VALIDATION_GRAPHS = 24
ELITE_EVALUATIONS = 5_000
OWN_EVALUATIONS = 4_000
"""Of BRKGA with a guide's law, and again of the climb from its best."""
GUIDED = {
    "runtime": Variant(strength=3.0, mutant_share=0.5, priorities=True),
    "memory": Variant(priorities=True),
}
"""How the guide's law is used."""
REFERENCE_EVALUATIONS = 30_000
ROOM = 1.002
"""A training graph on which BRKGA comes this close to what no schedule can beat has nothing to teach."""


def training_instances(dataset: str) -> list[Instance]:
    """Graphs of the training split, up to `LARGEST_OPS`, none of a test graph's topology; traced ones with noise."""
    kind, objective = kind_and_objective(dataset)
    if kind == "traced":
        graphs = [traced.generate(dataset, "train", i) for i in range(0, len(traced.names("train")), TRACED_STEP)]
    else:
        graphs = [synthetic.generate("train", i) for i in range(SYNTHETIC_GRAPHS)]
    tested = {topology_digest(load_graph(kind, name)) for name in graph_names(kind)}
    graphs = [graph for graph in graphs if graph.num_ops <= LARGEST_OPS and topology_digest(graph) not in tested]
    return [Instance(graph, objective=objective) for graph in graphs]


def validation_instances(dataset: str, count: int = VALIDATION_GRAPHS) -> list[Instance]:
    """`count` graphs of the validation split spread evenly, up to `LARGEST_OPS`."""
    kind, objective = kind_and_objective(dataset)
    if kind == "traced":
        chosen = [i for i, name in enumerate(traced.names("validation")) if traced.load(name).num_ops <= LARGEST_OPS]
        chosen = [chosen[len(chosen) * i // count] for i in range(count)]
        graphs = [traced.generate(dataset, "validation", i) for i in chosen]
    else:
        graphs = [synthetic.generate("validation", i) for i in range(count)]
    return [Instance(graph, objective=objective) for graph in graphs]


def kind_and_objective(dataset: str) -> tuple[str, str]:
    """``traced`` or ``synthetic``, and the objective; raises `InputError` for an unknown dataset."""
    if dataset not in DATASETS:
        raise InputError("dataset", "", f"expected one of {', '.join(DATASETS)}, got {dataset!r}")
    return DATASETS[dataset]


def floor(instance: Instance) -> float:
    """What no schedule can beat: half the work or the longest path; or what the largest op holds at once."""
    if instance.objective == "runtime":
        work = instance.arrays.seconds.sum() / instance.pair.devices
        return float(max(work, upward_rank(instance).max()))
    return float((instance.graph.op_input_bytes + instance.graph.op_output_bytes).max())


def examples(
    dataset: str,
    report: Callable[[int, int], None] = lambda done, all: None,
    guide: Learner | None = None,
    *,
    from_chosen: bool = False,
) -> list[Example]:
    """The training graphs that leave room, with their elites; minutes on the first call.

    Args:
      dataset: of `DATASETS`.
      report: called with the number of the graph and of all.
      guide: a network whose laws find one more elite of each graph.
      from_chosen: one elite of each graph, of the spectral law that training graphs chose, instead of several vectors'.
    """
    found = []
    instances = training_instances(dataset)
    for number, instance in enumerate(instances):
        report(number, len(instances))
        name = f"{instance.graph.digest[:16]}-{instance.objective}"
        uniform = float(_cached(f"uniform-{name}", lambda i=instance: {"cost": np.float64(_uniform(i))})["cost"])
        if uniform > ROOM * floor(instance):
            seen = features(instance)
            laws = [best_spectral_law(instance)] if from_chosen else origin_laws(instance, seen)
            arrays = _cached(f"elites-{_digest_of(laws)}-{name}", lambda i=instance, ls=laws: _elites(i, ls))
            elites = Elites(**arrays)
            if guide is not None:
                own = _cached(f"own-orders-{weights_digest(guide)}-{name}", lambda i=instance: _own(i, guide))
                elites = joined(elites, Elites(**own))
            found.append(Example(instance, seen, uniform, elites))
    return found


def _uniform(instance: Instance) -> float:
    budget = Budget(samples=EVALUATIONS)
    brkga(instance, np.random.default_rng(0), budget)
    return budget.best


def _elites(instance: Instance, laws: Sequence[MutantLaw]) -> dict[str, np.ndarray]:
    return find_elites(instance, laws, np.random.default_rng(1), evaluations=ELITE_EVALUATIONS)._asdict()


def _digest_of(laws: Sequence[MutantLaw]) -> str:
    hasher = hashlib.sha256()
    for law in laws:
        hasher.update(law.alpha.tobytes() + law.beta.tobytes())
    return hasher.hexdigest()[:16]


def elites_digest(found: Sequence[Example]) -> str:
    """16 hexadecimal digits over the elites of training graphs."""
    hasher = hashlib.sha256()
    for example in found:
        for values in example.elites:
            hasher.update(np.ascontiguousarray(values).tobytes())
    return hasher.hexdigest()[:16]


def weights_digest(learner: Learner) -> str:
    """16 hexadecimal digits over a network's weights."""
    hasher = hashlib.sha256()
    for module, arrays in sorted(learner.parameters.items()):
        for name, values in sorted(arrays.items()):
            hasher.update(f"{module} {name}".encode() + np.ascontiguousarray(values).tobytes())
    return hasher.hexdigest()[:16]


def _own(instance: Instance, guide: Learner) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    law, climb = guide.law(instance, rng, GUIDED[instance.objective]), TUNED_LOCAL_SEARCH[instance.objective]
    return own_elite(instance, law, rng, evaluations=OWN_EVALUATIONS, climb=climb)._asdict()


def references(instances: list[Instance]) -> np.ndarray:
    """[G] the best cost known of each graph: of a long evolution and of long climbs, one from its end."""
    found = []
    for instance in instances:
        name = f"reference-{instance.graph.digest[:16]}-{instance.objective}"
        found.append(float(_cached(name, lambda i=instance: {"cost": np.float64(_reference(i))})["cost"]))
    return np.array(found)


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


@functools.cache
def _folder():
    return build_folder() / "regal-training" / code_digest()


def _cached(name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    path = _folder() / f"{name}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(path, {key: np.asarray(value) for key, value in make().items()}, {})
    return read_checkpoint(path)[0]
