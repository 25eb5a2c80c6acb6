"""What a search works on: a graph, the package, and whatever judges a partition."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.agent.cut import CutArrays, cut_arrays
from learned_mapping.mcm.agent.features import GraphFeatures, classes_of, graph_features
from learned_mapping.mcm.repair.engine import repair_arrays
from learned_mapping.mcm.repair.kernel import RepairArrays
from learned_mapping.mcm.searches.greedy import naive_greedy


class Judge(Protocol):
    """The analytical model, the silicon, or a real package."""

    def throughput(self, assignment: np.ndarray) -> float:
        """Results per second of [N] chip ids that keep the static rules; 0 where it does not run."""


class Problem:
    """A graph on a package, by the analytical model, and the judge whose throughput counts.

    Args:
      model: what a policy knows of op times and transfers before it tries anything.
      judge: what is asked for throughput; the model itself by default.
      arrays: of the repair, where they are known already.
      start: [N] chips about which policy ``chips`` begins, see `mcm.balanced_start`; none where None.
    """

    def __init__(
        self,
        model: ChipModel,
        judge: Judge | None = None,
        arrays: RepairArrays | None = None,
        start: np.ndarray | None = None,
    ):
        self.start = start
        self.model, self.judge = model, model if judge is None else judge
        self.chips, self.num_ops = model.package.chips, model.graph.num_ops
        if arrays is not None:
            self.arrays = arrays

    @cached_property
    def arrays(self) -> RepairArrays:
        return repair_arrays(self.model.graph)

    @cached_property
    def cut(self) -> CutArrays:
        return cut_arrays(self.model)

    @cached_property
    def features(self) -> GraphFeatures:
        return graph_features(self.model)

    @cached_property
    def classes(self) -> np.ndarray:
        """[N] int64, as `features.classes_of` numbers them."""
        return classes_of(self.model.graph)

    @cached_property
    def unit(self) -> float:
        """Rewards are throughput over this: that of the naive greedy by the analytical model."""
        return 1.0 / max(self.model.runtime(naive_greedy(self.model, self.arrays)), 1e-300)
