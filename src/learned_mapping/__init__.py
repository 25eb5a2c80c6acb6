"""Learned Mapping: reinforcement learning inside ML compilers, reproduced so that it runs.

>>> import learned_mapping as lm
>>> answer = lm.regal.solve(lm.regal.Instance(graph), "brkga", samples=500)
>>> lm.regal.validate(graph, answer.solution)

`mmap`, `mcm` and `regal` have ``solve``, ``METHODS``, ``PROBLEM``, ``validate`` and ``env`` each,
`read_graph` and `read_program` read what they solve; all are imported when they are asked for.
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from learned_mapping.folders import use_cache

if TYPE_CHECKING:
    from learned_mapping import mcm, mmap, regal
    from learned_mapping.programs.formats import read_graph, read_program

__all__ = ["mcm", "mmap", "read_graph", "read_program", "regal"]

__version__ = "0.1.0"

PARTS = "2"
"""Into how many parts XLA cuts a sum on a CPU. Left to itself it takes the cores it sees, and the
rounding with them: a policy's samples would depend on the machine, and on ``taskset``. An own
``NPROC`` in the environment goes first."""

use_cache()
os.environ.setdefault("NPROC", PARTS)


def lazily(package: str, **homes: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are asked
    for.

    Args:
      homes: public name -> the module of the package that it stands in, or is.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        is_module = homes[name].rpartition(".")[2] == name and not hasattr(module, name)
        return module if is_module else getattr(module, name)

    return find, lambda: sorted({*vars(import_module(package)), *homes})


__getattr__, __dir__ = lazily(
    __name__,
    mmap="mmap",
    mcm="mcm",
    regal="regal",
    make_graph="programs.graph",
    read_graph="programs.formats",
    read_program="programs.formats",
    schedule="programs.trace.schedule",
    trace="programs.trace.graph",
)
