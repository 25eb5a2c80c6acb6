"""What numba's cache does not notice by itself: changes of the kernel that other files' compiled functions call."""

from __future__ import annotations

import hashlib
from pathlib import Path

from learned_mapping.mmap import kernel, rules

KERNEL_SOURCE = hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in (kernel, rules))).hexdigest()
"""A compiled function that refers to this from a closure is compiled again when the kernel changes, because numba keys
its cache on the values of closures."""
