"""Learned Mapping: reinforcement learning inside ML compilers, reproduced so that it runs."""

from learned_mapping.compiled import use_cache

__version__ = "0.1.0"

use_cache()
