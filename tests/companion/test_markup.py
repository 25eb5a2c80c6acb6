"""Text of strangers in pages, pictures and notebooks: no character of it is markup, whatever field
of whatever format it comes in."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from markdown_it import MarkdownIt

import learned_mapping as lm
from cli_files import GRAPH, MACHINE, MAPPING, PARTITION, PROGRAM, SCHEDULE, run
from learned_mapping.cli import answers as mapped
from learned_mapping.mcm.partition import read_partition
from learned_mapping.mmap.mapping import read_mapping
from learned_mapping.programs.json_io import write_json
from learned_mapping.regal.schedule import read_schedule
from learned_mapping_companion import display
from learned_mapping_companion.figures import svg
from learned_mapping_companion.mmap import bench

HOSTILE = (
    "<lmx>&\"'",
    "<script>lmx()</script>",
    "</svg><lmx>",
    "]]><lmx>",
    '"lmx="',
    "'lmx='",
    "--><lmx>",
    "</script><lmx>",
    "</title><lmx>",
    "`<lmx>`",
    "{{<lmx>}}",
    "$x$<lmx>",
    "[lmx](javascript:lmx)",
    "<a href='javascript:lmx'>",
    "![lmx](lmx)",
)
"""Each has its own way out of a text; whatever becomes an element or an attribute is called lmx."""
WORDS = ("schema", "role", "action", "topology", "transfers", "digest")
"""Fields whose values are words of the format."""
KEYED = ("assignment", "placement", "metadata", "unknown_ops")
"""Fields whose keys are names."""


class Elements(HTMLParser):
    """The names of a page's elements and attributes, and what it links to."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [tag, *(name for name, _ in attrs)]
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def raw(text: str) -> list[str]:
    """What became markup of the hostile texts in a page."""
    found = [name for name in Elements(text).found if "lmx" in name]
    return found + ["a script"] * ("<script>lmx" in text)


class Renamed:
    """Files with a hostile text after every name, another after each, the same in all files."""

    def __init__(self, shift: int):
        self.shift, self.names = shift, dict[str, str]()

    def name(self, text: str) -> str:
        place = self.shift + len(self.names)
        return self.names.setdefault(text, f"{text}{HOSTILE[place % len(HOSTILE)]}")

    def of(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            keys = {k: self.name(k) if key in KEYED else k for k in value}
            return {keys[k]: self.of(item, k) for k, item in value.items()}
        if isinstance(value, list):
            return [self.of(item, key) for item in value]
        return self.name(value) if isinstance(value, str) and key not in WORDS else value


MADE = {"method": "m", "by": "b", "seed": 0, "samples": 1, "options": {}}
FACTS = {"unknown_ops": {"custom": 1}, "about": "words", "ports_without_output": "many"}


@pytest.fixture(params=[0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 15))])
def folder(request, tmp_path, monkeypatch):
    """Files of every format, every text in them hostile."""
    monkeypatch.chdir(tmp_path)
    renamed = Renamed(request.param)
    a, *together, d = GRAPH["ops"]
    tied = [a, *(op | {"group": "g"} for op in together), d]
    for name, ops in (("graph", GRAPH["ops"]), ("tied", tied)):
        write_json(f"{name}.json", renamed.of(GRAPH | {"ops": ops, "metadata": FACTS}))
    write_json("program.json", renamed.of(PROGRAM | {"metadata": FACTS}))
    solutions = (("partition", PARTITION, "tied"), ("schedule", SCHEDULE, "graph"))
    for kind, value, instance in solutions:
        digest = lm.read_graph(f"{instance}.json").digest
        write_json(f"{kind}.json", renamed.of(value | {"made": MADE}) | {"digest": digest})
    named = {"name": PROGRAM["name"], "digest": lm.read_program("program.json").digest}
    write_json("mapping.json", renamed.of(MAPPING | {"made": MADE, "instance": named}))
    write_json("machine.json", renamed.of(MACHINE))
    return tmp_path


SHOWN = (
    "graph.json",
    "program.json",
    "mcm tied.json partition.json",
    "regal graph.json schedule.json",
    "mmap program.json mapping.json",
)


def test_no_text_of_a_file_is_markup_in_a_picture(folder, capsys):
    """Catches a name or a title that a picture, or the page that holds it, does not escape."""
    for files in SHOWN:
        code, _, err = run(capsys, "show", *files.split(), "--out", "o.html")
        assert code == 0, err
        text = Path("o.html").read_text()
        assert "lmx" in text and not raw(text), files
        ElementTree.fromstring(text[text.index("<svg") : text.rindex("</svg>") + len("</svg>")])


@pytest.mark.slow
def test_no_text_of_a_file_is_markup_in_the_page_of_a_map(folder, capsys):
    """Catches a machine's name or a fact of a model that the page does not escape."""
    asked = "map graph.json --machine machine.json --seconds 0.3 --html page.html"
    code, _, err = run(capsys, *asked.split())
    assert code == 0, err
    text = Path("page.html").read_text()
    assert "lmx" in text and not raw(text)


def test_no_text_of_a_file_is_markup_in_a_notebook(folder):
    """Catches a graph, a program, a solution or a verdict whose cell says more than text: what a
    notebook has as Markdown may hold markup too."""
    graph, tied, program = (
        *map(lm.read_graph, ("graph.json", "tied.json")),
        lm.read_program("program.json"),
    )
    partition, schedule = (
        read_partition("partition.json", tied),
        read_schedule("schedule.json", graph),
    )
    mapping = read_mapping("mapping.json", program)
    wrong = type(partition)([1, 1, 0, 0], 2), type(schedule)([0] * 4, [(3, -1)] * 2, 2)
    every = np.array([0, 1, 1, 0])
    broken = type(mapping)(every, mapping.offset, mapping.start, mapping.end)
    verdicts = [
        *(lm.mcm.validate(tied, one) for one in (partition, wrong[0])),
        *(lm.regal.validate(graph, one) for one in (schedule, wrong[1])),
        *(lm.mmap.validate(program, one) for one in (mapping, broken)),
    ]
    assert any("lmx" in str(verdict) for verdict in verdicts)
    for shown in (graph, program, partition, schedule, mapping, *verdicts):
        assert not raw(cell(shown)), type(shown)


def cell(value: Any) -> str:
    """The HTML of a notebook's cell that ends with a value."""
    for name, page in (("_repr_html_", str), ("_repr_markdown_", MarkdownIt().render)):
        found = getattr(value, name, lambda: None)()
        if found is not None:
            return page(found)
    return ""


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_result_is_markup_in_a_table(text, monkeypatch):
    """Catches a cell, a name, a caption or a line of provenance that a table takes for HTML."""
    cells, row = {(text, text): text}, {"instance": text, "method": text, "metric": text}
    row |= {"value": 1.0, "low": 0.5, "high": 2.0, "n": 1, "baseline": text}
    result = {
        **{"id": text, "profile": text, "seeds": 1, "seconds": 1.0, "validated": 1, "invalid": 0},
        **{"created": "2020-01-01T00:00:00+00:00", "machine": {"cpu": text, "cores": 1}},
        **{"rows": [row, row | {"method": f"{text}2", "n": 3}], "paper": [row]},
    }
    standing = bench.Standing(
        **{"program": text, "digest": text, "buffers": 1, "bound": 1.0, "best": 1.0},
        **{"latency_s": 1.0, "game": 1.0, "game_sha256": text, "by": text, "date": text},
        **{"sha256": text},
    )
    monkeypatch.setattr(bench, "standings", lambda: {text: standing})
    found = [
        bench.standings_table(),
        display.table(result),
        display.table(result, joined=text),
        display.grid(text, [text], [text], cells),
        display.crossed(text, cells),
        display.crossed_rows(result, text, text),
        display.against(result, text, text, text.replace("{", "{{").replace("}", "}}")),
        display.listing(text, [text, text], [(text, text), (text, text * 9)]),
        display.provenance_line(result, state=False),
        svg.words(0.0, 0.0, text),
        svg.stepper([(svg.picture(9, 9, []), text)], {"red": text}, text, "steps"),
        mapped._page(text, [text], [mapped.Row("latency", text, text)], [text]),
    ]
    for page in found:
        assert "lmx" in page and not raw(page), page
