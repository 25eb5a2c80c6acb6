"""The data sets by name: where each is stored and what builds it. Nothing is imported before it is
needed."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.folders import checkout, data_folder, kept_while_unchanged, project_folder
from learned_mapping.programs.formats import graph_from_json, program_from_json
from learned_mapping.programs.json_io import Node, read_yaml
from learned_mapping_companion.datasets.manifest import FILE_NAME, Manifest, read_manifest

Progress = Callable[[int, int], None]  # Called with (items done, items in all).

CARD = "README.md"
BUILDERS = "learned_mapping_builders"  # Name under which ``data/builders`` is imported.
SCRATCH = ".building-"  # How the name of a folder begins in which a set is being built.


@dataclass(frozen=True)
class DataSet:
    """A set of graphs or programs that comes with the project."""

    name: str
    folder: str  # Relative to the data folder, with slashes; no set lies inside another.
    about: str  # One sentence, the manifest's own.
    builder: str
    """``MODULE.FUNCTION`` of ``data/builders``; called with a folder and ``progress``, it writes
    the set's files and returns the manifest."""
    needs_extra: str | None = None  # Optional dependency the build needs; reading needs none.
    records: tuple[str, ...] = ()
    """Files in the folder that another command writes about the set: a build leaves them, the
    manifest lacks them."""

    @property
    def path(self) -> Path:
        return data_folder() / self.folder

    def manifest(self) -> Manifest | None:
        """The stored manifest, None where there is none; raises `InputError` for a damaged one."""
        return _read(self.path / FILE_NAME) if (self.path / FILE_NAME).exists() else None

    def require_extra(self) -> None:
        """Raises `InputError` where the build needs a dependency that is not installed."""
        if self.needs_extra == "tpu":
            builder("tpu.compiler").require_compiler()


def builder(name: str) -> ModuleType:
    """A module of ``data/builders``; raises `InputError` where there is no checkout."""
    start = (
        (data_folder() if checkout() is None else project_folder() / "data")
        / "builders"
        / "__init__.py"
    )
    if BUILDERS not in sys.modules:
        if not start.is_file():
            raise InputError(
                start.parent, "", "no such folder: sets are built in a checkout of the project"
            )
        spec = importlib.util.spec_from_file_location(
            BUILDERS, start, submodule_search_locations=[str(start.parent)]
        )
        sys.modules[BUILDERS] = importlib.util.module_from_spec(spec)
    return importlib.import_module(f"{BUILDERS}.{name}")


SETS: Mapping[str, DataSet] = MappingProxyType({
    name: DataSet(name, **fields | {"records": tuple(fields.get("records", ()))})
    for name, fields in read_yaml(Path(__file__).with_name("sets.yml")).items()
})  # fmt: skip
"""The sets by name, in the order of the papers."""


def find_set(name: str) -> DataSet:
    """The set of this name; raises `InputError` with the known names where there is none."""
    if name not in SETS:
        raise InputError("data set", name, f"is not known; there are: {', '.join(SETS)}")
    return SETS[name]


def find_sets(names: Iterable[str]) -> tuple[DataSet, ...]:
    """These sets, each once; all where no name is given."""
    return tuple(find_set(name) for name in dict.fromkeys(names)) or tuple(SETS.values())


def stored_manifests() -> dict[str, Manifest]:
    """The manifests of the sets that are stored, by name; raises `InputError` for a damaged one."""
    return {
        name: manifest
        for name, data_set in SETS.items()
        if (manifest := data_set.manifest()) is not None
    }


def stored_manifest(name: str) -> Manifest:
    """The manifest of a stored set; raises `InputError` where it is missing or damaged."""
    return _read(find_set(name).path / FILE_NAME)


_read = kept_while_unchanged(read_manifest)


READERS: dict[str, Callable[[Node], Any]] = {"graph": graph_from_json, "program": program_from_json}
"""Schema -> what turns a file into an instance with a `digest`."""


def files_of(folder: Path) -> list[Path]:
    """All files and links under a folder, in order of their names; none where there is no folder.

    What a build that runs at the same time is writing is left out.
    """
    paths = []
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        paths += [Path(parent) / name for name in (*files, *links)]
        folders[:] = [name for name in folders if not name.startswith(SCRATCH)]
    return sorted(paths)


def bytes_of(paths: Iterable[Path]) -> int:
    """Bytes of these files; of a link, its own."""
    return sum(path.lstat().st_size for path in paths)


def stored_bytes(name: str) -> int:
    """Bytes of all files in a set's folder."""
    return bytes_of(files_of(find_set(name).path))
