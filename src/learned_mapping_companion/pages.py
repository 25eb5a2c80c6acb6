"""Names that cells of the book's pages import: an artifact as its page shows it, and helpers.

>>> from learned_mapping_companion.pages import show
>>> show("mcm.fig5")
"""

import inspect
from importlib import import_module
from typing import Any

from learned_mapping.lazy import lazily
from learned_mapping_companion import results
from learned_mapping_companion.artifact import PACKAGE, read_table
from learned_mapping_companion.display import Html, provenance_line, show_result

try:
    from IPython.display import Markdown
except ModuleNotFoundError:  # pictures and tables are files and text there
    Markdown = str

__all__ = ["Html", "Markdown", "provenance", "results", "show", "show_result"]
NAMES = {name: home for home, names in read_table("names.yml").items() for name in names.split()}
__getattr__, __dir__ = lazily(PACKAGE, **NAMES)


def provenance(artifact_id: str) -> Html:
    """The origin of an artifact's stored result, and whether it is fresh."""
    return provenance_line(results.load(artifact_id))


def show(artifact_id: str, drawn: str = "", **options: Any) -> Any:
    """The stored result of an artifact: its usual figure, or its table with the paper's numbers and
    its provenance.

    Args:
      artifact_id: such as ``mmap.table2``.
      drawn: which of its entries in ``shown.yml``, by the function's name, or ``table``; the first
        where none is named.
      **options: of that function, and ``methods``, whose rows are shown; with ``metrics``, those of
        `display.table`.
    """
    entries, result = read_table("shown.yml").get(artifact_id, {}), results.stored(artifact_id)
    places = {entry.rpartition(":")[2]: entry for entry in (*entries, "table")}
    place = places[drawn or next(iter(places))]
    if "metrics" in options or result is None:
        place = "table"
    options = entries.get(place, {}) | options
    if place == "table":
        return show_result(artifact_id, **options)
    module, _, name = place.partition(":")
    draw = getattr(import_module(f"{PACKAGE}.{module}"), name)
    wanted = inspect.signature(draw).parameters
    if "methods" in options and "methods" not in wanted:
        methods = options.pop("methods")
        result = result | {"rows": [row for row in result["rows"] if row["method"] in methods]}
    return draw(**{name: PARTS[name](result) for name in wanted if name in PARTS} | options)


PARTS = {
    "name": lambda result: result["id"],
    "result": lambda result: result,
    "rows": lambda result: result["rows"],
    "paper": lambda result: result["paper"],
    "program": lambda result: import_module(f"{PACKAGE}.mmap.tables").workload(
        result["rows"][0]["instance"]
    ),
    "bounds": lambda result: import_module(f"{PACKAGE}.mmap.tables").proven(),
    "tree": lambda result: import_module(f"{PACKAGE}.figures.mmap_inside").most_changed(
        result["rows"]
    ),
}
"""The value of a parameter of this name in a function of ``shown.yml``."""
