"""The manifest of a data set: ``learned-mapping/dataset/1``, the file ``manifest.json`` in the
set's folder."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import Node, expect_schema, read_json

SCHEMA = "learned-mapping/dataset/1"
FILE_NAME = "manifest.json"
SPLITS = ("train", "validation", "test")
MAX_ITEMS = 1_000_000
MAX_SEED = 2**64 - 1

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENDINGS = (".json", ".json.gz")
COLUMNS = ("name", "split", "digest", "file", "sha256")


@dataclass(frozen=True)
class Item:
    """One graph or program of a set."""

    name: str
    digest: str  # The graph's or the program's own `digest`: 64 hexadecimal digits.
    split: str | None = None  # One of `SPLITS`, or None in a set that is not split.
    file: str | None = None
    """Relative to the set's folder, with slashes; None for an item generated from its seed."""
    sha256: str | None = None  # Of the file's bytes; None where there is no file.
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Plain names to JSON values, the unit in the name. ``WHAT_file`` with ``WHAT_sha256`` names a
    further file."""

    @property
    def files(self) -> dict[str, str]:
        """Every file of the item, relative path -> SHA-256."""
        main = {self.file: self.sha256} if self.file is not None and self.sha256 is not None else {}
        return main | _further_files(self.facts)


@dataclass(frozen=True)
class Manifest:
    """The items of a set, in its order, and the facts of the whole."""

    set: str  # The set's name, as `lmap data` takes it.
    about: str  # One sentence.
    seed: int | None  # Of all random choices; None where there are none.
    items: tuple[Item, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)  # As an item's `facts`.

    @cached_property
    def digest(self) -> str:
        """SHA-256 over name, split and digest of the items: equal content, equal digest."""
        lines = (f"{item.name}\t{item.split or ''}\t{item.digest}\n" for item in self.items)
        return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()

    @property
    def files(self) -> dict[str, str]:
        """Every file of the set but the manifest, relative path -> SHA-256."""
        digests = {path: sha256 for item in self.items for path, sha256 in item.files.items()}
        return digests | _further_files(self.facts)

    def split(self, name: str | None) -> tuple[Item, ...]:
        """The items of one split, in order."""
        return tuple(item for item in self.items if item.split == name)

    def item(self, name: str) -> Item:
        """The item of this name; raises `InputError` where there is none."""
        if name not in self._by_name:
            raise InputError(f"set {self.set}", name, "there is no such item")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Item]:
        return {item.name: item for item in self.items}


def read_manifest(path: str | os.PathLike) -> Manifest:
    """Reads a manifest, whole; raises `InputError` naming file and field."""
    return manifest_from_json(read_json(path))


def manifest_from_json(node: Node) -> Manifest:
    """The manifest a JSON value describes; raises `InputError` naming file and field."""
    expect_schema(node, "dataset")
    top = node.object(("schema", "set", "about", "seed", "items", "facts"))
    facts = top["facts"].metadata()
    files: set[str] = set()
    _check_further_files(facts, top["facts"], files)
    names: set[str] = set()
    items = tuple(_item(item, names, files) for item in top["items"].elements(MAX_ITEMS))
    seed = None if top["seed"].value is None else top["seed"].integer(0, MAX_SEED)
    return Manifest(top["set"].string(100), top["about"].string(), seed, items, facts)


def _item(node: Node, names: set[str], files: set[str]) -> Item:
    cells = node.mapping(200, COLUMNS)
    for name in COLUMNS:
        cells[name].field = f"{node.field}.{name}"
    name = cells["name"].string()
    if name in names:
        cells["name"].fail(f"{name!r} is listed twice")
    names.add(name)
    split = None if cells["split"].value is None else cells["split"].choice(*SPLITS)
    if (cells["file"].value is None) != (cells["sha256"].value is None):
        node.fail("file and sha256 are given both or neither")
    file = None if cells["file"].value is None else _file(cells["file"], files)
    sha256 = None if file is None else _hexadecimal(cells["sha256"])
    facts = {key: cell.value for key, cell in cells.items() if key not in COLUMNS}
    Node(facts, node.source, node.field).metadata()
    _check_further_files(facts, node, files)
    return Item(name, _hexadecimal(cells["digest"]), split, file, sha256, facts)


def _hexadecimal(node: Node) -> str:
    if not _SHA256.fullmatch(node.string()):
        node.fail(f"expected 64 hexadecimal digits, got {node.value!r}")
    return node.value


def _file(node: Node, files: set[str]) -> str:
    """A path inside the set's folder that nothing else in the manifest has."""
    text = node.string()
    parts = PurePosixPath(text).parts
    plain = text == "/".join(parts) and "\\" not in text and ".." not in parts and ":" not in text
    if not plain or text.startswith("/") or not text.endswith(_ENDINGS) or text == FILE_NAME:
        node.fail(
            f"expected a relative path to a {' or '.join(_ENDINGS)} file inside the set, got"
            f" {text!r}"
        )
    if text in files:
        node.fail(f"{text!r} is listed twice")
    files.add(text)
    return text


def _check_further_files(facts: Mapping[str, Any], node: Node, files: set[str]) -> None:
    for key in facts:
        if key.endswith("_file"):
            other = f"{key.removesuffix('_file')}_sha256"
            if other not in facts:
                node.fail(f"missing field {other!r}, which {key!r} asks for")
            _file(Node(facts[key], node.source, f"{node.field}.{key}"), files)
            _hexadecimal(Node(facts[other], node.source, f"{node.field}.{other}"))


def _further_files(facts: Mapping[str, Any]) -> dict[str, str]:
    return {
        facts[k]: facts[f"{k.removesuffix('_file')}_sha256"] for k in facts if k.endswith("_file")
    }


def items_by_split(manifest: Manifest) -> dict[str, tuple[Item, ...]]:
    """Split -> its items, none empty, in the order of `SPLITS`; ``all`` for those of no split."""
    parts = {split or "all": manifest.split(split) for split in (*SPLITS, None)}
    return {split: items for split, items in parts.items() if items}


def by_split(manifest: Manifest, fact: str) -> dict[str, np.ndarray]:
    """Split -> [items] values of a numeric fact, splits in the order of `SPLITS`; ``all`` where a
    set has none.

    Items without the fact are left out, and splits without such items.
    """
    return {
        split: np.array(values)
        for split, values in _facts_by_split(manifest, fact, int | float).items()
    }


def _facts_by_split(manifest: Manifest, fact: str, kind: Any) -> dict[str, list[Any]]:
    facts = {
        split: [item.facts.get(fact) for item in items]
        for split, items in items_by_split(manifest).items()
    }
    values = {
        split: [value for value in column if isinstance(value, kind)]
        for split, column in facts.items()
    }
    return {split: column for split, column in values.items() if column}


def families(manifest: Manifest) -> dict[str, Mapping[str, int]]:
    """Split -> family -> number of items, most first; items without a family are left out."""
    counts = {
        split: Counter(counter)
        for split, counter in _facts_by_split(manifest, "family", str).items()
    }
    return {
        split: dict(sorted(n.items(), key=lambda pair: (-pair[1], pair[0])))
        for split, n in counts.items()
    }
