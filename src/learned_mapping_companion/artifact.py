"""The parts of the tables and figures: keyed runs, and artifacts assembled from their records.

`TABLE` lists every artifact and `TASKS` what a run can be, from ``artifacts.yml``.
"""

import hashlib
import importlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import read_yaml

DEFAULT_SEEDS = {"quick": 3, "full": 5, "paper": 5}
PROFILES = tuple(DEFAULT_SEEDS)
PAPERS = {"mmap": 1, "mcm": 2, "regal": 3}
PACKAGE = "learned_mapping_companion"
# What a `Run` is decided by, and a record says of it.
RUN = ("task", "method", "instance", "config", "seed")
Record = dict[str, Any]


def read_table(name: str) -> Record:
    """A table of this folder, as text: a listing imports nothing."""
    return read_yaml(Path(__file__).parent / name)


TASKS: dict[str, str] = read_table("artifacts.yml")["tasks"]
"""The function that does each task. A name here stays when its function moves."""
TABLE: dict[str, Record] = read_table("artifacts.yml")["artifacts"]
"""Id -> title, the module with its `Artifact`, and the artifacts whose results it reads."""


@dataclass(frozen=True)
class Run:
    """One independent piece of work, the same wherever it is executed.

    Its function is called as ``function(method, instance, config, seed)`` and returns JSON:
    numbers, strings, lists and objects with string keys. The seed decides all that is random in it.
    """

    # A name of `TASKS`, or ``module:function``, importable wherever the run may be executed.
    task: str
    method: str
    instance: str
    # JSON: everything else that decides the outcome.
    config: Record = field(default_factory=dict, hash=False)
    seed: int = 0
    long: bool = field(default=False, compare=False)
    """Whether it takes so long that it is performed only where `make` is told to; an artifact does
    without it."""

    def __post_init__(self) -> None:
        if self.task not in TASKS and ":" not in self.task:
            raise ValueError(
                f"a run's task is a name of TASKS or 'module:function', got {self.task!r}"
            )
        json.dumps(self.config, allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that key the run's record: SHA-256 over task, method, instance,
        config and seed."""
        key = [self.task, self.method, self.instance, self.config, int(self.seed)]
        text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def function_of(task: str) -> Callable[..., Any]:
    """The function that performs a task."""
    module, _, name = TASKS.get(task, task).partition(":")
    if module.startswith("builders."):
        from learned_mapping_companion.datasets.registry import builder

        target: Any = builder(module.removeprefix("builders."))
    else:
        target = importlib.import_module(f"{PACKAGE}.{module}" if task in TASKS else module)
    for part in name.split("."):
        target = getattr(target, part)
    return target


Runs = Iterable[Run]
Plan = Callable[[int], Runs]
"""The number of seeds -> runs, in the order of the tables."""


def no_runs(seeds: int) -> Runs:
    """The plan of an artifact that is made of its parts, or of the code itself."""
    return ()


@dataclass(frozen=True)
class Quick:
    """What the profile ``quick`` takes of a full plan, all where nothing is said, and what of it is
    smaller there."""

    methods: Collection[str] = ()
    instances: Collection[str] | int = ()  # These, or the first so many.
    seeds: int | None = None
    networks: int | None = None  # The first so many of each method that asks one by its number.
    only: Mapping[str, Collection[Any]] = field(default_factory=dict)
    """Setting -> the values with which a run that has it is taken."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Setting -> of a number the most; of a list so many, from the first on, or a tuple of those
    that stay; a string or a list that every run gets."""
    plan: Plan | None = None  # Where another than the full plan is made smaller.
    long: bool = False  # Whether runs that take long stay so; else they are short here.

    def runs(self, plan: Plan, seeds: int) -> list[Run]:
        """The runs of `plan` that are taken, each once."""
        full, taken = list((self.plan or plan)(seeds)), dict[str, Run]()
        instances = self.instances
        if isinstance(instances, int):
            instances = list(dict.fromkeys(run.instance for run in full))[:instances]
        for run in full:
            config = changed(run.config, self.config, _smaller)
            number = str(config.get("network")).rpartition("-")[2]
            if (
                (not self.methods or run.method in self.methods)
                and (not instances or run.instance in instances)
                and (self.seeds is None or run.seed < self.seeds)
                and not (self.networks and number.isdigit() and int(number) >= self.networks)
                and all(run.config.get(key) in (None, *cells) for key, cells in self.only.items())
                and [] not in config.values()
            ):
                run = replace(run, config=config, long=run.long and self.long)
                taken.setdefault(run.digest, run)
        return list(taken.values())


NOTHING = Quick(seeds=0)


def changed(
    config: Record, changes: Mapping[str, Any], change: Callable[[Any, Any], Any]
) -> Record:
    """A run's settings, each that it has and that `changes` names as `change` has it, and the
    strings and lists of `changes`."""
    return config | {
        key: value if isinstance(value, str | list) else change(config[key], value)
        for key, value in changes.items()
        if key in config or isinstance(value, str | list)
    }


def _smaller(old: Any, new: Any) -> Any:
    if isinstance(new, tuple):
        return [one for one in old if one in new]
    return old[:new] if isinstance(old, list) else min(old, new)


def _larger(old: float, factor: float) -> float:
    return type(old)(old * factor)


def judged(rows: Iterable[Record], records: Iterable[Record], *parts: Record) -> Record:
    """Rows, and how many of the solutions in the records, or else in the first of the parts, the
    validator has judged and refused."""
    valid, rows = [], list(rows)
    for result in (record["result"] for record in records):
        outcomes = result.get("graphs", {"": result}).values()
        if "validated" in result:
            valid += [i >= result["invalid"] for i in range(result["validated"])]
        elif result.get("judged", True):
            valid += [o["valid"] for o in outcomes if isinstance(o.get("valid"), bool)]
        valid += [False] * result.get("broken", 0)
    counts = {"validated": len(valid), "invalid": valid.count(False)}
    if not valid and parts:
        counts = {name: parts[0][name] for name in counts}
    return {"rows": rows, **counts}


@dataclass(frozen=True)
class Artifact:
    """A table or figure: which runs it needs, and how their records become tidy rows."""

    id: str  # As under ``lmap make`` and in ``data/results/``: ``mmap.table2``.
    # (records in the order of the plan, the results of its parts) -> its rows, or what `judged`
    # returns.
    assemble: Callable[..., Any]
    plan: Plan = no_runs  # In full.
    quick: Quick = Quick()
    paper: Mapping[str, Any] = field(default_factory=dict)
    """Setting -> by what it is larger in the profile ``paper``, or the string in its place."""

    @property
    def title(self) -> str:
        return TABLE[self.id]["title"]

    @property
    def parts(self) -> list[str]:
        """Ids of artifacts whose results `assemble` gets; they are made first."""
        return TABLE.get(self.id, {}).get("parts", [])

    def result(self, records: list[Record], *parts: Record) -> Record:
        """Its rows from the records of its runs and the results of its parts, and how many
        solutions were judged and are invalid."""
        made = self.assemble(records, *parts)
        return made if isinstance(made, dict) else judged(made, records, *parts)

    def runs(self, profile: str, seeds: int) -> list[Run]:
        """The runs of one of `PROFILES`."""
        if profile == "quick":
            return self.quick.runs(self.plan, seeds)
        factors = self.paper if profile == "paper" else {}
        return [
            replace(run, config=changed(run.config, factors, _larger)) for run in self.plan(seeds)
        ]


def find_artifact(artifact_id: str) -> Artifact:
    """The artifact of this id; imports its module, and raises `InputError` for another."""
    if artifact_id not in TABLE:
        raise InputError("artifact", artifact_id, f"is not known; there are: {', '.join(TABLE)}")
    module = importlib.import_module(f"{PACKAGE}.{TABLE[artifact_id]['module']}")
    items = vars(module).values()
    return next(item for item in items if isinstance(item, Artifact) and item.id == artifact_id)


def reported(artifact_id: str) -> list[Record]:
    """The rows that the paper reports, which stand beside an artifact's own; from
    ``papers.yml``."""
    return [
        {name: cell for name, cell in entry.items() if name not in ("over", "values")}
        | {entry["over"]: key, "value": value}
        for entry in read_table("papers.yml").get(artifact_id, ())
        for key, value in entry["values"].items()
    ]
