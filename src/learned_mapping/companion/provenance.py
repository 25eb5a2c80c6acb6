"""Where a number comes from: the machine and the versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

LIBRARIES = ("numpy", "scipy", "numba", "jax", "dm-haiku", "optax", "mctx", "jraph", "ortools", "networkx")


def machine() -> dict[str, Any]:
    """The machine without its name: cores this process may use, memory in bytes, the processor's model."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"system": platform.system(), "cpu": _cpu_model(), "cores": cores, "memory_bytes": memory}


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of the libraries that decide numbers."""
    found = {"python": platform.python_version()}
    for name in ("learned-mapping", *LIBRARIES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
