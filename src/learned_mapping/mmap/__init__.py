"""Paper 1: which buffers live in fast memory, when, and at what offset (the MMapGame)."""

from learned_mapping import lazily
from learned_mapping.mmap.validate import validate

__all__ = ["METHODS", "PROBLEM", "Mapping", "env", "solve", "validate"]

__getattr__ = lazily(__name__, env="env", solve="methods", METHODS="methods", PROBLEM="methods", Mapping="mapping")
