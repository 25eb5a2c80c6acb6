"""What the tables and figures are made of: keyed runs, and artifacts assembled from their records.

`TABLE` lists every artifact and `TASKS` what a run can be, both as text, so that a listing imports nothing.
"""

import functools
import hashlib
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError

PROFILES = ("quick", "full", "paper")
DEFAULT_SEEDS = {"quick": 3, "full": 5, "paper": 5}
PAPERS = {"mmap": 1, "mcm": 2, "regal": 3}
PACKAGE = "learned_mapping.companion"

TASKS: dict[str, str] = {
    "mmap.map": "mmap.runs:run_method",
    "mmap.bound": "mmap.tables:run_bound",
    "mmap.random": "mmap.tables:run_random",
    "mmap.price": "mmap.compiler:run_price",
    "mmap.play": "mmap.tables:run_play",
    "mmap.state": "mmap.facts:run_state",
    "mcm.partition": "mcm.classical:partition_run",
    "mcm.example": "mcm.classical:example_run",
    "mcm.unconstrained": "mcm.classical:unconstrained_run",
    "mcm.solve": "mcm.learning_runs:model_run",
    "mcm.mode": "mcm.learning_runs:mode_run",
    "mcm.share": "mcm.learning_runs:share_run",
    "mcm.repair": "mcm.classical:repair_run",
    "mcm.cp_sat": "mcm.cp_sat:repair_run",
    "mcm.cp_sat_ppo": "mcm.cp_sat:learn_run",
    "mcm.unsolved": "mcm.classical:unsolved_run",
    "silicon.solve": "mcm.learning_runs:silicon_run",
    "silicon.measure": "mcm.silicon:method_run",
    "silicon.sample": "mcm.silicon:sampling_run",
    "silicon.ties": "mcm.silicon:ties_run",
    "regal.schedule": "regal.runs:schedule_graphs",
    "regal.sizes": "regal.runs:time_sizes",
    "regal.split": "regal.runs:split_seconds",
    "regal.long": "regal.runs:long_search",
    "regal.prove": "regal.runs:prove",
    "regal.distance": "regal.distance:schedule_set",
    "regal.limit": "regal.limit:schedule_limited",
}
"""What a run does -> the function below this package that does it. A name here stays when its function moves."""

TABLE: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("mmap.fig1", "Memory layout of an AlexNet training step", "mmap.tables", ()),
    ("mmap.table2", "Final reward, for equal CPU seconds", "mmap.table2", ()),
    ("mmap.fig5", "Reward over CPU seconds and over games", "mmap.table2", ("mmap.table2",)),
    ("mmap.bound", "Gap of every method to a proven bound", "mmap.tables", ("mmap.table2",)),
    ("mmap.table3", "Speedup over the compiler's mapping, sixty programs", "mmap.speedup", ()),
    ("mmap.table4", "Programs with the largest and the smallest speedup", "mmap.speedup", ("mmap.table3",)),
    ("mmap.fig10", "Speedup of each program", "mmap.speedup", ("mmap.table3",)),
    ("mmap.fig6", "Return and latency of ten solutions", "mmap.speedup", ("mmap.table4",)),
    ("mmap.table5", "Correlation of return with latency", "mmap.speedup", ("mmap.fig6", "mmap.table4")),
    ("mmap.fig7", "Search alone, learning alone, and both", "mmap.table2", ("mmap.table2",)),
    ("mmap.fig8", "The best layout found beside the compiler's", "mmap.speedup", ()),
    ("mmap.dropbackup", "With Drop-backup and without", "mmap.tables", ()),
    ("mmap.scaling", "Cost of a step against program size", "mmap.tables", ()),
    ("mmap.fig4", "The representation network", "mmap.facts", ()),
    ("mmap.table6", "Hyperparameters", "mmap.facts", ()),
    ("mmap.fig9", "Buffers of each workload", "mmap.facts", ()),
    ("mmap.table1", "Features of a buffer", "mmap.facts", ()),
    ("mmap.fig2", "One step of the game, from a real state", "mmap.facts", ()),
    ("mmap.fig3", "What Copy, NoCopy and Drop trade, from a real state", "mmap.facts", ()),
    ("mmap.compiler", "Mappings priced by the compiler itself", "mmap.compiler", ()),
    ("mcm.fig2", "One partition that breaks each constraint", "mcm.classical", ()),
    ("mcm.unconstrained", "Valid partitions among random ones, without a solver", "mcm.classical", ()),
    ("mcm.optimum", "Every classical method against the exact optimum", "mcm.classical", ()),
    ("mcm.repair", "Repairs: speed, success, agreement", "mcm.classical", ()),
    ("mcm.cp_sat", "Repair by CP-SAT beside the compiled engine", "mcm.cp_sat", ()),
    ("mcm.unsolved", "Valid partitions of policies trained without a solver", "mcm.classical", ()),
    ("mcm.fig7", "Predicted against measured run time on silicon", "mcm.silicon", ()),
    ("mcm.ties", "What the model cannot tell from its optimum", "mcm.silicon", ()),
    ("mcm.fig1", "The method: policy, solver, evaluation", "mcm.schematics", ()),
    ("mcm.fig3", "The network of the paper's policy", "mcm.schematics", ()),
    ("mcm.fig4", "Pre-training: the worker that trains and the one that validates", "mcm.schematics", ()),
    ("mcm.fig5", "Improvement over the naive greedy against samples", "mcm.learning", ()),
    ("mcm.table2", "Samples to reach a level", "mcm.learning", ("mcm.fig5",)),
    ("mcm.modes", "FIX against SAMPLE, and whose choice is credited", "mcm.learning", ()),
    ("mcm.table1", "Classes of methods", "mcm.learning", ("mcm.fig5",)),
    ("mcm.fig6", "BERT on 36 simulated chips, against samples", "mcm.learning_bert", ()),
    ("mcm.table3", "Samples to reach a level on BERT", "mcm.learning_bert", ("mcm.fig6",)),
    ("mcm.memory", "BERT where the static optimum does not fit", "mcm.silicon", ()),
    ("regal.table1", "Gap to the best known schedule", "regal.tables", ()),
    ("regal.test", "Gap to the best known schedule on test sets that chose nothing", "regal.untouched", ()),
    ("regal.time", "Seconds per graph", "regal.tables", ()),
    ("regal.room", "Two readings of a synchronous transfer, and the room each leaves", "regal.tables", ()),
    ("regal.exact", "Small graphs: every method against the proven optimum", "regal.tables", ()),
    ("regal.limit", "Running time where memory binds", "regal.limit", ()),
    ("regal.fig1", "The method", "regal.tables", ()),
    ("regal.fig2_left", "Improvement over BRKGA with 5,000 evaluations, graph by graph, peak memory", "regal.tables",
     ("regal.table1",)),
    ("regal.fig2_right", "What more evaluations bring, with learned laws and without", "regal.tables", ()),
    ("regal.distance", "Gain over BRKGA with as many evaluations, by distance from the training graphs",
     "regal.distance", ()),
)  # fmt: skip
"""Id, title, the module with its ``plan_NAME`` and ``assemble_NAME``, and the artifacts whose results it reads."""

Plan = Callable[[str, int], list["Run"]]
Assemble = Callable[[str, list[dict[str, Any]]], dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """One independent piece of work, the same wherever it is executed.

    Its function is called as ``function(method, instance, config, seed)`` and returns JSON: numbers, strings, lists and
    objects with string keys.
    """

    task: str
    """A name of `TASKS`, or ``module:function``, importable wherever the run may be executed."""
    method: str
    instance: str
    config: dict[str, Any] = field(default_factory=dict, hash=False)
    """JSON: everything else that decides the outcome."""
    seed: int = 0
    long: bool = field(default=False, compare=False)
    """Whether it takes so long that it is performed only where `make` is told to; an artifact does without it."""

    def __post_init__(self) -> None:
        if self.task not in TASKS and ":" not in self.task:
            raise ValueError(f"a run's task is a name of TASKS or 'module:function', got {self.task!r}")
        json.dumps(self.config, allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that key the run's record: SHA-256 over task, method, instance, config and seed."""
        key = [self.task, self.method, self.instance, self.config, int(self.seed)]
        text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def function_of(task: str) -> Callable[..., Any]:
    """The function that performs a task."""
    path = f"{PACKAGE}.{TASKS[task]}" if task in TASKS else task
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@dataclass(frozen=True)
class Artifact:
    """A table or figure: which runs it needs, and how their records become tidy rows."""

    id: str
    """As under ``lmap make`` and in ``data/results/``: ``mmap.table2``."""
    title: str
    plan: Plan
    """(profile, seeds) -> runs. The profile is one of `PROFILES`."""
    assemble: Assemble
    """(profile, records in the order of the plan) -> ``{"rows", "validated", "invalid"}``."""
    parts: tuple[str, ...] = ()
    """Ids of artifacts whose stored results `assemble` reads; they are made first."""

    @property
    def paper(self) -> int:
        """1 mmap, 2 mcm, 3 regal."""
        return PAPERS[self.id.partition(".")[0]]


def no_runs(profile: str, seeds: int) -> list[Run]:
    """The plan of an artifact that is made of its parts, or of the code itself."""
    return []


def find_artifact(artifact_id: str) -> Artifact:
    """The artifact of this id; imports its module.

    Raises:
      InputError: there is none; the message lists those there are.
    """
    for found, title, module_name, parts in TABLE:
        if found == artifact_id:
            module, name = importlib.import_module(f"{PACKAGE}.{module_name}"), found.partition(".")[2]
            return Artifact(
                found, title, getattr(module, f"plan_{name}", no_runs), getattr(module, f"assemble_{name}"), parts
            )
    known = ", ".join(entry[0] for entry in TABLE)
    raise InputError("artifact", artifact_id, f"is not known; there are: {known}")


def reported(artifact_id: str) -> list[dict[str, Any]]:
    """What the paper reports: rows that stand beside an artifact's own, from ``papers.yml``."""
    return [
        {name: cell for name, cell in entry.items() if name not in ("over", "values")}
        | {entry["over"]: key, "value": value}
        for entry in _papers().get(artifact_id, ())
        for key, value in entry["values"].items()
    ]


@functools.cache
def _papers() -> dict[str, list[dict[str, Any]]]:
    import yaml

    return yaml.safe_load(Path(__file__).with_name("papers.yml").read_text())


def check_profile(profile: str) -> str:
    """The profile itself; raises `InputError` where it is none of `PROFILES`."""
    if profile not in PROFILES:
        raise InputError("profile", "", f"{profile!r} is none of {', '.join(PROFILES)}")
    return profile
