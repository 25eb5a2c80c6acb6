"""Paper 2: which chip of a multi-chip module runs each op.

- The rules: `rules.constraints` (definitions), `validate` (the independent judge), `partition` (the file).
- The constraint repair: `repair.engine` and `repair.kernel` (Algorithms 1 and 2 compiled, in batches), `repair.solver`
  (the same in plain Python), `repair.trace` (step by step, for the book). A repair knows a graph's edges, the chips and
  the rules, and no costs, no learner and no experiment; `tests/mcm/test_house.py` holds it to that.
- The environment: `env`, pure `reset`, `observe` and `step` in JAX around the repair.
- Without learning: `searches`, and `bounds` that nothing beats.
- Learning: `agent`. Every method by name: `methods`; the same problem on simulated chips: `silicon`.
"""

from importlib import import_module

from learned_mapping.mcm.validate import validate

__all__ = ["METHODS", "PROBLEM", "Partition", "Task", "env", "solve", "validate"]

_HOMES = {
    "solve": "methods",
    "METHODS": "methods",
    "PROBLEM": "methods",
    "Partition": "partition",
    "Task": "methods",
}
"""Public name -> the module of this package it stands in; imported when it is asked for."""


def __getattr__(name: str):
    if name == "env":
        return import_module("learned_mapping.mcm.env")
    if name in _HOMES:
        return getattr(import_module(f"learned_mapping.mcm.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'learned_mapping.mcm' has no attribute {name!r}")
