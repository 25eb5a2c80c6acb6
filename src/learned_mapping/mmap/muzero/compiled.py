"""What numba's cache does not notice by itself: changes of the functions of other files that a compiled one calls."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

from learned_mapping.mmap.rules import actions as rules
from learned_mapping.mmap.rules import kernel


def source_of(*modules: ModuleType) -> str:
    """Hexadecimal SHA-256 of the modules' files."""
    return hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in modules)).hexdigest()


KERNEL_SOURCE = source_of(kernel, rules)
"""A compiled function that refers to this from a closure is compiled again when the kernel changes, because numba keys
its cache on the values of closures."""
