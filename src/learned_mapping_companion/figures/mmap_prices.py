"""Prices of fast memory along a program, beside what plans ask for and what a game holds."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from learned_mapping.mmap.bounds import prices as lagrangian
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.rules.state import program_arrays
from learned_mapping.programs.program import Program
from learned_mapping.style import INK, PALETTE, PHONE_INCHES, new_figure, time_unit
from learned_mapping_companion.figures import charts
from learned_mapping_companion.figures.charts import Rows


def price_curves(program: Program, passes: int = lagrangian.PASSES) -> Figure:
    """The price of all the memory of each step after so many passes; below, the share of the memory
    that the best plans of all tensors ask for without a price and at these, and what the first game
    of `searches.priced` holds, whose own prices have all their passes."""
    arrays = program_arrays(program)
    found = lagrangian.prices_of(arrays, lagrangian.FIRST, np.ones(3), passes)
    price_s, steps = found.price_s, np.arange(program.num_instructions + 1)
    scale, unit = time_unit(price_s[lagrangian.MEMORY].max())
    figure, (above, below) = new_figure(2, 1, width=PHONE_INCHES, height=4.2, sharex=True)
    colour = {"free": PALETTE[1], "priced": PALETTE[0], "held": INK}
    above.stairs(price_s[lagrangian.MEMORY] * scale, steps, color=colour["priced"], fill=True)
    above.set_ylabel(f"price of the memory ({unit})")
    free = asked(arrays, lagrangian.first_uses(arrays), 0.0 * price_s)
    below.stairs(free, steps, color=colour["free"], label="asked for, memory free")
    below.stairs(
        asked(arrays, found.uses, price_s), steps, color=colour["priced"], label="asked for, priced"
    )
    game = solve(program, "priced", seed=0, samples=1).solution
    below.stairs(
        held_share(program, game), steps, color=colour["held"], fill=True, alpha=0.25, label="held"
    )
    below.axhline(1.0, color=INK, linestyle="--", linewidth=1.0)
    below.set(xlabel="step", ylabel="share of the memory")
    below.set_yscale("symlog", linthresh=1.0)
    below.set_yticks([0, 0.5, 1, 10], ["0", ".5", "1", "10"])
    below.legend(loc="upper left", fontsize=8)
    return figure


def asked(arrays: np.recarray, uses: np.ndarray, price_s: np.ndarray) -> np.ndarray:
    """[T] shares of the memory that the best plans of all tensors ask for at prices [3, T]."""
    sums_s = np.zeros((3, arrays.num_instructions + 1))
    sums_s[:, 1:] = np.cumsum(price_s, axis=1)
    usage = np.zeros((3, arrays.num_instructions + 2))
    lagrangian.look_ahead(arrays, uses, sums_s)
    lagrangian.plan_tensors(arrays, uses, sums_s, usage)
    return usage[lagrangian.MEMORY, : arrays.num_instructions]


def held_share(program: Program, mapping: Mapping) -> np.ndarray:
    """[T] shares of the fast memory that a mapping holds."""
    cells: list[set[tuple[int, int]]] = [set() for _ in range(program.num_instructions)]
    for b in np.flatnonzero(mapping.placed).tolist():
        for step in range(int(mapping.start[b]), int(mapping.end[b]) + 1):
            cells[step].add((int(mapping.offset[b]), int(program.buffer_bytes[b])))
    total = [sum(size for _, size in cell) for cell in cells]
    return np.array(total) / program.fast_bytes


def seconds(rows: Rows) -> Figure:
    """Mean return of all programs by CPU seconds, a line per method, 95% intervals shaded; rows
    ``after`` of `mmap.over_time`."""
    figure, axes = new_figure(width=PHONE_INCHES, height=4.4)
    for row in charts.of(rows, "after"):
        line, colour = row["curve"], charts.method_colour(row["method"])
        columns = (np.array(line[name]) for name in ("x", "y", "low", "high"))
        charts.curve(axes, *columns, colour=colour, label=row["method"])
    axes.set_xscale("log")
    axes.set(xlim=(line["x"][0], line["x"][-1]), ylim=0)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    return charts.finish(figure, "CPU seconds", "mean return")
