"""What cells of the book's pages import from here: an artifact as its page shows it, and helpers by their names.

>>> from learned_mapping.companion.pages import show
>>> show("mcm.fig5")
"""

import inspect
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from IPython.display import Markdown

from learned_mapping import lazily
from learned_mapping.companion import results
from learned_mapping.companion.artifact import PACKAGE, find_artifact, read_table
from learned_mapping.companion.display import (
    Html,
    crossed,
    listing,
    number,
    provenance_line,
    quick,
    show_result,
    table,
)
from learned_mapping.companion.knobs import knobs
from learned_mapping.folders import data_folder
from learned_mapping.problem import Method

__all__ = [
    "Html", "Markdown", "crossed", "knobs", "listing", "methods_table", "number", "provenance", "quick",
    "record", "results", "show", "show_result", "table",
]  # fmt: skip
HOMES = {
    "datasets.compiled": "compiled",
    "datasets.tables": "tables",
    "datasets.words": "words",
    "figures.mcm": "best_so_far credits_of_ops package_drawing",
    "figures.mcm_repair_steps": "repair_steps repair_table scattered",
    "figures.mmap": "moves_figure tradeoff_figure",
    "figures.mmap_results": "latency_table learning",
    "figures.regal": "learning_curves painted_law",
    "figures.regal_stepthrough": "race stepthrough",
    "mcm.graphs": "graphs",
    "mcm.toy": "compared_words solved",
    "mcm.trained": "trained_policies",
    "mmap.runs": "trainings",
    "mmap.tables": "levels long_programs programs_table proven stored_mapping workload",
    "mmap.toy": "bounds_table buffers_table moves_table times_table",
    "regal.graphs": "graph_names load_graph",
    "regal.methods": "CLASSICAL TESTED",
    "settings": "settings",
}
"""Module -> the names that pages have of it, which is imported when one of them is asked for."""
__getattr__, __dir__ = lazily(PACKAGE, **{name: home for home, names in HOMES.items() for name in names.split()})


def record(file: str) -> Any:
    """What a JSON file of the data folder holds."""
    return json.loads((data_folder() / file).read_text(encoding="utf-8"))


def methods_table(methods: Mapping[str, Method]) -> Html:
    """What each method does."""
    return listing("Methods", ["", "what it does"], [(name, method.description) for name, method in methods.items()])


def provenance(artifact_id: str) -> Html:
    """Where an artifact's stored result comes from, and whether it is fresh."""
    return provenance_line(results.load(artifact_id), find_artifact(artifact_id))


def show(artifact_id: str, drawn: str = "", **options: Any) -> Any:
    """The stored result of an artifact: its usual figure, or its table with the paper's numbers and its provenance.

    Args:
      artifact_id: such as ``mmap.table2``.
      drawn: which of its entries in ``shown.yml``, by the function's name; the first where none is named.
      **options: of that function, and ``methods``, whose rows are shown; with ``metrics``, those of `display.table`.
    """
    entries = {
        place.rpartition(":")[2]: (place, usual)
        for place, usual in read_table("shown.yml").get(artifact_id, {}).items()
    }
    result = results.stored(artifact_id)
    if "metrics" in options or not entries or result is None:
        return show_result(artifact_id, **options)
    place, usual = entries[drawn or next(iter(entries))]
    module, _, name = place.partition(":")
    draw, options = getattr(import_module(f"{PACKAGE}.{module}"), name), usual | options
    wanted = inspect.signature(draw).parameters
    if "methods" in options and "methods" not in wanted:
        methods = options.pop("methods")
        result = result | {"rows": [row for row in result["rows"] if row["method"] in methods]}
    return draw(**{name: PARTS[name](result) for name in wanted if name in PARTS} | options)


PARTS = {
    "artifact_id": lambda result: result["id"],
    "name": lambda result: result["id"],
    "result": lambda result: result,
    "rows": lambda result: result["rows"],
    "paper": lambda result: result["paper"],
    "program": lambda result: import_module(f"{PACKAGE}.mmap.tables").workload(result["rows"][0]["instance"]),
    "bounds": lambda result: import_module(f"{PACKAGE}.mmap.tables").proven(),
    "tree": lambda result: import_module(f"{PACKAGE}.figures.mmap_inside").most_changed(result["rows"]),
}
"""What a parameter of this name stands for in a function of ``shown.yml``."""
