"""The pictures of explorables for print, and for readers without scripts; and bars of stored
results."""

import html
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from learned_mapping_companion import results

WIDTH = 680
LEARNERS = ("rl-sample-credit", "rl", "regal", "regal-average")
"""Of the pictures of stored results."""


def _svg(height: float, parts: Iterable[str], label: str) -> str:
    name = html.escape(label, quote=True)
    head = f'<svg class="lm-drawn" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{name}">'
    return f"{head}{''.join(parts)}</svg>"


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def _box(x: float, y: float, w: float, h: float, more: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{max(h, 0):.1f}" {more}/>'
    )


def _colour(n: int) -> str:
    return f"hsl({round(n * 0.6180339887 % 1 * 360)} {45 + 20 * (n % 2)}% {(62, 48, 55)[n % 3]}%)"


def _layout(
    x: float, y: float, w: float, h: float, rows: list, steps: int, room: int, title: str
) -> str:
    parts = [_text(x, y - 6, title, 'class="lm-strong"'), _box(x, y, w, h, 'class="lm-room"')]
    for tensor, start, end, offset, size in rows:
        left, tall = x + start * w / steps, size * h / room
        bottom = y + h - offset * h / room
        parts.append(
            _box(
                left,
                bottom - tall,
                (end + 1 - start) * w / steps,
                tall,
                f'fill="{_colour(tensor)}"',
            )
        )
    return "".join(parts)


def two_layouts(data: dict[str, Any], label: str) -> str:
    """The compiler's layout and the best one, side by side."""
    half, room = WIDTH / 2 - 10, data["fast_bytes"]
    left = _layout(0, 22, half, 190, data["compiler"], data["steps"], room, "the compiler's layout")
    right = _layout(half + 20, 22, half, 190, data["best"], data["steps"], room, "the best found")
    return _svg(220, [left, right], label)


def one_layout(data: dict[str, Any], label: str) -> str:
    """The best layout."""
    program = data["program"]
    steps, room = len(program["supply_s"]), program["fast_bytes"]
    best = data["limits"][str(room // 2**20)][2]
    return _svg(220, [_layout(0, 22, WIDTH, 190, best, steps, room, "the best found")], label)


def bars(
    rows: list[tuple[str, float, str]], label: str, kinds: Mapping[str, str] | None = None
) -> str:
    """(name, value, text), one bar each, as wide as the page; in the colour of its kind where it
    has one: ``learns``, ``bound`` or ``paper``."""
    most = max(value for _, value, _ in rows)
    cells = ""
    for name, value, text in rows:
        kind = f' class="lm-{kinds[name]}-bar"' if kinds and name in kinds else ""
        bar = f'<i style="--share:{value / most:.4f}"{kind}></i>'
        cells += f"<span>{html.escape(name)}</span><span>{bar}{html.escape(text)}</span>"
    return (
        '<div class="lm-bars" role="img"'
        f' aria-label="{html.escape(label, quote=True)}">{cells}</div>'
    )


def _game(data: dict[str, Any], label: str) -> str:
    best, bound, _ = data["best"]["3 1"]
    rows = [("the agent", data["agent"]["value"]), ("edit-search", best), ("proven bound", bound)]
    return bars([(name, value, f"{value:.1%}") for name, value in rows], label)


def _chips(data: dict[str, Any], label: str) -> str:
    graph, chip_of = data["graph"], data["found"]["optimum"]
    lane, parts = (WIDTH - 140) / data["chips"], []
    for chip in range(data["chips"]):
        parts.append(
            _box(140 + chip * lane + 2, 20, lane - 4, 24 * len(chip_of), 'class="lm-room"')
        )
        parts.append(_text(140 + (chip + 0.5) * lane, 14, f"chip {chip}", 'text-anchor="middle"'))
    for i, op in enumerate(graph["order"]):
        y = 22 + 24 * i
        parts.append(_text(132, y + 15, graph["ops"][op], 'text-anchor="end"'))
        parts.append(
            _box(140 + (chip_of[op] + 0.5) * lane - 24, y + 2, 48, 17, 'class="lm-bar-fill" rx="4"')
        )
    return _svg(24 + 24 * len(chip_of), parts, label)


def _race(data: dict[str, Any], label: str) -> str:
    names = {"brkga": "BRKGA", "regal": "REGAL", "fiedler": "eigenvector"}
    rows = []
    for one in data["graphs"]:
        for key, name in names.items():
            gap = 100 * (sum(one["ends"][key]) / data["races"] / one["best_s"] - 1)
            rows.append((f"{one['name']}: {name}", gap, f"{gap:.1f} %"))
    return bars(rows, label)


def _claims(data: dict[str, Any], label: str) -> str:
    counts = Counter(claim["verdict"] for claim in data["claims"])
    return bars([(verdict, count, str(count)) for verdict, count in counts.items()], label)


def _stored(
    artifact: str, instance: str, metric: str, methods: dict[str, str], digits: str
) -> Callable[..., str]:
    """Bars of a stored result with their intervals; a method of the paper's rows begins with
    ``paper:``."""

    def draw(data: None, label: str) -> str:
        result, rows, kinds = results.stored(artifact), [], dict[str, str]()
        for key, name in methods.items():
            ours, _, method = key.rpartition(":")
            cells = {"instance": instance, "metric": metric, "method": method}
            found = results.select(result, "paper" if ours else "rows", **cells)
            for entry in found[:1]:
                text = format(entry["value"], digits)
                if entry.get("low", entry["value"]) != entry["value"]:
                    text += f" [{entry['low']:{digits}}, {entry['high']:{digits}}]"
                rows.append((name, entry["value"], text))
                learns = "learns" if method in LEARNERS else "bound" * (method == "optimum")
                kinds |= {name: "paper" if ours else learns}
        return bars(rows, label, {name: kind for name, kind in kinds.items() if kind})

    return draw


PICTURES: dict[str, Callable[[Any, str], str]] = {
    "layouts": two_layouts, "alexnet": one_layout, "game": _game, "chips": _chips,
    "credits": _chips, "race": _race, "claims": _claims,
    "chips-ladder": _stored(
        "mcm.fresh", "all", "improvement",
        {"greedy-careful": "careful greedy, 1 partition", "random": "random search",
         "rl-sample-credit": "the policy, one credit", "rl": "the policy, a credit per op",
         "sa-balanced": "annealing from an even split", "climb": "a climb by pushes, made since",
         "optimum": "the optimum"},
        ".2f",
    ),
    "race-ladder": _stored(
        "regal.test", "synthetic-runtime", "gap_percent",
        {"paper:brkga": "the paper's genetic algorithm", "paper:regal": "the paper's REGAL",
         "brkga": "genetic algorithm", "regal-average": "REGAL, average advice", "regal": "REGAL",
         "spectral-law": "cut by an eigenvector", "local-search": "local search",
         "spectral-local-search": "the cut, then local search"},
        ".1f",
    ),
}  # fmt: skip


def readme_picture(data: dict[str, Any]) -> str:
    """The two layouts as a file of their own."""
    label = (
        "AlexNet's training step in fast memory: the compiler's layout, and the best mapping found"
    )
    style = (
        "<style>text{font:12px"
        " sans-serif;fill:#222}.lm-strong{font-weight:700}.lm-room{fill:#eef1f4}</style>"
    )
    drawn = two_layouts(data, label).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, body = drawn.split(">", 1)
    return f'{head}>{style}<rect width="{WIDTH}" height="220" fill="#fff"/>{body}\n'
