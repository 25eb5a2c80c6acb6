"""Paper 1's Tables 3 and 4 and Figures 8 and 10: searches against the compiler's mapping of the
sixty programs.

Latencies are those of our model. ``speedup`` is over the compiler's mapping (``xla``); `mmap.runs`
says how it is timed. ``prod`` is the better of the agent's and the compiler's mapping, run for run;
``edit-search-prod`` that of the edit search, ``greedy-tuned-prod`` and ``priced-prod`` those of the
rules.

Figure 8 shows the agent's best game of Table 3 on the paper's program, AlexNet, and marks the
tensor that it gives most separate stays in fast memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.mapping import Mapping, make_mapping
from learned_mapping.mmap.rules.actions import COPY
from learned_mapping.mmap.searches.priced import GAMES
from learned_mapping.programs.program import Program
from learned_mapping_companion import results, statistics
from learned_mapping_companion.artifact import Run, reported
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.display import Html, grid
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.runs import XLA, load
from learned_mapping_companion.records import read_record
from learned_mapping_companion.table import (
    Record,
    Row,
    assembled,
    by,
    from_part,
    grouped,
    mean_row,
    row,
    rows,
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
SECONDS = {"quick": 2.0, "full": 12.0, "paper": 600.0}
"""CPU seconds per program at most of greedy-tuned, and in ``quick`` of the edit search."""
AGENT_SECONDS = {"full": 300.0, "paper": 86_400.0}
"""Seconds of the agent, compilation apart, and of the edit search; in ``quick`` there is no
agent."""
AGENT_LONGER = {6_000: 480.0, 10_000: 720.0, 16_000: 1200.0}
"""Buffers -> their CPU seconds in ``full`` on programs above, where 200 games' worth of decisions
take longer."""
AHEAD = 1e-3  # Of return, by which a mapping is ahead of another.
SEEDS_REPEATED = 3  # Of the programs that the paper's Table 4 names; all others have one.
NAMED = 6  # Programs at each end of Table 4.
LEADS = ("fleet_alphazero", "autoencoder_train_batch_256")
"""Programs on which the agent's first training was ahead of the edit search. Both run
`SEEDS_REPEATED` times more there, and ``lead_over_edits`` is the difference of these runs alone:
the first ones chose the program."""
AGAINST_ITSELF = 1e-9  # A speedup has to exceed 1 by more than rounding.

FIG8_PROGRAM = "alexnet_train_batch_32"
SHARE = 0.02
"""A tensor is marked if it takes at least this share of the fast memory, so that it can be seen."""
FIELDS = ("action", "offset", "start", "end")


def programs(profile: str) -> tuple[str, ...]:
    return QUICK_PROGRAMS if profile == "quick" else compiled.names()


def agent_seconds(profile: str, name: str) -> float:
    """CPU seconds of the agent, and of the edit search, on a program."""
    longer = [seconds for least, seconds in AGENT_LONGER.items() if runs.num_buffers(name) > least]
    return longer[-1] if longer and profile == "full" else AGENT_SECONDS[profile]


def plan_table3(profile: str, seeds: int) -> list[Run]:
    """The compiler's mapping and the searches on every program, the agent's and the edit search's
    runs equally long; several trainings on some."""
    planned = [runs.plan_run(XLA, name, {}) for name in programs(profile)]
    repeated = {entry["instance"] for entry in reported("mmap.table4")}
    for name in programs(profile):
        planned.append(runs.plan_run("greedy-tuned", name, {"seconds": SECONDS[profile]}))
        planned.append(runs.plan_run("priced", name, {"samples": GAMES}))
        trains = profile in AGENT_SECONDS
        config = {"seconds": agent_seconds(profile, name) if trains else SECONDS[profile]}
        more = min(seeds - 1, SEEDS_REPEATED) if trains and name in LEADS else 0
        planned += [
            runs.plan_run(OURS, name, config, seed, long=trains) for seed in range(1 + more)
        ]
        if trains:
            count = min(seeds, SEEDS_REPEATED) if name in repeated else 1 + more
            planned += [runs.plan_run(AGENT, name, config, seed) for seed in range(count)]
    return planned


def assemble_table3(profile: str, records: list[Record]) -> Record:
    """Per program `program_rows`; over all programs `over_all` of every method's speedups, and
    `agent_rows`."""
    groups, entries = grouped(records), []
    for name in dict.fromkeys(record["instance"] for record in records):
        entries += program_rows(
            name, {m: groups[name, m] for m in (XLA, *PRODS, *RULES) if (name, m) in groups}
        )
    of_method = by(
        (entry for entry in entries if entry["metric"] == "speedup" and entry["method"] != XLA),
        "method",
    )
    speeds = {
        method: {r["instance"]: r["value"] for r in group} for method, group in of_method.items()
    }
    for method, values in speeds.items():
        entries += over_all(method, list(values.values()))
    return assembled(entries + agent_rows(entries, groups, speeds)) | runs.counted(records)


def program_rows(name: str, groups: dict[str, list[Record]]) -> list[Row]:
    """Rows of a program: ``latency_s``, ``stall_s``, ``return`` and ``best_found`` of each method's
    records, and ``speedup`` over the compiler's mapping of the methods, of prods and of everything
    in HBM."""
    entries: list[Row] = []
    (compiler,), extra = groups[XLA], {"program": groups[XLA][0]["config"]["program"]}
    baseline = latency_s(compiler)
    for method, group in groups.items():
        outcomes, times, about = (
            [r["result"] for r in group],
            np.array([latency_s(r) for r in group]),
            {},
        )
        more = extra | ({"stages": outcomes[0]["stages"]} if outcomes[0].get("stages") else {})
        entries.append(mean_row(name, method, "latency_s", times, **more))
        columns = {"stall_s": [sum(result["stalls"].values()) for result in outcomes]}
        columns["return"] = [result["costs"].get("return", 0.0) for result in outcomes]
        columns |= {
            k: [r[k] for r in outcomes] for k in ("best_found",) if all(k in r for r in outcomes)
        }
        entries += [mean_row(name, method, metric, values) for metric, values in columns.items()]
        if method in PRODS:
            about = extra | {"seconds": group[0]["config"]["seconds"]}
            entries += first_rounds(name, method, outcomes)
            entries += [
                entry
                for m in (method, PRODS[method])
                for entry in runs.learning_rows(name, m, outcomes)
            ]
        speeds = {method: baseline / times}
        if prod := (PRODS | RULES).get(method):
            speeds[prod] = baseline / np.minimum(times, baseline)
        entries += [
            mean_row(name, m, "speedup", values, **about, baseline=XLA)
            | ({"values": values.tolist()} if len(values) > 1 else {})
            for m, values in speeds.items()
        ]
    return [
        *entries,
        mean_row(name, NONE, "speedup", [baseline / compiler["result"]["slow_s"]], baseline=XLA),
    ]


def agent_rows(
    entries: list[Row], groups: dict[Any, list[Record]], speeds: dict[str, dict[str, float]]
) -> list[Row]:
    """Rows of the agent over all programs: ``scatter`` and ``scatter_most``, the largest speedup
    less the smallest of a program's several trainings, mean and most; ``first_round`` and
    ``rounds``, its mean return where it has started anew, after the first round and after all;
    ``faster``, on how many programs it is faster than the edit search; ``ahead`` and ``behind``, on
    how many its return is larger or smaller by `AHEAD`; ``lead_over_edits``, on one of `LEADS`, how
    much more it returns there; ``speedup_rest``, its mean where the compiler's mapping is faster
    than none."""
    agent: list[Row] = []
    repeated = [
        group for (_, method), group in groups.items() if method == AGENT and len(group) > 1
    ]
    baselines = [latency_s(groups[group[0]["instance"], XLA][0]) for group in repeated]
    if repeated:
        scatter = [
            np.ptp([b / latency_s(r) for r in group]) for b, group in zip(baselines, repeated)
        ]
        agent += rows(
            "all",
            AGENT,
            {"scatter": np.mean(scatter), "scatter_most": max(scatter)},
            n=len(scatter),
        )
    firsts = {
        entry["instance"]: entry["value"] for entry in entries if entry["metric"] == "first_round"
    }
    if firsts:
        ends = {
            r["instance"]: r["value"]
            for r in entries
            if (r["method"], r["metric"]) == (AGENT, "return")
        }
        means = {
            "first_round": np.mean(list(firsts.values())),
            "rounds": np.mean([ends[name] for name in firsts]),
        }
        agent += rows("all", AGENT, means, n=len(firsts))
    ours, theirs, none = (speeds.get(method, {}) for method in (AGENT, OURS, NONE))
    both = [name for name in ours if name in theirs]
    if both:
        faster = sum(ours[name] > theirs[name] for name in both)
        agent.append(row("all", AGENT, "faster", faster, n=len(both), baseline=OURS))
        returns = {
            (r["instance"], r["method"]): r["value"] for r in entries if r["metric"] == "return"
        }
        differences = [returns[name, AGENT] - returns[name, OURS] for name in both]
        counts = {
            "ahead": sum(d > AHEAD for d in differences),
            "behind": sum(d < -AHEAD for d in differences),
        }
        agent += rows("all", AGENT, counts, n=len(both), baseline=OURS)
        for name in LEADS:
            later = [
                [r for r in groups.get((name, method), []) if r["seed"]] for method in (AGENT, OURS)
            ]
            if all(later):
                scores = [
                    {name: [r["result"]["costs"].get("return", 0.0) for r in side]}
                    for side in later
                ]
                lead, *ends = statistics.mean_difference(*scores)
                more = dict(zip(("low", "high"), ends), n=len(later[0]), baseline=OURS)
                agent.append(row(name, AGENT, "lead_over_edits", lead, **more))
        if rest := [ours[name] for name in both if none[name] < 1.0]:
            agent += rows("all", AGENT, {"speedup_rest": np.mean(rest)}, n=len(rest))
    return agent


def first_rounds(instance: str, method: str, outcomes: list[Record]) -> list[Row]:
    """Row ``first_round`` of trainings of several rounds: the best return of the first, which ended
    where the best game so far was lost from one row of the curve to the next."""
    firsts = []
    for log in (result["log"] for result in outcomes if result.get("rounds", 1) > 1):
        ends = [i for i in range(1, len(log)) if log[i]["best_found"] < log[i - 1]["best_found"]]
        firsts.append(log[ends[0] - 1 if ends else -1]["best"])
    return [mean_row(instance, method, "first_round", firsts)] if firsts else []


def over_all(method: str, values: Sequence[float]) -> list[Row]:
    """Mean, largest and smallest of one speedup a program, and how many programs gain."""
    improved = sum(value > 1.0 + AGAINST_ITSELF for value in values)
    numbers = {"speedup_max": max(values), "speedup_min": min(values), "improved": improved}
    return [
        mean_row("all", method, "speedup", values),
        *rows("all", method, numbers, n=len(values)),
    ]


def latency_s(record: Record) -> float:
    """The latency of a record of `mmap.runs.run_method`; an invalid mapping, which stops a table,
    is all in HBM."""
    return float(record["result"]["costs"].get("latency_s", record["result"]["slow_s"]))


def leading(table: Record) -> str:
    """The agent, where a result of `mmap.table3` has it on every program; else the edit search."""
    known = {entry["instance"] for entry in table["rows"]}
    return (
        AGENT
        if known == {entry["instance"] for entry in results.select(table, method=AGENT)}
        else OURS
    )


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


def ranked(table: Record) -> list[Row]:
    """The rows of the `leading` method of a result of `mmap.table3`, fastest program first."""
    speedups = results.select(table, method=leading(table), metric="speedup")
    return sorted(
        (r for r in speedups if r["instance"] != "all"), key=lambda r: (-r["value"], r["instance"])
    )


def assemble_table4(profile: str, records: list[Record]) -> Record:
    """The best and worst `NAMED` programs by ``speedup``, each with its ``group`` and all methods'
    rows, then those that the paper names, as the group ``named``."""
    table = results.load("mmap.table3", profile)
    order = [entry["instance"] for entry in ranked(table)]
    ends = min(NAMED, len(order) // 2)
    group = {name: "best" for name in order[:ends]} | {
        name: "worst" for name in reversed(order[len(order) - ends :])
    }
    group = group | {
        entry["instance"]: "named"
        for entry in reported("mmap.table4")
        if entry["instance"] not in group
    }
    chosen = [
        {**entry, "group": group[name]}
        for name in group
        for metric in ("speedup", "games", "games_worth", "updates")
        for entry in results.select(table, instance=name, metric=metric)
        if entry["method"] in SEARCHES
    ]
    return from_part(table, chosen)


def assemble_fig10(profile: str, records: list[Record]) -> Record:
    """The speedups of all programs, searches and prod, fastest first."""
    table, shown = results.load("mmap.table3", profile), []
    for leader in ranked(table):
        others = results.select(table, instance=leader["instance"], metric="speedup")
        shown += [
            leader,
            *(r for r in others if r["method"] in (*SEARCHES, NONE) and r is not leader),
        ]
    return from_part(table, shown + runs.learned(table))


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


def plan_fig8(profile: str, seeds: int) -> list[Run]:
    """The compiler's mapping; the agent's is the best of `mmap.table3`, in ``quick`` the edit
    search stands for it."""
    planned = [runs.plan_run(XLA, FIG8_PROGRAM, {})]
    if profile == "quick":
        planned.append(
            runs.plan_run(OURS, FIG8_PROGRAM, {"seconds": SECONDS[profile], "keep": True})
        )
    return planned


def runs_of_agent(instance: str, seconds: float, seeds: Iterable[int]) -> list[Record]:
    """The records of the agent's runs of `mmap.table3`; raises `InputError` where none of them is
    there."""
    folder, config = results.runs_path("mmap.table3", "full"), {"seconds": seconds}
    there = (read_record(folder, runs.plan_run(AGENT, instance, config, seed)) for seed in seeds)
    stored = [record for record in there if record is not None]
    if not stored:
        raise InputError(
            instance,
            AGENT,
            "is not yet run: `lmap make mmap.table3 --profile full --long` trains it",
        )
    return stored


def best_game(instance: str) -> Record:
    """The record among `runs_of_agent` with the largest return."""
    trainings = runs_of_agent(instance, AGENT_SECONDS["full"], range(SEEDS_REPEATED))
    return max(trainings, key=lambda record: record["result"]["costs"]["return"])


def assemble_fig8(profile: str, records: list[Record]) -> Record:
    """Two rows with mappings and the marked tensor's stays; its loads under both; return and
    speedup.

    ``again`` counts the tensors of any size that are loaded more than once.
    """
    compiler, *searched = records
    name = compiler["instance"]
    (agent,) = searched or [best_game(name)]
    program, xla_mapping = load(name)
    kept = agent["result"].get("mapping")
    mapping = (
        runs.replayed(program, agent["result"]["actions"])
        if kept is None
        else make_mapping(program, **kept)
    )
    mappings = {agent["method"]: mapping, compiler["method"]: xla_mapping}
    tensor = marked_tensor(program, mapping)
    entries: list[Row] = []
    for record in (agent, compiler):
        method = record["method"]
        kept, shown = stays(program, mappings[method], tensor), mappings[method]
        about = {name: record["config"].get(name) for name in ("program", "seconds")}
        about |= {"mapping": {field: getattr(shown, field).tolist() for field in FIELDS}}
        about |= {
            "tensor": program.tensor_names[tensor],
            "tensor_bytes": int(program.tensor_bytes[tensor]),
        }
        about |= {
            "live": program.tensor_live[tensor].tolist(),
            "stays": [[s.start, s.end, s.offset] for s in kept],
        }
        entries.append(
            row(name, method, "return", record["result"]["costs"].get("return", 0.0), n=1, **about)
        )
        again = sum(loads(program, shown, other) > 1 for other in range(program.num_tensors))
        numbers = {"stays": len(kept), "loads": loads(program, shown, tensor), "again": again}
        entries += rows(name, method, numbers, n=1)
    speed = latency_s(compiler) / latency_s(agent)
    entries.append(row(name, agent["method"], "speedup", speed, n=1, baseline=XLA))
    entries += runs.learning_rows(name, AGENT, [agent["result"]])
    return assembled(entries) | runs.counted([compiler, agent])


def loads(program: Program, mapping: Mapping, tensor: int) -> int:
    """The number of times that a tensor is copied into fast memory."""
    return sum(stay.loaded for stay in stays(program, mapping, tensor))
