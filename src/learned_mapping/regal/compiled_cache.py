"""Keeps numba from running code of an earlier state: the cache's folder is named after this package's functions too.

A search is compiled with the decoder and the draws inside it; numba looks only at the search's own file.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from learned_mapping.mmap.compiled_cache import FOLDER as CHOSEN_BELOW
from learned_mapping.mmap.compiled_cache import KEPT, code_digest

FOLDER = Path(__file__).resolve().parent
PREFIX = "regal-"


def use_cache(folder: Path = FOLDER) -> None:
    """Points numba at a folder inside the one that `mmap.compiled_cache` chose, unless the user named another.

    What `mmap` compiles from here on lies there as well; the names of both folders say of which code it is.
    """
    chosen = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if not chosen.is_relative_to(CHOSEN_BELOW) or chosen.name.startswith(PREFIX):
        return
    path = chosen / f"{PREFIX}{code_digest(folder)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        os.utime(path)
        others = sorted(chosen.glob(f"{PREFIX}*"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEPT + 1 :]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return
    os.environ["NUMBA_CACHE_DIR"] = str(path)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(path)
