"""Settings that were tried before a table was made, from records in the data folder, as tables."""

import json
from typing import Any

from learned_mapping.folders import data_folder
from learned_mapping.regal.agent.learner import PAPER, variant_from
from learned_mapping.regal.methods import chosen
from learned_mapping_companion.display import Html, listing, named_values

GAP = "gap_percent"


def _read(file: str) -> Any:
    return json.loads((data_folder() / file).read_text(encoding="utf-8"))


def _plain(name: str) -> str:
    return name.replace("_", " ")


def annealing() -> Html:
    """The best and the worst settings of annealing, by its start."""
    chosen, rows = _read("mcm/annealing.json"), []
    names = ("redrawn", "concentration", "moved", "start_temperature", "over_optimum")
    for start, best in chosen["best"].items():
        tried = [row for row in chosen["grid"] if row["start"] == start]
        worst = min(tried, key=lambda row: row["over_optimum"])
        for title, row in ((f"best of {len(tried)}", best), ("worst", worst)):
            rows.append((f"{start} start, {title}", *(row.get(name, "") for name in names)))
    return listing("Settings of annealing", ["", *map(_plain, names)], rows)


def policy() -> Html:
    """The settings of paper 2's policy that were tried on the validation graphs."""
    fields, rows = (
        ("credit", "op_weight", "rollouts", "epochs", "learning_rate", "moved", "iterations"),
        [],
    )
    for row in _read("mcm/policy.json")["grid"]:
        start = ("with a start" if row["kind"] == "begun" else "uniform") + (
            "" if row["learning"] else ", frozen"
        )
        words = "as in the tables" if row["usual"] else named_values(row, fields)
        rows.append((start, row["over_optimum"], row["factor_between_seeds"], words))
    return listing("After 1,000 samples", ["start", "of the optimum", "seeds", "settings"], rows)


def silicon() -> Html:
    """The ranges in which the simulated silicon was calibrated, and what was chosen."""
    chosen = _read("mcm/silicon.json")
    rows = [
        (_plain(name), low, high, chosen["best"][name])
        for name, (low, high) in chosen["ranges"].items()
    ]
    return listing("Calibration", ["", "least", "most", "chosen"], rows)


def searches() -> Html:
    """The best and the worst parameters of paper 3's searches, chosen on training graphs."""
    rows = []
    for name, entry in _read("regal/tuning.json").items():
        if isinstance(entry, dict) and "grid" in entry:
            count, worst = len(entry["grid"]), max(entry["grid"], key=lambda row: row[GAP])
            for title, row in (("best", entry["best"]), ("worst", worst)):
                words = named_values(row, [key for key in row if key != GAP], "g")
                rows.append((f"{name}, {title} of {count}", words, row[GAP]))
    return listing("Grid search on training graphs", ["", "parameters", "gap, %"], rows)


def laws() -> Html:
    """The use of each network's laws by the search, as printed and as validation graphs chose."""
    rows = []
    for name, entry in chosen()["variants"].items():
        gaps = {
            variant_from({key: row[key] for key in row if key != GAP}): row[GAP]
            for row in entry["grid"]
        }
        best = min(row[GAP] for row in entry.get("finalists", entry["grid"]))
        words = named_values(entry["chosen"], entry["chosen"])
        rows.append((name, words, entry["brkga_gap_percent"], gaps[PAPER], best))
    return listing(
        "Gaps on validation graphs, %",
        ["network", "chosen use", "BRKGA", "printed", "chosen"],
        rows,
    )
