"""Every way to schedule a graph, by name, behind one call: `solve`.

REGAL's networks are in ``data/checkpoints/regal``; `NETWORKS` says which one serves an objective.
Another one is asked for by name: ``regal-imitation:synthetic-runtime-1``.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping import problem
from learned_mapping.budget import Budget
from learned_mapping.errors import InputError, expect_choice, real
from learned_mapping.folders import networks_folder
from learned_mapping.hardware.devices import GIB, Devices
from learned_mapping.hardware.fitting import refuse_by_arithmetic
from learned_mapping.problem import (
    OURS,
    RULE,
    SEARCH,
    Method,
    Outcome,
    Problem,
    Result,
    read_graph_file,
)
from learned_mapping.problem import PAPER as PAPERS_LEARNER
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.agent.features import Features, features
from learned_mapping.regal.agent.forward import check_objective, find_network
from learned_mapping.regal.agent.learner import Learner, Variant, read_learner, variant_from
from learned_mapping.regal.agent.policy import REINFORCED, policy_path, reinforced_law, training_of
from learned_mapping.regal.agent.policy import SERVES as NETWORKS
from learned_mapping.regal.agent.vectors import VECTORS, check_served, vector_policy
from learned_mapping.regal.agent.written import cut_law
from learned_mapping.regal.bounds.cp_sat import cp_sat, expect_modelled, is_modelled
from learned_mapping.regal.bounds.room import does_not_fit, roomiest
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import INFEASIBLE, OBJECTIVES, Instance
from learned_mapping.regal.schedule import (
    Schedule,
    exchanged,
    read_schedule,
    schedule_to_json,
)
from learned_mapping.regal.searches.brkga import TUNED_BRKGA, MutantLaw, brkga
from learned_mapping.regal.searches.list_schedule import (
    gp_dfs,
    gp_list,
    list_scheduler,
    one_device,
    upward_rank,
)
from learned_mapping.regal.searches.local_search import (
    TUNED_LOCAL_SEARCH,
    least_memory,
    local_search,
    random_search,
)
from learned_mapping.regal.searches.proposals import (
    constant_law,
    ordered_law,
    priority_law,
    spectral_law,
)
from learned_mapping.regal.searches.race import race, winner
from learned_mapping.regal.validate import validate
from learned_mapping.verdict import LISTED, Verdict

# Cost-model evaluations every search gets unless told otherwise (REGAL, Section 3.2).
EVALUATIONS = 5000
CP_SAT_DETERMINISTIC = 3.0
"""The solver's limit without one in seconds, in its own units of work, and less where there are
fewer evaluations than `EVALUATIONS`: some ten seconds, the same result everywhere."""
BESIDE_SECONDS = 5.0
ROUNDS = 16
"""Parts of a budget of which as many as it takes look for a schedule that fits."""
RULED_OPS = 60
"""Up to so many ops CP-SAT takes seconds, and no answer to a user is behind it."""

Run = Callable[[Instance, np.random.Generator, Budget], Outcome]


def searched(search: Callable[[Instance, np.random.Generator, Budget], np.ndarray]) -> Run:
    """A method from a search for a chromosome."""

    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        return decode(instance, search(instance, rng, budget)), {}

    return run


def _tuned(
    search: Callable[..., np.ndarray], parameters: Mapping[str, Any]
) -> Callable[..., np.ndarray]:
    return lambda instance, rng, budget, **options: search(
        instance, rng, budget, parameters=parameters[instance.objective], **options
    )


_brkga_tuned, _climb = _tuned(brkga, TUNED_BRKGA), _tuned(local_search, TUNED_LOCAL_SEARCH)


def _local_search(
    instance: Instance,
    rng: np.random.Generator,
    budget: Budget,
    *,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Local search; where memory counts, from a schedule that fits, which is searched for first."""
    if start is None and instance.objective == "runtime" and instance.arrays.counts_memory:
        start = least_memory(instance)
        while not budget.spent():
            fitness = schedule_fitness(instance, decode(instance, start))
            if fitness < INFEASIBLE:
                break
            part = part_of(budget, 1 / ROUNDS)
            start = _climb(replace(instance, objective="memory"), rng, part, start=start)
            budget.record(fitness, part.samples, better=float.__lt__)
        if budget.spent():
            return start
    return _climb(instance, rng, budget, start=start)


def part_of(budget: Budget, share: float) -> Budget:
    """A budget of a share of the limits, which tells no progress."""
    samples = None if budget.limit_samples is None else max(1, int(share * budget.limit_samples))
    seconds = None if budget.limit_s is None else share * budget.limit_s
    return Budget(seconds=seconds, samples=samples, cpu=budget.cpu)


def _rule(rule: Callable[[Instance, np.random.Generator], Schedule]) -> Run:
    def run(instance: Instance, rng: np.random.Generator, budget: Budget):
        schedule = rule(instance, rng)
        budget.record(schedule_fitness(instance, schedule), better=float.__lt__)
        return schedule, {}

    return run


def _cp_sat(instance: Instance, rng: np.random.Generator, budget: Budget):
    """Searches take samples and a quarter of the seconds; the solver starts from the best."""
    expect_modelled(instance)
    seconds = None if budget.limit_s is None else budget.limit_s / 8
    starts = []
    for search in (brkga, _local_search):
        # three are the rules' and the solver's
        samples = max(1, ((budget.limit_samples or EVALUATIONS) - 3) // 2)
        share = Budget(seconds=seconds, samples=samples, cpu=budget.cpu, progress=budget.progress)
        starts.append(decode(instance, search(instance, rng, share)))
        budget.record(schedule_fitness(instance, starts[-1]), share.samples, better=float.__lt__)
    for rule in (gp_dfs, gp_list):
        starts.append(rule(instance, rng))
        budget.record(schedule_fitness(instance, starts[-1]), better=float.__lt__)
    best = min(starts, key=lambda schedule: schedule_fitness(instance, schedule))
    # The model knows no memory limit: where nothing fits so far, half is for what fits.
    its = 0.5 if schedule_fitness(instance, best) >= INFEASIBLE else 1.0
    left = None if budget.left_s is None else its * budget.left_s
    part = min((budget.limit_samples or EVALUATIONS) / EVALUATIONS, 1.0)
    deterministic = part * CP_SAT_DETERMINISTIC if left is None else 1e9
    seed = int(rng.integers(2**31))
    result = cp_sat(
        instance,
        seconds=left,
        deterministic_time=deterministic,
        seed=seed,
        start=best,
        stop=budget.look,
    )
    if result.schedule is not None:
        # The model has its first op on the first device, whichever is the larger one.
        both = (result.schedule, exchanged(result.schedule, instance))
        found = min(both, key=lambda schedule: schedule_fitness(instance, schedule))
        if budget.record(schedule_fitness(instance, found), better=float.__lt__):
            best = found
    # Where memory forbids the optimum, its proof goes.
    cost = schedule_fitness(instance, best)
    if cost >= INFEASIBLE:
        roomy, least = roomiest(instance, budget.left_s)
        if least > 1.0:
            raise does_not_fit(instance, roomy, least)
        if budget.record(schedule_fitness(instance, roomy), better=float.__lt__):
            best, cost = roomy, schedule_fitness(instance, roomy)
    bound = min(max(result.bound, floor(instance)), cost)
    proven = cost <= max(bound, result.cost if result.optimal else 0.0) * (1 + 1e-9)
    return best, {"bound": bound, "optimal": float(proven)}


def checkpoint_folder() -> Path:
    return networks_folder() / "regal"


def learner_for(instance: Instance, network: str | None = None) -> Learner:
    """The network that imitates elites of this name, or the one that serves the objective.

    Args:
      instance: whose objective counts.
      network: such as ``traced-runtime-1``.

    Raises:
      InputError: there is no such network, or it was trained for the other objective.
    """
    path = find_network("", network or NETWORKS[instance.objective])
    learner = read_learner(path)
    check_objective(learner.objective, instance, path.stem)
    return learner


@functools.cache
def chosen() -> dict:
    """The record of what validation and training graphs chose:
    ``data/checkpoints/regal/chosen.json``."""
    path = checkpoint_folder() / "chosen.json"
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(path, "", f"cannot be read ({error})") from None


def chosen_variant(learner: Learner) -> Variant:
    """The variant that validation graphs of the network's dataset chose."""
    return variant_from(chosen()["variants"][learner.dataset]["chosen"])


def lawful(
    law: Callable[..., MutantLaw], search: Callable[..., np.ndarray] = brkga, **options: Any
) -> Run:
    """A method from a search for a chromosome by a law, such as `brkga` or `then_climb`, and
    ``law(instance, rng, **options)``."""
    return searched(
        lambda instance, rng, budget: search(
            instance, rng, budget, law=law(instance, rng, **options)
        )
    )


def imitated_law(
    instance: Instance, rng: np.random.Generator, network: str | None = None
) -> MutantLaw:
    """The law that a network makes of its graph, used as validation graphs chose; `network` as in
    `learner_for`."""
    learner = learner_for(instance, network)
    return learner.law(instance, rng, chosen_variant(learner))


def then_climb(
    instance: Instance, rng: np.random.Generator, budget: Budget, *, law: MutantLaw
) -> np.ndarray:
    """BRKGA with a law for half of the budget, then a climb from its best; the chromosome."""
    half = part_of(budget, 0.5)
    half.progress = budget.progress
    best = brkga(instance, rng, half, law=law)
    assert half.best is not None
    budget.record(half.best, half.samples, better=float.__lt__)
    if not budget.spent():
        best = _local_search(instance, rng, budget, start=best)
    return best


def _chosen_law(
    name: str,
    instance: Instance,
    rng: object = None,
    seen: Features | None = None,
    **instead: Any,
) -> MutantLaw:
    """The law of this name, which no network makes, that training graphs chose for the objective;
    or with a parameter `instead`, such as another ``vector``. `seen`: its `features`, where they
    are known."""
    entry = chosen()[name][instance.objective]["chosen"] | instead
    if name == "constant-law":
        law = constant_law(instance, entry["affinity"], entry["priority"])
    elif name == "spectral-law":
        seen = features(instance) if seen is None else seen
        law = spectral_law(instance, seen, entry["vector"], entry["strength"])
    else:
        law = priority_law(instance, entry["rule"], entry["strength"])
    if "transfers" not in entry:
        return law
    return ordered_law(instance, law, entry.get("height", 0.0), entry["transfers"])


best_spectral_law = functools.partial(_chosen_law, "spectral-law")


def with_vector(choose: Callable[[Instance, np.ndarray], int]) -> Run:
    """BRKGA with the spectral law along the vector that a race decides, or a network that sees the
    race.

    The race is part of the budget.

    Args:
      choose: the place of the vector in `VECTORS`, by the scores of `race`.
    """

    def search(instance: Instance, rng: np.random.Generator, budget: Budget) -> np.ndarray:
        seen = features(instance)
        laws = [best_spectral_law(instance, seen=seen, vector=vector) for vector in VECTORS]
        scores, start = race(instance, rng, budget, laws)
        if budget.spent():
            return start
        best = brkga(instance, rng, budget, law=laws[choose(instance, scores)])
        return min(
            best,
            start,
            key=lambda chromosome: schedule_fitness(instance, decode(instance, chromosome)),
        )

    return searched(search)


def _learned_vector(network: str | None) -> Run:
    def run(instance: Instance, rng: np.random.Generator, budget: Budget) -> Outcome:
        check_served(instance)
        return with_vector(vector_policy(network or NETWORKS["runtime"]).choice)(
            instance, rng, budget
        )

    return run


LEARNED: dict[str, tuple[str, Callable[..., Run]]] = {
    "regal-imitation": (
        (
            "BRKGA with the distributions of a graph network that imitates elites, used as"
            " validation graphs chose"
        ),
        functools.partial(lawful, imitated_law),
    ),
    "regal-imitation-local-search": (
        "regal-imitation with half of the evaluations, then local search from its best",
        functools.partial(lawful, imitated_law, then_climb),
    ),
    **{
        name: (
            text,
            functools.partial(
                lawful, reinforced_law, random_search if name == "idrs" else brkga, method=name
            ),
        )
        for name, (_, text) in REINFORCED.items()
    },
    "regal-vector": (
        (
            "spectral-race with a network, trained by the reward, that chooses by the race and the"
            " cuts; for running time"
        ),
        _learned_vector,
    ),
}
"""Name -> description, and a function from ``network``, a network's name (None: by objective), to
the method's run."""


def _learned(name: str, network: str | None = None) -> Method:
    """A method of `LEARNED`, of one network where it is named."""
    description, make = LEARNED[name]
    kind = {"regal": PAPERS_LEARNER, "regal-average": SEARCH, "regal-untrained": SEARCH}.get(
        name, OURS
    )
    return Method(
        description + (f"; network {network}" if network else ""), make(network=network), kind
    )


METHODS: dict[str, Method] = {
    "brkga": Method(
        "biased random-key genetic algorithm, uniform mutants (BRKGA 5k)", searched(brkga)
    ),
    "brkga-tuned": Method(
        "the same with parameters from a grid search on training graphs", searched(_brkga_tuned)
    ),
    "local-search": Method(
        "hill climbing from a random solution over devices and priorities", searched(_local_search)
    ),
    "random": Method("the best of random chromosomes", searched(random_search)),
    "gp-dfs": Method("graph partitioning, then depth-first order", _rule(gp_dfs), RULE),
    "gp-list": Method("graph partitioning, then critical-path order", _rule(gp_list), RULE),
    "list-scheduler": Method(
        "critical-path list scheduling; for memory, least growth",
        _rule(lambda instance, rng: list_scheduler(instance)),
        RULE,
        random=False,
    ),
    "one-device": Method(
        "everything on the device where that is fastest; nothing is sent",
        _rule(lambda instance, rng: one_device(instance)),
        RULE,
        random=False,
    ),
    "cp-sat": Method("constraint programming, started from the best of the others", _cp_sat),
    "constant-law": Method(
        "BRKGA with one Beta distribution for all graphs, the best on training graphs",
        lawful(functools.partial(_chosen_law, "constant-law")),
    ),
    "spectral-law": Method(
        "BRKGA biased to halves of the best smooth vector on training graphs",
        lawful(best_spectral_law),
    ),
    "cut": Method(
        "regal with the spectral cut written into its bins in the place of a network",
        lawful(cut_law),
    ),
    "spectral-local-search": Method(
        "spectral-law with half of the evaluations, then local search from its best",
        lawful(best_spectral_law, then_climb),
    ),
    "spectral-race": Method(
        "spectral-law along the vector that wins a race of a few mutants",
        with_vector(lambda instance, scores: winner(scores)),
    ),
    "priority-law": Method(
        "BRKGA whose priorities follow the best rule on training graphs: bytes freed, or longest"
        " path",
        lawful(functools.partial(_chosen_law, "priority-law")),
    ),
} | {name: _learned(name) for name in LEARNED}
"""The methods by name, in the tables' order. Those of `LEARNED` exist for one network too:
``regal-imitation:NAME``."""


def network_file(objective: str, method: str) -> Path | None:
    """The checkpoint that a method asks, whether it exists or not; None where it asks none."""
    base, _, name = method.partition(":")
    if base in REINFORCED:
        training = training_of(base, objective)
        return policy_path(objective, name or None, training) if training else None
    start = "vector-" if base == "regal-vector" else ""
    return (
        checkpoint_folder() / f"{start}{name or NETWORKS[objective]}.npz"
        if base in LEARNED
        else None
    )


class Scheduling(Problem):
    """Paper 3: a graph, and the device and the turn of each op."""

    name = "regal"
    samples = EVALUATIONS
    net = ("list-scheduler", "one-device")
    options = (
        "machine",
        "fused",
        "objective",
        "devices",
        "transfers",
        "link_bytes_per_s",
        "link_latency_s",
    )
    retired = ("memory_gib",)

    def methods(self, profile: str = "full") -> Mapping[str, Method]:
        return METHODS

    def method(self, name: str, profile: str = "full") -> Method:
        base, colon, network = name.partition(":") if isinstance(name, str) else ("", "", "")
        if colon and base in LEARNED and network:
            return _learned(base, network)
        return super().method(name, profile)

    read = staticmethod(read_graph_file)
    read_solution = staticmethod(read_schedule)
    to_json = staticmethod(schedule_to_json)

    def task(
        self,
        instance: ComputationGraph,
        objective: str = "runtime",
        devices: int = 2,
        transfers: str = "rendezvous",
        memory_gib: float | None = None,
        link_bytes_per_s: float | None = None,
        link_latency_s: float | None = None,
        machine: Devices | None = None,
    ) -> Instance:
        """The graph on these devices; `machine`, where it is named, says all but the objective."""
        if machine is not None:
            return expect_room(Instance(instance, machine, objective))
        numbers = {"link_bytes_per_s": link_bytes_per_s, "link_latency_s": link_latency_s}
        if memory_gib is not None:
            numbers["memory_bytes"] = real(memory_gib, "memory_gib", "") * GIB
        given = {name: number for name, number in numbers.items() if number is not None}
        machine = Devices(devices=devices, transfers=transfers, **given)
        return expect_room(Instance(instance, machine, objective))

    def on_machine(self, machine: Any) -> dict[str, Any]:
        from learned_mapping.hardware.machine import devices_of

        return {"machine": devices_of(machine)}

    def picture(
        self, instance: ComputationGraph, solution: Schedule | None = None, task: Any = None
    ) -> Any:
        from learned_mapping.regal.draw import picture

        return picture(instance, solution, None if task is None else task.machine)

    def rules(self, task: Instance) -> tuple[str, ...]:
        """CP-SAT too, where the graph is small and the devices are such as it models."""
        small = task.graph.num_ops <= RULED_OPS and is_modelled(task)
        return (*self.net, "cp-sat") if small else self.net

    def toy(self, task: Instance) -> Instance:
        """Every schedule of it fits; memory is counted where it is in the task."""
        from learned_mapping.programs.synthetic import random_graph

        graph = random_graph(np.random.default_rng(0), "layered", 8)
        total = int(graph.op_weight_bytes.sum()) + int(graph.tensor_bytes.sum())
        memory = float(total - task.arrays.counts_memory)
        return Instance(graph, replace(task.machine, memory_bytes=memory), task.objective)

    def metrics(self, task: Instance, solution: Schedule) -> dict[str, float]:
        return schedule_costs(task, solution)

    def value(self, task: Instance, solution: Schedule) -> float:
        """Less seconds, or fewer bytes, are more; what does not fit comes last."""
        return -schedule_fitness(task, solution)

    def validate(self, task: Instance, solution: Schedule, listed: int | None = LISTED) -> Verdict:
        return validate(task.graph, solution, task.machine, listed=listed)

    def network_of(self, task: Instance, method: str) -> Path | None:
        return network_file(task.objective, method)

    def unseen(self, task: Instance, method: str) -> str:
        """Links, where a network was trained for free ones."""
        asks = method.partition(":")[0] in LEARNED
        return f"{method} was trained for free links: it does not see what a transfer takes" * (
            asks and task.arrays.costly_links
        )

    def note_of(self, method: str) -> str:
        """The objectives for which a method that asks a network has one."""
        files = {objective: network_file(objective, method) for objective in NETWORKS}
        has = [objective for objective, file in files.items() if file is not None and file.exists()]
        lacks = "".join(f", none for {objective}" for objective in files if objective not in has)
        return f"; a network for {' and '.join(has)}{lacks}" if has else ""

    def use_of(self, method: str) -> str:
        return f": {self.method(method.partition(':')[0]).description}"

    def beside(self, task: Instance) -> tuple[str, dict[str, float]]:
        """BRKGA with the paper's evaluations, where that fits, and what no schedule can beat."""
        result = solve(task, "brkga", samples=EVALUATIONS, seconds=BESIDE_SECONDS)
        name = f"brkga, {result.samples:,} evaluations"
        fits = schedule_fitness(task, result.solution) < INFEASIBLE
        found = {name: result.metrics[task.cost_name]} if fits else {}
        return task.cost_name, found | {"no schedule is below": floor(task)}


PROBLEM = Scheduling()


def solve(
    instance: Instance | ComputationGraph, method: str, *, objective: str = "runtime", **limits: Any
) -> Result:
    """Schedules `instance`; limits and errors as in `problem.solve`.

    Args:
      instance: a graph with devices and objective, or a graph alone, which is scheduled on two
        default devices.
      method: a name of `METHODS`.
      objective: ``runtime`` or ``memory``, of a graph alone.

    The result's metrics are those of `schedule_costs`, and ``bound`` and ``optimal`` where the
    method proves any.
    """
    expect_choice(objective, OBJECTIVES, "objective")
    if isinstance(instance, Instance) and objective not in ("runtime", instance.objective):
        raise InputError(
            "objective", "", f"{objective!r} is not the instance's, {instance.objective!r}"
        )
    task = instance if isinstance(instance, Instance) else PROBLEM.task(instance, objective)
    expect_room(task)
    return problem.solve(PROBLEM, task, method, **limits)


def expect_room(instance: Instance) -> Instance:
    """The instance; raises `DoesNotFitError` where the weights, or one op, pass the memory."""
    refuse_by_arithmetic(instance.graph, instance.arrays.memory_bytes, "device")
    return instance


def floor(instance: Instance) -> float:
    """The cost that no schedule can beat: the work shared out or the longest path, in seconds; or,
    in bytes, what one op holds at once or an equal share of all weights.

    Work is shared out at prices of the devices' time that add up to 1: a schedule of length C pays
    at most C, and every op at least its price where it is cheapest.
    """
    if instance.objective == "runtime":
        times = instance.arrays.device_seconds
        speed = 1.0 / np.maximum(times.sum(axis=0), 1e-300)
        work = (times * (speed / speed.sum())).min(axis=1).sum()
        return float(max(work, upward_rank(instance).max()))
    weights = instance.graph.op_weight_bytes
    held = instance.graph.op_input_bytes + instance.graph.op_output_bytes + weights
    return float(max(held.max(), weights.sum() / instance.machine.devices))


def schedule_costs(instance: Instance, schedule: Schedule) -> dict[str, float]:
    """``makespan_s`` (seconds) and ``peak_bytes`` of a schedule, by the simulator."""
    simulation = instance.simulate(schedule)
    return {"makespan_s": simulation.makespan_s, "peak_bytes": float(simulation.peak_bytes)}


def schedule_fitness(instance: Instance, schedule: Schedule) -> float:
    """The number that the searches minimise, as `Instance.fitness`, of a schedule."""
    simulation = instance.simulate(schedule)
    return instance.fitness(simulation.makespan_s, simulation.peaks)
