"""Mappings of the compiled programs priced by the compiler itself (`tpu.price`), beside what our
latency model says.

``cycles`` are the compiler's estimates of the program's instructions, copies left out;
``stalled_cycles`` add the wait for copies that come late, by one rule for every mapping, the
compiler's own included. ``model_cycles`` and ``model_stalled_cycles`` are the same two by the
program's latency tables. ``speedup`` is over the compiler's own mapping (``xla``) by cycles,
``speedup_stalled``, ``speedup_model`` and ``speedup_model_stalled`` by the others.
"""

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from learned_mapping.mmap.searches.priced import GAMES
from learned_mapping_companion import results
from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.datasets.compiled import CHECKS, read_checks
from learned_mapping_companion.datasets.registry import SETS
from learned_mapping_companion.display import Html, crossed_rows, listing
from learned_mapping_companion.mmap.runs import (
    learning_rows,
    load,
    plan_run,
    program_digest,
    run_method,
    seconds_of,
)
from learned_mapping_companion.mmap.speedup import AGENT
from learned_mapping_companion.records import read_record
from learned_mapping_companion.statistics import pearson
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
    values_of,
)

PROGRAMS = (
    *(
        "rnn_0",
        "mlperf_ssd",
        "inference_mobilenet",
        "rnn_4",
        "alexnet_train_batch_32",
        "inference_mixer",
    ),
    *("fleet_decoder_batch_32", "inference_lstm", "inference_bert", "vgg16_train_batch_32"),
    *(
        "inference_super_resolution",
        "inference_mnasnet",
        "inference_convnext",
        "inference_inception",
    ),
    *("inference_resnet", "inference_vit", "mlperf_dlrm_batch_8192", "inference_shufflenet"),
    *(
        "autoencoder_train_batch_256",
        "inference_efficientnet",
        "rnn_5",
        "inference_unet",
        "tcn_train_batch_32",
    ),
    *("inference_gru", "rnn_1", "rnn_3"),
)
"""Programs from each family of the sixty: small ones and those of few different instructions, cheap
to price."""
SMALL = PROGRAMS[:3]  # Where a search's candidates are chosen by the compiler's cycles.
PRICED = ("rnn_0", "mlperf_ssd", "inference_mobilenet", "rnn_4", "inference_lstm", "inference_bert")
"""Programs on which the search plays on the compiler's prices."""
HBM, XLA, GREEDY, SEARCH = "hbm", "xla", "greedy-tuned", "edit-search"
EVOLUTION, PRICED_RULE = "evolution-policy", "priced"
ON_PRICES = {"edit-search-on-cycles": SEARCH, "muzero-on-cycles": AGENT}
"""Methods in rounds, and the method of a round: after it the compiler prices the mapping, and the
tables take the prices over (`refined`)."""
SEARCHES = (GREEDY, PRICED_RULE, EVOLUTION, SEARCH, AGENT)
PRODS = {SEARCH: "edit-search-prod", AGENT: "prod", PRICED_RULE: "priced-prod"} | {
    method: f"{method}-prod" for method in ON_PRICES
}
"""A search -> the better of its mapping and the compiler's; ``speedup_packed`` takes the compiler's
also where ours does not fit at offsets of the compiler's own choice."""
LIMITS = {
    GREEDY: {"samples": 200},
    PRICED_RULE: {"samples": GAMES},
    EVOLUTION: {"samples": 500},
    SEARCH: {"seconds": 4.0},
}
"""A method -> the limits of its run; seconds are of one core."""
ROUNDS, HEADROOM = 4, 0.125
"""Rounds of `ON_PRICES`, and the share of the fast memory that they leave free: the compiler packs
less tightly than the game. A round of the search has the plain one's seconds; the agent's rounds
have the plain agent's together."""
CANDIDATES, CANDIDATE_SECONDS = 10, 1.5
WORST = 3
"""Instructions that a record names: those on which tables and compiler differ most."""
TRAINED = ("actions", "samples", "updates", "decisions")
"""What the record of an agent's price says of its training."""
MEASURES = {
    "speedup": "cycles",
    "speedup_stalled": "stalled_cycles",
    "speedup_model": "model_cycles",
    "speedup_model_stalled": "model_stalled_cycles",
}


def price_run(method: str, instance: str, config: Record, seed: int = 0) -> Run:
    """A run of `run_price`; the program's digest is part of its key. It is long: it waits for the
    compiler."""
    config = {**config, "program": program_digest(instance)}
    return Run("mmap.price", method, instance, config, seed, long=True)


def plan_compiler(seeds: int) -> Runs:
    """Every method on every program; a search's candidates on small ones."""
    for name in PROGRAMS:
        for method in (HBM, XLA, SEARCH, GREEDY, PRICED_RULE, EVOLUTION):
            yield price_run(method, name, LIMITS.get(method, {}))
    for name in PROGRAMS:
        yield price_run(AGENT, name, {"seconds": seconds_of(name)})
    candidate = {"seconds": CANDIDATE_SECONDS, "candidate": True}
    for name, seed in itertools.product(SMALL, range(CANDIDATES)):
        yield price_run(SEARCH, name, candidate, seed)
    for name in PRICED:
        for method, seconds in zip(
            ON_PRICES, (LIMITS[SEARCH]["seconds"], seconds_of(name) / ROUNDS)
        ):
            limits = {"seconds": seconds, "rounds": ROUNDS, "headroom": HEADROOM}
            yield price_run(method, name, limits)


def trained(instance: str, config: Record, seed: int) -> Record:
    """What a training of the agent for ``seconds`` gave: the run of `mmap.table3` with as many, or
    one made now."""
    run = plan_run(AGENT, instance, {"seconds": config["seconds"]}, seed)
    record = read_record(results.runs_path("mmap.table3", "full"), run)
    return record["result"] if record else run_method(AGENT, instance, run.config, seed)


def assemble_compiler(records: Records) -> Rows:
    """Per program and method the cycles of `MEASURES` and the speedups; agreement of model and
    compiler; identity.

    Rows over all programs: the mean speedups with their intervals over programs; ``error_points``,
    the median of |speedup by the model - by the compiler| in hundredths, over whole mappings, and
    ``rank_correlation``, Spearman's, of the gains; how many mappings were priced, failed, or need
    more fast memory at the compiler's own offsets. ``identity`` is the price of XLA's mapping, or
    of everything in HBM, over the cycles of the compiler's normal run. A program counts once it has
    prices of everything in HBM, of the compiler's mapping and of the edit search's.
    """
    whole = [record for record in records if not record["config"].get("candidate")]
    there = {(r["instance"], r["method"]): r["result"] for r in whole if not r["result"]["failed"]}
    names = [n for n in by(records, "instance") if {(n, m) for m in (HBM, XLA, SEARCH)} <= {*there}]
    records, searched = ([r for r in entry if r["instance"] in names] for entry in (records, whole))
    groups = {key: result for key, result in there.items() if key[0] in names}
    checks, entries = read_checks(SETS["compiled"].path / CHECKS), list[Row]()
    for name in names:
        entries += program_rows(
            name, {m: r for (n, m), r in groups.items() if n == name}, checks.get(name, {})
        )
    speedups = (r for r in entries if r["metric"].startswith("speedup") and r["method"] != XLA)
    speeds = by(speedups, "method", "metric")
    known = values_of(entries, "instance", metric="identity", method=XLA).values()
    identity = [100 * abs(value - 1) for value in known]
    for (method, metric), speedup_rows in speeds.items():
        values = [entry["value"] for entry in speedup_rows]
        entries.append(mean_row("all", method, metric, values))
        if (method, metric) == (HBM, "speedup"):
            entries.append(row("all", HBM, "speedup_max", max(values), n=len(values)))
    if identity:
        numbers = {"identity_percent": max(identity), "identity_programs": len(identity)}
        entries += rows("all", XLA, numbers, n=len(identity))
    for record in [record for record in searched if record["method"] == AGENT]:
        name, result = record["instance"], record["result"]
        entries.append(row(name, AGENT, "return", result["return"], n=1))
        for m in (AGENT, PRODS[AGENT]):
            entries += learning_rows(name, m, [result])
    entries += agreement_rows(entries)
    entries += candidate_rows(records, groups)
    entries += same_program_rows(entries)
    entries += rows("all", "all", counts(records))
    for method, group in by(searched, "method").items():
        entries += rows("all", method, counts(group))
    return entries


COMPILER = Artifact(
    "mmap.compiler",
    assemble_compiler,
    plan_compiler,
    Quick((HBM, XLA, *LIMITS, next(iter(ON_PRICES))), PROGRAMS[:2], long=True),
)


def program_rows(name: str, records: dict[str, Record], full: Record) -> Rows:
    """The rows of a program, of method -> what its record says, the compiler's own among them;
    `full` has the cycles of the compiler's normal run, where they are known."""
    compiler, cells = records[XLA], {"n": 1, "program": program_digest(name)}

    def speedups(result: Record) -> dict[str, float]:
        return {metric: compiler[cycles] / result[cycles] for metric, cycles in MEASURES.items()}

    for method, result in records.items():
        for cycles in MEASURES.values():
            yield row(name, method, cycles, result[cycles], **cells)
        facts = {fact: result[fact] for fact in ("placed", "copies", "left", "worst")}
        yield row(name, method, "fast_bytes", result["fast_bytes"], n=1, **facts)
        yield from rows(name, method, speedups(result), **cells)
    for method, result in records.items():
        if method not in PRODS:
            continue
        values = {metric: max(speed, 1.0) for metric, speed in speedups(result).items()}
        fits = (result["fast_bytes"] or 0) <= capacity(name)
        values["speedup_packed"] = values["speedup"] if fits else 1.0
        yield from rows(name, PRODS[method], values, **cells)
    for method, key in ((XLA, "compiled_cycles"), (HBM, "compiled_slow_cycles")):
        if full.get(key) and method in records:
            identity = records[method]["cycles"] / full[key]
            yield row(name, method, "identity", identity, n=1, compiled=full[key])


@functools.cache
def capacity(name: str) -> int:
    """Bytes of a program's fast memory."""
    return load(name)[0].fast_bytes


def counts(records: Records) -> dict[str, int]:
    """The number of mappings that were priced, failed, are not expressed whole, need too much fast
    memory."""
    outcomes = [(record["instance"], record["result"]) for record in records]
    return {
        "mappings": len(outcomes),
        "failed": sum(bool(result["failed"]) for _, result in outcomes),
        "left": sum(bool(result.get("left")) for _, result in outcomes),
        "overflowed": sum(
            (result.get("fast_bytes") or 0) > capacity(name) for name, result in outcomes
        ),
        "programs": len({name for name, _ in outcomes}),
    }


def agreement_rows(entries: Sequence[Row]) -> Rows:
    """The agreement of the model's speedups over the compiler's mapping, among the rows made, with
    those by the compiler's cycles: of everything in HBM, of all searches and of each, and of all
    together."""
    from scipy.stats import rankdata

    programs = (r for r in entries if r["instance"] != "all")
    speed = values_of(programs, "instance", "method", "metric")
    for label, methods in (
        ("all", (HBM, *SEARCHES)),
        ("searches", SEARCHES),
        *((m, (m,)) for m in (HBM, *SEARCHES)),
    ):
        keys = [key[:2] for key in speed if key[1] in methods and key[2] == "speedup"]
        if len(keys) > 2:
            points = np.array(
                [[speed[*key, metric] for key in keys] for metric in ("speedup", "speedup_model")]
            )
            values = {
                "error_points": float(np.median(100 * np.abs(points[0] - points[1]))),
                "rank_correlation": pearson(*rankdata(points, axis=1)),
            }
            yield from rows("all", label, values, n=len(keys))


def same_program_rows(entries: Sequence[Row]) -> Rows:
    """Mean speedups, with the wait for late copies, of what plays on the compiler's prices, and of
    the plain search and agent on the same programs."""
    stalled = [r for r in entries if r["metric"] == "speedup_stalled" and r["instance"] != "all"]
    for method, plain in ON_PRICES.items():
        names = {r["instance"] for r in stalled if r["method"] == method}
        by_method = by((r for r in stalled if r["instance"] in names), "method")
        for m in (PRODS[plain], PRODS[method]):
            values = [r["value"] for r in by_method.get(m, ())]
            if values:
                yield row("all", m, "speedup_stalled_same", np.mean(values), n=len(values))


def candidate_rows(records: Records, groups: dict[tuple[str, str], Record]) -> Rows:
    """A search's candidates on a program: the speedup by cycles of the one the model prefers, and
    of the best."""
    chosen = {"by_model": [], "by_compiler": []}
    candidates = [r for r in records if r["config"].get("candidate") and not r["result"]["failed"]]
    for (name, method), group in grouped(candidates).items():
        compiler, results = groups[name, XLA], [record["result"] for record in group]
        picks = {
            "by_model": min(results, key=lambda r: r["model_stalled_cycles"]),
            "by_compiler": min(results, key=lambda r: r["stalled_cycles"]),
        }
        for choice, result in picks.items():
            for metric, cycles in MEASURES.items():
                speed = compiler[cycles] / result[cycles]
                yield row(name, f"{method}-{choice}", metric, speed, n=len(results))
            chosen[choice].append(max(1.0, compiler["stalled_cycles"] / result["stalled_cycles"]))
    for choice, values in chosen.items():
        if values:
            mean = float(np.mean(values))
            yield row("all", f"{SEARCH}-{choice}", "prod_stalled", mean, n=len(values))


SPEEDS = {
    "speedup": "speedup over the compiler's mapping, by the compiler's cycles",
    "speedup_stalled": "the same, with the wait for late copies",
    "speedup_model": "by our latency model",
    "speedup_model_stalled": "by our latency model, with the wait for late copies",
}
SHOWN = (
    "hbm",
    "priced",
    "edit-search",
    "edit-search-prod",
    *ON_PRICES,
    "muzero",
    "prod",
)


def speed_tables(result: Record) -> Html:
    """A table for each of `SPEEDS`: a row a program, all together last, a column a method."""
    return Html(
        "".join(
            crossed_rows(result, title, metric, methods=SHOWN) for metric, title in SPEEDS.items()
        )
    )


def worst_instructions(result: Record, count: int = 8) -> Html:
    """The instructions whose cycles by our table and by the compiler are furthest apart, one for
    each mapping."""
    worst = []
    for entry in result["rows"]:
        if entry["metric"] == "fast_bytes":
            for name, _, table, compiler in entry["worst"][:1]:
                words = f"{entry['instance']}, {entry['method']}: {name}"
                worst.append((abs(table - compiler), words, f"{table:,}", f"{compiler:,}"))
    rows = [cells for _, *cells in sorted(worst, reverse=True)[:count]]
    return listing("Cycles of single instructions", ["", "table", "compiler"], rows)
