"""Paper 1's smaller tables: random play with Drop-backup and without, proven bounds, a long search.

Without Drop-backup a dead end ends the game with a return of 0 (section 4.3.2). Up to the first
dead end both games are the same, so one set of games tells both: a game is lost if it meets a dead
end at all.
"""

import numpy as np

from learned_mapping.mmap.agent.config import LONG
from learned_mapping.mmap.bounds.prices import price_bound
from learned_mapping.mmap.bounds.upper import integer_bound, upper_bound
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program
from learned_mapping_companion import results, table
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.runs import load
from learned_mapping_companion.mmap.table2 import TABLE2, WORKLOADS
from learned_mapping_companion.table import Record, Records, Rows, row

FIG1_GAMES = 30_000
BOUND_SECONDS = 120.0  # Wall-clock limit of branch and bound, per program.
RANDOM_GAMES = 400
TRAINED, TRAINED_SEEDS = "mlperf_dlrm_batch_8192", 10
"""The program, and seeds, of trainings with and without Drop-backup: random play meets
most dead ends there."""
MEMORY = 1.3
"""The fast memory of these, in that of the program: random play loses half of its games there. With
less of it fewer are lost."""
ARMS = ("muzero", "muzero-no-backup")


def workload(name: str) -> Program:
    """A compiled program by name; raises `InputError` for an unknown one."""
    return load(name)[0]


def proven() -> dict[str, float]:
    """Program -> a return that no game exceeds, of the stored ``mmap.bound``."""
    rows = results.load("mmap.bound")["rows"]
    return table.values_of(rows, "instance", method="bound", metric="return")


def levels() -> dict[str, dict[str, float]]:
    """Program of a stored training -> returns of tuned rule, best evolution and bound."""
    table2, by_program = results.load("mmap.table2"), {}
    for name in {record["program"] for record in runs.trainings()}:
        known = table.values_of(table2["rows"], "method", instance=name, metric="return")
        best = max(
            (method for method in known if method.startswith("evolution")), key=known.__getitem__
        )
        by_program[name] = {method: known[method] for method in ("greedy-tuned", best)} | {
            "bound": proven()[name]
        }
    return by_program


def long_programs() -> list[str]:
    """The programs that the agent plays in windows."""
    return [item.name for item in compiled.manifest().items if item.facts["buffers"] >= LONG]


def programs_table() -> Html:
    """The four programs of Table 2: sizes, the fast memory, and milliseconds that it can save."""
    head = ["", "buffers", "instructions", "alias groups", "fast MiB", "in HBM, ms", "to save, ms"]
    rows = []
    for name, p in ((name, workload(name)) for name in WORKLOADS):
        counts = (p.num_buffers, p.num_instructions, p.num_alias_groups, p.fast_bytes / 2**20)
        rows.append((name, *counts, p.slow_s.sum() * 1e3, p.possible_saving_s * 1e3))
    return listing("The four programs", head, rows)


def stored_mapping(artifact_id: str) -> tuple[Program, Mapping]:
    """The program and the mapping of the row of a stored result that carries one."""
    (holder,) = [row for row in results.load(artifact_id)["rows"] if "mapping" in row]
    program = workload(holder["instance"])
    return program, make_mapping(program, **holder["mapping"])


def run_bound(method: str, instance: str, config: Record, seed: int) -> Record:
    """A proven upper bound on a program's return: ``bound-prices`` by prices, ``bound-lp`` by
    linear, ``bound`` by integer programming."""
    program = runs.program_of(instance, config)
    if method == "bound-prices":
        return {"return": price_bound(program)}
    bound = (
        upper_bound(program)
        if method == "bound-lp"
        else integer_bound(program, seconds=config["seconds"])
    )
    return {"return": bound.value} | {
        name: getattr(bound, name)
        for name in ("saving_s", "exact", "variables", "constraints", "seconds")
    }


def plan_bound(seeds: int) -> Runs:
    """Two bounds per program; the methods' returns are those of `mmap.table2`."""
    config = {"bound-lp": {}, "bound": {"seconds": BOUND_SECONDS}}
    return [
        Run("mmap.bound", method, name, config[method] | {"program": runs.program_digest(name)})
        for name in WORKLOADS
        for method in config
    ]


def assemble_bound(records: Records, table2: Record) -> Rows:
    """The bounds, and how many percent of the tighter one every method of `mmap.table2` stays below
    it."""
    bounds: dict[str, float] = {}
    for record in records:
        key, result = (record["instance"], record["method"]), record["result"]
        extra = {name: result[name] for name in ("exact", "variables", "constraints")}
        yield row(
            *key, "return", result["return"], n=1, program=record["config"]["program"], **extra
        )
        yield row(*key, "seconds", result["seconds"], n=1)
        if record["method"] == "bound":
            bounds[record["instance"]] = result["return"]
    for entry in results.select(table2, metric="return"):
        bound = bounds.get(entry["instance"], 0.0)
        if bound > 0 and entry["method"] != "xla":  # which does not follow the game's rules
            gap = [100.0 * (1.0 - entry[end] / bound) for end in ("value", "high", "low")]
            yield table.interval_row(
                entry["instance"], entry["method"], "gap_percent", gap, n=entry["n"]
            )
    yield from runs.learned(table2)


BOUND = Artifact(
    "mmap.bound",
    assemble_bound,
    plan_bound,
    Quick(instances=TABLE2.quick.instances, config={"seconds": 20.0}),
    {"seconds": 30},
)


def plan_fig1(seeds: int) -> Runs:
    """One long search, counted in games so that it can be repeated exactly."""
    config = {"samples": FIG1_GAMES, "keep": True}
    return [runs.plan_run("edit-search", "alexnet_train_batch_32", config)]


def assemble_fig1(records: Records) -> Rows:
    """The return, in a row that carries the mapping itself, and the speedup over the compiler's."""
    (record,) = records
    key, result = (record["instance"], record["method"]), record["result"]
    cells = {"program": record["config"]["program"], "mapping": result["mapping"]}
    compiler = runs.compiler_record(*load(record["instance"]))
    speedup = compiler["costs"]["latency_s"] / result["costs"]["latency_s"]
    yield row(*key, "return", runs.return_of(record), n=1, **cells)
    yield row(*key, "speedup", speedup, n=1)


FIG1 = Artifact(
    "mmap.fig1", assemble_fig1, plan_fig1, Quick(config={"samples": 1500}), {"samples": 10}
)


def run_random(method: str, instance: str, config: Record, seed: int) -> Record:
    """Games of random legal moves with Drop-backup: the return and the dead ends of each."""
    game, rng = Game(runs.program_of(instance, config)), np.random.default_rng(seed)
    values, dead_ends = [], []
    for _ in range(config["games"]):
        game.restart()
        game.play_random(rng)
        values.append(float(game.value))
        dead_ends.append(int(game.resets))
    return {"returns": values, "dead_ends": dead_ends}


def plan_dropbackup(seeds: int) -> Runs:
    """Random play where there are alias groups; on `TRAINED`, with more memory, the agent with
    Drop-backup and without."""
    items = sorted(compiled.manifest().items, key=lambda item: (item.facts["buffers"], item.name))
    aliased = [item.name for item in items if item.facts["alias_groups"]]
    for name in aliased:
        config = {"games": RANDOM_GAMES, "program": runs.program_digest(name)}
        yield Run("mmap.random", "random", name, config)
        if name == TRAINED:
            yield Run("mmap.random", "random", name, config | {"memory": MEMORY})
    config = {"seconds": runs.seconds_of(TRAINED), "memory": MEMORY}
    for seed in range(min(seeds, TRAINED_SEEDS)):
        yield runs.plan_one_round(TRAINED, config["seconds"], seed, memory=MEMORY)
        yield runs.plan_run(ARMS[1], TRAINED, config, seed)


def assemble_dropbackup(records: Records) -> Rows:
    """Per game: ``dead_ends``, ``mean_return`` and ``lost`` (share of games) of random play with
    Drop-backup (``random``) and without (``random-no-backup``); `trained_rows` of the agent with it
    and without."""
    trained = table.grouped([record for record in records if record["method"] in ARMS])
    for record in [record for record in records if record["method"] not in ARMS]:
        values = np.array(record["result"]["returns"])
        dead_ends = np.array(record["result"]["dead_ends"], float)
        lost, extra = dead_ends > 0, {"program": record["config"]["program"]}
        columns = {
            ("random", "dead_ends"): dead_ends,
            ("random", "mean_return"): values,
            ("random-no-backup", "lost"): lost.astype(float),
            ("random-no-backup", "mean_return"): np.where(lost, 0.0, values),
        }
        for key, column in columns.items():
            yield table.mean_row(with_memory(record), *key, column, **extra)
    for group in trained.values():
        yield from trained_rows(group)


def with_memory(record: Record) -> str:
    """The program of a run, and its memory where that is not its own."""
    memory = record["config"].get("memory")
    return record["instance"] + (f", {memory:g} times the memory" if memory else "")


DROPBACKUP = Artifact(
    "mmap.dropbackup",
    assemble_dropbackup,
    plan_dropbackup,
    Quick(("random",), (TRAINED, "rnn_2", "alexnet_train_batch_32"), config={"games": 40}),
    {"games": 10, "seconds": 288},
)


def trained_rows(group: Records) -> Rows:
    """Rows of an agent's trainings on a program: ``dead_ends`` and ``mean_return`` of a game in the
    last tenth (of rounds: of the last games of the best one), with the curve of the first training,
    ``dead_ends_first`` of the first tenth, and the best ``return``; how much they have learned."""
    instance, method = with_memory(group[0]), group[0]["method"]
    outcomes = [record["result"] for record in group]
    memory = group[0]["config"].get("memory", 1.0)
    for entry in runs.learning_rows(group[0]["instance"], method, outcomes, memory):
        yield entry | {"instance": instance}
    returns = [result["costs"]["return"] for result in outcomes]
    yield table.summary_row(instance, method, "return", returns)
    logs = [[point for point in result["log"] if point["hot"] is not None] for result in outcomes]
    if not all(logs):
        return
    for metric, column in {"dead_ends": "dead_ends", "mean_return": "hot"}.items():
        tenths = [(log, -(-len(log) // 10)) for log in logs]
        last = [float(np.mean([point[column] for point in log[-n:]])) for log, n in tenths]
        if metric == "mean_return":
            last = [
                r["recent_return"] if r.get("rounds", 1) > 1 else mean
                for r, mean in zip(outcomes, last)
            ]
        x, y = zip(*((p["games"], p[column]) for p in logs[0]))
        curve = {"x": list(x), "y": list(y), "x_unit": "games"}
        summary = table.summary_row(instance, method, metric, last, curve=curve)
        yield summary | {"values": last}
        if metric == "dead_ends":
            first = [float(np.mean([point[column] for point in log[:n]])) for log, n in tenths]
            yield table.summary_row(instance, method, "dead_ends_first", first)
