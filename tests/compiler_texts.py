"""Programs as the compiler printed them, in `tests/tpu/data`."""

import gzip
import importlib.util
from pathlib import Path

DATA = Path(__file__).parent / "tpu" / "data"
HAS_COMPILER = all(importlib.util.find_spec(p) is not None for p in ("libtpu", "flatbuffers"))


def text(name: str, stage: str) -> str:
    """A program's text at a stage of its compilation."""
    return gzip.decompress((DATA / f"{name}.{stage}.txt.gz").read_bytes()).decode()
