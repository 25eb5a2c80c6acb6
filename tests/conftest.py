"""What all tests share: JAX's compiled functions are kept in ``build/``, as numba keeps its own beside the package; and
the modules of ``data/builders`` can be imported, as `learned_mapping_builders`."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parents[1] / "build" / "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

from learned_mapping.companion.datasets.registry import builder

builder("topology")
