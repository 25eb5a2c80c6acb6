"""Programs as the compiler printed them, in `tests/builders/tpu/data`."""

import gzip
import importlib.util
from pathlib import Path

DATA = Path(__file__).parent / "builders" / "tpu" / "data"
HAS_COMPILER = all(importlib.util.find_spec(p) is not None for p in ("libtpu", "flatbuffers"))
IN_PLACE = """HloModule tiny, is_scheduled=true

ENTRY %main (x: f32[512,128], y: f32[8,128]) -> f32[512,128] {
  %x = f32[512,128]{1,0:T(8,128)} parameter(0)
  %y = f32[8,128]{1,0:T(8,128)} parameter(1)
  %i = s32[]{:T(128)} parameter(2)
  %copy = f32[512,128]{1,0:T(8,128)} copy(%x)
  ROOT %update = f32[512,128]{1,0:T(8,128)} dynamic-update-slice(%copy, %y, %i, %i)
}
"""
"""A copy, and a slice of it updated in place."""


def text(name: str, stage: str) -> str:
    """A program's text at a stage of its compilation."""
    return gzip.decompress((DATA / f"{name}.{stage}.txt.gz").read_bytes()).decode()
