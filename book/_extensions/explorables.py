"""Explorables and pictures in the pages: ``{explorable} NAME`` puts in the data, a picture for
print, and the scripts. ``{state}`8 MiB <alexnet:capacity=8>``` is a number as a link that sets one
on the same page to a state that shows it.

The data are computed once for each state of the package and the stored results, and kept beside the
notebooks' outputs.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

import execution_cache
import explorable_data
import explorable_pictures
import primers
from docutils import nodes
from docutils.parsers.rst import Directive

from learned_mapping.programs.json_io import write_bytes
from learned_mapping_companion.ledger import page_of

SCRIPTS: dict[str, tuple[str, ...]] = {
    "game": ("explorable", "game_rules", "game"),
    "layouts": ("explorable", "layouts"),
    "chips": ("explorable", "chip_rules", "schedule_rules", "chips"),
    "credits": ("explorable", "chip_rules", "credits"),
    "race": ("explorable", "schedule_rules", "race"),
    "claims": ("explorable", "claim_rules", "claims"),
    "alexnet": ("explorable", "game_rules", "alexnet"),
}
"""Name -> its scripts, in the order in which they are read; `alexnet` is made last, with what
`game` has compiled."""
TITLES = {
    "layouts": (
        "One of the sixty programs, AlexNet's training step, in fast memory: the compiler's layout,"
        " and that of the highest return found. Each rectangle is one stay of a tensor."
    ),
    "game": (
        "Play the memory game. The keys C, N and D are the three actions, U takes one back; dashed"
        " frames show where Copy and NoCopy would put the buffer."
    ),
    "alexnet": (
        "AlexNet's buffers under a greedy rule: place what saves more than a price per byte and"
        " step."
    ),
    "chips": (
        "Drag operations to other chips, or move them with the arrow keys. Red operations break a"
        " rule; dashed frames show where FIX would put them."
    ),
    "credits": (
        "A credit for each operation says which way it should go; one for the whole sample does"
        " not. Operations with a bold arrow can move alone: click them."
    ),
    "race": (
        "Searches on the same graph of about fifty operations; of thirty races each, how far above"
        " the best known schedule they end. The knobs change the distribution of one operation."
    ),
    "claims": (
        "Each claim of the papers, with what decides it. Every question is a link, and says"
        " beforehand what the verdict is there; your own changes stand in the page's address."
    ),
    "chips-ladder": (
        "A search that learns nothing ties with the policy: throughput on sixteen held-out graphs,"
        " in that of the naive greedy, with 95% intervals. Blue: what learns. Green: the optimum."
    ),
    "race-ladder": (
        "Less is better: the gap to the best known schedule on held-out synthetic graphs, in"
        " percent, with 95% intervals. Blue: what learns. Orange: the paper's, on its own graphs."
    ),
} | primers.TITLES
PICTURES = explorable_pictures.PICTURES | primers.PICTURES


def data_of(name: str) -> dict[str, Any]:
    """The data of an explorable, computed where they are not kept from before."""
    digest = execution_cache.digest_of(
        ("src", "data", "book/claims.yml", "book/_extensions/explorable_data.py")
    )
    kept = Path(__file__).resolve().parents[1] / "_build" / "explorables" / digest / f"{name}.json"
    if not kept.exists():
        text = json.dumps(explorable_data.MAKERS[name](), allow_nan=False, separators=(",", ":"))
        write_bytes(kept, text.encode())
    return json.loads(kept.read_text())


class Explorable(Directive):
    """A figure that can be played with, or a picture where there is no script for the name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        env = self.state.document.settings.env
        up = "../" * env.docname.count("/")
        caption = f"<figcaption>{html.escape(TITLES[name])}</figcaption>"
        drawn = PICTURES[name](data_of(name) if name in SCRIPTS else None, TITLES[name])
        if name not in SCRIPTS:
            text = (
                f'<figure class="lm-figure"><div class="lm-scroll">{drawn}</div>{caption}</figure>'
            )
            return [nodes.raw("", text, format="html")]
        shown = data_of(name)
        for claim in shown.get("claims", ()):
            claim["link"] = up + page_of(claim["artifact"])
        data = json.dumps(shown, separators=(",", ":")).replace("</", "<\\/")
        loaded = self.state.document.__dict__.setdefault("lm_scripts", [])
        tags = ""
        for script in SCRIPTS[name]:
            if script not in loaded:
                loaded.append(script)
                tags += f'<script defer src="{up}explorables/{script}.js"></script>'
        label = html.escape(name, quote=True)
        text = (
            f'<figure class="lm-explorable" id="play-{label}" data-explorable="{label}"'
            f' data-label="{label}"><div class="lm-fallback">{drawn}</div><script'
            f' type="application/json">{data}</script>{caption}</figure>'
        )
        return [nodes.raw("", text + tags, format="html")]


def parts_of(text: str) -> tuple[str, str]:
    """(the words of a role ``state``, the state's address); raises `ValueError` where no explorable
    is named."""
    parts = re.fullmatch(r"(.+) <(([a-z]+):\S+)>", text, re.S)
    if parts is None or parts[3] not in SCRIPTS:
        raise ValueError(f"state {text!r}: no explorable is named")
    return parts[1], parts[2]


def state(name, rawtext, text, lineno, inliner, options=None, content=None) -> tuple[list, list]:
    """The role."""
    words, address = parts_of(text)
    return [
        nodes.reference("", words, refuri=f"#{address}", internal=True, classes=["lm-state-link"])
    ], []


def setup(app) -> dict:
    app.add_directive("explorable", Explorable)
    app.add_role("state", state)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
