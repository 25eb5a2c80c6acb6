"""The standings of MMapBench, `learned_mapping.mmap.bench`: the best mapping known of each program.

The folder ``data/bench`` holds the table of standings and the mappings; `submit` adds to both. A
mapping's file is named by its content and the table is written after it, so that an entry that is
cut off leaves the former standing whole.
"""

import datetime
import os
from dataclasses import asdict, replace
from pathlib import Path

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
from learned_mapping_companion.mmap.runs import replayed

__all__ = ["CLOCKS", "MAPPING", "SAME", "SCHEMA", "TABLE", "Score", "Standing"]
__all__ += ["load", "run", "score", "standings"]


def mapping_path(folder: Path, standing: Standing) -> Path:
    """The file of a best mapping, named by its program and its content."""
    return folder / f"{standing.program}.{standing.sha256[:16]}{MAPPING}"


def standings_table() -> Html:
    """The best mapping known of each program."""
    rows = [
        (row.program, row.buffers, row.best, row.bound, row.game, row.by)
        for row in standings().values()
    ]
    return listing(
        "The best mapping known",
        ("program", "buffers", "best return", "bound", "a game", "found by"),
        rows,
    )


def best_mapping(program: Program, folder: Path | None = None) -> Mapping:
    """The best mapping known; raises `InputError` where its file is not the one that was
    entered."""
    folder = folder or data_folder() / "bench"
    row = standings(folder)[program.name]
    path = mapping_path(folder, row)
    if file_sha256(path) != row.sha256:
        raise InputError(path, "", f"its SHA-256 is not the table's, {row.sha256[:16]}")
    return read_mapping(path, program)


def is_game(program: Program, mapping: Mapping) -> bool:
    """Whether the actions of a mapping, played by the rules, give its intervals and offsets."""
    game = replayed(program, "".join(map(str, mapping.action.tolist())))
    names = ("action", "offset", "start", "end")
    return all(np.array_equal(getattr(game, name), getattr(mapping, name)) for name in names)


def submit(path: str | os.PathLike, by: str, folder: Path | None = None) -> tuple[Score, Standing]:
    """Enters a mapping where it is valid and above the best one known; its score, and the standing
    before.

    Raises `InputError` where the file is no mapping of one of the sixty programs.
    """
    program, mapping, scored = judge(path)
    folder = folder or data_folder() / "bench"
    with locked(folder):  # another may have entered one meanwhile
        table = standings(folder)
        before = table[program.name]
        if scored.valid and scored.value > before.best + SAME:
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
    """Makes a mapping the best one known: writes its file, then the table; the former one is
    removed last."""
    fresh = folder / f".entering{MAPPING}"  # whose name has to wait for its content
    write_json(fresh, mapping_to_json(mapping, program))
    about = {"by": by, "date": datetime.date.today().isoformat(), "sha256": file_sha256(fresh)}
    about |= {
        "best": scored.value,
        "latency_s": scored.latency_s,
        "game": is_game(program, mapping),
    }
    table[program.name] = replace(table[program.name], **about)
    fresh.replace(mapping_path(folder, table[program.name]))
    rows = [asdict(row) for row in table.values()]
    write_json(folder / TABLE, {"schema": SCHEMA, "programs": rows}, indent=1)
    remove_others(folder, table[program.name])


def remove_others(folder: Path, standing: Standing) -> None:
    """Removes mappings of a program that are not the table's: the former one, and those of entries
    cut off."""
    for path in folder.glob(f"{standing.program}.*{MAPPING}"):
        if path != mapping_path(folder, standing):
            path.unlink()
