"""The tables of the stored sets, as the page on data shows them: sizes, families, chips, the
compiler's mappings."""

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.programs.json_io import read_json
from learned_mapping_companion.datasets.manifest import SPLITS, by_split, families, items_by_split
from learned_mapping_companion.datasets.registry import SETS, stored_bytes, stored_manifests
from learned_mapping_companion.display import Html, escaped, listing, number
from learned_mapping_companion.figures.mmap_results import sizes_figure


def sets_table() -> Html:
    """The stored sets: a row each, with splits, size and digest."""
    rows = [
        [
            _code(name),
            SETS[name].about,
            ", ".join(
                f"{split} {number(len(items))}" for split, items in items_by_split(manifest).items()
            ),
            f"{stored_bytes(name) / 1e6:.2f}",
            _code(manifest.digest[:16]),
        ]
        for name, manifest in stored_manifests().items()
    ]
    return listing("The stored sets", ["set", "", "items", "MB", "digest"], rows)


def _code(text: str) -> Html:
    return Html(f"<code>{escaped(text)}</code>")


def sizes(name: str) -> Figure:
    """The sizes of the graphs of a set, by split."""
    return sizes_figure(by_split(stored_manifests()[name], "ops"))


def size_table(name: str, fact: str = "ops") -> Html:
    """Least, median and most of a fact of a set's items, by split."""
    rows = [
        [split, len(values), *map(int, (values.min(), np.median(values), values.max()))]
        for split, values in by_split(stored_manifests()[name], fact).items()
    ]
    return listing(f"{name}: {fact}", ["split", "graphs", "least", "median", "most"], rows)


def family_table(name: str) -> Html:
    """The families of a set and how many graphs each has, by split."""
    rows = [
        [
            split,
            number(len(counts)),
            ", ".join(f"{family} {number(n)}" for family, n in counts.items()),
        ]
        for split, counts in families(stored_manifests()[name]).items()
    ]
    return listing(f"{name}: families", ["split", "families", "graphs of each"], rows)


def chips_table(name: str = "mcm-graphs") -> Html:
    """The chips of the graphs of each split, and medians of the greedy rules' gaps to the
    optimum."""
    manifest, rows = stored_manifests()[name], []
    for split, items in items_by_split(manifest).items():
        facts = [item.facts for item in items]
        exact = [entry for entry in facts if entry["exact"]]
        chips = [entry["chips"] for entry in facts]
        above = [
            [entry[f"greedy_{rule}_above_percent"] for entry in exact]
            for rule in ("naive", "careful")
        ]
        counts = ", ".join(f"{c}: {chips.count(c)}" for c in sorted(set(chips)))
        rows.append(
            [
                split,
                counts,
                f"{len(exact)} of {len(facts)}",
                *(f"{np.median(part):.1f}" for part in above),
            ]
        )
    head = [
        "split",
        "chips: graphs",
        "optimum known",
        "greedy above it, %",
        "careful greedy above it, %",
    ]
    return listing(f"{name}: the chips", head, rows)


def careful_table(name: str) -> Html:
    """Graphs, ops, chips and the throughput of the optimum over the careful greedy's, a row for
    each kind of graph."""
    manifest, rows = stored_manifests()[name], []
    for kind in dict.fromkeys(item.facts["kind"] for item in manifest.items):
        facts = [item.facts for item in manifest.items if item.facts["kind"] == kind]
        above = [1 + entry["greedy_careful_above_percent"] / 100 for entry in facts]
        ranges = [
            f"{min(v):g} to {max(v):g}"
            for v in ([f["ops"] for f in facts], [f["chips"] for f in facts])
        ]
        rows.append([kind, len(facts), *ranges, f"{min(above):.2f} to {max(above):.2f}"])
    return listing(name, ["", "graphs", "ops", "chips", "optimum over careful greedy"], rows)


def noise_table(name: str = "regal-traced") -> Html:
    """The sets that noise makes of a set's graphs, by split."""
    members = {
        kind: entry["members"]
        for kind, entry in stored_manifests()[name].facts["augmented"].items()
    }
    rows = [
        [kind, *(number(counts[split]) for split in SPLITS)] for kind, counts in members.items()
    ]
    return listing(f"{name}: with noise", ["set", *SPLITS], rows)


def filter_table(name: str = "regal-synthetic") -> Html:
    """The candidates that the filter kept, by family."""
    table = stored_manifests()[name].facts["candidates_by_family"]
    rows = [
        [family, number(row["candidates"]), f"{row['kept_percent']:.1f}"]
        for family, row in table.items()
    ]
    return listing(f"{name}: the filter", ["family", "candidates", "kept, %"], rows)


def broken_rules_table(name: str = "compiled") -> Html:
    """The programs in which the compiler's mapping breaks each rule of the game, and how often."""
    items = [item.facts for item in stored_manifests()[name].items]
    placed, rows = sum(entry["compiler_buffers_in_cmem"] for entry in items), []
    for rule in sorted({rule for entry in items for rule in entry["broken_rules"]}):
        counts = [entry["broken_rules"].get(rule, 0) for entry in items]
        programs = f"{sum(count > 0 for count in counts)} of {len(items)}"
        rows.append([rule, programs, number(sum(counts)), f"{1000 * sum(counts) / placed:.1f}"])
    head = ["rule", "programs", "violations", "per 1,000 buffers in CMEM"]
    return listing("The compiler's mappings under the game's rules", head, rows)


def checks_table(name: str = "compiled") -> Html:
    """Held-out placements and full compilations, by program, beside the stored latencies."""
    manifest, rows = stored_manifests()[name], []
    for program, record in (
        read_json(SETS[name].path / "checks.json", "checks").value["programs"].items()
    ):
        stored, cells = manifest.item(program).facts, [program, "", "", "", "", ""]
        if record.get("savings_correlation") is not None:
            error, correlation = 100 * record["weighted_error"], record["savings_correlation"]
            cells[1:4] = number(record["placements"]), f"{error:.1f}", f"{correlation:.3f}"
        compiled = {"compiler_cycles": "compiled_cycles", "slow_cycles": "compiled_slow_cycles"}
        for column, (ours, theirs) in enumerate(compiled.items(), 4):
            if record.get(theirs):
                cells[column] = f"{100 * (stored[ours] / record[theirs] - 1):+.1f}"
        rows.append(cells)
    head = [
        "program",
        "placements",
        "error, %",
        "correlation of savings",
        "its mapping, %",
        "all in HBM, %",
    ]
    return listing("The tables against the compiler", head, rows)
