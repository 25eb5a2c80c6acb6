"""Sets being built: their items, the manifest as it is written, and the exchange of a whole
folder."""

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.formats import write_graph, write_program
from learned_mapping.programs.json_io import file_sha256, parse_json, write_bytes
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets import manifest as manifests
from learned_mapping_companion.datasets import registry
from learned_mapping_companion.datasets.manifest import Item, Manifest
from learned_mapping_companion.datasets.registry import CARD, SCRATCH, DataSet, Progress

LOCK = "lock"  # The file in a scratch folder by which its build holds it.


class Items(list[Item]):
    """The items of a set, in its order, whose files go into a folder as they are added.

    Args:
      folder: the set's.
      total: how many there will be.
      progress: called with (items done, items in all).
    """

    def __init__(self, folder: Path, total: int, progress: Progress | None = None):
        super().__init__()
        self.folder, self.total, self.progress = Path(folder), total, progress

    def add(self, file: str, instance: Any, *, split: str | None = None, **facts: Any) -> None:
        """Writes a graph or a program to a file, relative to the folder; facts are plain names to
        JSON values."""
        path = self.folder / file
        (write_program if isinstance(instance, Program) else write_graph)(path, instance)
        self.append(Item(instance.name, instance.digest, split, file, file_sha256(path), facts))
        if self.progress is not None:
            self.progress(len(self), self.total)


def as_json(value: Any) -> Any:
    """A value with its tuples as lists, as JSON has them."""
    return json.loads(json.dumps(value))


def write_manifest(path: str | os.PathLike, manifest: Manifest) -> None:
    """Writes a manifest, an item a line, whole or not at all.

    Raises:
      InputError: it would not read back: a name twice, a path outside the folder, a fact that JSON
        lacks.
    """
    data = manifest_text(manifest).encode("utf-8")
    manifests.manifest_from_json(parse_json(data, path))
    write_bytes(path, data)


def manifest_text(manifest: Manifest) -> str:
    """The manifest as JSON text; the same manifest gives the same text."""

    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    rows = [
        {name: getattr(item, name) for name in manifests.COLUMNS} | dict(item.facts)
        for item in manifest.items
    ]
    items = "".join(f"{'' if i == 0 else ','}\n  {dumped(row)}" for i, row in enumerate(rows))
    head = {
        "schema": manifests.SCHEMA,
        "set": manifest.set,
        "about": manifest.about,
        "seed": manifest.seed,
        "facts": dict(manifest.facts),
    }
    fields = [f" {dumped(name)}: {dumped(value)}" for name, value in head.items()]
    return "{\n" + ",\n".join([*fields, f' "items": [{items}\n ]']) + "\n}\n"


def build_in(chosen: DataSet, target: Path, *, progress: Progress | None = None) -> Manifest:
    """Builds a set beside `target` and then puts it there whole, so that no half of it is ever
    seen.

    The card and the set's `records` stay. An interrupted or failed build leaves what was there.

    Raises:
      InputError: an optional dependency is missing, or the place cannot be written.
    """
    chosen.require_extra()
    target = Path(target).absolute()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(target)
        scratch, lock = _locked_scratch(target)
    except OSError as error:
        raise InputError(target, "", f"cannot be written ({error.strerror})") from None
    fresh, old = scratch / "new", scratch / "old"
    try:
        fresh.mkdir()
        module, _, function = chosen.builder.partition(".")
        manifest = getattr(registry.builder(module), function)(fresh, progress=progress)
        write_manifest(fresh / manifests.FILE_NAME, manifest)
        for kept in (CARD, *chosen.records):
            if (target / kept).is_file():
                shutil.copyfile(target / kept, fresh / kept)
        _exchange(fresh, target, old)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)
    return manifest


def _locked_scratch(target: Path) -> tuple[Path, int]:
    """A new folder beside `target`, and the handle by which this process holds it."""
    while True:
        scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{SCRATCH}{target.name}."))
        with contextlib.suppress(FileNotFoundError):  # taken for a dead build's before it was held
            lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if scratch.exists():
                return scratch, lock
            os.close(lock)


def _clear_up(target: Path) -> None:
    """Removes what builds that died have left beside `target`; the former set that one of them had
    moved away comes back."""
    for scratch in target.parent.iterdir():
        if not scratch.name.startswith(f"{SCRATCH}{target.name}."):
            continue
        try:
            lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # another has just removed it
            continue
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (scratch / "old").exists() and not target.exists():
                os.replace(scratch / "old", target)
            shutil.rmtree(scratch, ignore_errors=True)
        os.close(lock)


def _exchange(fresh: Path, target: Path, old: Path) -> None:
    """Moves `target`, if any, to `old`, and `fresh` to `target`; undoes the first where the second
    fails."""
    try:
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(fresh, target)
        except BaseException:
            if old.exists():
                os.replace(old, target)
            raise
    except OSError as error:
        raise InputError(target, "", f"cannot be replaced ({error.strerror})") from None
