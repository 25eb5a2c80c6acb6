"""Folders of data, of results, and of numba's compiled code: one per state of the compiled
functions.

Numba compiles a function anew when its own file changes, not when a function it calls in another
file does. So its folder is named after a digest of every file that holds compiled functions; code
of an earlier state never runs.
"""

import functools
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError

FOLDER = Path(__file__).resolve().parent


@functools.cache
def checkout() -> Path | None:
    """The checkout of this project that the package runs from; None where it is installed by
    itself, also inside a folder of another project."""
    for folder in FOLDER.parents:
        file = folder / "pyproject.toml"
        if file.is_file() and b'\nname = "learned-mapping"\n' in file.read_bytes():
            return folder
    return None


def project_folder() -> Path:
    """The checkout.

    Raises:
      InputError: there is none.
    """
    folder = checkout()
    if folder is None:
        fault = (
            "needs a checkout of the project; an installed package has the methods and their"
            " networks"
        )
        raise InputError(
            "LEARNED_MAPPING_DATA", "", f"is not set: what is stored, and making it anew, {fault}"
        )
    return folder


def data_folder() -> Path:
    """Datasets and stored results: ``LEARNED_MAPPING_DATA``, or ``data/`` of the checkout.

    Raises:
      InputError: there is neither.
    """
    return Path(os.environ.get("LEARNED_MAPPING_DATA") or project_folder() / "data")


def networks_folder() -> Path:
    """Trained networks, a folder for each paper: those of `data_folder`, or what an installed
    package brings along."""
    return _brought("networks", "checkpoints")


def programs_folder() -> Path:
    """The sixty programs of MMapBench, found alike."""
    return _brought("bench", "compiled")


def bench_folder() -> Path:
    """The table of what is known of them, found alike."""
    return _brought("bench", "bench")


def _brought(installed: str, stored: str) -> Path:
    if checkout() is None and not os.environ.get("LEARNED_MAPPING_DATA"):
        return FOLDER / installed
    return data_folder() / stored


def build_folder() -> Path:
    """Whatever can be made again: ``LEARNED_MAPPING_BUILD``, ``build/`` of the checkout, or the
    user's cache."""
    chosen, folder = os.environ.get("LEARNED_MAPPING_BUILD"), checkout()
    if chosen:
        return Path(chosen)
    if folder:
        return folder / "build"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "learned-mapping"


def kept_while_unchanged(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """The function of a file, what it returned before returned again as long as the file has not
    changed."""

    @functools.lru_cache(maxsize=256)
    def known(path: Path, changed: int | None) -> Any:
        return read(path)

    return lambda path: known(path, path.stat().st_mtime_ns if path.exists() else None)


FOLDERS_KEPT = 4  # Of earlier states, so that two branches do not compile in turns.


def code_digest(folder: Path = FOLDER) -> str:
    """16 hexadecimal digits over the files below `folder` that hold compiled functions."""
    hasher = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        if re.search(rb"^\s*(?:from|import) numba\b", text, re.M):
            hasher.update(str(path.relative_to(folder)).encode() + b"\0" + text)
    return hasher.hexdigest()[:16]


def use_cache(folder: Path = FOLDER) -> None:
    """Points numba at the folder, unless ``NUMBA_CACHE_DIR`` names another or this one cannot be
    written to."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    base = folder / "__pycache__" / "numba"
    path = base / code_digest(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        os.utime(path)
        others = sorted(
            (p for p in base.iterdir() if p != path), key=lambda p: p.stat().st_mtime, reverse=True
        )
        for old in others[FOLDERS_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return
    if not os.access(path, os.W_OK):
        return
    os.environ["NUMBA_CACHE_DIR"] = str(path)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(path)
