"""Paper 2's silicon as a problem of its own over the same graphs: every sample is a noisy
measurement."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, expect_type, expect_whole
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.silicon import (
    Silicon,
    SiliconModel,
    SiliconParameters,
    silicon_package,
)
from learned_mapping.mcm.methods import Partitioning, all_methods, ruled, searched
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.rules.constraints import group_pairs
from learned_mapping.mcm.searches.even_cut import balanced_search, balanced_start, class_search
from learned_mapping.mcm.searches.learned_times import learned_times
from learned_mapping.mcm.task import ENGINE, Task
from learned_mapping.mcm.validate import validate_on_silicon
from learned_mapping.problem import EXACT, OURS, RULE, Method
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.verdict import LISTED, Verdict

STORED = SiliconParameters()
"""The chips of the tables."""
EXTRA_METHODS: dict[str, Method] = {
    "even-cut": Method(
        "the even cut of the model's costs",
        ruled(lambda task: balanced_start(task.model, task.arrays)),
        RULE,
    ),
    "random-balanced": Method(
        "even cuts of the late order and of random ones by perturbed costs",
        searched(lambda task, rng, budget: balanced_search(task.model, task.arrays, rng, budget)),
        version=2,
    ),
    "class-search": Method(
        "cross-entropy search over a cost factor per class of ops, cut evenly",
        searched(lambda task, rng, budget: class_search(task.model, task.arrays, rng, budget)),
    ),
    "learned-times": Method(
        "op times by least squares from each chip's seconds, cut evenly, pushed, measured, again",
        searched(lambda task, rng, budget: learned_times(task.model, task.arrays, rng, budget)),
        OURS,
    ),
    "learned-times-throughput": Method(
        "the same from the throughput alone: its control",
        searched(
            lambda task, rng, budget: learned_times(
                task.model, task.arrays, rng, budget, of_each_chip=False
            )
        ),
        OURS,
    ),
}
"""The methods for silicon alone, by name."""


class SiliconTask(Task):
    """A graph on simulated chips of these parameters. `model` knows the analytical costs; in a run
    its throughput is measured (`begin`).

    Raises:
      InputError: a graph with groups, whose ops run one by one here; or as `Task` does.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        package: ChipPackage,
        parameters: SiliconParameters = STORED,
        **options: Any,
    ):
        if pairs := group_pairs(graph):
            fault = "groups are for the analytical model, not for silicon"
            raise InputError(graph.name, f"ops[{pairs[0][0]}].group", fault)
        super().__init__(graph, package, **options)
        self.silicon = Silicon(graph, package, parameters)


class PartitioningOnSilicon(Partitioning):
    """Paper 2 on the simulated chips; the methods are those of the analytical model and those that
    cut evenly."""

    def beside(self, task: Task) -> tuple[str, dict[str, float]]:
        """Nothing: what is measured there costs samples."""
        return "", {}

    def methods(self, profile: str = "full") -> Mapping[str, Method]:
        return all_methods(profile) | EXTRA_METHODS

    def task(
        self,
        instance: ComputationGraph,
        chips: int = 36,
        package: ChipPackage | None = None,
        start: str | None = None,
        repair: str = ENGINE,
        iterations: int | None = None,
        pretraining: int = 0,
        parameters: SiliconParameters = STORED,
    ) -> SiliconTask:
        expect_type(instance, ComputationGraph, "graph")
        if start is not None:
            raise InputError("--start", "", "is for the analytical model")
        package = silicon_package(chips) if package is None else package
        settings = (
            {}
            if iterations is None
            else {"iterations": expect_whole(iterations, "iterations", "", 1, 64)}
        )
        return SiliconTask(
            instance, package, parameters, repair=repair, pretraining=pretraining, **settings
        )

    def on_machine(self, machine: Any) -> dict[str, Any]:
        return {"package": super().on_machine(machine)["package"]}

    def unseen(self, task: SiliconTask, method: str) -> str:
        """Silicon, where a method goes by the costs of the model and measures only what it ends
        with."""
        blind = method == "cp-sat" or self.method(method).kind in (RULE, EXACT)
        return (
            f"{method} goes by the cost model: it never sees the simulated chips, which judge what"
            " it finds" * blind
        )

    def begin(self, task: SiliconTask, seed: int) -> tuple[SiliconTask, np.random.Generator]:
        plan_seed, noise_seed = np.random.SeedSequence(seed).spawn(2)
        measured = copy.copy(task)
        measured.model = SiliconModel(task.silicon, np.random.default_rng(noise_seed))
        return measured, np.random.default_rng(plan_seed)

    # The tasks of this problem are its own.
    def metrics(  # type: ignore[override]
        self, task: SiliconTask, solution: Partition
    ) -> dict[str, float]:
        """``silicon_throughput``, without noise and 0 where the partition cannot run, and
        ``chips_used``."""
        task.valid(solution)  # complains of another graph's
        throughput = validate_on_silicon(solution, task.silicon).costs.get(
            "silicon_throughput", 0.0
        )
        return {"silicon_throughput": throughput, "chips_used": float(solution.chips_used)}

    def validate(  # type: ignore[override]
        self, task: SiliconTask, solution: Partition, listed: int | None = LISTED
    ) -> Verdict:
        return validate_on_silicon(solution, task.silicon, listed=listed)


PROBLEM = PartitioningOnSilicon()
