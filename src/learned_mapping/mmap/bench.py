"""MMapBench: the sixty compiled programs as a benchmark, with four clocks and what is known of
each; or a set of one's own.

The score of a mapping is its return: the share of the saving that fast memory could bring at most
(paper 1, Section 4.1). Every mapping that obeys the rules counts, whoever found it and however.
"""

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.errors import InputError, told
from learned_mapping.folders import bench_folder, programs_folder
from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.mmap.bounds.upper import proven
from learned_mapping.mmap.mapping import Mapping, mapping_to_json, read_mapping
from learned_mapping.mmap.methods import PROBLEM, solve
from learned_mapping.mmap.rules.play import Game, mapping_of
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.formats import read_program
from learned_mapping.programs.json_io import read_json, write_json
from learned_mapping.programs.program import Program

CLOCKS = {"10ms": 0.01, "second": 1.0, "minute": 60.0, "half-hour": 1800.0}
"""The tracks: seconds a program on one core of the reference speed."""
LATE = 1.5
"""The share of its clock after which a run is late: a method looks at the clock between two games,
and one game of a long program takes longer than the shortest track."""
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
    game: float  # Return of the best game known, whose offsets follow from its actions.
    game_sha256: str  # Of its file, which is the best mapping's where that is a game.


@dataclass(frozen=True)
class Score:
    """The score of a mapping on a program."""

    program: str
    valid: bool
    violation: str  # The first, of an invalid mapping.
    value: float  # The return; 0 for an invalid mapping.
    latency_s: float
    seconds: float  # Spent on it.
    game: float = 0.0  # The return of its actions alone, at the offsets that the game chooses.


def standings(folder: Path | None = None) -> dict[str, Standing]:
    """Program -> what is known of it, in order; raises `InputError` naming file and field."""
    node = read_json((folder or bench_folder()) / TABLE, "bench")
    result = {}
    for row in node.object(("schema", "programs"))["programs"].elements(1000):
        cells = row.object(tuple(Standing.__dataclass_fields__))
        values: dict[str, Any] = {
            name: cells[name].string()
            for name in ("program", "digest", "by", "date", "sha256", "game_sha256")
        }
        for name in ("bound", "best", "latency_s", "game"):
            values[name] = cells[name].number(0.0, 1e9)
        if values["game"] > values["best"] + SAME:
            cells["game"].fail(f"{values['game']:.9g} is above the best, {values['best']:.9g}")
        if values["best"] > values["bound"] + SAME:
            cells["best"].fail(f"{values['best']:.9g} is above the bound {values['bound']:.9g}")
        values["buffers"] = cells["buffers"].integer(0, 10**9)
        result[values["program"]] = Standing(**values)
    return result


def load(name: str) -> Program:
    """A program of the benchmark; raises `InputError` for an unknown name."""
    if name not in standings():
        raise InputError("benchmark program", name, "is none of the sixty; `lmap bench` names them")
    return read_program(programs_folder() / f"{name}.json.gz")


def own(folder: Path) -> dict[str, tuple[Standing, Program]]:
    """A set of one's own, program -> what is known of it, nothing but the bound, and itself. The
    folder's ``manifest.json`` names the files, whatever `methods.PROBLEM` reads: ``{"schema":
    "learned-mapping/set/1", "programs": ["a.json", ...]}``.

    Raises:
      InputError: naming file and field, also where two programs have one name.
    """
    node, result = read_json(folder / "manifest.json", "set"), {}
    for cell in node.object(("schema", "programs"))["programs"].elements(10_000):
        path = folder / cell.string()
        if not path.is_file():
            cell.fail(f"{told(cell.value)} is no file of the folder")
        program = PROBLEM.read(str(path))
        if program.name in result or "/" in program.name:
            cell.fail(f"{told(program.name)} names another program too, or cannot name a file")
        head = (program.name, program.digest, program.num_buffers)
        known = (bound_of(program), 0.0, float(program.slow_s.sum()))
        row = Standing(*head, *known, by="", date="", sha256="", game=0.0, game_sha256="")
        result[program.name] = row, program
    if not result:
        node.fail("names no program")
    return result


@functools.lru_cache(maxsize=1024)
def _bound(name: str, digest: str) -> float | None:
    row = standings().get(name)
    return row.bound if row is not None and row.digest == digest else None


def bound_of(program: Program) -> float:
    """A return that no mapping of a program exceeds: the one that is stored, else `proven`."""
    known = _bound(program.name, program.digest)
    return proven(program) if known is None else known


def as_game(program: Program, mapping: Mapping) -> Mapping:
    """What a mapping's actions give when they are played: the same mapping, unless its offsets were
    chosen otherwise. Where one is not legal then, the first of Copy, NoCopy and Drop takes its
    place."""
    game = Game(program)
    game.play_actions(mapping.action.tolist())
    return mapping_of(program, game.played())


def score(program: Program, mapping: Mapping, seconds: float = 0.0) -> Score:
    """The validator's word on a mapping, and on its actions played as a game."""
    verdict = validate(program, mapping)
    if not verdict.valid:
        return Score(program.name, False, str(verdict.violations[0]), 0.0, float("inf"), seconds)
    latency_s = program_latency(program, mapping).total_s
    value = float(verdict.costs["return"])
    game = float(validate(program, as_game(program, mapping)).costs["return"])
    return Score(program.name, True, "", value, latency_s, seconds, game)


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


def judge(path: str | os.PathLike) -> tuple[Program, Mapping, Score]:
    """A mapping's file, scored, with its program; raises `InputError` where it is none of the
    sixty."""
    node = read_json(path, "mapping")
    instance = node.object(("schema", "instance", "decisions"), ("made",))["instance"]
    name = instance.object(("name", "digest"))["name"].name()
    if name not in standings():
        instance.fail(f"{name!r} is none of the sixty programs; `lmap bench` names them")
    program = load(name)
    mapping = read_mapping(path, program)
    return program, mapping, score(program, mapping)


def interval(values: Sequence[float], draws: int = 2000) -> tuple[float, float]:
    """The 95 % interval of a mean over programs, by a bootstrap of them."""
    scores, rng = np.asarray(values), np.random.default_rng(0)
    means = scores[rng.integers(len(scores), size=(draws, len(scores)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
