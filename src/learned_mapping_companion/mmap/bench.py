"""MMapBench: the sixty compiled programs as a benchmark, with two clocks and the best mapping known
of each.

The score of a mapping is its return: the share of the saving that fast memory could bring at most
(paper 1, Section 4.1). Every mapping that obeys the rules counts, whoever found it and however. The
folder ``data/bench`` holds the table of standings and the mappings; `submit` adds to both. A
mapping's file is named by its content and the table is written after it, so that an entry that is
cut off leaves the former standing whole.
"""

import datetime
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.folders import data_folder
from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.mmap.mapping import Mapping, mapping_to_json, read_mapping
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program
from learned_mapping.programs.json_io import file_sha256, read_json, write_json
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.datasets.registry import SETS
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.mmap.runs import replayed
from learned_mapping_companion.records import locked

CLOCKS = {"minute": 60.0, "half-hour": 1800.0}
"""The two tracks: seconds a program on one core of the reference speed."""
SAME = 1e-9  # Returns that differ by less are equal.
SCHEMA = "learned-mapping/bench/1"
TABLE, MAPPING = "table.json", ".mapping.json.gz"


@dataclass(frozen=True)
class Standing:
    """The state of knowledge on a program."""

    program: str
    digest: str  # Of the program.
    buffers: int
    bound: float  # Return that no mapping exceeds; see `mmap.bounds`.
    best: float  # Return of the best mapping known.
    latency_s: float  # Of the best mapping, by the model of the chip.
    by: str  # Who or what found it.
    date: str  # When, as YYYY-MM-DD.
    sha256: str  # Of the mapping's file.
    # Whether the best mapping is what its actions give by the rules; else a search chose its
    # offsets.
    game: bool


@dataclass(frozen=True)
class Score:
    """The score of a mapping on a program."""

    program: str
    valid: bool
    violation: str  # The first, of an invalid mapping.
    value: float  # The return; 0 for an invalid mapping.
    latency_s: float
    seconds: float  # Spent on it.


def load(name: str) -> Program:
    """A program of the benchmark; raises `InputError` for an unknown name."""
    if name not in compiled.names():
        raise InputError("benchmark program", name, "is none of the sixty; `lmap bench` names them")
    return read_program(SETS["compiled"].path / f"{name}.json.gz")


def standings(folder: Path | None = None) -> dict[str, Standing]:
    """Program -> what is known of it, in order; raises `InputError` naming file and field."""
    node = read_json((folder or data_folder() / "bench") / TABLE, "bench")
    result = {}
    for row in node.object(("schema", "programs"))["programs"].elements(1000):
        cells = row.object(tuple(Standing.__dataclass_fields__))
        texts = {
            name: cells[name].string() for name in ("program", "digest", "by", "date", "sha256")
        }
        numbers = {name: cells[name].number(0.0, 1e9) for name in ("bound", "best", "latency_s")}
        if numbers["best"] > numbers["bound"] + SAME:
            cells["best"].fail(f"{numbers['best']:.9g} is above the bound {numbers['bound']:.9g}")
        rest = {"buffers": cells["buffers"].integer(0, 10**9), "game": cells["game"].boolean()}
        result[texts["program"]] = Standing(**texts, **numbers, **rest)
    return result


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


def score(program: Program, mapping: Mapping, seconds: float = 0.0) -> Score:
    """The validator's word on a mapping."""
    verdict = validate(program, mapping)
    if not verdict.valid:
        return Score(program.name, False, str(verdict.violations[0]), 0.0, float("inf"), seconds)
    latency_s = program_latency(program, mapping).total_s
    return Score(program.name, True, "", float(verdict.costs["return"]), latency_s, seconds)


def is_game(program: Program, mapping: Mapping) -> bool:
    """Whether the actions of a mapping, played by the rules, give its intervals and offsets."""
    game = replayed(program, "".join(map(str, mapping.action.tolist())))
    names = ("action", "offset", "start", "end")
    return all(np.array_equal(getattr(game, name), getattr(mapping, name)) for name in names)


def run(program: Program, method: str, clock: str, seed: int = 0, out: Path | None = None) -> Score:
    """A method on a program by one of `CLOCKS`, without any rule's help; raises `InputError` for an
    unknown one.

    The folder `out` keeps the mapping. One of the same method, clock and seed that is there already
    is judged in place of a run; one of another run raises `InputError`.
    """
    origin = {
        "method": method,
        "by": method,
        "seed": seed,
        "samples": 0,
        "options": {"clock": clock},
    }
    path = None if out is None else out / f"{program.name}{MAPPING}"
    if path is not None and path.exists():
        mapping = read_mapping(path, program)
        made = (
            read_json(path)
            .mapping(10, ("made",))["made"]
            .mapping(10, ("seconds", "method", "seed", "options"))
        )
        if any(made[name].value != origin[name] for name in ("method", "seed", "options")):
            raise InputError(path, "made", "is of another run: name another folder")
        return score(program, mapping, made["seconds"].number(0.0, 1e9))
    result = solve(program, method, seed=seed, seconds=CLOCKS[clock], cpu=True)
    scored = score(program, result.solution, result.seconds)
    if path is not None and scored.valid:
        origin |= {"samples": result.samples, "seconds": round(result.seconds, 3)}
        write_json(path, mapping_to_json(result.solution, program) | {"made": origin})
    return scored


def program_of(path: str | os.PathLike) -> Program:
    """The program that a mapping's file is for; raises `InputError` naming file and field."""
    node = read_json(path, "mapping")
    instance = node.object(("schema", "instance", "decisions"), ("made",))["instance"]
    name = instance.object(("name", "digest"))["name"].name()
    if name not in compiled.names():
        instance.fail(f"{name!r} is none of the sixty programs; `lmap bench` names them")
    return load(name)


def submit(path: str | os.PathLike, by: str, folder: Path | None = None) -> tuple[Score, Standing]:
    """Enters a mapping where it is valid and above the best one known; its score, and the standing
    before.

    Raises `InputError` where the file is no mapping of one of the sixty programs.
    """
    program = program_of(path)
    mapping = read_mapping(path, program)
    folder = folder or data_folder() / "bench"
    scored = score(program, mapping)
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
