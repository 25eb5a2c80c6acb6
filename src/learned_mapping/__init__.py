"""Learned Mapping: reinforcement learning inside ML compilers, reproduced so that it runs.

>>> import learned_mapping as lm
>>> found = lm.regal.solve(lm.regal.Instance(graph), "brkga", samples=500)
>>> lm.regal.validate(graph, found.solution)

`mmap`, `mcm` and `regal` have ``solve``, ``METHODS``, ``PROBLEM``, ``validate`` and ``env`` each; they are imported
when they are asked for.
"""

from importlib import import_module

from learned_mapping.compiled import use_cache

__version__ = "0.1.0"

use_cache()


def __getattr__(name: str):
    if name in ("mmap", "mcm", "regal"):
        return import_module(f"learned_mapping.{name}")
    raise AttributeError(f"module 'learned_mapping' has no attribute {name!r}")
