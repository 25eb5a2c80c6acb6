"""Paper 2: which chip of a multi-chip module runs each op.

- The rules: `rules.constraints` (definitions), `validate` (the independent judge), `partition` (the
  file).
- The constraint repair: `repair.engine` and `repair.kernel` (Algorithms 1 and 2 compiled, in
  batches), `repair.solver` (the same in plain Python, and step by step for the book). A repair
  knows a graph's edges, the chips and the rules, and no costs, no learner and no experiment;
  `tests/library/mcm/test_house.py` holds it to that.
- The environment: `env`, pure `reset`, `observe` and `step` in JAX around the repair.
- Without learning: `searches`, and `bounds` that nothing beats.
- Learning: `agent`. Every method by name: `methods`; the same problem on simulated chips:
  `silicon`.
"""

from typing import TYPE_CHECKING

from learned_mapping.lazy import lazily
from learned_mapping.mcm.validate import validate

if TYPE_CHECKING:
    from learned_mapping.hardware.chip_package import ChipPackage
    from learned_mapping.mcm import env
    from learned_mapping.mcm.methods import METHODS, PROBLEM, solve
    from learned_mapping.mcm.partition import Partition
    from learned_mapping.mcm.task import Task

__all__ = ["METHODS", "PROBLEM", "ChipPackage", "Partition", "Task", "env", "solve", "validate"]

__getattr__, __dir__ = lazily(
    __name__,
    env="env",
    solve="methods",
    METHODS="methods",
    PROBLEM="methods",
    ChipPackage="task",
    ConstraintSolver="repair.solver",
    EXAMPLE_PACKAGE="rules.constraints",
    Partition="partition",
    Task="task",
    example_graph="rules.constraints",
    fix_repair="repair.solver",
    fix_trace="repair.solver",
    make_partition="partition",
)
