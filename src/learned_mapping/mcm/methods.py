"""Every way to partition a graph, by name, behind one call: `solve`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping import problem
from learned_mapping.budget import Budget
from learned_mapping.errors import InputError, LearnedMappingError, expect_choice, expect_whole
from learned_mapping.hardware.chip_package import LEAST_S, ChipPackage
from learned_mapping.hardware.fitting import CHAIN, DoesNotFitError
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.bounds.optimum import (
    bisection,
    ideals_of,
    lower_bound,
    optimum,
)
from learned_mapping.mcm.bounds.room import room_needed
from learned_mapping.mcm.partition import Partition, partition_to_json, read_partition
from learned_mapping.mcm.rules.constraints import obeys_pins
from learned_mapping.mcm.rules.cp_sat import fastest_partition, is_small_enough
from learned_mapping.mcm.rules.fold import fold_cheap_sources, fold_weights
from learned_mapping.mcm.searches import stochastic
from learned_mapping.mcm.searches.even_cut import balanced_start
from learned_mapping.mcm.searches.greedy import careful_greedy, naive_greedy
from learned_mapping.mcm.searches.moves import climb
from learned_mapping.mcm.task import ENGINE, REPAIRS, Task
from learned_mapping.mcm.validate import validate
from learned_mapping.problem import (
    EXACT,
    PAPER,
    RULE,
    SEARCH,
    Method,
    Outcome,
    Problem,
    Result,
    read_graph_file,
)
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import LISTED, Verdict

SAMPLES = 1000  # Partitions every search may evaluate unless told otherwise.
ROUNDED = 1e-4  # The share by which CP-SAT's rounded times may part from the bound it proves.
STARTS = ("greedy-careful",)
NO_REPAIR = (
    "greedy-naive",
    "greedy-careful",
    "optimum",
    "cp-sat",
    "climb",
    "unconstrained",
    "even-cut",
    "random-balanced",
    "class-search",
    "learned-times",
    "learned-times-throughput",
)
"""Methods that repair nothing."""
SCRATCH, ZERO_SHOT, FINE_TUNED, FROZEN = "scratch", "zeroshot", "finetune", "frozen"
BALANCED: dict[str, Any] = {
    "credit": "exact",
    "rollouts": 10,
    "minibatches": 2,
    "epochs": 4,
    "learning_rate": 3e-3,
    "begun": True,
}
"""Settings of `agent.config` of a policy that begins at near-balanced partitions; chosen on the
validation graphs."""
CHIPS, PLAIN, MOVES = "chips", "plain", "moves"
POLICIES: dict[str, dict[str, Any]] = {CHIPS: {}, PLAIN: {"credit": "sample"}, MOVES: BALANCED}
"""Policy, by the name of its shipped files -> settings that differ."""


def ruled(
    rule: Callable[[Task], np.ndarray],
) -> Callable[[Task, np.random.Generator, Budget], Outcome]:
    """A method from a rule, which gives [N] chips."""

    def run(task: Task, rng: np.random.Generator, budget: Budget) -> Outcome:
        task.check()
        assignment = rule(task)
        budget.record(task.model.throughput(assignment))
        return task.partition(assignment), {}

    return run


def searched(search: Callable) -> Callable[[Task, np.random.Generator, Budget], Outcome]:
    """A method from a search (task, randomness, budget) -> [N] chips or ([N] chips, more).

    It judges the task's start first, where there is one, and ends with the better of both; where
    ops are fixed and no sample stands behind what it ends with, with the even cut.
    """

    def run(task: Task, rng: np.random.Generator, budget: Budget) -> Outcome:
        task.check()
        first = None
        if task.start is not None:
            first = careful_greedy(task.model)
            budget.record(task.model.throughput(first))
        outcome = search(task, rng, budget)
        assignment, metrics = outcome if isinstance(outcome, tuple) else (outcome, {})
        if not obeys_pins(assignment, task.model.graph) and metrics.get("valid") != 0.0:
            assignment = balanced_start(task.model, task.arrays)
        if first is not None and task.model.throughput(assignment) < task.model.throughput(first):
            assignment = first
        return task.partition(assignment), metrics

    return run


def _optimum(task: Task, rng: np.random.Generator, budget: Budget) -> Outcome:
    """Within a time, half of it for the ideals; then CP-SAT, the cheaper, says where the bisection
    begins."""
    model, start, low = task.model, None, 0.0
    ideals = ideals_of(model, stop=lambda: budget.spent(0.5))
    if budget.left_s is not None and is_small_enough(model.graph, model.package.chips):
        left = budget.left_s
        first = fastest_partition(
            model, seconds=left / 2, seed=0, start=careful_greedy(model), stop=budget.look
        )
        start, low = first.assignment, first.bound
    proven = bisection(model, ideals, start=start, low_s=low, stop=budget.spent)
    budget.record(model.throughput(proven.assignment))
    bound = lower_bound(model)
    low = model.runtime(proven.assignment) if proven.exact else max(proven.low_s, bound)
    return task.partition(proven.assignment), {"bound_s": bound, "chain_bound_s": low}


def _cp_sat(task: Task, rng: np.random.Generator, budget: Budget):
    start = careful_greedy(task.model)
    budget.record(task.model.throughput(start))
    effort = 10.0 * min((budget.limit_samples or SAMPLES) / SAMPLES, 1.0)
    outcome = fastest_partition(
        task.model,
        effort=effort,
        seconds=budget.left_s,
        seed=int(rng.integers(2**31)),
        start=start,
        stop=budget.look,
    )
    if outcome.infeasible:
        share, sharp = room_needed(task.model, budget.left_s)
        assert task.model.limit is not None
        raise DoesNotFitError(task.graph, task.model.limit, share, CHAIN, sharp=sharp)
    bound = lower_bound(task.model)
    extra = {"bound_s": bound}
    if outcome.optimal or outcome.bound > 0.0:
        found = outcome.assignment
        fits = found is not None and task.model.excess(found) <= 1.0
        low = max(outcome.bound, bound)
        # The solver's times are rounded, the bound is not: where the two part, nothing is proved.
        near = found is not None and task.model.runtime(found) <= low * (1 + ROUNDED)
        optimal = float(outcome.optimal and fits and near)
        extra |= {"chain_bound_s": low, "optimal": optimal}
    if outcome.assignment is not None and budget.record(task.model.throughput(outcome.assignment)):
        return outcome.assignment, extra
    return start, extra


def _learn(
    kind: str,
    policy_name: str,
    profile: str,
    task: Task,
    rng: np.random.Generator,
    budget: Budget,
) -> np.ndarray:
    """The paper's policy over chips. What takes long to import is imported here."""
    from learned_mapping.learning.loop import seed_of
    from learned_mapping.mcm.agent.checkpoints import shipped
    from learned_mapping.mcm.agent.config import agent_config
    from learned_mapping.mcm.agent.ppo import fresh_optimiser, make_policy, new_learned
    from learned_mapping.mcm.agent.ppo import run as learn
    from learned_mapping.mcm.env import PartitionEnv
    from learned_mapping.mcm.searches.even_cut import Start

    if budget.checkpoint is not None and type(task) is not Task:
        raise InputError("--checkpoint", "", "is for the analytical model")
    with budget.uncounted():
        changes = POLICIES[policy_name] | task.settings
        start = Start(task.model, task.arrays) if policy_name == MOVES else None
        env = PartitionEnv(task.model, task.arrays, start, task.repair)
        if kind in (SCRATCH, FROZEN):
            policy = make_policy(agent_config(profile, **changes))
            learned = new_learned(policy, rng)
        else:
            config, parameters = shipped(task.pretraining, policy_name)
            policy, learned = make_policy(config), fresh_optimiser(config, parameters)
    name = (
        f"{kind} {policy_name} {profile} {task.settings} {task.graph.digest}"
        f" {task.model.package} {seed_of(rng)}"
    )
    return learn(
        policy, learned, env, rng, budget, learning=kind not in (ZERO_SHOT, FROZEN), name=name
    )[0]


METHODS: dict[str, Method] = {
    "greedy-naive": Method(
        "fills chip after chip up to an equal share; the rest goes to the last",
        ruled(lambda task: naive_greedy(task.model, task.arrays)),
        RULE,
        random=False,
    ),
    "greedy-careful": Method(
        "the smallest cap, by bisection, under which filling in as-late-as-possible order succeeds",
        ruled(lambda task: careful_greedy(task.model)),
        RULE,
        random=False,
    ),
    "optimum": Method(
        "exact under the chain rule: dynamic programming over ideals", _optimum, EXACT, random=False
    ),
    "cp-sat": Method(
        "constraint programming under the chain rule, from the careful greedy", searched(_cp_sat)
    ),
    "random": Method(
        "uniform distributions, repaired by SAMPLE",
        searched(
            lambda task, rng, budget: stochastic.random_search(task.model, task.repair, rng, budget)
        ),
    ),
    "sa": Method(
        "simulated annealing over the distributions, repaired by SAMPLE",
        searched(
            lambda task, rng, budget: stochastic.annealing(task.model, task.repair, rng, budget)
        ),
    ),
    "sa-balanced": Method(
        "simulated annealing that begins at the even cut of the model's costs",
        searched(
            lambda task, *rest: stochastic.annealing_from_balance(
                task.model, task.arrays, task.repair, *rest
            )
        ),
    ),
    "climb": Method(
        "the best move by the model's latencies, or where none gains the best push, again and"
        " again, from the even cut and near-balanced partitions",
        searched(lambda task, rng, budget: climb(task.model, task.arrays, rng, budget)),
        version=2,
    ),
    "unconstrained": Method(
        "uniform random chips without a solver; invalid ones are worth nothing",
        searched(
            lambda task, rng, budget: stochastic.unconstrained_search(task.model, rng, budget)
        ),
    ),
}
"""The methods by name, in the order of the tables, but for those of `all_methods`."""
LEARNERS: dict[str, tuple[str, str, str]] = {
    "rl": (
        "the paper's policy over chips, PPO from scratch, a credit for each op",
        SCRATCH,
        CHIPS,
    ),
    "rl-sample-credit": ("the same with one advantage for all ops of a sample", SCRATCH, PLAIN),
    "rl-balanced": (
        "a policy of pushes from near-balanced partitions, each row of samples a chain",
        SCRATCH,
        MOVES,
    ),
    "rl-balanced-frozen": (
        "the same start, moves and repair without learning: its control",
        FROZEN,
        MOVES,
    ),
    "zeroshot": (
        "the paper's policy, trained on other graphs, sampled as it is",
        ZERO_SHOT,
        CHIPS,
    ),
    "finetune": ("the paper's policy, trained on other graphs, PPO goes on", FINE_TUNED, CHIPS),
    "zeroshot-sample-credit": (
        "a policy trained with one advantage a sample, sampled as it is",
        ZERO_SHOT,
        PLAIN,
    ),
    "finetune-sample-credit": (
        "a policy trained with one advantage a sample, PPO goes on so",
        FINE_TUNED,
        PLAIN,
    ),
    "zeroshot-balanced": (
        "the policy of moves, trained on other graphs, sampled as it is",
        ZERO_SHOT,
        MOVES,
    ),
    "finetune-balanced": (
        "the policy of moves, trained on other graphs, PPO goes on",
        FINE_TUNED,
        MOVES,
    ),
}
"""Name -> description, how it starts, and which of `POLICIES` it is."""
BEGUN = tuple(name for name, (_, _, policy) in LEARNERS.items() if policy == MOVES)
VERSIONS = {"rl": 2, **dict.fromkeys(BEGUN, 2)}
"""The second has a credit per op; of those that begin at partitions, pushes and chains."""


def all_methods(profile: str = "full") -> dict[str, Method]:
    """Every method; the profile is the size of a network that starts from scratch: quick, full or
    paper.

    A task's model is both what a method knows and what judges its partitions; where `throughput` is
    measured, as that of `hardware.silicon.SiliconModel` is, a learner learns from measurements.
    """

    def learner(name: str, description: str, kind: str, policy: str) -> Method:
        run = searched(partial(_learn, kind, policy, profile))
        return Method(
            description,
            run,
            SEARCH if kind == FROZEN else PAPER,
            # a batch, and a start
            prepare=lambda task, rng: run(task, rng, Budget(samples=1 + AgentConfig.rollouts)),
            resumable=kind not in (ZERO_SHOT, FROZEN),
            version=VERSIONS.get(name, 1),
        )

    return METHODS | {name: learner(name, *row) for name, row in LEARNERS.items()}


CHEAP_IDEALS = 20_000  # Up to here the optimum takes a moment, and stands beside any partition.


class Partitioning(Problem):
    """Paper 2: a graph, and the chip of each op, judged by the analytical model."""

    name = "mcm"
    samples = SAMPLES
    net = ("greedy-careful",)
    options = ("machine", "fused", "chips", "fold", "start", "repair", "iterations", "hardware")
    retired = ("package",)

    def methods(self, profile: str = "full") -> Mapping[str, Method]:
        return all_methods(profile)

    read = staticmethod(read_graph_file)
    read_solution = staticmethod(read_partition)
    to_json = staticmethod(partition_to_json)

    def task(
        self,
        instance: ComputationGraph,
        chips: int = 36,
        package: ChipPackage | None = None,
        start: str | None = None,
        repair: str = ENGINE,
        iterations: int | None = None,
        memory: bool = False,
    ) -> Task:
        """The graph as it is: `fold.fold_cheap_sources` first, where cheap tensors are used
        everywhere.

        Args:
          chips: C, on the default package.
          package: the chips; overrides `chips`.
          start: None, or the rule whose partition a search judges first.
          repair: as in `Task`.
          iterations: T of Eq. 7, of a policy from scratch; the profile's where None.
          memory: as in `Task`.
        """
        if start is not None:
            expect_choice(start, STARTS, "start")
        package = ChipPackage(chips=chips) if package is None else package
        settings = (
            {}
            if iterations is None
            else {"iterations": expect_whole(iterations, "iterations", "", 1, 64)}
        )
        return Task(instance, package, start, repair, memory=memory, **settings)

    def on_machine(self, machine: Any) -> dict[str, Any]:
        """Its chips, whose memory then counts."""
        from learned_mapping.hardware.machine import package_of

        return {"package": package_of(machine), "memory": True}

    def picture(
        self, instance: ComputationGraph, solution: Partition | None = None, task: Any = None
    ) -> Any:
        from learned_mapping.hardware.drawing import drawing
        from learned_mapping.mcm.draw import picture

        return (
            drawing(instance)
            if solution is None
            else picture(instance, solution, task.model.package)
        )

    def folded(self, instance: ComputationGraph) -> ComputationGraph:
        from learned_mapping.mcm.rules.fold import fold_cheap_sources, fold_weights

        return fold_cheap_sources(fold_weights(instance))

    def hint_of(self, instance: ComputationGraph) -> str:
        from learned_mapping.mcm.rules.fold import weight_sources

        count = int(weight_sources(instance).sum())
        hint = f"{count:,} ops look like weights: --fold puts them into the ops that use them"
        return hint * (count > 0)

    def toy(self, task: Task) -> Task:
        from learned_mapping.mcm.rules.constraints import example_graph

        graph = example_graph()
        if task.graph.op_chip is not None:
            graph = replace(graph, op_chip=np.array([0] + [-1] * (graph.num_ops - 1), np.int32))
        # the same kernels
        memory: dict[str, Any] = {"memory": True} if task.memory or not task.model.alike else {}
        return self.task(graph, chips=2, repair=task._repair, **memory)

    def metrics(self, task: Task, solution: Partition) -> dict[str, float]:
        """``throughput`` (results per second; 0 where invalid), ``runtime_s`` and
        ``chips_used``."""
        metrics = {"chips_used": float(solution.chips_used), "throughput": 0.0}
        if (assignment := task.valid(solution)) is not None:
            runtime = task.model.runtime(assignment)
            fits = task.model.excess(assignment) <= 1.0
            throughput = 1.0 / max(runtime, LEAST_S) if fits else 0.0
            metrics |= {"runtime_s": runtime, "throughput": throughput}
        return metrics

    def value(self, task: Task, solution: Partition) -> float:
        """Results per second, as the task's model says or measures; 0 where invalid, next to
        nothing where it does not fit."""
        assignment = task.valid(solution)
        return 0.0 if assignment is None else task.model.throughput(assignment)

    def validate(self, task: Task, solution: Partition, listed: int | None = LISTED) -> Verdict:
        package = task.model.package
        return validate(task.graph, solution, package, memory=task.memory, listed=listed)

    def users(self, option: str) -> tuple[str, ...] | None:
        """Nothing repairs a rule's partition; Eq. 7 is of a policy over chips; an exact method
        starts nowhere."""
        if option == "start":
            return tuple(
                name for name, method in self.methods().items() if method.kind not in (RULE, EXACT)
            )
        if option == "repair":
            return tuple(name for name in self.methods() if name not in NO_REPAIR)
        return ("rl", "rl-sample-credit") if option == "iterations" else None

    def network_of(self, task: Task, method: str) -> Path | None:
        from learned_mapping.mcm.agent.checkpoints import checkpoint_path

        pretrained = method in LEARNERS and LEARNERS[method][1] not in (SCRATCH, FROZEN)
        return checkpoint_path(task.pretraining, LEARNERS[method][2]) if pretrained else None

    def beside(self, task: Task) -> tuple[str, dict[str, float]]:
        """The careful greedy rule where that fits; the optimum where it is cheap, else the
        bound."""
        rule = careful_greedy(task.model)
        fits = task.model.excess(rule) <= 1.0
        greedy = {"greedy-careful": task.model.runtime(rule)} if fits else {}
        try:
            assignment = optimum(task.model, ideals=ideals_of(task.model, CHEAP_IDEALS))
            best = {"optimum under the chain rule": task.model.runtime(assignment)}
        except LearnedMappingError:  # too wide, with fixed ops, or larger than the memory
            best = {"no partition is below": lower_bound(task.model)}
        return "runtime_s", greedy | best

    def instead_of_optimum(self, task: Task) -> str:
        """The method for a graph that is too wide for the optimum."""
        return (
            "cp-sat" if is_small_enough(task.graph, task.model.package.chips) else "greedy-careful"
        )

    def hints(self, task: Task, solution: Partition) -> list[str]:
        used, chips = solution.chips_used, task.model.package.chips
        if 2 * used > chips:
            return []
        try:
            folded = fold_cheap_sources(fold_weights(task.graph)).num_ops < task.graph.num_ops
        except InputError:  # folded, an op would have more than a graph can say
            folded = False
        advice = (
            "; --fold puts weights and cheap shared ops where they are used, and may use more"
            if folded
            else ""
        )
        return [f"{used} of {chips} chips are used{advice}"]


PROBLEM = Partitioning()


def solve(
    graph: ComputationGraph,
    method: str,
    *,
    chips: int = 36,
    package: ChipPackage | None = None,
    start: str | None = None,
    repair: str = ENGINE,
    memory: bool = False,
    **limits: Any,
) -> Result:
    """Partitions `graph`; options as in `Partitioning.task`, limits and errors as in
    `problem.solve`.

    Raises:
      TooManyIdealsError: method ``optimum`` on a graph too wide for it.
      DoesNotFitError: with `memory`, it is proved that nothing fits.
    """
    PROBLEM.method(method)  # complains of an unknown one
    expect_choice(repair, REPAIRS, "repair")
    PROBLEM.refuse(method, ["start"] * (start is not None) + ["repair"] * (repair != ENGINE))
    return problem.solve(
        PROBLEM,
        PROBLEM.task(graph, chips, package, start, repair, memory=memory),
        method,
        **limits,
    )
