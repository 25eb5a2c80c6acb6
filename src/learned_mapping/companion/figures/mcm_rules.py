"""A small graph whose ops a reader moves from chip to chip, and what the validator says of every partition of it.

The page holds the validator's verdicts over all assignments as a table and only looks them up.
"""

import html
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.companion.display import Html
from learned_mapping.companion.figures import svg
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.rules.constraints import KIB, lettered_graph
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.draw import depth_of
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.style import INK, PALETTE, PAPER

RULES = {
    "Eq. 2": "links go one way",
    "Eq. 3": "no chip is skipped",
    "Eq. 4": "no link beside a detour",
    "Eq. 5": "memory suffices",
}
"""The start of a rule's name in a verdict, and what it asks for."""
MAX_ASSIGNMENTS = 2000
WIDTH, HEIGHT, HEAD, RADIUS, MARGIN = 640, 210, 24, 13, 24
"""Pixels: the picture, room for the chips' names, an op, its least distance from a chip's sides."""
GOOD, BAD = PALETTE[2], PALETTE[1]


def five_ops() -> tuple[ComputationGraph, ChipPackage]:
    """Two branches that join: a -> b -> d -> e, a -> c -> d; three chips, none of which has memory for all weights."""
    graph = lettered_graph("five-ops", {"a": "bc", "b": "d", "c": "d", "d": "e", "e": ""}, "bce")
    return graph, ChipPackage(chips=3, sram_bytes=512.0 * KIB)


def verdicts(graph: ComputationGraph, package: ChipPackage) -> dict[str, Any]:
    """The validator's verdict over every assignment of N ops to C chips.

    Returns:
      ``faults``: each distinct violation as [rule, [culprits], detail]; ``rows``: for assignment f, at place
      Σ_i f(i) C^(N-1-i), the numbers of its faults; ``seconds``: at the same place the time per result, None where
      Eq. 2 is broken.

    Raises:
      InputError: there are more than `MAX_ASSIGNMENTS` assignments.
    """
    if package.chips**graph.num_ops > MAX_ASSIGNMENTS:
        raise InputError("graph", "", f"{package.chips} chips for {graph.num_ops} ops are too many assignments")
    numbers: dict[tuple[str, tuple[str, ...], str], int] = {}
    rows, seconds = [], []
    for chips in itertools.product(range(package.chips), repeat=graph.num_ops):
        found = validate(graph, make_partition(np.array(chips), package.chips), package, memory=True)
        keys = [(fault.rule, tuple(fault.culprits), fault.detail) for fault in found.violations]
        rows.append([numbers.setdefault(key, len(numbers)) for key in keys])
        seconds.append(found.costs.get("runtime_s"))
    return {"faults": [[rule, list(who), detail] for rule, who, detail in numbers], "rows": rows, "seconds": seconds}


SCRIPT = "\n" + Path(__file__).with_name("rules.js").read_text()


def rule_explorer(graph: ComputationGraph, package: ChipPackage, start: Sequence[int]) -> Html:
    """A picture whose ops go to the next chip when they are clicked, with the verdict underneath; one on a page.

    Args:
      graph, package: few enough ops and chips for `verdicts`.
      start: [N] chips, the first assignment.

    Raises:
      InputError: as `verdicts`, or a start that is no assignment.
    """
    first = make_partition(np.asarray(start), package.chips).assignment.tolist()
    if len(first) != graph.num_ops:
        raise InputError("start", "", f"{len(first)} chips for {graph.num_ops} ops")
    column = (WIDTH - 8) / package.chips
    data = {
        "ops": list(graph.op_names), "edges": graph.op_edges.tolist(), "chips": package.chips, "start": first,
        "place": _places(graph, column), "column": column, "radius": RADIUS, "ink": INK, "good": GOOD, "bad": BAD,
        **verdicts(graph, package),
    }  # fmt: skip
    boxes = "".join(
        f'<rect data-chip="{d}" x="{4 + d * column + 4:.1f}" y="{HEAD}" width="{column - 8:.1f}" '
        f'height="{HEIGHT - HEAD - 4}" rx="6" fill="#EEF3F7" stroke="#B8C4CE"/>'
        f'<text x="{4 + (d + 0.5) * column:.1f}" y="16" text-anchor="middle" fill="{INK}">chip {d}</text>'
        for d in range(package.chips)
    )
    lines = "".join(f'<line data-edge="{i}" stroke="{INK}"/>' for i in range(len(graph.op_edges)))
    ops = "".join(
        f'<g data-op="{i}" role="button" tabindex="0" style="cursor:pointer"><circle r="{RADIUS}" fill="{PALETTE[0]}"/>'
        f'<text y="4" text-anchor="middle" fill="{PAPER}">{html.escape(name)}</text></g>'
        for i, name in enumerate(graph.op_names)
    )
    heads = "".join(
        f'<marker id="lm-rules-{name}" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in (("ink", INK), ("bad", BAD))
    )
    items = "".join(
        f'<li data-rule="{rule}">{rule}, {meaning}: <b></b> <i></i></li>' for rule, meaning in RULES.items()
    )
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    drawing = svg.picture(WIDTH, HEIGHT, [f"<defs>{heads}</defs>", boxes, lines, ops], pixels=12)
    drawing = drawing.replace('role="img"', 'role="group" aria-label="The operations and their chips"', 1)
    return Html(
        f'<div id="lm-rules">{drawing}<output aria-live="polite">The picture needs JavaScript.</output><ul>{items}</ul>'
        f'<script type="application/json">{text}</script></div><script>{SCRIPT}</script>'
    )


def _places(graph: ComputationGraph, column: float) -> list[list[float]]:
    """[N] places within a chip's column: by depth, and a height of its own for each op."""
    depth = depth_of(graph)
    middle = HEAD + (HEIGHT - HEAD) / 2
    step = (HEIGHT - HEAD - 2.5 * MARGIN) / max(graph.num_ops - 1, 1)
    heights = {op: middle + step * _spread(rank) for rank, op in enumerate(np.argsort(depth, kind="stable").tolist())}
    wide = (column - 8 - 2 * MARGIN) / max(int(depth.max()), 1)
    return [[round(8 + MARGIN + wide * float(depth[op]), 1), round(heights[op], 1)] for op in range(graph.num_ops)]


def _spread(rank: int) -> float:
    """0, -1, 1, -2, 2, ...: no two ops at one height, so that no edge runs through another op."""
    return (rank + 1) // 2 * (-1 if rank % 2 else 1)
