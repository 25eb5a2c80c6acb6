"""Paper 3's results as figures: gaps by method, gains by graph, limit, distance; seconds; laws."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from learned_mapping.hardware.drawing import drawing
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.searches.brkga import MutantLaw
from learned_mapping.style import INK, PHONE_INCHES, new_figure
from learned_mapping_companion.figures import charts
from learned_mapping_companion.figures.charts import method_colour, of
from learned_mapping_companion.table import by

DATASET_TITLES = {
    "traced-runtime": "traced graphs,\nrunning time",
    "traced-memory": "traced graphs,\npeak memory",
    "synthetic-runtime": "synthetic graphs,\nrunning time",
}
NETWORK_TITLES = {
    "traced-runtime": "network of traced graphs",
    "synthetic-runtime": "network of synthetic graphs",
}
DIAMOND = {"color": "white", "markeredgecolor": INK}  # What the paper has.
HISTOGRAM_STEP = 5.0  # Percent, width of a bar.
SPREAD = 0.13  # How far the methods of a distance stand from its line.


def gap_bars(result: dict[str, Any], methods: Sequence[str]) -> Figure:
    """Table 1 as bars, one panel per dataset: the gap to the best known, its interval, the paper's
    value as a mark."""
    ours, theirs = (by(of(result[part], "gap_percent"), "instance") for part in ("rows", "paper"))
    down = [
        m
        for m in methods
        if any(row["method"] == m for d in DATASET_TITLES for row in ours.get(d, ()))
    ]
    panels = {
        title: (ours[d], theirs.get(d, ())) for d, title in DATASET_TITLES.items() if d in ours
    }
    figure, drawn = charts.facets(panels, 1.5, 0.36 * len(down), 3, loc="left", sharey=True)
    for panel, _, rows in drawn:
        known, paper = ({row["method"]: row for row in series} for series in rows)
        bar_rows = [known.get(m, {"method": m, "value": 0.0}) for m in down]
        charts.bars(
            panel, range(len(down)), bar_rows, 0.66, error_kw={"linewidth": 1, "ecolor": INK}
        )
        marks = [(paper[m]["value"], i) for i, m in enumerate(down) if m in paper]
        if marks:
            panel.plot(*zip(*marks), "D", **DIAMOND, markersize=5, clip_on=False, zorder=5)
        reach = max(
            [*(row.get("high", row["value"]) for row in bar_rows), *(x for x, _ in marks), 1e-9]
        )
        for i, row in enumerate(bar_rows):
            said = f"{row['value']:.1f}" if "metric" in row else "–"
            panel.text(1.0, i, said, transform=panel.get_yaxis_transform(), ha="right", va="center")
        charts.name_rows(panel, down)
        panel.set(xlim=(0, 1.35 * reach), xlabel="gap to best known (%)")
    mark = Line2D([], [], marker="D", linestyle="", label="the paper, its graphs", **DIAMOND)
    figure.legend(handles=[mark], loc="outside lower right")
    return figure


def seconds_by_size(result: dict[str, Any]) -> Figure:
    """CPU seconds of every method against the number of ops, both axes logarithmic; the paper's
    mean as a line."""
    figure, axes = new_figure(width=PHONE_INCHES, height=3.6)
    rows = of(result["rows"], "seconds_by_size")
    for method, of_method in by(rows, "method").items():
        points = sorted((row["ops"], row["value"]) for row in of_method)
        axes.plot(*zip(*points), "o-", color=method_colour(method), markersize=4, label=method)
    for row in of(result["paper"], "seconds"):
        if row["method"] == "brkga":
            axes.axhline(row["value"], color=INK, linewidth=0.9, linestyle=":")
            label = f"paper, BRKGA, mean: {row['value']:g} s"
            place = {
                "xycoords": ("axes fraction", "data"),
                "xytext": (0, 3),
                "textcoords": "offset points",
            }
            axes.annotate(label, (0.01, row["value"]), **place, fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="ops in the graph", ylabel="CPU seconds, one core")
    charts.plain_ticks(
        axes, [tick for tick in (50, 200, 1000, 5000) if tick <= max(charts.distinct(rows, "ops"))]
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure


LEARNERS = ("regal", "regal-cloned", "regal-imitation", "spectral-law")
"""Methods that have a panel or dots of their own; spectral-law has learned nothing."""


def gains_by_distance(result: dict[str, Any]) -> Figure:
    """Improvement over BRKGA by distance from the training graphs; refusals in words."""
    rows = [row for row in result["rows"] if row["metric"] in ("improvement_percent", "refused")]
    methods = [name for name in LEARNERS if any(row["method"] == name for row in rows)]
    of_network = by(
        [{**r, **dict(zip(("network", "far"), r["instance"].split("/")))} for r in rows], "network"
    )
    distances = list(dict.fromkeys(row["instance"].partition("/")[2] for row in rows))
    panels = {
        title: of_network[name] for name, title in NETWORK_TITLES.items() if name in of_network
    }
    figure, drawn = charts.facets(
        panels, 1.1, 0.42 * len(distances), loc="left", sharex=True, sharey=True
    )
    for panel, _, panel_rows in drawn:
        panel.axvline(0, color=INK, linewidth=0.9)
        for k, name in enumerate(methods):
            offset, colour = SPREAD * (2 * k - len(methods) + 1), method_colour(name)
            of_method = [
                (distances.index(row["far"]) + offset, row)
                for row in panel_rows
                if row["method"] == name
            ]
            dots = [
                (y, row)
                for y, row in sorted(of_method, key=lambda distance: distance[0])
                if row["metric"] != "refused"
            ]
            values, dot_rows = [row["value"] for _, row in dots], [row for _, row in dots]
            look = {
                "fmt": "o",
                "color": colour,
                "markersize": 5,
                "elinewidth": 1.2,
                "capsize": 2,
                "label": name,
            }
            panel.errorbar(values, [y for y, _ in dots], xerr=charts.errors(dot_rows), **look)
            for y, row in of_method:
                if row["metric"] == "refused":
                    look = {"ha": "right", "va": "center", "color": colour, "fontsize": 8}
                    panel.text(
                        0.98, y, f"{name} refuses", transform=panel.get_yaxis_transform(), **look
                    )
        charts.name_rows(panel, [distance.replace("-", " ") for distance in distances])
        panel.set_xlabel("improvement over BRKGA (%)")
    return charts.finish(figure, loc="outside lower center", ncols=len(methods))


def improvement_histogram(result: dict[str, Any]) -> Figure:
    """Figure 2, left: how many test graphs gain how much over BRKGA; the paper's ends as marks."""
    by_method, marks = (
        by(of(result[part], "improvement_percent"), "method") for part in ("rows", "paper")
    )
    gains = {name: [row["value"] for row in group] for name, group in by_method.items()}
    marks = [row["value"] for rows in marks.values() for row in rows]
    everything = [value for values in (*gains.values(), marks) for value in values]
    first = HISTOGRAM_STEP * np.floor(min(everything) / HISTOGRAM_STEP)
    edges = np.arange(first, max(everything) + HISTOGRAM_STEP, HISTOGRAM_STEP)
    panels = {f"{name}\n{min(v):+.1f} to {max(v):+.1f} %": (name, v) for name, v in gains.items()}
    figure, drawn = charts.facets(panels, 0.0, 3.0, 3, loc="left", sharey=True)
    for panel, _, (name, values) in drawn:
        panel.hist(values, bins=edges, color=method_colour(name), edgecolor="white")
        panel.axvline(0, color=INK, linewidth=0.9)
        panel.plot(marks, [0] * len(marks), "D", **DIAMOND, clip_on=False, zorder=5)
        panel.set_xlabel("gain over BRKGA (%)")
        panel.yaxis.get_major_locator().set_params(integer=True)
    drawn[0][0].set_ylabel("test graphs")
    return figure


def improvement_by_limit(result: dict[str, Any]) -> Figure:
    """Figure 2, right: improvement over BRKGA at the first limit, against the limit, a panel for
    each dataset."""
    rows = of(result["rows"], "improvement_percent")
    limits = sorted({int(row["instance"]) for row in rows})
    figure, panels = charts.facets(by(rows, "dataset"), 0.0, 3.0, loc="left")
    for panel, _, panel_rows in panels:
        for name, of_method in by(panel_rows, "method").items():
            of_method = sorted(of_method, key=lambda row: int(row["instance"]))
            x, ends = (
                [int(r["instance"]) for r in of_method],
                [[r[end] for r in of_method] for end in ("value", "low", "high")],
            )
            style = "o--" if name.startswith("regal-imitation") else "o-"  # ours, not the paper's
            charts.curve(
                panel, x, *ends, colour=method_colour(name), style=style, markersize=5, label=name
            )
        panel.axhline(0, color=INK, linewidth=0.8)
        panel.set(xscale="log", xlabel="evaluations")
        charts.plain_ticks(panel, limits)
    panels[0][0].set_ylabel(f"improvement over BRKGA\nwith {limits[0]:,} evaluations (%)")
    return charts.finish(figure, loc="outside lower center", ncols=3)


DEVICES_DRAWN = ("brkga", "local-search", "cut", "spectral-law", "regal", "gnn-links")


def over_one_device(result: dict[str, Any]) -> Figure:
    """Running time over that of one device, machine by machine, a panel for each kind of graphs."""
    rows = of(result["rows"], "over_one_device")
    kinds = [row | dict(zip(("kind", "machine"), row["instance"].split("/", 1))) for row in rows]
    machines = list(dict.fromkeys(row["machine"] for row in kinds))
    drawn = [name for name in DEVICES_DRAWN if any(row["method"] == name for row in kinds)]
    titled = {DATASET_TITLES[kind]: group for kind, group in by(kinds, "kind").items()}
    figure, panels = charts.facets(titled, 0.0, 4.2, loc="left")
    for panel, _, panel_rows in panels:
        for turn, name in enumerate(drawn):
            by_machine = {row["machine"]: row for row in panel_rows if row["method"] == name}
            on = [place for place, machine in enumerate(machines) if machine in by_machine]
            places = np.array(on) + 0.13 * (turn - (len(drawn) - 1) / 2)
            values = np.array([by_machine[machines[place]]["value"] for place in on])
            ends = np.array([[by_machine[machines[p]][end] for p in on] for end in ("low", "high")])
            spread = np.abs(ends - values)
            panel.errorbar(
                values, places, xerr=spread, fmt="o", markersize=4, linewidth=1.2,
                color=method_colour(name), label=name,
            )  # fmt: skip
        panel.axvline(1.0, color=INK, linewidth=0.8)
        panel.set(xlabel="over one device", yticks=range(len(machines)), yticklabels=machines)
        panel.invert_yaxis()
    return charts.finish(figure, loc="outside lower center", ncols=3)


def learning_curves(records: Sequence[dict[str, Any]]) -> Figure:
    """REGAL learns, by `regal.methods.training_records`: gaps on validation graphs at 5,000
    evaluations over CPU seconds, a panel for each dataset, a line for each seed, dashed for the
    same network's average law."""
    trained = by(records, "dataset")
    lines = (
        ("regal", "gap", "-", "its distributions"),
        ("regal-average", "gap_average_law", "--", "their average for every op"),
        ("brkga", "gap_uniform", ":", "uniform mutants"),
    )
    panels = {title: trained[d] for d, title in DATASET_TITLES.items() if d in trained}
    figure, drawn = charts.facets(panels, 0.0, 3.0, 3, loc="left")
    for panel, _, panel_records in drawn:
        for record in panel_records:
            watched = [row for row in record["curve"] if "gap" in row]
            for name, key, style, words in lines:
                x, y = ([row[axis] for row in watched] for axis in ("cpu_s", key))
                panel.plot(x, y, style, color=method_colour(name), linewidth=1.3, label=words)
        panel.set_xlabel("CPU seconds of training")
    drawn[0][0].set_ylabel("gap to best known (%),\nvalidation graphs")
    return charts.finish(figure, loc="outside lower center", ncols=3)


LAW_COLOURS = {
    "order": "priority-law",
    "devices": "spectral-law",
    "both": "spectral-local-search",
    "learned": "regal",
}
"""Law of `regal.effect` -> the method whose colour it has."""


def effect_and_noise(result: dict[str, Any]) -> Figure:
    """The effect of a law on the cost of uniform mutants, by the length of a run; grey: how runs
    differ at random."""
    noise = by(of(result["rows"], "noise_percent"), "instance")
    effect = by(of(result["rows"], "effect_percent"), "instance")
    panels = {title: (effect[d], noise[d]) for d, title in DATASET_TITLES.items() if d in effect}
    figure, drawn = charts.facets(panels, 0.0, 3.0, 3, loc="left")
    for panel, _, (rows, spread) in drawn:
        x, width = ([row[key] for row in spread] for key in ("evaluations", "value"))
        panel.fill_between(
            x, np.negative(width), width, color=INK, alpha=0.12, linewidth=0, label="noise of a run"
        )
        for law, colour in LAW_COLOURS.items():
            of_law = [row for row in rows if row["method"] == law]
            y, low, high = ([-row[end] for row in of_law] for end in ("value", "high", "low"))
            charts.curve(
                panel,
                x,
                y,
                low,
                high,
                colour=method_colour(colour),
                style="o-",
                markersize=4,
                label=law,
            )
        panel.axhline(0, color=INK, linewidth=0.8)
        panel.set(xscale="log", xlabel="evaluations of a run")
        charts.plain_ticks(panel, x)
    drawn[0][0].set_ylabel("improvement over\nuniform mutants (%)")
    return charts.finish(figure, loc="outside lower center", ncols=3)


def painted_law(graph: ComputationGraph, law: MutantLaw) -> Figure:
    """The graph with each op in the colour of the device that the law, of two, prefers by the mean
    affinities."""
    return drawing(
        graph, preference(graph, law), label="device 0   —   which side it prefers   —   device 1"
    )


def preference(graph: ComputationGraph, law: MutantLaw) -> np.ndarray:
    """[N] in [0, 1]: one half, plus half of how much larger device 1's mean affinity is than device
    0's."""
    entries = 2 * graph.num_ops
    mean = (law.alpha[:entries] / (law.alpha[:entries] + law.beta[:entries])).reshape(-1, 2)
    return 0.5 + (mean[:, 1] - mean[:, 0]) / 2
