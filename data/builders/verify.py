"""Whether the data sets are what their manifests say: every fault found, each in one line that
names the file."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from learned_mapping.doors import minimalloc
from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import file_sha256, read_json, schema_name
from learned_mapping_companion import results
from learned_mapping_companion.datasets import registry
from learned_mapping_companion.datasets.manifest import FILE_NAME, Item
from learned_mapping_companion.datasets.registry import DataSet, bytes_of, files_of
from learned_mapping_companion.mmap import bench
from learned_mapping_companion.records import faults as record_faults

MAX_TOTAL_BYTES = 60_000_000  # Of everything under the data folder.
MAX_FILE_BYTES = 5_000_000  # Of one file.


@dataclass(frozen=True)
class Verdict:
    """What was looked at, and what is wrong with it."""

    name: str
    items: int  # Items of a set; files of anything else.
    files: int
    bytes: int
    faults: tuple[str, ...]  # Each ``FILE: fault``; empty where all is well.


def verify_set(chosen: DataSet) -> Verdict:
    """Reads a set whole: every listed file is there, unchanged, readable and of the stated digest;
    no other file is."""
    faults: list[str] = []
    try:
        manifest = chosen.manifest()
        if manifest is None:
            raise InputError(chosen.path / FILE_NAME, "", "no such file")
    except InputError as error:
        present = files_of(chosen.path)
        return Verdict(chosen.name, 0, len(present), bytes_of(present), (_relative(error),))
    if manifest.set != chosen.name:
        faults.append(
            f"{chosen.folder}/{FILE_NAME}: is of the set {manifest.set!r}, expected {chosen.name!r}"
        )
    items = {item.file: item for item in manifest.items if item.file is not None}
    for file, sha256 in manifest.files.items():
        fault = _file_fault(chosen.path / file, sha256, items.get(file))
        if fault:
            faults.append(f"{chosen.folder}/{file}: {fault}")
    present = files_of(chosen.path)
    expected = {
        chosen.path / file for file in (FILE_NAME, registry.CARD, *chosen.records, *manifest.files)
    }
    faults += _json_faults(path for path in present if path.name in chosen.records)
    faults += [f"{_name(path)}: is not in the manifest" for path in present if path not in expected]
    return Verdict(chosen.name, len(manifest.items), len(present), bytes_of(present), tuple(faults))


def _file_fault(path: Path, sha256: str, item: Item | None) -> str:
    """What is wrong with a listed file, nothing where it is as listed. `item` is None for a further
    file."""
    if not path.is_file():
        return "no such file"
    digest = file_sha256(path)
    if digest != sha256:
        return f"its SHA-256 is {digest[:16]}, the manifest says {sha256[:16]}"
    try:
        node = read_json(path)
        kind = schema_name(node)
        if item is None:
            return ""
        if kind not in registry.READERS:
            return f"is a {kind}, expected one of {', '.join(registry.READERS)}"
        instance = registry.READERS[kind](node)
    except InputError as error:
        return ": ".join(part for part in (error.field, error.fault) if part)
    if instance.name != item.name:
        return f"is named {instance.name!r}, the manifest says {item.name!r}"
    if instance.digest != item.digest:
        return f"its digest is {instance.digest[:16]}, the manifest says {item.digest[:16]}"
    return ""


def verify_results() -> Verdict:
    """Every stored result and every record of a run reads as such."""
    folder = results.results_folder("full")
    faults = []
    present = files_of(folder)
    for path in present:
        try:
            if path.suffix == ".json":
                results.load(path.stem)
            elif path.suffix == ".jsonl":
                faults += map(_relative, record_faults(path))
        except InputError as error:
            faults.append(_relative(error))
    return Verdict("results", len(present), len(present), bytes_of(present), tuple(faults))


def verify_other_files() -> Verdict:
    """Whatever is in no set and is no result: JSON of a schema of ours, or a trained network."""
    sets = (data_set.path for data_set in registry.SETS.values())
    known = [
        results.results_folder("full"),
        data_folder() / "builders",
        data_folder() / "bench",
        *sets,
    ]
    present = [
        path
        for path in files_of(data_folder())
        if not any(path.is_relative_to(folder) for folder in known)
    ]
    faults = _json_faults(path for path in present if path.name != registry.CARD)
    return Verdict("other files", len(present), len(present), bytes_of(present), tuple(faults))


def _json_faults(paths: Iterable[Path]) -> list[str]:
    """What is wrong with files that are to be JSON of a schema of ours."""
    faults = []
    for path in paths:
        if path.suffix == ".npz":
            faults += _network_faults(path)
            continue
        if not path.name.endswith((".json", ".json.gz", *minimalloc.ENDINGS)):
            faults.append(f"{_name(path)}: is neither JSON nor a card")
            continue
        try:
            if path.name.endswith(minimalloc.ENDINGS):
                minimalloc.read_minimalloc(path)
            else:
                schema_name(read_json(path))
        except InputError as error:
            faults.append(_relative(error))
    return faults


def _network_faults(path: Path) -> list[str]:
    """What is wrong with a trained network: arrays of finite numbers or text, nothing pickled."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for name in arrays.files:
                array = arrays[name]
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    return [f"{_name(path)}: {name}: not all numbers are finite"]
    except Exception as error:  # what unpacking damaged bytes may raise is nowhere written down
        return [f"{_name(path)}: not arrays that can be read: {error}"]
    return []


def verify_bench() -> Verdict:
    """MMapBench: every best known mapping is the one that was entered, valid, worth what the table
    says and no more than its bound."""
    present = files_of(data_folder() / "bench")
    try:
        table = bench.standings(data_folder() / "bench")
        faults = [
            f"bench/{name}: {fault}"
            for name, row in table.items()
            if (fault := _standing_fault(row))
        ]
    except InputError as error:
        table, faults = {}, [_relative(error)]
    mappings = {
        bench.mapping_path(data_folder() / "bench", row, game).name
        for row in table.values()
        for game in (False, True)
    }
    expected = {bench.TABLE, registry.CARD, *mappings}
    faults += [
        f"{_name(path)}: is not in the table" for path in present if path.name not in expected
    ]
    return Verdict("bench", len(table), len(present), bytes_of(present), tuple(faults))


def _standing_fault(row: bench.Standing) -> str:
    """What is wrong with a line of the table, nothing where it is as its mapping."""
    try:
        program = bench.load(row.program)
        if program.digest != row.digest:
            return f"is of a program of digest {row.digest[:16]}, that is {program.digest[:16]}"
        mapping, game = (bench.best_mapping(program, game=best) for best in (False, True))
        scored = bench.score(program, mapping)
    except InputError as error:
        return ": ".join(part for part in (error.field, error.fault) if part)
    if not scored.valid:
        return scored.violation
    if abs(scored.value - row.best) > bench.SAME:
        return f"its mapping returns {scored.value:.9g}, the table says {row.best:.9g}"
    if not bench.is_game(program, game):
        return "its best game is none: its actions give other offsets"
    if abs(bench.score(program, game).value - row.game) > bench.SAME:
        return f"its best game does not return {row.game:.9g}, as the table says"
    return ""


def verify_sizes() -> Verdict:
    """Together the files fit into a repository, and each is small enough to be looked at."""
    present = files_of(data_folder())
    total = bytes_of(present)
    sizes = ((path, bytes_of([path])) for path in present)
    faults = [
        f"{_name(p)}: {size:,} bytes, at most {MAX_FILE_BYTES:,}"
        for p, size in sizes
        if size > MAX_FILE_BYTES
    ]
    if total > MAX_TOTAL_BYTES:
        faults.append(f"all files: {total:,} bytes, at most {MAX_TOTAL_BYTES:,}")
    return Verdict("sizes", len(present), len(present), total, tuple(faults))


def verify(sets: tuple[DataSet, ...], *, everything: bool) -> Iterator[Verdict]:
    """A verdict per set; with `everything` also on results, the benchmark, other files and
    sizes."""
    yield from map(verify_set, sets)
    if everything:
        yield from (verify_results(), verify_bench(), verify_other_files(), verify_sizes())


def _name(path: Path) -> str:
    return path.relative_to(data_folder()).as_posix()


def _relative(error: InputError) -> str:
    """The error's line with its file relative to the data folder."""
    return str(error).removeprefix(f"{data_folder()}/")
