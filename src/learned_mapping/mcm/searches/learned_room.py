"""Learning how much a chip may hold from what ran and what did not, and plans that keep to it.

A partition that cannot run says nothing of why. Yet chips that ran held so many bytes of tensors,
and of one that did not run some chip may have held too many: between the two lies what a plan keeps
to. CP-SAT makes the plan, the fastest by the times believed, with the bytes of every chip while
each of its ops runs as rows of its model. Bytes are those of `chip_package.chip_memory`, and once
more those of what arrives or goes on, since chips in a row work on several results at a time.
"""

import dataclasses

import numpy as np

from learned_mapping.hardware.chip_memory import memory_arrays, memory_of
from learned_mapping.hardware.chip_package import LEAST_S, MAX_NUMBER, ChipModel
from learned_mapping.mcm.rules.cp_sat import fastest_partition

MAX_TERMS = 100_000
"""Ops times tensors times chips up to which CP-SAT plans, in a second or two."""
LESS = 0.85
"""After a plan that did not run, where none that ran says otherwise: this share of its bytes."""
EFFORT = 0.2
"""Of CP-SAT for a plan, see `rules.cp_sat`."""


class Room:
    """Bytes of tensors that a chip may hold, weights left out: those may come from elsewhere.

    Args:
      model: whose `judged` says what ran.
    """

    def __init__(self, model: ChipModel):
        graph = model.graph
        self._package, self._most_ran, self._least_failed = model.package, 0.0, np.inf
        terms = graph.num_ops * graph.num_tensors * model.package.chips
        self._modelled = terms <= MAX_TERMS and graph.op_chip is None
        if self._modelled:
            nothing = np.zeros(graph.num_ops, np.int64)
            self._bare = dataclasses.replace(
                graph, op_weight_bytes=nothing, op_untouched_bytes=None
            )
            self._held, self._model = memory_arrays(self._bare), model

    def needed(self, partition: np.ndarray) -> float:
        """Bytes of the fullest chip; 0 of a graph that is too large for CP-SAT (`MAX_TERMS`)."""
        if not self._modelled:
            return 0.0
        held = memory_of(self._held, np.asarray(partition, np.int64), self._package.chips)
        rate = self._package.each("link_bytes_per_s")[0]
        return float((held + rate * self._model.link_seconds(partition)).max())

    def learn(self, partition: np.ndarray, ran: bool) -> None:
        """Takes in whether a partition ran."""
        needed = self.needed(partition)
        if ran:
            self._most_ran = max(self._most_ran, needed)
        else:
            self._least_failed = min(self._least_failed, needed)

    @property
    def limit(self) -> float:
        """Bytes that a plan keeps to: halfway between what ran and what did not."""
        if 0 < self._most_ran < self._least_failed < np.inf:
            return (self._most_ran + self._least_failed) / 2
        return LESS * self._least_failed

    def plan(self, seconds: np.ndarray, wait: float, start: np.ndarray) -> np.ndarray:
        """[N] int32: `start` where it keeps to the limit, or where CP-SAT finds none that does;
        else the fastest that it finds.

        Args:
          seconds, wait: of `learned_times.costs`.
          start: [N] a valid partition.
        """
        if not self._modelled or self.needed(start) <= self.limit:
            return start
        rate = float(self._package.each("link_bytes_per_s")[0]) / max(wait, LEAST_S)
        package = dataclasses.replace(
            self._package, sram_bytes=self.limit, link_bytes_per_s=min(rate, MAX_NUMBER)
        )
        timed = dataclasses.replace(self._bare, op_seconds=np.asarray(seconds, np.float64))
        model = ChipModel(timed, package, memory=True)
        found = fastest_partition(model, effort=EFFORT, start=start, buffered=True).assignment
        return start if found is None else found
