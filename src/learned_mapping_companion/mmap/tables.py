"""Paper 1's smaller tables: random play with Drop-backup and without, proven bounds, a long search.

Without Drop-backup a dead end ends the game with a return of 0 (section 4.3.2). Up to the first
dead end both games are the same, so one set of games tells both: a game is lost if it meets a dead
end at all.
"""

from typing import Any

import numpy as np

from learned_mapping.mmap.agent.config import LONG
from learned_mapping.mmap.bounds.upper import integer_bound, upper_bound
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program
from learned_mapping_companion import results, table
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.runs import load
from learned_mapping_companion.mmap.speedup import AGENT_SECONDS
from learned_mapping_companion.mmap.table2 import workloads
from learned_mapping_companion.records import read_record
from learned_mapping_companion.table import Record, Row, row

FIG1_GAMES = {"quick": 1500, "full": 30_000, "paper": 300_000}
BOUND_SECONDS = {"quick": 20.0, "full": 120.0, "paper": 3600.0}
"""Wall-clock limit of branch and bound, per program."""
QUICK_PROGRAMS = ("mlperf_dlrm_batch_8192", "rnn_2", "alexnet_train_batch_32")
RANDOM_GAMES = {"quick": 40, "full": 400, "paper": 4000}
TRAINED, TRAINED_SEEDS = "mlperf_dlrm_batch_8192", 3
"""The program, and seeds, of trainings with and without Drop-backup: random play meets most dead
ends there."""
ARMS = ("muzero", "muzero-no-backup")


def workload(name: str) -> Program:
    """A compiled program by name; raises `InputError` for an unknown one."""
    return load(name)[0]


def proven() -> dict[str, float]:
    """Program -> a return that no game exceeds, of the stored ``mmap.bound``."""
    rows = results.select(results.load("mmap.bound"), method="bound", metric="return")
    return {entry["instance"]: entry["value"] for entry in rows}


def levels() -> dict[str, dict[str, float]]:
    """Program of a stored training -> returns of tuned rule, best evolution and bound."""
    table2, by_program = results.load("mmap.table2"), {}
    for name in {record["program"] for record in runs.trainings()}:
        known = {
            entry["method"]: entry["value"]
            for entry in results.select(table2, instance=name, metric="return")
        }
        best = max(
            (method for method in known if method.startswith("evolution")), key=known.__getitem__
        )
        by_program[name] = {method: known[method] for method in ("greedy-tuned", best)} | {
            "bound": proven()[name]
        }
    return by_program


def long_programs() -> list[str]:
    """The programs that the agent plays in windows."""
    return [item.name for item in runs.manifest().items if item.facts["buffers"] >= LONG]


def programs_table() -> Html:
    """The four programs of Table 2: sizes, the fast memory, and milliseconds that it can save."""
    head = ["", "buffers", "instructions", "alias groups", "fast MiB", "in HBM, ms", "to save, ms"]
    rows = []
    for name, p in ((name, workload(name)) for name in workloads("full")):
        times = p.slow_s.sum() * 1e3, p.possible_saving_s * 1e3
        rows.append(
            (
                name,
                p.num_buffers,
                p.num_instructions,
                p.num_alias_groups,
                p.fast_bytes / 2**20,
                *times,
            )
        )
    return listing("The four programs", head, rows)


def stored_mapping(artifact_id: str) -> tuple[Program, Mapping]:
    """The program and the mapping of the row of a stored result that carries one."""
    (holder,) = [row for row in results.load(artifact_id)["rows"] if "mapping" in row]
    program = workload(holder["instance"])
    return program, make_mapping(program, **holder["mapping"])


def run_bound(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """A proven upper bound on a program's return: ``bound-lp`` by linear, ``bound`` by integer
    programming."""
    program = workload(instance)
    bound = (
        upper_bound(program)
        if method == "bound-lp"
        else integer_bound(program, seconds=config["seconds"])
    )
    return {"return": bound.value} | {
        name: getattr(bound, name)
        for name in ("saving_s", "exact", "variables", "constraints", "seconds")
    }


def plan_bound(profile: str, seeds: int) -> list[Run]:
    """Two bounds per program; the methods' returns are those of `mmap.table2`."""
    config = {"bound-lp": {}, "bound": {"seconds": BOUND_SECONDS[profile]}}
    return [
        Run("mmap.bound", method, name, config[method] | {"program": runs.program_digest(name)})
        for name in workloads(profile)
        for method in config
    ]


def assemble_bound(profile: str, records: list[Record]) -> Record:
    """The bounds, and how many percent of the tighter one every method of `mmap.table2` stays below
    it."""
    table2 = results.load("mmap.table2", profile)
    entries: list[Row] = []
    bounds: dict[str, float] = {}
    for record in records:
        key, result = (record["instance"], record["method"]), record["result"]
        extra = {name: result[name] for name in ("exact", "variables", "constraints")}
        entries.append(
            row(*key, "return", result["return"], n=1, program=record["config"]["program"], **extra)
        )
        entries.append(row(*key, "seconds", result["seconds"], n=1))
        if record["method"] == "bound":
            bounds[record["instance"]] = result["return"]
    for entry in results.select(table2, metric="return"):
        bound = bounds.get(entry["instance"], 0.0)
        if bound > 0 and entry["method"] != "xla":  # which does not follow the game's rules
            gap = [100.0 * (1.0 - entry[end] / bound) for end in ("value", "high", "low")]
            entries.append(
                table.interval_row(
                    entry["instance"], entry["method"], "gap_percent", gap, n=entry["n"]
                )
            )
    return table.from_part(table2, entries + runs.learned(table2))


def plan_fig1(profile: str, seeds: int) -> list[Run]:
    """One long search, counted in games so that it can be repeated exactly."""
    config = {"samples": FIG1_GAMES[profile], "keep": True}
    return [runs.plan_run("edit-search", "alexnet_train_batch_32", config)]


def assemble_fig1(profile: str, records: list[Record]) -> Record:
    """The return, in a row that carries the mapping itself, and the speedup over the compiler's."""
    (record,) = records
    key, result = (record["instance"], record["method"]), record["result"]
    about = {"program": record["config"]["program"], "mapping": result["mapping"]}
    compiler = runs.compiler_record(*load(record["instance"]))
    speedup = compiler["costs"]["latency_s"] / result["costs"]["latency_s"]
    rows = [
        row(*key, "return", result["costs"]["return"], n=1, **about),
        row(*key, "speedup", speedup, n=1),
    ]
    return table.assembled(rows) | runs.counted(records)


def run_random(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Games of random legal moves with Drop-backup: the return and the dead ends of each."""
    program, _ = load(instance)
    game, rng = Game(program), np.random.default_rng(seed)
    values, dead_ends = [], []
    for _ in range(config["games"]):
        game.restart()
        game.play_random(rng)
        values.append(float(game.value))
        dead_ends.append(int(game.resets))
    return {"returns": values, "dead_ends": dead_ends}


def plan_dropbackup(profile: str, seeds: int) -> list[Run]:
    """Random play where there are alias groups; on `TRAINED` the agent with Drop-backup and
    without."""
    items = sorted(runs.manifest().items, key=lambda item: (item.facts["buffers"], item.name))
    aliased = [item.name for item in items if item.facts["alias_groups"]]
    names = QUICK_PROGRAMS if profile == "quick" else aliased
    planned = [
        Run(
            "mmap.random",
            "random",
            name,
            {"games": RANDOM_GAMES[profile], "program": runs.program_digest(name)},
        )
        for name in names
    ]
    if profile in AGENT_SECONDS:
        seconds = AGENT_SECONDS[profile]
        for seed in range(min(seeds, TRAINED_SEEDS)):
            planned.append(runs.plan_one_round(TRAINED, seconds, seed))
            planned.append(runs.plan_run(ARMS[1], TRAINED, {"seconds": seconds}, seed))
    return planned


def assemble_dropbackup(profile: str, records: list[Record]) -> Record:
    """Per game: ``dead_ends``, ``mean_return`` and ``lost`` (share of games) of random play with
    Drop-backup (``random``) and without (``random-no-backup``); where there are dead ends, what
    `trained_rows` tells of the agent: of the trainings with Drop-backup and without, or else of
    that of `mmap.table3`."""
    entries: list[Row] = []
    trained = [record for record in records if record["method"] in ARMS]
    groups = {
        key: [candidate["result"] for candidate in group]
        for key, group in table.grouped(trained).items()
    }
    for record in (candidate for candidate in records if candidate["method"] not in ARMS):
        values = np.array(record["result"]["returns"])
        dead_ends = np.array(record["result"]["dead_ends"], float)
        lost, extra = dead_ends > 0, {"program": record["config"]["program"]}
        columns = {
            ("random", "dead_ends"): dead_ends,
            ("random", "mean_return"): values,
            ("random-no-backup", "lost"): lost.astype(float),
            ("random-no-backup", "mean_return"): np.where(lost, 0.0, values),
        }
        entries += [
            table.mean_row(record["instance"], *key, column, **extra)
            for key, column in columns.items()
        ]
        if lost.any() and profile != "quick" and (record["instance"], "muzero") not in groups:
            run = runs.plan_run("muzero", record["instance"], {"seconds": AGENT_SECONDS["full"]})
            if (stored := read_record(results.runs_path("mmap.table3", "full"), run)) is not None:
                entries += trained_rows(record["instance"], "muzero", [stored["result"]])
    for key, group in groups.items():
        entries += trained_rows(*key, group)
    return table.assembled(entries) | runs.counted(trained)


def trained_rows(instance: str, method: str, outcomes: list[Record]) -> list[Row]:
    """Rows of trainings of an agent: ``dead_ends`` and ``mean_return`` of a game in the last tenth
    (of rounds: of the last games of the best one), with the curve of the first training,
    ``dead_ends_first`` of the first tenth, and the best ``return``; how much they have learned."""
    entries: list[Row] = runs.learning_rows(instance, method, outcomes)
    entries.append(
        table.summary_row(
            instance, method, "return", [result["costs"]["return"] for result in outcomes]
        )
    )
    logs = [[point for point in result["log"] if point["hot"] is not None] for result in outcomes]
    if not all(logs):
        return entries
    for metric, column in {"dead_ends": "dead_ends", "mean_return": "hot"}.items():
        tenths = [(log, -(-len(log) // 10)) for log in logs]
        last = [float(np.mean([point[column] for point in log[-n:]])) for log, n in tenths]
        if metric == "mean_return":
            last = [
                r["recent_return"] if r.get("rounds", 1) > 1 else mean
                for r, mean in zip(outcomes, last)
            ]
        curve = {
            "x": [p["games"] for p in logs[0]],
            "y": [p[column] for p in logs[0]],
            "x_unit": "games",
        }
        summary = table.summary_row(instance, method, metric, last, curve=curve)
        entries.append(summary | {"values": last})
        if metric == "dead_ends":
            first = [float(np.mean([point[column] for point in log[:n]])) for log, n in tenths]
            entries.append(table.summary_row(instance, method, "dead_ends_first", first))
    return entries
