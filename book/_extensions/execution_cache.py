"""Gives the notebook cache a key that notices changes in the package, the data and the lock file.

The cache itself compares code cells only, so that a chapter which shows the output of changed code
would keep its old output. Here the cache's path carries a digest of everything a chapter can read.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
READ_BY_CHAPTERS = ("src", "data", "requirements.lock", "book/claims.yml")
IGNORED = {"__pycache__", ".ipynb_checkpoints", "_build", "vendor", "runs"}


def files_of(names: Iterable[str]) -> Iterable[Path]:
    """The files under the named files and folders of the project that a build can read, in a fixed
    order."""
    for name in names:
        root = PROJECT / name
        paths = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in paths:
            parts = path.relative_to(PROJECT).parts
            hidden = any(
                part in IGNORED or part.endswith(".egg-info") or part.startswith(".")
                for part in parts
            )
            if not hidden and path.is_file() and path.suffix != ".pyc":
                yield path


def digest_of(names: Iterable[str]) -> str:
    """16 hexadecimal digits over the names and contents of these files."""
    hasher = hashlib.sha256()
    for path in files_of(names):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        hasher.update(f"{path.relative_to(PROJECT).as_posix()} {content}\n".encode())
    return hasher.hexdigest()[:16]


def cache_path() -> Path:
    """Where the outputs of chapters executed with the present code and data are kept."""
    return PROJECT / "book" / "_build" / ".jupyter_cache" / digest_of(READ_BY_CHAPTERS)


def _set_cache_path(app, config) -> None:
    config.nb_execution_cache_path = str(cache_path())


def setup(app) -> dict:
    # Before myst-nb reads its configuration, which it does at the default priority of the same
    # event.
    app.connect("config-inited", _set_cache_path, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
