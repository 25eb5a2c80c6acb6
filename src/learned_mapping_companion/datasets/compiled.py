"""The sets ``compiled`` and ``compiled-fresh``: the sixty workloads of paper 1 and twelve of other
families, compiled, with the compiler's own mapping beside each."""

from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping, read_mapping
from learned_mapping.programs.formats import read_program
from learned_mapping.programs.json_io import read_json
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets.manifest import Item, Manifest
from learned_mapping_companion.datasets.registry import SETS, stored_manifest

CHECKS = "checks.json"
"""The file that says how far the set can be trusted: what ``builders.compiled_checks`` writes of
each program."""


def manifest() -> Manifest:
    """The manifest of the set; raises `InputError` where it is missing or damaged."""
    return stored_manifest("compiled")


def names(chosen: str = "compiled") -> tuple[str, ...]:
    """The sixty: names the paper gives first, then by family; or the programs of the other set."""
    return tuple(entry.name for entry in stored_manifest(chosen).items)


def item(name: str) -> Item:
    """What a manifest says of a program of either set; raises `InputError` for an unknown name."""
    return stored_manifest(_set_of(name)).item(name)


def load(name: str) -> tuple[Program, Mapping]:
    """A stored program and the compiler's own mapping; raises `InputError` for an unknown name."""
    folder = SETS[_set_of(name)].path
    program = read_program(folder / f"{name}.json.gz")
    return program, read_mapping(folder / f"{name}.mapping.json.gz", program)


def _set_of(name: str) -> str:
    for chosen in ("compiled", "compiled-fresh"):
        if name in names(chosen):
            return chosen
    raise InputError(
        "compiled program",
        name,
        "is neither of the sixty nor of the twelve; `lmap data list --files` names them",
    )


def read_checks(path: Path) -> dict[str, dict[str, Any]]:
    """The records of `CHECKS` by program; empty where there is no file."""
    if not path.exists():
        return {}
    node = read_json(path, "checks")
    return {
        k: v.value for k, v in node.object(("schema", "programs"))["programs"].mapping(1000).items()
    }
