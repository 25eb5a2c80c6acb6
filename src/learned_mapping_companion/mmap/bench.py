"""The standings of MMapBench, `learned_mapping.mmap.bench`: the best mapping known of each program.

The folder ``data/bench`` holds the table of standings and the mappings; `submit` adds to both. A
mapping's file is named by its content and the table is written after it, so that an entry that is
cut off leaves the former standing whole.
"""

import datetime
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.mmap.bench import (
    CLOCKS,
    MAPPING,
    SAME,
    SCHEMA,
    TABLE,
    Score,
    Standing,
    as_game,
    judge,
    load,
    run,
    score,
    standings,
)
from learned_mapping.mmap.mapping import Mapping, mapping_to_json, read_mapping
from learned_mapping.programs.json_io import file_sha256, locked, write_json
from learned_mapping.programs.program import Program
from learned_mapping_companion.display import Html, listing

__all__ = ["CLOCKS", "MAPPING", "SAME", "SCHEMA", "TABLE", "Score", "Standing"]
__all__ += ["load", "run", "score", "standings"]


def mapping_path(folder: Path, standing: Standing, game: bool = False) -> Path:
    """The file of a best mapping, or of a best game, named by its program and its content."""
    sha256 = standing.game_sha256 if game else standing.sha256
    return folder / f"{standing.program}.{sha256[:16]}{MAPPING}"


def standings_table() -> Html:
    """The best mapping known of each program, and the best game."""
    rows = [
        (row.program, row.buffers, row.best, row.game, row.bound, row.by)
        for row in standings().values()
    ]
    return listing(
        "The best mapping known",
        ("program", "buffers", "best return", "best of a game", "bound", "found by"),
        rows,
    )


def best_mapping(program: Program, folder: Path | None = None, game: bool = False) -> Mapping:
    """The best mapping known, or the best game; raises `InputError` where its file is not the one
    that was entered."""
    folder = folder or data_folder() / "bench"
    row = standings(folder)[program.name]
    path, sha256 = mapping_path(folder, row, game), row.game_sha256 if game else row.sha256
    if file_sha256(path) != sha256:
        raise InputError(path, "", f"its SHA-256 is not the table's, {sha256[:16]}")
    return read_mapping(path, program)


def is_game(program: Program, mapping: Mapping) -> bool:
    """Whether the actions of a mapping, played by the rules, give its intervals and offsets."""
    game = as_game(program, mapping)
    names = ("action", "offset", "start", "end")
    return all(np.array_equal(getattr(game, name), getattr(mapping, name)) for name in names)


def submit(path: str | os.PathLike, by: str, folder: Path | None = None) -> tuple[Score, Standing]:
    """Enters a mapping where it is valid and above the best one known, and its actions where they
    make a better game than is known; its score, and the standing before.

    Raises `InputError` where the file is no mapping of one of the sixty programs.
    """
    program, mapping, scored = judge(path)
    folder = folder or data_folder() / "bench"
    with locked(folder):  # another may have entered one meanwhile
        table = standings(folder)
        before = table[program.name]
        if scored.valid:
            enter(folder, table, program, mapping, scored, by)
        remove_others(folder, table[program.name])
    return scored, before


def enter(
    folder: Path,
    table: dict[str, Standing],
    program: Program,
    mapping: Mapping,
    scored: Score,
    by: str,
) -> None:
    """Makes a valid mapping the best one known, and what its actions give the best game, each where
    it returns more: writes their files, then the table; the former ones are removed last."""
    before, changes = table[program.name], dict[str, Any]()
    if scored.value > before.best + SAME:
        changes = {"best": scored.value, "latency_s": scored.latency_s, "by": by}
        changes |= {"date": datetime.date.today().isoformat()}
        changes |= {"sha256": _written(folder, program, mapping)}
    if scored.game > before.game + SAME:
        game = mapping if is_game(program, mapping) else as_game(program, mapping)
        changes |= {"game": scored.game, "game_sha256": _written(folder, program, game)}
    if not changes:
        return
    table[program.name] = replace(before, **changes)
    rows = [asdict(row) for row in table.values()]
    write_json(folder / TABLE, {"schema": SCHEMA, "programs": rows}, indent=1)
    remove_others(folder, table[program.name])


def _written(folder: Path, program: Program, mapping: Mapping) -> str:
    """The SHA-256 of a mapping's file, after it is written."""
    fresh = folder / f".entering{MAPPING}"  # whose name has to wait for its content
    write_json(fresh, mapping_to_json(mapping, program))
    sha256 = file_sha256(fresh)
    fresh.replace(folder / f"{program.name}.{sha256[:16]}{MAPPING}")
    return sha256


def remove_others(folder: Path, standing: Standing) -> None:
    """Removes mappings of a program that are not the table's: former ones, and those of entries cut
    off."""
    kept = [mapping_path(folder, standing, game) for game in (False, True)]
    for path in folder.glob(f"{standing.program}.*{MAPPING}"):
        if path not in kept:
            path.unlink()
