"""Boxes and arrows: ``schematics.yml`` has places and words, the rows of a result the numbers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from learned_mapping.programs.json_io import read_yaml
from learned_mapping.style import COLUMN_INCHES, INK, PALETTE, new_figure
from learned_mapping_companion.figures.charts import Rows, of

COLOURS = dict(
    zip(("learned", "judged", "solved", "given", "drawn"), (PALETTE[i] for i in (0, 1, 2, 7, 4)))
)
"""The colour of a box, by its kind: it learns, judges, solves, is given, or a distribution."""
CENTRED = {"ha": "center", "va": "center"}
FONT = 7.8  # Points.


class Canvas:
    """Boxes with a title and some lines, and arrows between them, on axes in inches."""

    def __init__(self, height: float):
        self.figure, self.axes = new_figure(height=height)
        self.axes.set(xlim=(0, COLUMN_INCHES), ylim=(0, height))
        self.axes.set_axis_off()

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        title: str,
        words: str,
        colour: str,
        size: float = FONT,
    ) -> None:
        """A box around (x, y); its words are in the middle where there is no title."""
        look = {
            "boxstyle": "round,pad=0,rounding_size=0.05",
            "facecolor": "white",
            "edgecolor": colour,
        }
        self.axes.add_patch(
            FancyBboxPatch((x - width / 2, y - height / 2), width, height, linewidth=1.3, **look)
        )
        self.axes.text(
            x,
            y + height / 2 - 0.17,
            title,
            **CENTRED,
            weight="bold",
            color=colour,
            fontsize=1.15 * size,
        )
        self.axes.text(x, y - 0.14 * bool(title), words, **CENTRED, fontsize=size, linespacing=1.35)

    def arrow(self, points: Sequence[Sequence[float]]) -> None:
        """A line through the points, with a head at the last."""
        *way, last = points
        if len(way) > 1:
            self.axes.plot(*zip(*way), color=INK, linewidth=1.1, solid_capstyle="butt")
        look = {"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.1}
        self.axes.annotate("", last, way[-1], arrowprops=look)

    def frame(self, left: float, bottom: float, right: float, top: float, title: str) -> None:
        """A dashed frame with its title at the upper left."""
        look = {"facecolor": "none", "edgecolor": PALETTE[7], "linestyle": "--", "linewidth": 0.9}
        shape = "round,pad=0,rounding_size=0.06"
        self.axes.add_patch(
            FancyBboxPatch((left, bottom), right - left, top - bottom, boxstyle=shape, **look)
        )
        look = {"ha": "left", "va": "center", "fontsize": 8, "color": PALETTE[7], "weight": "bold"}
        self.axes.text(left + 0.08, top - 0.13, title, **look)


def schematic(name: str, rows: Rows) -> Figure:
    """The drawing of a name of ``schematics.yml``, which is the artifact's whose rows are given,
    and of `mmap.fig4` also which network: ``mmap.fig4 network``."""
    drawing, numbers = read_yaml(Path(__file__).with_suffix(".yml"))[name], NUMBERS[name](rows)
    canvas = Canvas(drawing["height"])
    for *place, title, colour, words in drawing["boxes"]:
        title, words = title.format_map(numbers), words.format_map(numbers)
        canvas.box(*place, title, words, COLOURS[colour], drawing.get("size", FONT))
    for *place, title in drawing.get("frames", ()):
        canvas.frame(*place, title.format_map(numbers))
    for part in (*drawing["arrows"], *drawing.get("texts", ())):
        look = CENTRED | {"fontsize": FONT} | part
        if "points" in look:
            canvas.arrow(look.pop("points"))
        if "words" in look:
            canvas.axes.text(*look.pop("at"), look.pop("words").format_map(numbers), **look)
    return canvas.figure


def _of_profiles(rows: Rows) -> dict[str, str]:
    """Metric -> ``3 (8)``: the first profile's number, in brackets that of `paper` if another."""
    columns: dict[str, list[Any]] = {}
    first = rows[0]["instance"]
    for row in rows:
        if "module" not in row and row["instance"] in (first, "paper"):
            values = columns.setdefault(row["metric"], [])
            values += [] if row["value"] in values else [row["value"]]
    return {
        metric: " ".join([_text(v), *(f"({_text(p)})" for p in rest)])
        for metric, (v, *rest) in columns.items()
    }


def _text(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


SOLVERS = {
    "fix": "FIX keeps the chips of y\nthat a valid partition\ncan have, draws the rest",
    "sample": "SAMPLE draws each chip\nfrom P within the domain",
}
CREDITED = {"sample": "y′", "candidate": "y", "flow": "y′, op by op"}


def _method(rows: Rows) -> dict[str, str]:
    """Paper 2's Figure 1: the policy proposes, the solver repairs, the evaluation pays."""
    settings = _of_profiles(rows)
    mode, credit = (settings[name].partition(" ")[0] for name in ("mode", "credit"))
    return settings | {"solver": SOLVERS[mode], "credited": CREDITED[credit]}


def _policy(rows: Rows) -> dict[str, str]:
    """Paper 2's Figure 3: GraphSAGE, T iterations of Eq. 7 with the policy network, the value."""
    counts = {
        row["module"]: row["value"]
        for row in rows
        if "module" in row and row["instance"] == rows[0]["instance"]
    }
    parts = {
        "sage_weights": ("encoder", "sage_"),
        "value_weights": ("value",),
        "policy_weights": ("policy_",),
    }
    weights = {
        name: (
            f"{sum(count for module, count in counts.items() if module.startswith(starts)):,}"
            " weights"
        )
        for name, starts in parts.items()
    }
    depth = sum(module.startswith("value_") and "norm" not in module for module in counts)
    return _of_profiles(rows) | weights | {"value_layers": str(depth)}


def _laws(rows: Rows) -> dict[str, str]:
    """Paper 3's Figure 1: from a graph to a schedule, with the weights of the network's parts."""
    parts = ("node_enc", "edge_enc", "message", "node_upd", "head")
    counts = of(rows, "parameters")
    (rounds,) = of(rows, "rounds")
    return {"rounds": str(rounds["value"])} | {
        part: f"{sum(row['value'] for row in counts if row['instance'].startswith(part)):,.0f}"
        for part in parts
    }


class _Parts:
    """The parts of the agent's network of one size, from the rows of `mmap.fig4`, in words."""

    def __init__(self, rows: Rows, method: str):
        self.rows = [row for row in rows if row["method"] == method]
        self.shapes = {
            (row["part"], row["module"]): row["shapes"] for row in of(self.rows, "parameters")
        }
        self.weights = {key: shapes["w"] for key, shapes in self.shapes.items() if "w" in shapes}
        (self.whole,) = of(self.rows, "parameters_total")

    def count(self, part: str) -> str:
        return f"{sum(row['value'] for row in self.rows if row.get('part') == part):,} parameters"

    def layers(self, part: str, *names: str) -> str:
        shapes = {name.removesuffix("_out"): self.weights[part, name] for name in names}
        return "\n".join("{}: {:,} to {:,}".format(name, *shape) for name, shape in shapes.items())

    def blocks(self, part: str) -> str:
        hidden, modules = (
            self.weights[part, "block_0_0"],
            [name for of, name in self.weights if of == part],
        )
        number = sum(name.startswith("block_") and name.endswith("_0") for name in modules)
        return f"{number} residual blocks: {hidden[0]:,}, {hidden[1]:,}, {hidden[0]:,}"

    def common(self) -> dict[str, str]:
        """The sizes of the learned tables of ids and places, and of the whole."""
        (tables,) = [shapes for shapes in self.shapes.values() if "place_table" in shapes]
        lines = [
            "{}: {:,} x {}".format(name, *tables[f"{name}_id_table"])
            for name in ("buffer", "tensor", "group")
        ]
        place = "place: {:,} x {}, added".format(*tables["place_table"])
        return {"tables": "\n".join([*lines, place]), "parameters": f"{self.whole['value']:,}"}


def _light(rows: Rows) -> dict[str, str]:
    """Paper 1's Figure 4, the light network: what is seen, three networks, and what they give."""
    parts, layers = _Parts(rows, "network"), {
        "representation": ("first", "second"),
        "dynamics": ("first", "second", "reward_out"),
        "prediction": ("first", "policy_out", "value_out"),
    }  # fmt: skip
    sees = parts.whole["sees"]
    seen = [f"{name} {numbers}" for name, numbers in sees.items()]
    networks = {
        part: f"{parts.layers(part, *names)}\n{parts.count(part)}" for part, names in layers.items()
    }
    seen = "\n".join(", ".join(seen[i : i + 3]) for i in range(0, len(seen), 3))
    return networks | {"numbers": str(sum(sees.values())), "seen": seen} | parts.common()


def _residual(rows: Rows) -> dict[str, str]:
    """Paper 1's Figure 4: the image's ResNet, the embeddings, how they are joined, what follows."""
    parts = _Parts(rows, "paper network")
    weights, layers, seen = parts.weights, parts.layers, parts.whole["sees"]
    image = [weights["representation", f"stage_{stage}"] for stage in range(2)]
    convolutions = sum(
        name.startswith("stage_") for part, name in weights if part == "representation"
    )
    others = [name for name in seen if ("representation", name) in weights]
    drawn = ", ".join(f"{name} {numbers}" for name, numbers in seen.items() if name not in others)
    half = -(-len(others) // 2)
    lines = [
        ", ".join(f"{name} {seen[name]}" for name in part)
        for part in (others[:half], others[half:])
    ]
    boxes = {
        "image": (
            f"{drawn}\n{convolutions} convolutions, {image[0][2]} to {image[0][3]},",
            f"then {image[1][3]} channels",
        ),
        "others": (*lines, f"to {weights['representation', others[0]][1]} each"),
        "joined": (
            layers("representation", "join"),
            parts.blocks("representation"),
            parts.count("representation"),
        ),
        "dynamics": (
            layers("dynamics", "join"),
            parts.blocks("dynamics"),
            layers("dynamics", "reward_0", "reward_out"),
            parts.count("dynamics"),
        ),
        "prediction": (
            parts.blocks("prediction"),
            layers("prediction", "policy_0", "policy_out", "value_0", "value_out"),
            parts.count("prediction"),
        ),
    }
    return {name: "\n".join(words) for name, words in boxes.items()} | parts.common()


NUMBERS: dict[str, Callable[[Rows], Mapping[str, str]]] = {
    "mcm.fig1": _method,
    "mcm.fig3": _policy,
    "mcm.fig4": _of_profiles,
    "mmap.fig4 network": _light,
    "mmap.fig4 paper network": _residual,
    "regal.fig1": _laws,
}
"""Drawing -> what fills in its words, from the rows of its artifact."""
