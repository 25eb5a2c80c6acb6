"""Results of paper 1 as figures: rewards, speed, the compiler, costs; the data."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from learned_mapping.programs.program import Program
from learned_mapping.style import GRID, INK, PALETTE, PHONE_INCHES, new_figure
from learned_mapping_companion.figures import charts
from learned_mapping_companion.figures.charts import (
    ROW_INCHES,
    Rows,
    bars,
    method_colour,
    name_rows,
)
from learned_mapping_companion.mmap.bench import Standing
from learned_mapping_companion.mmap.speedup import leading_pair
from learned_mapping_companion.table import by

RETURN = "return (share of the possible saving)"
ROOM = 0.2
"""Return from which on a bar has room for its number."""
LUMINANCE, PALE = (0.299, 0.587, 0.114), 0.6
"""The luminance of red, green and blue, and the one from which on a bar's number is dark."""
STAGES = colormaps["Blues"]  # From the first games of a training to its last.
GROUP_COLOURS = {"best": PALETTE[0], "worst": PALETTE[1]}


def _of(rows: Rows, metric: str) -> Rows:
    return [row for row in charts.of(rows, metric) if row["instance"] != "all"]


def curves(
    rows: Rows,
    bounds: Mapping[str, float] | None = None,
    *,
    metric: str = "return",
    x_label: str = "CPU seconds",
) -> Figure:
    """Best return so far over time or games, a panel per program, a line per method, the spread of
    the seeds shaded. The bound of a program is a return that no game exceeds."""
    programs = by((row for row in _of(rows, metric) if "curve" in row), "instance")
    figure, panels = charts.facets(programs, 0.6, 2.4)
    for axes, instance, panel_rows in panels:
        right = max(row["curve"]["x"][-1] for row in panel_rows)
        for row in panel_rows:
            look = {"colour": method_colour(row["method"]), "label": row["method"]}
            points = [
                np.array(row["curve"].get(name, row["curve"]["y"]))
                for name in ("x", "y", "low", "high")
            ]
            x, y, low, high = (column[points[1] > 0] for column in points)
            if not len(y):
                continue
            charts.curve(axes, x, y, low, high, **look)
            if row["n"] == 1:  # a rule is done within moments: its result as a level from there
                axes.plot([x[-1], right], [y[-1]] * 2, color=look["colour"], linestyle=":")
        if bounds and instance in bounds:
            axes.axhline(bounds[instance], color=INK, linestyle="--", linewidth=1.2, label="bound")
        axes.set_xscale("log")
        # two decades, or the smaller ticks are named too
        axes.set_xlim(min(axes.get_xlim()[0], right / 100), right)
    return charts.finish(figure, x_label, RETURN)


def returns(rows: Rows, paper: Rows = (), bounds: Mapping[str, float] | None = None) -> Figure:
    """Final returns, a panel per program: bars with 95% intervals, a line for the bound, rings for
    the paper's.

    A negative return, of placements that slow the program down, is a bar of no length with its
    number beside it.
    """
    rows = _of(rows, "return")
    programs, methods = by(rows, "instance"), charts.distinct(rows, "method")
    figure, panels = charts.facets(
        programs, 0.7, 0.5 + 0.26 * len(methods), sharey=True, sharex=True
    )
    for axes, instance, panel_rows in panels:
        places = [methods.index(row["method"]) for row in panel_rows]
        bars(
            axes,
            places,
            [row if row["value"] > 0 else {**row, "value": 0.0} for row in panel_rows],
            0.8,
        )
        for place, row in zip(places, panel_rows):
            within = row["value"] > ROOM
            dark = np.dot(to_rgb(method_colour(row["method"])), LUMINANCE) < PALE
            x, colour = (
                (0.01, "white" if dark else INK) if within else (max(row["value"], 0.0) + 0.03, INK)
            )
            axes.text(
                x,
                place,
                f"{row['value']:.3f}",
                va="center",
                fontsize=8,
                color=colour,
                fontweight="bold",
            )
        for row in paper:
            if row["instance"] == instance and row["method"] in methods:
                place = methods.index(row["method"])
                axes.plot(
                    row["value"],
                    place,
                    "o",
                    markerfacecolor="white",
                    markeredgecolor=INK,
                    markersize=5,
                )
        if bounds and instance in bounds:
            axes.axvline(bounds[instance], color=INK, linestyle="--", linewidth=1.2)
        name_rows(axes, methods)
        axes.set(xlim=(0, 1.02))
    figure.supxlabel(
        "return; dashed: no game can do better; rings: the paper's numbers", fontsize=9.5
    )
    return figure


def drop_backup(rows: Rows) -> Figure:
    """Random play of `mmap.dropbackup`: the share of games with a dead end, where there are any."""
    lost = sorted(_of(rows, "lost"), key=lambda row: -row["value"])
    met = [row for row in lost if row["value"] > 0]
    figure, axes = new_figure(width=PHONE_INCHES, height=3.2)
    look = {"color": method_colour("random"), "error_kw": {"linewidth": 1.0}}
    axes.bar(range(len(met)), [row["value"] for row in met], 0.6, yerr=charts.errors(met), **look)
    programs, those = ({row["instance"].split(", ")[0] for row in rows} for rows in (lost, met))
    axes.set_title(f"random play: none on {len(programs - those)} of {len(programs)} programs")
    names = [row["instance"].replace(", ", ",\n").replace(" the", "\nthe") for row in met]
    axes.set_xticks(
        range(len(met)), [name.replace("_", "_\n") if len(name) > 14 else name for name in names]
    )
    axes.set_ylabel("share of games with a dead end")
    axes.grid(False, axis="x")
    return figure


def speedups(rows: Rows, methods: tuple[str, str] | None = None) -> Figure:
    """Paper 1's Figure 10: a line per program, fastest first: a method's bar from 1 on, pale where
    everything in slow memory is faster than the compiler's mapping too, and another's ring; the two
    of `leading_pair`, where none are named. The faster half is on the left."""
    by_method = {
        (row["method"], row["instance"]): row
        for row in rows
        if row["metric"] == "speedup" and row["instance"] != "all"
    }
    method, other = methods or leading_pair({"rows": rows})
    ordered = [row for (name, _), row in by_method.items() if name == method]
    ordered.sort(key=lambda row: (-row["value"], row["instance"]))
    easy = {
        name for (known, name), row in by_method.items() if known == "hbm" and row["value"] > 1.0
    }
    half = -(-len(ordered) // 2)
    figure, panels = charts.new_panels(2, height=1.2 + 1.1 * ROW_INCHES * half, sharex=True)
    for axes, part in zip(panels, (ordered[:half], ordered[half:])):
        names = [row["instance"] for row in part]
        for pale in (False, True):
            places = [i for i, name in enumerate(names) if (name in easy) == pale]
            look = {"color": method_colour(method), "alpha": 0.4 if pale else 1.0}
            label = "where no mapping at all is faster too" if pale else method
            if places:
                bars(axes, places, [part[i] for i in places], 0.7, start=1.0, label=label, **look)
        rings = [by_method.get((other, name), {"value": np.nan})["value"] for name in names]
        look = {"facecolor": "white", "edgecolor": method_colour(other), "zorder": 3}
        axes.scatter(rings, range(len(names)), s=14, marker="o", label=other, **look)
        axes.axvline(1.0, color=INK, linewidth=1.0)
        name_rows(axes, names, small=True)
        axes.tick_params(axis="y", labelsize=7.5)
    return charts.finish(figure, "speedup over the compiler's mapping", ncols=3)


def return_against_latency(rows: Rows) -> Figure:
    """Paper 1's Figure 6, best programs above: a dot per game, darker ones later in their training;
    correlations."""
    rows = [row for row in rows if "group" in row]
    groups = {group: by(members, "instance") for group, members in by(rows, "group").items()}
    columns = max(map(len, groups.values()))
    figure, grid = new_figure(len(groups), columns, height=0.6 + 2.0 * len(groups), squeeze=False)
    words = {"correlation": "r", "near_correlation": "near"}
    for line, (group, programs) in zip(grid, groups.items()):
        for axes in line[len(programs) :]:
            axes.set_visible(False)
        for axes, (name, panel_rows) in zip(line, programs.items()):
            points = np.array(
                [
                    (row["return"], 1e-6 * row["value"])
                    for row in panel_rows
                    if row["metric"] == "cycles"
                ]
            )
            trainings = len(
                {row.get("training") for row in panel_rows if row["metric"] == "cycles"}
            )
            stages = np.linspace(0.25, 1.0, len(points) // trainings)
            axes.scatter(
                *points.T, s=24, c=STAGES(np.tile(stages, trainings)), edgecolor=INK, linewidth=0.4
            )
            numbers = {
                row["metric"]: row["value"] for row in panel_rows if row["value"] is not None
            }
            corner = [
                f"{word} {numbers[metric]:.2f}"
                for metric, word in words.items()
                if metric in numbers
            ]
            axes.set_title(name, fontsize=8.5, color=GROUP_COLOURS.get(group, INK))
            axes.text(
                0.97,
                0.95,
                "\n".join(corner),
                transform=axes.transAxes,
                ha="right",
                va="top",
                fontsize=8,
            )
            axes.tick_params(labelsize=7)
    figure.supxlabel(RETURN, fontsize=9.5)
    figure.supylabel("million cycles", fontsize=9.5)
    return figure


def learning(trainings: Rows, levels: Mapping[str, Mapping[str, float]]) -> Figure:
    """The agent learns: returns over CPU seconds of `mmap.runs.trainings`, a panel per program, a
    line per training; what reaches which return without learning is drawn across, by program.

    Solid: the mean of the whole games at the low temperature; dotted: the best whole game so far.
    """
    figure, panels = charts.facets(by(trainings, "program"), 0.6, 2.6)
    for axes, program, records in panels:
        for record in records:
            for column, style in (("cold", "-"), ("best", ":")):
                points = [
                    (row["cpu_s"], row[column])
                    for row in record["curve"]
                    if row[column] is not None
                ]
                look = {"color": method_colour(record["method"]), "label": record["method"]}
                axes.plot(*np.array(points).reshape(-1, 2).T, style, **look)
        for name, value in levels.get(program, {}).items():
            axes.axhline(
                value, color=method_colour(name), linestyle="--", linewidth=1.2, label=name
            )
        _log_sizes(axes, (1, 3), "{x:g}")
    return charts.finish(figure, "CPU seconds", RETURN)


def latency_table(program: Program, instruction: str) -> Figure:
    """The latency table of one instruction: a bar per set of its buffers in fast memory, dots
    saying which they are."""
    t = program.instruction_names.index(instruction)
    table = program.latency_s[program.latency_offsets[t] : program.latency_offsets[t + 1]] * 1e6
    buffers = [
        b for b in range(*program.buffer_offsets[t : t + 2].tolist()) if program.buffer_bit[b] >= 0
    ]
    figure, axes = new_figure(height=0.9 + 0.24 * len(table))
    order = np.argsort(-table, kind="stable")
    axes.barh(
        range(len(table)),
        table[order],
        0.7,
        color=[PALETTE[0] if entry else INK for entry in order],
    )
    for place, entry in enumerate(order):
        axes.text(table[entry] * 1.01, place, f"{table[entry]:.1f}", va="center", fontsize=8)
    inside = [
        "".join("●" if e >> int(program.buffer_bit[b]) & 1 else "○" for b in buffers)
        for e in order.tolist()
    ]
    name_rows(axes, inside)
    words = (
        f"{'writes' if program.buffer_is_output[b] else 'reads'}"
        f" {program.buffer_bytes[b] / 2**20:.2f} MiB"
        for b in buffers
    )
    axes.set_xlabel(f"microseconds of {instruction}; ● in fast memory: {', '.join(words)}")
    axes.set_xlim(0, 1.12 * float(table.max()))
    return figure


def two_prices(rows: Rows) -> Figure:
    """Speedups over the compiler's mapping, a dot per mapping: by the latency model across, by the
    compiler upwards."""
    values = {
        (row["instance"], row["method"], row["metric"]): row["value"]
        for row in rows
        if row["instance"] != "all"
    }
    figure, axes = new_figure(width=PHONE_INCHES, height=3.8)
    for method in ("hbm", "greedy-tuned", "priced", "edit-search", "muzero"):
        names = [name for name, other, metric in values if other == method and metric == "speedup"]
        points = [
            [values[n, method, metric] for n in names] for metric in ("speedup_model", "speedup")
        ]
        if names:
            axes.scatter(*points, s=22, color=method_colour(method), linewidth=0, label=method)
    low, high = (
        min(axes.get_xlim()[0], axes.get_ylim()[0]),
        max(axes.get_xlim()[1], axes.get_ylim()[1]),
    )
    axes.plot([low, high], [low, high], color=GRID, linewidth=1, zorder=0)
    axes.axhline(1.0, color=INK, linewidth=0.8)
    axes.axvline(1.0, color=INK, linewidth=0.8)
    axes.set(xlabel="speedup by our latency model", ylabel="speedup by the compiler's cycles")
    return charts.finish(figure)


def buffers(rows: Rows, paper: Rows) -> Figure:
    """Paper 1's Figure 9: a bar per workload on a logarithmic scale, its colour the family; the
    paper's range as a band, its number for a workload of ours as a diamond."""
    names, counts = ([row[key] for row in rows] for key in ("instance", "value"))
    printed = {row["instance"]: row["value"] for row in paper}
    figure, axes = new_figure(height=1.0 + ROW_INCHES * len(names))
    families = sorted({row["family"] for row in rows})
    colours = {family: PALETTE[i % len(PALETTE)] for i, family in enumerate(families)}
    least, most = printed["smallest"], printed["largest"]
    axes.axvspan(least, most, color=GRID, alpha=0.55, linewidth=0, zorder=0)
    axes.barh(
        range(len(names)),
        counts,
        color=[colours[row["family"]] for row in rows],
        height=0.72,
        zorder=2,
    )
    for place, (name, count) in enumerate(zip(names, counts)):
        # Where the paper's diamond may stand at the bar's end, the number steps aside.
        x = 1.16 * max(count, printed[name]) if name in printed else 1.05 * count
        axes.text(x, place, f"{count:,}", va="center", fontsize=6.5, zorder=4)
    marked = [place for place, name in enumerate(names) if name in printed]
    diamond = {"marker": "D", "s": 20, "color": "white", "edgecolor": INK, "zorder": 3}
    diamonds = axes.scatter([printed[names[place]] for place in marked], marked, **diamond)
    diamonds.set_label("the paper's program of this name")
    _log_sizes(axes)
    axes.set_xlim(min(100, min(counts) / 1.5), max(*counts, most) * 1.8)
    name_rows(axes, names, small=True)
    axes.set_xlabel("buffers")
    handles = [Patch(color=colour, label=family) for family, colour in colours.items()]
    handles.append(Patch(color=GRID, label=f"the paper's {least:,} to {most:,}"))
    figure.legend(handles=[*handles, diamonds], loc="outside upper center", ncols=3)
    return figure


def sizes_figure(groups: Mapping[str, np.ndarray]) -> Figure:
    """The sizes of the members of a set, by label -> [members] sizes in ops: for each size the
    share no larger."""
    figure, axes = new_figure(width=PHONE_INCHES, height=2.6)
    for i, (label, sizes) in enumerate(groups.items()):
        ordered = np.sort(np.asarray(sizes, dtype=float))
        share = np.arange(len(ordered) + 1) / len(ordered)
        look = {"where": "post", "color": PALETTE[i % len(PALETTE)]}
        axes.step([ordered[0], *ordered], share, label=f"{label} ({len(ordered):,})", **look)
    _log_sizes(axes)
    axes.set(xlabel="ops", ylabel="share of the set, no larger", ylim=(0, 1.02))
    axes.legend(loc="lower right")
    return figure


def _log_sizes(axes: Axes, subs: Sequence[float] = (1, 2, 5), form: str = "{x:,.0f}") -> None:
    """A logarithmic scale across, its ticks written as plain numbers."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(StrMethodFormatter(form))
    axes.xaxis.set_minor_formatter(NullFormatter())


def bench_gaps(table: Mapping[str, Standing]) -> Figure:
    """The gap of the best mapping known of each program to its bound, in percent of the bound,
    smallest first."""
    gaps = sorted(
        (100.0 * max(1.0 - row.best / row.bound, 0.0), name) for name, row in table.items()
    )
    figure, axes = new_figure(width=PHONE_INCHES, height=2.6)
    values, place = [gap for gap, _ in gaps], range(1, len(gaps) + 1)
    axes.bar(place, values, color=PALETTE[0], width=0.8)
    look = {"ha": "right", "va": "top", "fontsize": 8, "textcoords": "offset points"}
    axes.annotate(gaps[-1][1], (len(gaps), gaps[-1][0]), (-8, 0), **look)
    axes.set(
        xlabel="programs, smallest gap first",
        ylabel="gap to the bound (%)",
        xlim=(0, len(gaps) + 1),
    )
    axes.grid(axis="x", visible=False)
    return figure
