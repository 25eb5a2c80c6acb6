"""Tables of the pages: text of files and of strangers stays text in each of them, and one run is
shown as one run."""

import ast
import dataclasses
import functools
import importlib
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import learned_mapping as lm
from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import all_dropped
from learned_mapping.programs.formats import read_graph
from learned_mapping_companion import claims, display, results
from learned_mapping_companion.regal.methods import training_records

COMPANION = Path(display.__file__).parent
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
AT_MOST = 10
"""Texts of a table that are exchanged, one at a time, the longest first."""


class Elements(HTMLParser):
    """The names of a page's elements and attributes, and its text, that of attributes too."""

    def __init__(self, page: str):
        super().__init__()
        self.names, self.text = set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.names |= {tag, *(name for name, _ in attributes)}
        self.text += " ".join(value or "" for _, value in attributes)

    def handle_data(self, data):
        self.text += data


def functions() -> set[str]:
    """``module:function`` of all public functions of the companion that return `Html`, read from
    the sources."""
    found = set()
    for path in COMPANION.rglob("*.py"):
        module = path.relative_to(COMPANION).with_suffix("").as_posix().replace("/", ".")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.FunctionDef)
                and isinstance(node.returns, ast.Name)
                and node.returns.id == "Html"
            ):
                found |= {f"{module}:{node.name}"} if node.name[0] != "_" else set()
    return found


def fields(value) -> dict:
    return {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init
    }


def strings(value) -> set[str]:
    """The texts in a value, keys of mappings too."""
    if isinstance(value, str):
        return {value}
    value = fields(value) if dataclasses.is_dataclass(value) else value
    value = [*value, *value.values()] if isinstance(value, Mapping) else value
    return set().union(*map(strings, value)) if isinstance(value, list | tuple) else set()


def replaced(value, old: str, new: str):
    """The value with one text exchanged wherever it stands."""
    if isinstance(value, str):
        return new if value == old else value
    if isinstance(value, Mapping):
        return {replaced(key, old, new): replaced(part, old, new) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([replaced(part, old, new) for part in value])
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **replaced(fields(value), old, new))
    return value


def toy():
    return lm.mmap.toy_program()


def graph():
    return read_graph(data_folder() / "fingerprints" / "layers.graph.json")


def traced():
    return [
        graph(),
        [0] * graph().num_ops,
        3,
        lm.mcm.fix_trace(graph(), [0] * graph().num_ops, 3, rng()),
    ]


def rng():
    return np.random.default_rng(0)


def made(*names):
    """A result of two rows and one of the paper's."""
    row = dict(zip(("instance", "method", "metric", "baseline"), names)) | {
        "low": 0.5,
        "high": 2.0,
        "value": 1.0,
    }
    word = row | {"instance": "another", "value": "a word", "low": None}
    return results.load("mcm.table1") | {"rows": [row, word], "paper": [row]}


RESULT = ("an instance", "a method", "a metric", "a baseline")
WIDE = "cells of more than thirty characters wrap"
MANIFESTS = "datasets.tables:stored_manifests"
CASES = {
    "display:escaped": lambda: ["text"],
    "display:table": lambda: [made(*RESULT)],
    "display:grid": lambda: ["title", ["down"], ["across"], {("down", "across"): "cell"}],
    "display:crossed": lambda: ["title", {("down", "across"): "cell"}],
    "display:crossed_rows": lambda: [made(*RESULT), "title", "a metric"],
    "display:against": lambda: [made(*RESULT), "a method", "a metric", "title"],
    "display:listing": lambda: [
        "title",
        ["one", "two", ""],
        [("first", WIDE, np.str_("third")), ("x", 1.0, None)],
    ],
    "display:head_row": lambda: [["name"]],
    "display:simple_table": lambda: ["title", "head", "body"],
    "display:provenance_line": lambda: [
        results.load("mcm.table1") | {"data": {"a set": "changed"}}
    ],
    "display:show_result": (["display:find_artifact", "results:stored"], lambda: ["mcm.table1"]),
    "settings:annealing": (["settings:_read"], list),
    "settings:policy": (["settings:_read"], list),
    "settings:silicon": (["settings:_read"], list),
    "settings:searches": (["settings:_read"], list),
    "claims:claims_table": lambda: [claims.judge_all()[:9], 1],
    "ledger:ledger_table": (["ledger:entries", "ledger:page_of"], list),
    "mmap.bench:standings_table": (["mmap.bench:standings"], list),
    "mmap.facts:features_table": lambda: [results.load("mmap.table1")],
    "mmap.facts:hyperparameters_table": lambda: [results.load("mmap.table6"), False],
    "mmap.compiler:speed_tables": lambda: [results.load("mmap.compiler")],
    "mmap.compiler:worst_instructions": lambda: [results.load("mmap.compiler")],
    "mmap.speedup:counts_table": lambda: [results.load("mmap.table3")],
    "mmap.toy:buffers_table": lambda: [toy()],
    "mmap.toy:moves_table": lambda: [toy(), [2] * toy().num_buffers],
    "mmap.toy:times_table": lambda: [toy(), {"a mapping": all_dropped(toy())}],
    "mmap.toy:bounds_table": lambda: [[toy()]],
    "figures.mcm_repair_steps:repair_steps": ([], traced, {"name": "name"}),
    "datasets.words:paragraph": lambda: ["text"],
    "datasets.words:fast_memory": (["datasets.words:read_json"], list),
    "datasets.words:compiler_saving": (["datasets.words:stored_manifests"], list),
    "datasets.words:checks": (["datasets.words:read_json"], list),
    "datasets.tables:size_table": ([MANIFESTS], lambda: ["regal-graphs"]),
    "datasets.tables:family_table": ([MANIFESTS], lambda: ["regal-traced"]),
    "datasets.tables:chips_table": ([MANIFESTS], lambda: ["mcm-graphs"]),
    "datasets.tables:careful_table": ([MANIFESTS], lambda: ["mcm-fresh"]),
    "datasets.tables:noise_table": ([MANIFESTS], lambda: ["regal-traced"]),
    "datasets.tables:filter_table": ([MANIFESTS], lambda: ["regal-synthetic"]),
    "datasets.tables:broken_rules_table": ([MANIFESTS], lambda: ["compiled"]),
    "regal.methods:trained_table": lambda: ["title", training_records()],
    "mcm.levels:level_table": lambda: [results.load("mcm.table2"), "title"],
    "mcm.levels:level_tables": lambda: [results.load("mcm.table2"), ["title"]],
    "mcm.toy:verdicts_table": (["results:load"], lambda: [results.load("mcm.fig2")]),
    "mcm.toy:domains_table": lambda: [graph(), 3, [("op.5", 1)]],
}
"""Function -> its arguments, or (functions whose answers it shows, its arguments, and those by
name)."""
OUR_WORDS = {
    "claims:verdict_counts",
    "datasets.words:totals",
    "datasets.words:bert",
    "datasets.words:benchmark",
    "datasets.tables:sets_table",
    "datasets.tables:checks_table",
    "mmap.tables:programs_table",
    "figures.mcm_repair_steps:repair_table",
    "mcm.toy:rules_table",
    "mcm.toy:chips_table",
    "mcm.toy:most_chips_table",
    "mcm.toy:trained_policies",
    "regal.live:live_table",
    "settings:laws",
    "pages:provenance",
}
"""They show numbers, and names of their own; the last one is `display.provenance_line` of a stored
result."""


def named(place: str):
    """The module and the name of ``module:name``."""
    module, _, name = place.partition(":")
    return importlib.import_module(f"learned_mapping_companion.{module}"), name


def test_every_table_function_is_tried():
    """Would catch a new table that hands on text as markup."""
    assert functions() == {*CASES, *OUR_WORDS}


@pytest.mark.parametrize("place", CASES)
def test_text_stays_text(place, monkeypatch):
    """Every text that a table shows, of its arguments or of what it reads, exchanged for markup:
    would catch one that a page runs, and one that the exchange leaves out."""
    sources, arguments, *options = case if isinstance(case := CASES[place], tuple) else ([], case)
    (module, name), seen = named(place), []
    function, given = functools.partial(getattr(module, name), **dict(*options)), arguments()
    readers = {source: functools.cache(getattr(*named(source))) for source in sources}
    for source, reader in readers.items():
        monkeypatch.setattr(
            *named(source), lambda *a, _of=reader, **k: [seen.append(_of(*a, **k)), seen[-1]][1]
        )
    usual = Elements(function(*given))
    shown = sorted(
        (text for text in strings([*given, *seen]) if text and text in usual.text),
        key=len,
        reverse=True,
    )
    exchanged = 0
    for text in shown[:AT_MOST]:
        for source, reader in readers.items():
            read = lambda *a, _of=reader, _text=text, **k: replaced(_of(*a, **k), _text, EVIL)  # noqa: E731
            monkeypatch.setattr(*named(source), read)
        try:
            page = function(*replaced(given, text, EVIL))
        except (LookupError, TypeError, ValueError, lm.errors.InputError):
            # a name that the function looks up
            continue
        assert type(page) is display.Html and Elements(page).names <= usual.names, text
        exchanged += EVIL in Elements(page).text.replace("\u200b", "")
    assert exchanged, shown


def test_only_html_is_markup():
    """Would catch markup that a page hands in on purpose and that is shown as text."""
    bold = display.Html("<b>bold</b>")
    page = display.listing("t", [bold], [(bold, bold)]) + display.crossed("t", {("a", "b"): bold})
    assert page.count(bold) == 4 and "&lt;" not in page


@pytest.mark.parametrize("place", ["table", "crossed_rows", "against"])
def test_one_run_beside_several_is_shown_as_one(place):
    """Would catch a number of one run that looks like a mean of five, and a mark on a table where
    all have one, or one only because a row over all instances counts these."""

    def row(instance, method, n):
        base = {"metric": "return", "baseline": "x", "value": 1.0, "low": None, "high": None}
        return base | {"instance": instance, "method": method, "n": n}

    def shown(*rows):
        result = results.load("mcm.table1") | {"rows": [*rows], "paper": []}
        draw = {
            "table": lambda: display.table(result),
            "crossed_rows": lambda: display.crossed_rows(result, "t", "return"),
            "against": lambda: display.against(result, "a", "return", "t"),
        }[place]
        return draw().count("n = 1")

    assert shown(row("p", "a", 1), row("q", "a", 5)) == 1
    assert shown(row("p", "a", 1), row("q", "a", 1)) == 0
    assert shown(row("p", "a", 1), row("q", "a", 1), row("all", "a", 2)) == 0


def test_the_tables_of_paper_1_say_where_one_run_is_all():
    """Would catch Table 2 without its n: its cells of one run, counted from the rows, beside others
    of up to ten."""
    result = results.load("mmap.table2")
    alone = [row for row in result["rows"] if row["metric"] == "return" and row.get("n") == 1]
    assert 0 < len(alone) == display.table(result, metrics=["return"]).count("n = 1")
