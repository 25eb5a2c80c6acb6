"""Paper 1's Tables 3 and 4 and Figures 8 and 10: searches against the compiler's mapping of the
sixty programs.

Latencies are those of our model. ``speedup`` is over the compiler's mapping (``xla``); `mmap.runs`
says how it is timed. ``prod`` is the better of the agent's and the compiler's mapping, run for run;
``edit-search-prod`` that of the edit search, ``greedy-tuned-prod`` and ``priced-prod`` those of the
rules.

Figure 8 shows the agent's best game of Table 3 on the paper's program, AlexNet, and marks the
tensor that it gives most separate stays in fast memory.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import COPY
from learned_mapping.mmap.searches.priced import GAMES
from learned_mapping.programs.program import Program
from learned_mapping_companion import results
from learned_mapping_companion.artifact import Artifact, Quick, Runs, judged, reported
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.display import Html, grid
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.over_time import over_time
from learned_mapping_companion.mmap.runs import XLA, load
from learned_mapping_companion.records import read_record
from learned_mapping_companion.table import (
    Record,
    Records,
    Row,
    Rows,
    by,
    grouped,
    mean_row,
    row,
    rows,
    summaries,
    values_of,
)

AGENT, PROD = "muzero", "prod"
OURS, OURS_PROD = "edit-search", "edit-search-prod"
PRODS = {AGENT: PROD, OURS: OURS_PROD}
"""A search -> the better of its mapping and the compiler's, run for run."""
SEARCHES = (*PRODS, *PRODS.values())
RULES = {"greedy-tuned": "greedy-tuned-prod", "priced": "priced-prod"}
"""The rules, tuned on the program -> the better of their mapping and the compiler's."""
NONE = "hbm"  # Everything left in HBM, which copies nothing.
QUICK_PROGRAMS = ("alexnet_train_batch_32", "rnn_0")
SECONDS = 12.0  # CPU seconds per program at most of greedy-tuned.
AHEAD = 1e-3  # Of return, by which a mapping is ahead of another.
NAMED = 6  # Programs at each end of Table 4.
AGAINST_ITSELF = 1e-9  # A speedup has to exceed 1 by more than rounding.

FIG8_PROGRAM, FASTEST = "alexnet_train_batch_32", "inference_super_resolution"
"""The paper's program for it, and the one on which the agent gains most: a claim each rests on one
program alone."""
TRAININGS = {FIG8_PROGRAM: 3, FASTEST: 3}
"""A program -> the agent's trainings; one on all others."""
SHARE = 0.02
"""A tensor is marked if it takes at least this share of the fast memory, so that it can be seen."""
FIELDS = ("action", "offset", "start", "end")


def plan_table3(seeds: int) -> Runs:
    """The compiler's mapping, the rules, the edit search and the agent on every program."""
    for name in compiled.names():
        yield runs.plan_run(XLA, name, {})
    for name in compiled.names():
        yield runs.plan_run("greedy-tuned", name, {"seconds": SECONDS})
        yield runs.plan_run("priced", name, {"samples": GAMES})
        yield from runs.plan_by_clock(OURS, name, 1)
        yield from runs.plan_by_clock(AGENT, name, min(seeds, TRAININGS.get(name, 1)))


def assemble_table3(records: Records) -> Rows:
    """Per program `program_rows`; over all programs `over_all` of every method's speedups, returns
    `over_time`, and `agent_rows`."""
    groups, entries = grouped(records), []
    for name in dict.fromkeys(record["instance"] for record in records):
        entries += program_rows(
            name, {m: groups[name, m] for m in (XLA, *PRODS, *RULES) if (name, m) in groups}
        )
    speeds = {
        method: values_of(group, "instance", metric="speedup")
        for method, group in by(entries, "method").items()
        if method != XLA
    }
    for method, values in speeds.items():
        entries += over_all(method, list(values.values()))
    for method, of_method in by((r for r in records if r["method"] != XLA), "method").items():
        entries += over_time(method, of_method)
    return [*entries, *agent_rows(entries, speeds)]


TABLE3 = Artifact(
    "mmap.table3",
    assemble_table3,
    plan_table3,
    Quick((XLA, OURS, *RULES), QUICK_PROGRAMS, seeds=1, config={"seconds": 2.0}),
    {"seconds": 288},
)


def program_rows(name: str, groups: dict[str, Records]) -> Rows:
    """Rows of a program: ``latency_s``, ``stall_s``, ``return`` and ``best_found`` of each method's
    records, and ``speedup`` over the compiler's mapping of the methods, of prods and of everything
    in HBM."""
    (compiler,), extra = groups[XLA], {"program": groups[XLA][0]["config"]["program"]}
    baseline = latency_s(compiler)
    for method, group in groups.items():
        outcomes, times = [r["result"] for r in group], np.array([latency_s(r) for r in group])
        agent_cells: Record = {}
        cells = extra | ({"stages": outcomes[0]["stages"]} if outcomes[0].get("stages") else {})
        yield mean_row(name, method, "latency_s", times, **cells)
        columns = {"stall_s": [sum(result["stalls"].values()) for result in outcomes]}
        columns["return"] = [runs.return_of(record) for record in group]
        if all("best_found" in result for result in outcomes):
            columns["best_found"] = [result["best_found"] for result in outcomes]
        yield from summaries(name, method, columns, statistic=np.mean)
        if method in PRODS:
            agent_cells = extra | {"seconds": group[0]["config"]["seconds"]}
            yield from first_rounds(name, method, outcomes)
            for m in (method, PRODS[method]):
                yield from runs.learning_rows(name, m, outcomes)
        speeds = {method: baseline / times}
        if prod := (PRODS | RULES).get(method):
            speeds[prod] = baseline / np.minimum(times, baseline)
        for m, values in speeds.items():
            several = {"values": values.tolist()} if len(values) > 1 else {}
            yield mean_row(name, m, "speedup", values, **agent_cells, baseline=XLA) | several
    yield mean_row(name, NONE, "speedup", [baseline / compiler["result"]["slow_s"]], baseline=XLA)


def agent_rows(entries: list[Row], speeds: dict[str, dict[str, float]]) -> Rows:
    """Rows of the agent over all programs: ``first_round`` and ``rounds``, its mean return where it
    has started anew, after the first round and after all; ``faster``, on how many programs it is
    faster than the edit search; ``ahead`` and ``behind``, on how many its return is larger or
    smaller by `AHEAD`; ``speedup_rest``, its mean where the compiler's mapping is faster than
    none."""
    returns = values_of(entries, "instance", "method", metric="return")
    if firsts := values_of(entries, "instance", metric="first_round"):
        means = {"first_round": np.mean(list(firsts.values()))}
        means["rounds"] = np.mean([returns[name, AGENT] for name in firsts])
        yield from rows("all", AGENT, means, n=len(firsts))
    ours, theirs, none = (speeds.get(method, {}) for method in (AGENT, OURS, NONE))
    both = [name for name in ours if name in theirs]
    if both:
        faster = sum(ours[name] > theirs[name] for name in both)
        yield row("all", AGENT, "faster", faster, n=len(both), baseline=OURS)
        differences = [returns[name, AGENT] - returns[name, OURS] for name in both]
        counts = {
            "ahead": sum(d > AHEAD for d in differences),
            "behind": sum(d < -AHEAD for d in differences),
        }
        yield from rows("all", AGENT, counts, n=len(both), baseline=OURS)
        if rest := [ours[name] for name in both if none[name] < 1.0]:
            yield from rows("all", AGENT, {"speedup_rest": np.mean(rest)}, n=len(rest))


def first_rounds(instance: str, method: str, outcomes: Records) -> Rows:
    """Row ``first_round`` of trainings of several rounds: the best return of the first, which ended
    where the best game so far was lost from one row of the curve to the next."""
    firsts = []
    for log in (result["log"] for result in outcomes if result.get("rounds", 1) > 1):
        lost = (a for a, b in itertools.pairwise(log) if b["best_found"] < a["best_found"])
        firsts.append(next(lost, log[-1])["best"])
    if firsts:
        yield mean_row(instance, method, "first_round", firsts)


def over_all(method: str, values: Sequence[float]) -> Rows:
    """Mean, largest and smallest of one speedup a program, and how many programs gain."""
    improved = sum(value > 1.0 + AGAINST_ITSELF for value in values)
    numbers = {"speedup_max": max(values), "speedup_min": min(values), "improved": improved}
    yield mean_row("all", method, "speedup", values)
    yield from rows("all", method, numbers, n=len(values))


def latency_s(record: Record) -> float:
    """The latency of a record of `mmap.runs.run_method`; an invalid mapping, which stops a table,
    is all in HBM."""
    return float(record["result"]["costs"].get("latency_s", record["result"]["slow_s"]))


def leading(table: Record) -> str:
    """The agent, where a result of `mmap.table3` has it on every program; else the edit search."""
    known = {entry["instance"] for entry in table["rows"]}
    agents = {entry["instance"] for entry in results.select(table, method=AGENT)}
    return AGENT if known == agents else OURS


def leading_pair(table: Record) -> tuple[str, str]:
    """The `leading` method and the other of the two."""
    return (AGENT, OURS) if leading(table) == AGENT else (OURS, AGENT)


def counts_table(result: Record) -> Html:
    """The programs of `mmap.table3` on which each method is faster, and the speedups, ours and the
    paper's."""
    columns = {
        "improved": "faster",
        "speedup": "mean speedup",
        "speedup_max": "largest",
        "speedup_min": "smallest",
    }
    cells = {}
    for origin, suffix in (("rows", ""), ("paper", ", the paper")):
        for entry in results.select(result, origin, instance="all"):
            if entry["metric"] in columns:
                words = f"{entry['value']:.{0 if entry['metric'] == 'improved' else 3}f}"
                cells[entry["method"] + suffix, columns[entry["metric"]]] = words
    down = list(dict.fromkeys(method for method, _ in cells))
    return grid(
        "Sixty programs: how many are faster, and speedups",
        down,
        list(columns.values()),
        cells,
        key=True,
    )


def ranked(table: Record) -> Rows:
    """The rows of the `leading` method of a result of `mmap.table3`, fastest program first."""
    speedups = results.select(table, method=leading(table), metric="speedup")
    return sorted(
        (r for r in speedups if r["instance"] != "all"), key=lambda r: (-r["value"], r["instance"])
    )


def assemble_table4(records: Records, table: Record) -> Rows:
    """The best and worst `NAMED` programs by ``speedup``, each with its ``group`` and all methods'
    rows, then those that the paper names, as the group ``named``."""
    order = [entry["instance"] for entry in ranked(table)]
    ends = min(NAMED, len(order) // 2)
    named = (entry["instance"] for entry in reported("mmap.table4"))
    group = dict.fromkeys(order[:ends], "best")
    group |= dict.fromkeys(reversed(order[len(order) - ends :]), "worst")
    group |= {name: "named" for name in named if name not in group}
    chosen = [
        {**entry, "group": group[name]}
        for name in group
        for metric in ("speedup", "games", "games_worth", "updates")
        for entry in results.select(table, instance=name, metric=metric)
        if entry["method"] in SEARCHES
    ]
    return chosen


TABLE4 = Artifact("mmap.table4", assemble_table4)


def assemble_fig10(records: Records, table: Record) -> Rows:
    """The speedups of all programs, searches and prod, fastest first."""
    for leader in ranked(table):
        others = results.select(table, instance=leader["instance"], metric="speedup")
        yield leader
        yield from (r for r in others if r["method"] in (*SEARCHES, NONE) and r is not leader)
    yield from runs.learned(table)


FIG10 = Artifact("mmap.fig10", assemble_fig10)


@dataclass(frozen=True)
class Stay:
    """One uninterrupted stay of a tensor in fast memory."""

    start: int
    end: int  # Steps, both included.
    offset: int  # Bytes.
    loaded: bool  # Copied in from HBM; else written there by its instruction.


def stays(program: Program, mapping: Mapping, tensor: int) -> list[Stay]:
    """The stays of a tensor, in order.

    A placed output or an input's Copy begins one; an input's NoCopy extends the one before.
    """
    held: list[Stay] = []
    for b in np.flatnonzero((program.buffer_tensor == tensor) & mapping.placed).tolist():
        start, end, offset = int(mapping.start[b]), int(mapping.end[b]), int(mapping.offset[b])
        loaded = not program.buffer_is_output[b] and int(mapping.action[b]) == COPY
        if loaded or program.buffer_is_output[b] or not held:
            held.append(Stay(start, end, offset, loaded))
        elif end > held[-1].end:
            held[-1] = Stay(held[-1].start, end, held[-1].offset, held[-1].loaded)
    return held


def marked_tensor(program: Program, mapping: Mapping) -> int:
    """The tensor of most stays among those of at least `SHARE` of the fast memory; of equals the
    largest, then first.

    Where no tensor of that size is placed, all tensors count.
    """
    counts = np.array(
        [len(stays(program, mapping, tensor)) for tensor in range(program.num_tensors)]
    )
    large = (program.tensor_bytes >= SHARE * program.fast_bytes) & (counts > 0)
    candidates = np.flatnonzero(large if large.any() else np.ones_like(large)).tolist()
    return max(
        candidates, key=lambda tensor: (counts[tensor], program.tensor_bytes[tensor], -tensor)
    )


def plan_fig8(seeds: int) -> Runs:
    """The compiler's mapping; the agent's is the best of `mmap.table3`."""
    return [runs.plan_run(XLA, FIG8_PROGRAM, {})]


def best_game(instance: str) -> Record:
    """The record of the agent's runs of `mmap.table3` with the largest return; raises `InputError`
    where none of them is there."""
    folder = results.runs_path("mmap.table3", "full")
    planned = runs.plan_by_clock(AGENT, instance, TRAININGS.get(instance, 1))
    there = (read_record(folder, run) for run in planned)
    stored = [record for record in there if record is not None]
    if not stored:
        raise InputError(
            instance,
            AGENT,
            "is not yet run: `lmap make mmap.table3 --profile full --long` trains it",
        )
    return max(stored, key=runs.return_of)


def assemble_fig8(records: Records, _: Record) -> Rows:
    """Two rows with mappings and the marked tensor's stays; its loads under both; return and
    speedup.

    ``again`` counts the tensors of any size that are loaded more than once.
    """
    (compiler,) = records
    name = compiler["instance"]
    agent, (program, xla_mapping) = best_game(name), load(name)
    mapping = runs.replayed(program, agent["result"]["actions"])
    mappings = {agent["method"]: mapping, compiler["method"]: xla_mapping}
    tensor = marked_tensor(program, mapping)
    entries: list[Row] = []
    for record in (agent, compiler):
        method = record["method"]
        kept, drawn = stays(program, mappings[method], tensor), mappings[method]
        cells = {name: record["config"].get(name) for name in ("program", "seconds")} | {
            "mapping": {field: getattr(drawn, field).tolist() for field in FIELDS},
            "tensor": program.tensor_names[tensor],
            "tensor_bytes": int(program.tensor_bytes[tensor]),
            "live": program.tensor_live[tensor].tolist(),
            "stays": [[s.start, s.end, s.offset] for s in kept],
        }
        entries.append(row(name, method, "return", runs.return_of(record), n=1, **cells))
        again = sum(loads(program, drawn, other) > 1 for other in range(program.num_tensors))
        numbers = {"stays": len(kept), "loads": loads(program, drawn, tensor), "again": again}
        entries += rows(name, method, numbers, n=1)
    speed = latency_s(compiler) / latency_s(agent)
    entries.append(row(name, agent["method"], "speedup", speed, n=1, baseline=XLA))
    entries += runs.learning_rows(name, AGENT, [agent["result"]])
    return judged(entries, [agent])


FIG8 = Artifact("mmap.fig8", assemble_fig8, plan_fig8)


def loads(program: Program, mapping: Mapping, tensor: int) -> int:
    """The number of times that a tensor is copied into fast memory."""
    return sum(stay.loaded for stay in stays(program, mapping, tensor))
