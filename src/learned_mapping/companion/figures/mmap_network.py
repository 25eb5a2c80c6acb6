"""Paper 1's Figure 4: the networks of the agent, drawn from their own modules."""

from __future__ import annotations

from learned_mapping.companion.figures.charts import Canvas, Rows
from learned_mapping.style import PALETTE, Picture

IDS = ("buffer", "tensor", "group")


def network(rows: Rows) -> Picture:
    """What is seen at the left, the three networks with the shapes of their weights, and what they give at the right.

    Args:
      rows: of `mmap.fig4`.
    """
    modules = {(row["part"], row["module"]): row["shapes"] for row in rows if row["metric"] == "parameters"}
    (whole,) = [row for row in rows if row["metric"] == "parameters_total"]

    def layer(part: str, name: str) -> str:
        before, after = modules[part, name]["w"]
        return f"{name.removesuffix('_out')}: {before:,} to {after:,}"

    def count(part: str) -> str:
        return f"{sum(row['value'] for row in rows if row.get('part') == part):,} parameters"

    (tables,) = [
        shapes for (part, _), shapes in modules.items() if part == "representation" and "place_table" in shapes
    ]
    seen = [f"{name} {numbers}" for name, numbers in whole["sees"].items()]
    third = -(-len(seen) // 3)
    words = "\n".join(", ".join(seen[i : i + 3]) for i in range(0, 3 * third, 3))
    embedded = "\n".join("{}: {:,} x {}".format(name, *tables[f"{name}_id_table"]) for name in IDS)
    place = "place: {:,} x {}, added".format(*tables["place_table"])
    draw, grey, size = Canvas(3.9), PALETTE[7], 7.0
    draw.box(1.0, 2.9, 1.9, 1.25, "observation", f"{sum(whole['sees'].values())} numbers\n{words}", grey, size)
    draw.box(1.0, 1.2, 1.9, 1.25, "ids, embedded", f"{embedded}\n{place}", grey, size)
    for title, part, names, y in (
        ("representation", "representation", ("first", "second"), 3.2),
        ("dynamics", "dynamics", ("first", "second", "reward_out"), 1.95),
        ("prediction", "prediction", ("first", "policy_out", "value_out"), 0.6),
    ):
        text = "\n".join([*(layer(part, name) for name in names), count(part)])
        draw.box(3.6, y, 1.9, 1.05, title, text, PALETTE[2 if part == "representation" else 0], size)
    draw.arrow((1.95, 3.1), (2.65, 3.2))
    draw.arrow((1.95, 1.4), (2.3, 1.4), (2.3, 2.9), (2.65, 2.9))
    look = {"ha": "center", "va": "center", "fontsize": 12, "fontstyle": "italic"}
    draw.arrow((4.55, 3.2), (5.15, 3.2))
    draw.axes.text(5.3, 3.2, "h", **look)
    draw.arrow((5.3, 3.05), (5.3, 1.95), (4.55, 1.95), words="with an action", at=(5.36, 2.45), fontsize=7, ha="left")
    draw.arrow((5.3, 1.95), (5.3, 0.6), (4.55, 0.6))
    draw.axes.text(5.36, 1.3, f"{whole['value']:,} parameters\nin all", ha="left", va="center", fontsize=7)
    return draw.figure
