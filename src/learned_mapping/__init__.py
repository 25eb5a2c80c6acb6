"""Learned Mapping: reinforcement learning inside ML compilers, reproduced so that it runs.

>>> import learned_mapping as lm
>>> answer = lm.regal.solve(lm.regal.Instance(graph), "brkga", samples=500)
>>> lm.regal.validate(graph, answer.solution)

`mmap`, `mcm` and `regal` have ``solve``, ``METHODS``, ``PROBLEM``, ``validate`` and ``env`` each,
`read_graph` and `read_program` read what they solve; all are imported when they are asked for.
"""

import os
from typing import TYPE_CHECKING

from learned_mapping.folders import use_cache
from learned_mapping.lazy import lazily

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
