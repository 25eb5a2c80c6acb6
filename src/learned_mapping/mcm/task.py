"""A graph on a package, with what every method of paper 2 shares."""

from functools import cached_property, partial
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, expect_choice, truth
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.fitting import refuse_by_arithmetic
from learned_mapping.mcm.partition import Partition, make_partition
from learned_mapping.mcm.repair.engine import Repair, repair_arrays, repair_batch
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.rules.constraints import is_valid, obeys_pins
from learned_mapping.mcm.rules.pins import classes_of, contracted
from learned_mapping.programs.graph import ComputationGraph

ENGINE, CP_SAT, NEAREST = "engine", "cp-sat", "cp-sat-nearest"
REPAIRS = (ENGINE, CP_SAT, NEAREST)
"""Who makes a candidate valid."""


class Task:
    """A graph on a package, with what the methods share.

    Args:
      graph, package: what is partitioned, and over what.
      start: ``greedy-careful`` gives a search that partition as its first sample; None nothing.
      repair: who makes a candidate valid, the compiled ``engine`` or ``cp-sat``, for graphs of some
        hundred ops; ``cp-sat-nearest`` takes the valid partition that changes the fewest ops where
        the others FIX.
      pretraining: which of the shipped policies a trained one is.
      memory: whether a valid partition has to fit the memory of every chip (H of Eq. 5); the
        papers' tables ask for none.
      settings: of a policy from scratch, fields of `agent.config` that differ from the profile's.

    Methods see `model`, whose graph has one op for each class of ops that a group ties together
    (`rules.pins`); `partition` tells the whole graph's ops their chips.

    Raises:
      InputError: an op is fixed to a chip that is not there, or ops that have to share one are
        fixed to different ones; groups on chips that differ, or whose memory counts.
      DoesNotFitError: the weights, or one op, pass the memory that is to be kept to.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        package: ChipPackage,
        start: str | None = None,
        repair: str = ENGINE,
        pretraining: int = 0,
        memory: bool = False,
        **settings: Any,
    ):
        expect_choice(repair, REPAIRS, "repair")
        self.memory = truth(memory, "memory")
        self.graph, self.start = graph, start
        self.model = ChipModel(graph, package, self.memory)
        self._repair, self.settings, self.pretraining = repair, settings, pretraining
        self._label = classes_of(graph)
        self._leader: slice | np.ndarray = slice(None)
        if self._label is not None:
            if self.memory or not self.model.alike:
                fault = "groups are for chips that are alike and whose memory does not count"
                raise InputError(graph.name, "group", fault)
            small, self._leader = contracted(graph, self._label, self.model.op_seconds)
            self.model = ChipModel(small, package)
        if self.model.limit is not None:
            refuse_by_arithmetic(graph, self.model.limit, "chip")
        pins = np.zeros(0) if graph.op_chip is None else graph.op_chip
        for op in np.flatnonzero(pins >= package.chips).tolist():
            fault = f"{pins[op]} is outside [0, {package.chips - 1}], the chips of the package"
            raise InputError(graph.name, f"ops[{op}].chip", fault)

    @cached_property
    def arrays(self) -> RepairArrays:
        return repair_arrays(self.model.graph)

    def check(self) -> None:
        """Raises `InputError` where no partition under the chain rule has every fixed op on its
        chip."""
        if self.model.graph.op_chip is not None:
            self.arrays  # noqa: B018

    @cached_property
    def repair(self) -> Repair:
        """Algorithms 1 and 2, and the nearest valid partition, on this graph and package."""
        if self._repair == ENGINE:
            return partial(repair_batch, self.arrays, self.model.package.chips)
        from learned_mapping.mcm.repair.cp_sat import cp_sat_batch, nearest_batch

        batch, chips = (
            nearest_batch if self._repair == NEAREST else cp_sat_batch,
            self.model.package.chips,
        )
        return partial(batch, self.model.graph, chips)

    def partition(self, assignment: np.ndarray) -> Partition:
        """Chips of the ops of the model's graph as a partition of the whole one, which can draw
        itself."""
        package, num_ops = self.model.package, self.model.graph.num_ops
        if np.shape(assignment) != (num_ops,):
            raise InputError(
                "partition", "assignment", f"shape {np.shape(assignment)}, expected ({num_ops},)"
            )
        whole = assignment if self._label is None else assignment[self._label]
        return make_partition(whole, package.chips).on(self.graph, package)

    def valid(self, solution: Partition) -> np.ndarray | None:
        """The chips of the ops of the model's graph; None where a rule is broken. Raises
        `InputError` where the partition is another graph's."""
        whole, graph = solution.assignment, self.graph
        if len(whole) != graph.num_ops:
            raise InputError(
                "partition", "assignment", f"{len(whole)} chips for {graph.num_ops} ops"
            )
        return (
            whole[self._leader]
            if is_valid(whole, graph.op_edges) and obeys_pins(whole, graph)
            else None
        )
