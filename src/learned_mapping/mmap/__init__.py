"""Paper 1: which buffers live in fast memory, when, and at what offset (the MMapGame)."""

from learned_mapping.mmap.compiled_cache import use_cache

use_cache()
