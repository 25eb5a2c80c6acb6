"""Words of the page on data about the stored sets; every number is read from a manifest or a
result."""

import numpy as np

from learned_mapping.folders import data_folder
from learned_mapping.programs.json_io import read_json
from learned_mapping_companion import results
from learned_mapping_companion.datasets.registry import SETS, stored_bytes, stored_manifests
from learned_mapping_companion.display import Html, escaped, plural


def paragraph(words: str) -> Html:
    return Html(f"<p>{escaped(words)}</p>")


def totals() -> Html:
    """The number of items, sets and megabytes that are stored."""
    manifests = stored_manifests()
    items, megabytes = (
        sum(len(m.items) for m in manifests.values()),
        sum(map(stored_bytes, manifests)) / 1e6,
    )
    return paragraph(f"That is {items:,} items in {len(manifests)} sets, {megabytes:.1f} MB.")


def fast_memory() -> Html:
    """The share of the programs' bytes that the compiler puts into CMEM."""
    record = read_json(data_folder() / "workloads" / "compiled.json", "compiled-workloads").value
    share = {row["name"]: 100 * row["cmem_fraction"] for row in record["workloads"]}
    used = np.median([row["high_water_mb"] for row in record["workloads"]]) * 1e6 / 2**20
    least, most = min(share, key=share.get), max(share, key=share.get)
    return paragraph(
        f"With {record['compiler']}, it puts {np.median(list(share.values())):.0f}% of the bytes of"
        f" all uses into CMEM in the median program: least in {least} ({share[least]:.0f}%) and"
        f" most in {most} ({share[most]:.0f}%). At its fullest, {used:.0f} of CMEM's 64 MiB are in"
        " use in the median program."
    )


def compiler_saving() -> Html:
    """The saving by the compiler's mapping, by its own estimates."""
    items = stored_manifests()["compiled"].items
    saved = {item.name: 100 * item.facts["compiler_saving_share"] for item in items}
    least, most = min(saved, key=saved.get), max(saved, key=saved.get)
    return paragraph(
        f"By its own estimates it saves {np.median(list(saved.values())):.0f}% of what the best"
        f" placement of each instruction would save, in the median program; most in {most}"
        f" ({saved[most]:.0f}%). In {plural(sum(s < 0 for s in saved.values()), 'program')} it"
        f" saves nothing or less, least in {least} ({saved[least]:.0f}%): some instructions are"
        " estimated to be slower with their arrays in CMEM."
    )


def checks() -> Html:
    """The error of the stored latencies against the compiler's, on placements that they were not
    made from."""
    record = read_json(SETS["compiled"].path / "checks.json", "checks").value["programs"]
    asked = {
        name: entry
        for name, entry in record.items()
        if entry.get("savings_correlation") is not None
    }
    errors, alike = (
        {n: e[key] for n, e in asked.items()} for key in ("weighted_error", "savings_correlation")
    )
    loose, far = min(alike, key=alike.get), max(errors, key=errors.get)
    return paragraph(
        f"Far enough for most: in the median of {len(errors)} programs the error is"
        f" {100 * np.median(list(errors.values())):.0f} % and the correlation"
        f" {np.median(list(alike.values())):.2f}. Not for all: on {loose} it is {alike[loose]:.2f},"
        f" so what is said of {loose} holds for our tables more than for the compiler; on {far} the"
        f" error is {100 * errors[far]:.0f} %."
    )


def bert() -> Html:
    """The size of paper 2's BERT, beside the paper's."""
    facts = stored_manifests()["graphs"].item("bert_large_inference").facts
    return paragraph(
        "BERT is for the end: of a kind that no training graph has, and larger than all of them."
        f" Ours has {facts['ops']:,} operations and {facts['parameters_millions']:.0f} million"
        " parameters; the paper's has 2,138 and around 340. It runs on all 36 chips."
    )


def benchmark() -> Html:
    """The number of buffers of the sixty programs, beside the paper's known sizes."""
    figure = results.load("mmap.fig9")
    counts = {row["instance"]: row["value"] for row in figure["rows"]}
    kinds = [item.facts["kind"] for item in stored_manifests()["compiled"].items]
    known = {row["instance"]: row["value"] for row in figure["paper"] if row["instance"] in counts}
    nearest = ", ".join(f"{100 * (counts[name] / size - 1):+.0f}%" for name, size in known.items())
    return paragraph(
        f"Figure 9, ours: {plural(len(counts), 'workload')}, {kinds.count('benchmark')} as of the"
        f" benchmark and {kinds.count('fleet')} as of the fleet, from {min(counts.values()):,} to"
        f" {max(counts.values()):,} buffers. Against the paper's four known sizes: {nearest}."
    )
