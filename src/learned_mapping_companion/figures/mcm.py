"""Paper 2's figures: broken rules, gaps to the optimum, searches by samples, measured time, loads
and traffic."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle

from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.credit import SHARP, flow_gains, spread
from learned_mapping.mcm.draw import draw_partition
from learned_mapping.mcm.methods import LEARNERS
from learned_mapping.mcm.partition import Partition
from learned_mapping.mcm.rules.constraints import EXAMPLE_PACKAGE, example_graph, obeys_acyclic
from learned_mapping.mcm.searches.moves import move_arrays, single_moves
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.style import GRID, INK, PALETTE, PHONE_INCHES, byte_unit, new_figure
from learned_mapping_companion import results
from learned_mapping_companion.figures import charts
from learned_mapping_companion.figures.charts import Rows, method_colour

OK_COLOUR, BAD_COLOUR = PALETTE[2], PALETTE[1]
# A chip's width and height, in units of the distance between chips and of the longest load.
BOX, LOAD = 0.74, 1.0
WIDEST_POINTS = 7.0  # Width of the largest traffic's arc.
UNMOVED = 1e-6  # A push below this is none.
MOST_LABELLED = 12  # With more chips there is no room for numbers.
OPERATIONS, LINKS, SLOWEST = PALETTE[0], PALETTE[4], PALETTE[1]


def broken_example(result: Mapping[str, Any]) -> Figure:
    """A panel per partition of a result of ``mcm.fig2``: the graph on its chips, the validator's
    verdict underneath."""
    verdicts = [row for row in result["rows"] if row["metric"] == "verdict"]
    figure, panels = charts.new_panels(len(verdicts), height=2.3 * -(-len(verdicts) // 2))
    for panel, row in zip(panels, verdicts):
        draw_partition(
            panel, example_graph(), np.asarray(row["assignment"], int), EXAMPLE_PACKAGE.chips
        )
        panel.set_title(row["method"], fontsize=9.5)
        rule = row["value"].partition(":")[0]  # the word "valid" where none is broken
        panel.set_xlabel(rule, color=OK_COLOUR if rule == "valid" else BAD_COLOUR, fontsize=9)
    return figure


def gap_bars(result: Mapping[str, Any], methods: Sequence[str]) -> Figure:
    """The time of a result over that of the optimum, by instance and method, on a logarithmic axis
    from 1."""
    rows = [
        {**row, **{end: 1 + row[end] / 100 for end in ("value", "low", "high")}}
        for row in result["rows"]
        if row["metric"] == "gap_percent" and row["method"] != "optimum"
    ]
    instances = charts.distinct(rows, "instance")
    figure, axes = new_figure(height=1.2 + 0.62 * len(instances))
    step = 0.8 / max(len(methods), 1)  # the bars of an instance take 0.8 of its room
    for i, method in enumerate(methods):
        by_instance = {row["instance"]: row for row in rows if row["method"] == method}
        bar_rows = [by_instance[name] for name in instances if name in by_instance]
        places = (
            np.array([instances.index(row["instance"]) for row in bar_rows])
            + (i - (len(methods) - 1) / 2) * step
        )
        charts.bars(axes, places, bar_rows, 0.92 * step, start=1, label=method)
        for place, row in zip(places, bar_rows):
            charts.write_beside(axes, f"{row['value']:.2f}", max(row["high"], row["value"]), place)
    axes.set(xscale="log", xlabel="time per result over the optimum's (1 = optimum)")
    charts.name_rows(axes, instances)
    charts.plain_ticks(
        axes, [t for t in (1, 1.5, 2, 3, 4, 6, 8, 12) if t <= axes.get_xlim()[1] * 1.05]
    )
    axes.set_xlim(1, axes.get_xlim()[1] * 1.25)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(methods))
    return figure


def _sample_curves(rows: Rows, levels: Mapping[str, Mapping[str, Any]], **words: Any) -> Figure:
    """A line per row with a curve, against partitions tried, and a level for each row without whose
    method has one.

    Learners are solid, searches dashed, with a dot between where they begin balanced, rules dotted,
    with their names on them, where fewer curves are, or in the legend.
    The legend has the order of the ends, column by column.
    """
    figure, axes = new_figure(width=PHONE_INCHES, height=2.9 + 0.09 * len(rows))
    drawn = [row["curve"]["y"] for row in rows if "curve" in row]
    for row in rows:
        colour = method_colour(row["method"])
        if "curve" in row:
            learns = row["method"] in LEARNERS and not row["method"].endswith("-frozen")
            style = (
                "-"
                if learns
                else "-."
                if row["method"].endswith(("-balanced", "-frozen"))
                else "--"
            )
            axes.plot(
                row["curve"]["x"], row["curve"]["y"], style, color=colour, label=row["method"]
            )
        elif row["method"] in levels:
            look = {"color": colour} | levels[row["method"]]
            axes.axhline(row["value"], **look)
            if "label" not in look:
                gaps = np.abs([[y[0] - row["value"], y[-1] - row["value"]] for y in drawn])
                left = gaps[:, 0].min() > gaps[:, 1].min()
                axes.annotate(
                    row["method"], (0.01 if left else 0.99, row["value"]), (0, 2),
                    textcoords="offset points", xycoords=("axes fraction", "data"),
                    ha="left" if left else "right", fontsize=7.5,
                )  # fmt: skip
    axes.set(xscale="log", xlabel="partitions tried", **words)
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    lines.sort(key=lambda line: -line.get_ydata()[-1])
    figure.legend(handles=lines, loc="outside lower center", ncols=2)
    return figure


def search_curves(result: Mapping[str, Any], instance: str) -> Figure:
    """Best throughput against samples for the searches, with the rules as lines across."""
    rows = [
        row
        for row in result["rows"]
        if row["metric"] == "throughput" and row["instance"] == instance
    ]
    names = {row["method"] for row in rows} | {"optimum", "greedy-careful"}
    levels = {name: {"linewidth": 1.3, "linestyle": ":", "label": name} for name in names}
    levels["optimum"]["linestyle"] = "-."
    levels["greedy-careful"]["linewidth"] = 4.0  # it may lie under the optimum's
    return _sample_curves(rows, levels, ylabel="results per second", ylim=(0, None), title=instance)


def curves(
    result: Mapping[str, Any], metric: str, y_label: str, rules: tuple[str, ...] = ()
) -> Figure:
    """Figures 5 and 6: the curves of the rows of a metric that carry one; dotted lines across for
    rules without."""
    rows = [
        row
        for row in result["rows"]
        if row["metric"] == metric and ("curve" in row or "chips" not in row)
    ]
    levels = {rule: {"color": INK, "linewidth": 1, "linestyle": ":"} for rule in rules}
    return _sample_curves(rows, levels, ylabel=y_label)


def best_so_far(curve: Mapping[str, Any]) -> Figure:
    """The best throughput by samples, of a `Result`'s curve."""
    figure, axes = new_figure(width=PHONE_INCHES, height=2.4)
    axes.step(curve["samples"], curve["y"], where="post", color=method_colour("rl"))
    axes.set(xlabel="partitions tried", ylabel="results per second", ylim=(0.0, None))
    return figure


def credits_of_ops(graph: ComputationGraph, assignment: np.ndarray, package: ChipPackage) -> Figure:
    """Each chip's time under a valid partition, and where each op is pushed by ``flow`` and by
    ``exact``.

    The push is the advantage of the chip above less that of the chip below, before anything is
    learned. With one credit for the sample all ops would be at one height, and none would be told a
    direction.
    """
    model, y = ChipModel(graph, package), np.asarray(assignment, int)
    latencies = model.latencies(y)
    exact, allowed = single_moves(move_arrays(model), y, latencies)
    even = np.full((1, len(y), 3), 1 / 3)
    kinds = {
        "flow": flow_gains(model.op_seconds, y[None], latencies[None]),
        "exact": (np.tanh(exact / SHARP)[None], allowed[None]),
    }
    figure, panels = new_figure(3, 1, width=PHONE_INCHES, height=4.6, sharex=True)
    panels[0].bar(range(package.chips), latencies * 1e3, color=PALETTE[0])
    panels[0].set(ylabel="ms per result", title="time of each chip")
    within = (
        np.array([np.count_nonzero(y[:op] == y[op]) for op in range(len(y))]) / np.bincount(y)[y]
    )
    for axes, (kind, (gains, possible)) in zip(panels[1:], kinds.items()):
        advantage, _ = spread(gains, possible, even, 1.0)
        push = advantage[0, :, 2] - advantage[0, :, 0]
        axes.axhline(0, color=INK, linewidth=1)
        colours = np.where(np.abs(push) < UNMOVED, GRID, np.where(push > 0, PALETTE[2], PALETTE[1]))
        axes.scatter(y - 0.35 + 0.7 * within, push, s=14, c=list(colours), zorder=2)
        axes.set(ylabel="push", title=f"{kind}: up is towards a later chip")
    panels[-1].set(xlabel="chip; its ops from left to right")
    return figure


def predicted_against_measured(result: Mapping[str, Any]) -> Figure:
    """The valid partitions of the first seed of a result of ``mcm.fig7``, run times over the
    smallest of their kind."""
    (row,) = (r for r in result["rows"] if "scatter" in r)
    predicted, measured = (np.array(row["scatter"][name]) for name in ("predicted", "measured"))
    valid = measured > 0
    x, y = predicted[valid] / predicted[valid].min(), measured[valid] / measured[valid].min()
    figure, axes = new_figure(width=PHONE_INCHES, height=3.6)
    axes.plot(
        x, y, "o", color=PALETTE[0], alpha=0.35, markersize=3, markeredgewidth=0, rasterized=True
    )
    end = max(x.max(), y.max()) * 1.02
    axes.plot(
        [1, end], [1, end], color=INK, linewidth=1, linestyle="--", label="measured as predicted"
    )
    axes.set(
        xlabel="predicted run time over the smallest", ylabel="measured run time over the smallest"
    )
    axes.set_title(f"{valid.sum()} of a seed's {len(valid)} run, R = {np.corrcoef(x, y)[0, 1]:.3f}")
    axes.legend(loc="lower right")
    return figure


def method_bars(
    result: dict[str, Any],
    metric: str = "over_optimum",
    x_label: str = "throughput over the static optimum's",
    called: str = "{method}",
    level: float | None = 1.0,
    **options: Any,
) -> Figure:
    """A metric of each method, of the rows that have the cells of `options`; a dashed line at a
    level, such as the optimum's throughput."""
    rows = results.select(result, metric=metric, **options)
    figure, axes = new_figure(width=PHONE_INCHES, height=0.6 + 0.33 * len(rows))
    charts.bars(axes, range(len(rows)), rows, 0.8)
    for place, row in enumerate(rows):
        charts.write_beside(
            axes, f"{row['value']:.3f}" if row["value"] else "does not run", row["high"], place
        )
    if level is not None:
        axes.axvline(level, color=INK, linewidth=1, linestyle="--")
    axes.set(xlabel=x_label, xlim=(0, 1.18 * max(1.06, *(row["high"] for row in rows))))
    charts.name_rows(axes, [called.format(**row) for row in rows])
    return figure


def by_cards(counts: Sequence[int], parts: Sequence[Any], single: Sequence[Any]) -> Figure:
    """Answers for so many cards: results per second of whole copies and of the best partition, and
    the time of one run that is split."""
    alone_s = single[0].result.metrics["makespan_s"]
    figure, (left, right) = new_figure(1, 2, height=2.8)
    left.plot(counts, [count / alone_s for count in counts], label="whole copies")
    left.plot(counts, [a.result.metrics["throughput"] for a in parts], label="one partition")
    right.plot(counts, [1e3 * alone_s] * len(counts), label="one card")
    right.plot(counts, [1e3 * a.result.metrics["makespan_s"] for a in single], label="split")
    right.plot(counts, [1e3 * a.bound for a in single], "k:", label="nothing below")
    left.set(xlabel="cards", ylabel="results per second", ylim=0)
    right.set(xlabel="cards", ylabel="one run, ms", ylim=0)
    left.legend()
    right.legend()
    return figure


def door_dots(result: Mapping[str, Any]) -> Figure:
    """Of each function its FLOP and its bytes by a door over the trace's, a result of
    ``mcm.doors``; those that differ have their names."""
    rows = charts.of(result["rows"], "flop")
    doors = charts.distinct(rows, "method")
    figure, panels = charts.new_panels(2, height=2.2, sharey=True)
    for axes, cell, word in zip(panels, ("value", "bytes"), ("FLOP", "bytes")):
        for place, door in enumerate(doors):
            of_door = [row for row in rows if row["method"] == door]
            near = [row[cell] for row in of_door if row["alike"]]
            far = sorted((row[cell], row["instance"]) for row in of_door if not row["alike"])
            spread = np.linspace(-0.25, 0.25, len(near))
            axes.plot(near, place + spread, "o", color=PALETTE[0], markersize=2.2, alpha=0.5)
            for number, (across, name) in enumerate(far, 1):
                axes.plot(across, place, "o", color=PALETTE[1], markersize=3)
                side = 1 if number == len(far) else -1
                axes.annotate(
                    DOOR_NAMES[name], (across, place), (5 * side, 0), textcoords="offset points",
                    ha="left" if side > 0 else "right", va="center", fontsize=7.5,
                )  # fmt: skip
        axes.set(xlabel=f"{word} over the trace's", xscale="log", xlim=(0.4, 6))
        charts.plain_ticks(axes, (0.5, 1, 2, 4))
    charts.name_rows(panels[0], [DOORS[door] for door in doors])
    return figure


DOORS = {"text": "StableHLO", "cpu": "export, CPU", "tpu": "export, TPU", "cuda": "export, CUDA"}
DOOR_NAMES = {"sparse": "sparse", "conv_complex": "complex"}


def traffic(graph: ComputationGraph, assignment: np.ndarray) -> dict[tuple[int, int], int]:
    """(chip made on, last chip used on) -> bytes of all such tensors, of [N] chips that obey Eq. 2;
    what stays on its chip is left out."""
    bytes_between: dict[tuple[int, int], int] = {}
    for tensor in range(graph.num_tensors):
        first = int(assignment[graph.tensor_producer[tensor]])
        last = max((int(assignment[op]) for op in graph.consumers(tensor)), default=first)
        if last > first:
            bytes_between[first, last] = bytes_between.get((first, last), 0) + int(
                graph.tensor_bytes[tensor]
            )
    return bytes_between


def package_drawing(
    graph: ComputationGraph, partitions: Mapping[str, Partition], package: ChipPackage
) -> Figure:
    """A row of chips per partition, by title: a box is as high as the slowest chip of all, its fill
    the chip's own time. Raises `InputError` for edges that run back, or another number of chips."""
    model = ChipModel(graph, package)
    for title, partition in partitions.items():
        if partition.chips != package.chips or not obeys_acyclic(
            partition.assignment, graph.op_edges
        ):
            raise InputError(
                title, "assignment", f"is no partition over {package.chips} chips that obeys Eq. 2"
            )
    times = {title: model.latencies(p.assignment) for title, p in partitions.items()}
    moved = {title: traffic(graph, p.assignment) for title, p in partitions.items()}
    longest = max(float(t.max()) for t in times.values())
    largest = max((size for targets in moved.values() for size in targets.values()), default=1)
    unit, unit_name = byte_unit(largest)
    figure, grid = new_figure(
        len(partitions), 1, height=0.4 + 1.75 * len(partitions), squeeze=False
    )
    for axes, (title, partition) in zip(grid[:, 0], partitions.items()):
        links = model.link_seconds(partition.assignment)
        _chips(axes, times[title] - links, links, longest)
        _arcs(axes, moved[title], largest, unit if package.chips <= MOST_LABELLED else 0)
        slow = float(times[title].max())
        rate = f"{1 / slow:,.0f} results per second" if slow > 0 else "no time"
        axes.set_title(f"{title}: slowest chip {slow * 1e6:,.4g} µs, {rate}", loc="left")
    tensors = f"tensors, {unit_name}; widest {largest / unit:.3g}"
    handles = [
        Patch(color=OPERATIONS, label="operations, µs"),
        Patch(color=LINKS, label="links on both sides, µs"),
        Line2D([], [], color=SLOWEST, linewidth=2.2, label="slowest chip"),
        Line2D([], [], color=INK, linewidth=WIDEST_POINTS, alpha=0.55, label=tensors),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _chips(axes: Axes, operations: np.ndarray, links: np.ndarray, longest: float) -> None:
    """Boxes, filled from below by time on operations and then on links; times in µs inside."""
    chips, together = len(operations), operations + links
    scale = LOAD / longest if longest > 0 else 0.0
    slow = int(np.argmax(together))
    for c in range(chips):
        left = c - BOX / 2
        axes.add_patch(
            Rectangle((left, 0), BOX, operations[c] * scale, color=OPERATIONS, linewidth=0)
        )
        axes.add_patch(
            Rectangle(
                (left, operations[c] * scale), BOX, links[c] * scale, color=LINKS, linewidth=0
            )
        )
        edge, width = (SLOWEST, 2.2) if c == slow else (INK, 0.8)
        axes.add_patch(
            Rectangle((left, 0), BOX, LOAD, facecolor="none", edgecolor=edge, linewidth=width)
        )
        if chips <= MOST_LABELLED:
            ground = {"facecolor": INK, "alpha": 0.55, "linewidth": 0, "pad": 1.2}
            time = f"{together[c] * 1e6:.3g}"
            axes.annotate(time, (c, 0.06), ha="center", fontsize=8, color="white", bbox=ground)
    step = max(1, chips // MOST_LABELLED)
    axes.set(xlim=(-0.6, chips - 0.4), ylim=(-0.02, LOAD + 0.75), yticks=[])
    labelled = range(0, chips, step)
    axes.set_xticks(labelled, [f"chip {c}" if chips <= MOST_LABELLED else str(c) for c in labelled])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _arcs(axes: Axes, moved: Mapping[tuple[int, int], int], largest: int, unit: float) -> None:
    """An arc over the boxes per pair of chips, as wide as its share of the largest traffic; unit 0:
    no numbers."""
    for (a, b), size in sorted(moved.items()):
        start, end = (a + 0.16, LOAD + 0.02), (b - 0.16, LOAD + 0.02)
        look = {
            "arrowstyle": "-",
            "color": INK,
            "alpha": 0.55,
            "linewidth": max(WIDEST_POINTS * size / largest, 0.5),
        }
        bend = f"arc3,rad={-0.55 if b == a + 1 else -0.3}"
        axes.add_patch(FancyArrowPatch(start, end, connectionstyle=bend, **look))
        if unit:
            axes.annotate(
                f"{size / unit:.3g}", ((a + b) / 2, LOAD + 0.42), ha="center", fontsize=7.5
            )
