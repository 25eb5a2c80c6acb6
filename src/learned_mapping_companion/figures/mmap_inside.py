"""Figures of what the agent's network knows: a search tree, imagined rewards, the value error."""

from collections.abc import Mapping

import numpy as np
from IPython.display import Markdown
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from learned_mapping.mmap.rules.actions import ACTION_NAMES
from learned_mapping.style import COLUMN_INCHES, INK, PALETTE, Picture
from learned_mapping_companion.figures import charts
from learned_mapping_companion.figures.charts import Row, Rows
from learned_mapping_companion.figures.schematics import Canvas
from learned_mapping_companion.table import by

ACTION_COLOURS = (PALETTE[0], PALETTE[2], PALETTE[7])  # Of Copy, NoCopy and Drop.
NODE = (0.98, 0.5)  # Inches.


def search_tree(tree: Row) -> Picture:
    """The tree of one decision, of a row ``tree``, the root at the left: each node's action, visits
    and value."""
    nodes = tree["nodes"]
    children: dict[int, list[int]] = {}
    for n, node in enumerate(nodes):
        children.setdefault(node["parent"], []).append(n)
    depth = {0: 0}
    for n, node in enumerate(nodes[1:], 1):
        depth[n] = depth[node["parent"]] + 1
    leaves: list[int] = []
    height: dict[int, float] = {}

    def place(n: int) -> float:
        below = [
            place(child) for child in sorted(children.get(n, []), key=lambda c: nodes[c]["action"])
        ]
        if not below:
            leaves.append(n)
        height[n] = float(np.mean(below)) if below else float(len(leaves) - 1)
        return height[n]

    place(0)
    step = min((COLUMN_INCHES - NODE[0] - 0.1) / max(max(depth.values()), 1), 1.5)
    draw = Canvas(0.3 + 0.62 * len(leaves))

    def at(n: int) -> tuple[float, float]:
        return 0.05 + NODE[0] / 2 + step * depth[n], 0.15 + 0.62 * (len(leaves) - 0.5 - height[n])

    for n, node in enumerate(nodes):
        x, y = at(n)
        if n:
            before = at(node["parent"])
            ends = np.array([(before[0] + NODE[0] / 2, before[1]), (x - NODE[0] / 2, y)])
            draw.axes.plot(
                *ends.T,
                color=ACTION_COLOURS[node["action"]],
                linewidth=0.8 + 0.5 * node["visits"],
                alpha=0.8,
            )
        title = "now" if n == 0 else ACTION_NAMES[node["action"]]
        colour = INK if n == 0 else ACTION_COLOURS[node["action"]]
        visits = f"{node['visits']} visit" + "s" * (node["visits"] != 1)
        draw.box(x, y, *NODE, title, f"{visits}, {node['value']:+.2f}", colour, 6.4)
    return draw.figure


def imagined(rows: Rows) -> Figure:
    """Imagined against true rewards, a panel per program: one decision ahead, and as far as was
    imagined. Axes are linear near 0, where most rewards are, and logarithmic from 1 on, so that the
    few large ones are there too."""
    programs = by(charts.of(rows, "reward_correlation"), "instance")
    figure, panels = charts.facets(programs, 0.5, 2.4)
    for axes, _, panel_rows in panels:
        for row, colour in zip((panel_rows[-1], panel_rows[0]), (PALETTE[4], PALETTE[0])):
            points = np.array(row["pairs"])
            ahead = f"{row['step']} ahead" + (
                f", rank corr. {row['value']:.2f}" if row["value"] is not None else ""
            )
            axes.scatter(*points.T, s=9, color=colour, linewidth=0, alpha=0.7, label=ahead)
        ends = [pair for row in panel_rows for step in row["pairs"] for pair in step]
        low, high = 1.3 * min(*ends, -0.1), 1.3 * max(*ends, 0.1)
        axes.plot([low, high], [low, high], color=INK, linewidth=0.8, zorder=0)
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_yscale("symlog", linthresh=1.0)
        wide = (-10.0, -1.0, 0.0, 1.0, 10.0) if high - low > 2.0 else (-0.5, 0.0, 0.5)
        ticks = [tick for tick in wide if low <= tick <= high]
        axes.set(xlim=(low, high), ylim=(low, high))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set(ticks=ticks, ticklabels=[f"{tick:g}" for tick in ticks])
        axes.legend(loc="upper left", fontsize=7.5, handletextpad=0.2)
    figure.supxlabel("reward of the decision (units)", fontsize=9.5)
    figure.supylabel("reward that the model imagines", fontsize=9.5)
    return figure


def value_errors(rows: Rows) -> Figure:
    """Error of the network's value, in percent of the possible saving, and entropy of the policy
    over the updates."""
    labels = {
        "value_error": "value error (% of the saving)",
        "entropy": "entropy of the policy (nats)",
    }
    figure, panels = _trainings(rows, labels, 2.9, "updates")
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    return figure


FIRST_GAMES = 20  # Of one training: before, a point is of a handful of games.


def dead_ends(rows: Rows) -> Figure:
    """The agent's training where there are dead ends: those of a game, and the mean return, over
    the games played; with Drop-backup, or as a label says without."""
    labels = {"dead_ends": "dead ends a game", "mean_return": "mean return"}
    figure, panels = _trainings(rows, labels, 2.6, "games")
    for axes in panels:
        axes.set(xscale="log", xlim=(FIRST_GAMES, None))
    return figure


def _trainings(
    rows: Rows, labels: Mapping[str, str], height: float, across: str
) -> tuple[Figure, list[Axes]]:
    """A panel per metric, which its label names, and in each a line per training."""
    figure, panels = charts.new_panels(len(labels), height=height)
    for axes, (metric, label) in zip(panels, labels.items()):
        for row, colour in zip([row for row in charts.of(rows, metric) if "curve" in row], PALETTE):
            without = ", without Drop-backup" if row["method"] == "muzero-no-backup" else ""
            y = np.array(row["curve"]["y"]) * (100.0 if metric == "value_error" else 1.0)
            axes.plot(row["curve"]["x"], y, color=colour, label=row["instance"] + without)
        axes.set(xlabel=across, ylabel=label)
    return charts.finish(figure, ncols=2), panels


def most_changed(rows: Rows) -> Row:
    """The row ``tree`` of `mmap.inside` at whose root the search moved the policy furthest."""
    trees = [row for row in rows if row["metric"] == "tree"]
    return max(
        trees,
        key=lambda tree: sum(
            abs(after - head) for after, head in zip(tree["policy"], tree["head"])
        ),
    )


def tree_words(tree: Row) -> Markdown:
    """The change that a search made at a decision, and whether it was right: the actions were
    played out exactly."""
    after, head, exact = tree["policy"], tree["head"], tree["exact"]
    legal = [action for action in range(3) if exact[action] is not None]
    chosen = max(legal, key=lambda action: after[action])
    best = max(legal, key=lambda action: (exact[action], action == chosen))
    lost = exact[best] - exact[chosen]
    moves = {2: "both moves", 3: "all three moves"}[len(legal)]
    given = (
        f"gives {ACTION_NAMES[chosen]} a probability of {after[chosen]:.2f}, and the network alone"
        f" {head[chosen]:.2f}"
    )
    wrong = (
        f"the search prefers {ACTION_NAMES[chosen]}, which costs"
        f" {f'{lost:.1f}' if lost >= 0.1 else 'less than 0.1'} average savings"
    )
    return Markdown(
        f"{tree['instance']}, buffer {tree['buffer']}: of all decisions looked at, on all programs,"
        f" this is where the search changes the policy most. It {given}. We played {moves} out,"
        f" with the rest of the game as it was. {ACTION_NAMES[best]} is right, and"
        f" {'the search chooses it' if chosen == best else wrong}."
    )
