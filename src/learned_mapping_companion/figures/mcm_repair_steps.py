"""A repair by FIX, step by step, as HTML with buttons: a grid of ops and chips per step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.mcm.methods import solve
from learned_mapping.mcm.partition import make_partition
from learned_mapping.mcm.repair.solver import DRAWN, KEPT, LEFT, Step
from learned_mapping.mcm.validate import validate
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.style import GRID, INK, PALETTE, PAPER
from learned_mapping_companion.display import Html, listing
from learned_mapping_companion.figures import svg

FIXED, FORCED, OPEN, REMOVED = PALETTE[0], PALETTE[5], "#DCEBF5", "#F3C4A4"
LEGEND = {
    FIXED: "decided",
    FORCED: "the only chip left",
    OPEN: "still possible",
    REMOVED: "removed by this step",
}
WIDTH, LEFT_SPACE, CELL, MOST_ARCS, NAMES = 700, 44, 26, 58, 78
"""Pixels: the picture's width, room for chips' names, a cell's height, room at most for edges and
for ops' names."""
WIDEST = 64  # A column is at most so wide.
SHORT = {
    "conv_general_dilated": "conv",
    "dot_general": "dot",
    "reduce_window_sum": "pool",
    "broadcast_in_dim": "copy",
    "stop_gradient": "stop",
}
"""Long names of JAX's operations, as the grid has them."""


@dataclass(frozen=True)
class Frame:
    """A step that is shown, and what went before it."""

    step: Step
    fixed: frozenset[int]  # Ops with a decided chip after it.
    quiet: tuple[Step, ...]  # Steps between the last one shown and this that changed no domain.


def frames(steps: Sequence[Step]) -> list[Frame]:
    """The steps that change a domain, refuse a candidate for good or take decisions back; the last
    step always."""
    standing: list[tuple[int, bool]] = []
    drawn: list[Frame] = []
    quiet: list[Step] = []
    for step in steps:
        standing.append((step.op, step.kind != LEFT))
        del standing[len(standing) - step.undone :]
        if step.before != step.after or step.undone or step.kind == LEFT or step is steps[-1]:
            fixed = frozenset(op for op, decided in standing if decided)
            drawn.append(Frame(step, fixed, tuple(quiet)))
            quiet = []
        else:
            quiet.append(step)
    return drawn


def short_name(name: str) -> str:
    """An op's name as the grid has it: ``conv_1/conv_general_dilated`` is ``conv_1/conv``."""
    first, slash, last = name.rpartition("/")
    stem, dot, number = last.partition(".")
    return f"{first}{slash}{SHORT.get(stem, stem)}{dot}{number}"


class _Grid:
    """Ops from left to right in topological order, chips from bottom to top."""

    def __init__(self, graph: ComputationGraph, chips: int):
        self.graph, self.chips = graph, chips
        self.order = graph.topological_order.tolist()
        self.column = {op: i for i, op in enumerate(self.order)}
        self.width = min((WIDTH - LEFT_SPACE - 4) / graph.num_ops, WIDEST)
        self.short = [short_name(name) for name in graph.op_names]
        self.upright = all(len(name) <= 3 for name in self.short)
        rises = [self.rise(u, v) for u, v in graph.op_edges.tolist()]
        self.top = 12 + max(rises, default=0) / 2
        self.height = round(self.top + chips * CELL + (24 if self.upright else NAMES))

    def rise(self, u: int, v: int) -> float:
        """The height of the handle of an edge's arc; the arc goes half as high."""
        return min(10.0 + 7 * (self.column[v] - self.column[u]), 2 * (MOST_ARCS - 12))

    def x(self, op: int) -> float:
        return LEFT_SPACE + (self.column[op] + 0.5) * self.width

    def y(self, chip: int) -> float:
        return self.top + (self.chips - chip - 0.5) * CELL

    def cells(self, chosen: Sequence[tuple[int, int]], fill: str) -> str:
        """One path over all (op, chip)."""
        side, tall = self.width - 2, CELL - 2
        boxes = [
            svg.box_path(self.x(op) - side / 2, self.y(chip) - tall / 2, side, tall)
            for op, chip in chosen
        ]
        return svg.path(boxes, f'fill="{fill}"')

    def edges(self, op: int, after: Sequence[Sequence[int]]) -> Iterator[str]:
        """Arcs above, those of `op` dark; below, lines between chips of ops that have but one."""
        base = self.top - 5
        for u, v in self.graph.op_edges.tolist():
            a, b = self.x(u), self.x(v)
            arc = (
                f"M{a:.1f} {base:.1f}Q{(a + b) / 2:.1f} {base - self.rise(u, v):.1f} {b:.1f}"
                f" {base:.1f}"
            )
            look = f'stroke="{INK}" stroke-width="1.6"' if op in (u, v) else 'stroke="#B0B0B0"'
            yield f'<path d="{arc}" fill="none" {look}/>'
            if len(after[u]) == len(after[v]) == 1:
                yield svg.line(
                    a,
                    self.y(after[u][0]),
                    b,
                    self.y(after[v][0]),
                    f'stroke="{INK}" stroke-width="1.2"',
                )

    def names(self, op: int) -> Iterator[str]:
        bottom = self.top + self.chips * CELL
        for chip in range(self.chips):
            yield svg.words(2, self.y(chip) + 4, f"chip {chip}")
        for u, name in enumerate(self.short):
            weight = 'font-weight="bold"' if u == op else ""
            if self.upright:
                yield svg.words(self.x(u), bottom + 16, name, f'text-anchor="middle" {weight}')
            else:
                turn = f'transform="rotate(-52 {self.x(u) + 4:.1f} {bottom + 9:.1f})"'
                yield svg.words(
                    self.x(u) + 4,
                    bottom + 9,
                    name,
                    f'text-anchor="end" font-size="10" {turn} {weight}',
                )


def draw(grid: _Grid, candidate: Sequence[int], frame: Frame) -> str:
    """The domains after a step, as inline SVG; a ring is the candidate's chip."""
    step, groups = frame.step, {OPEN: [], FORCED: [], FIXED: [], REMOVED: []}
    for op, (before, after) in enumerate(zip(step.before, step.after)):
        alone = FIXED if op in frame.fixed else FORCED
        groups[alone if len(after) == 1 else OPEN] += [(op, chip) for chip in after]
        groups[REMOVED] += [(op, chip) for chip in before if chip not in after]
    parts = [grid.cells([(op, chip) for op in grid.order for chip in range(grid.chips)], "#F4F4F4")]
    parts += [grid.cells(chosen, colour) for colour, chosen in groups.items()]
    parts += grid.edges(step.op, step.after)
    for op, chip in enumerate(candidate):
        inside = chip in step.after[op]
        look = (
            f'fill="{PAPER}" stroke="{INK}" stroke-width="1.4"'
            if inside
            else f'fill="none" stroke="{INK}"'
        )
        dashes = "" if inside else ' stroke-dasharray="2 2"'
        parts.append(
            f'<circle cx="{grid.x(op):.1f}" cy="{grid.y(chip):.1f}" r="5" {look}{dashes}/>'
        )
    side = grid.width
    outline = (grid.x(step.op) - side / 2, grid.top - 1, side, grid.chips * CELL + 2)
    parts.append(svg.rectangle(*outline, "none", f'stroke="{INK}" stroke-width="1.8"'))
    parts += grid.names(step.op)
    end = LEFT_SPACE + grid.width * len(grid.order)
    parts.append(svg.line(LEFT_SPACE, grid.top - 2.5, end, grid.top - 2.5, f'stroke="{GRID}"'))
    return svg.picture(WIDTH, grid.height, parts)


def _chips(chips: Sequence[int]) -> str:
    return f"chip {chips[0]}" if len(chips) == 1 else "chips " + ", ".join(map(str, chips))


def tell(graph: ComputationGraph, candidate: Sequence[int], frame: Frame) -> str:
    """A step in words."""
    step, total = frame.step, 2 * graph.num_ops
    op, wanted, domain = graph.op_names[step.op], int(candidate[step.op]), step.before[step.op]
    words = f"Decision {step.decision + 1} of {total}. "
    if frame.quiet:
        count = len(frame.quiet)
        words = f"{count} decision{'s' * (count > 1)} before this changed no domain. " + words
    if not step.chips:
        words += f"{op} has no chip left: a dead end. "
    elif step.kind == KEPT:
        words += f"{op} keeps chip {wanted}, which its domain still has. "
    elif step.kind == LEFT:
        words += (
            f"The candidate wants {op} on chip {wanted}, but its domain is {_chips(domain)}: not"
            " kept. "
        )
    elif len(domain) > 1:
        words += f"{op} draws chip {step.chips[0]} from {_chips(domain)}. "
    else:
        words += f"{op} takes chip {domain[0]}, the only one left. "
    if step.undone:
        blamed, refused = step.blamed
        words += (
            f"The solver goes back by {step.undone} decisions, to {graph.op_names[blamed]}, which"
            f" can no longer have {_chips(refused)}. "
        )
    gone = sum(
        len(b) - len(set(a) & set(b))
        for i, (b, a) in enumerate(zip(step.before, step.after))
        if i != step.op
    )
    if gone and not step.undone:
        words += f"The domains of other operations lose {gone} chip{'s' * (gone > 1)}. "
    single = sum(len(domain) == 1 for domain in step.after)
    return words + f"{single} of {graph.num_ops} operations have one chip left."


def repair_steps(
    graph: ComputationGraph,
    candidate: Sequence[int],
    chips: int,
    steps: Sequence[Step],
    *,
    name: str,
) -> Html:
    """The steps of `solver.fix_trace` as HTML with buttons; `name` as of `svg.stepper`."""
    grid = _Grid(graph, chips)
    pictures = [
        (draw(grid, candidate, frame), tell(graph, candidate, frame)) for frame in frames(steps)
    ]
    return Html(svg.stepper(pictures, LEGEND, "step", name))


def scattered(
    graph: ComputationGraph, chips: int, share: float, rng: np.random.Generator
) -> np.ndarray:
    """[N] chips: an optimum, with a share of the operations put on chips at random."""
    best = solve(graph, "optimum", chips=chips).solution.assignment
    return np.where(rng.random(graph.num_ops) < share, rng.integers(0, chips, graph.num_ops), best)


def summary(steps: Sequence[Step]) -> Mapping[str, int]:
    """The number of candidates kept and not kept, of chips drawn from several, and of decisions
    taken back."""
    return {
        "kept": len({s.op for s in steps if s.kind == KEPT and not s.undone}),
        "left": len({s.op for s in steps if s.kind == LEFT}),
        "drawn": sum(s.kind == DRAWN and len(s.before[s.op]) > 1 for s in steps),
        "undone": sum(s.undone for s in steps),
    }


def repair_table(
    graph: ComputationGraph, chips: int, candidate: Sequence[int], steps: Sequence[Step]
) -> Html:
    """The outcome of a repair, and the validator's verdicts before and after it."""

    def verdict(assignment: Sequence[int]) -> str:
        judged = validate(graph, make_partition(assignment, chips))
        rules = dict.fromkeys(fault.rule for fault in judged.violations)
        return "valid" if judged.valid else "against " + ", ".join(rules)

    repaired, count = [domain[0] for domain in steps[-1].after], summary(steps)
    same = sum(a == b for a, b in zip(repaired, candidate))
    lines = [
        ("the candidate", verdict(candidate)),
        ("after the repair", verdict(repaired)),
        ("operations on the candidate's chip", f"{same} of {graph.num_ops}"),
        ("chips that had to be drawn", count["drawn"]),
        ("decisions taken back", count["undone"]),
    ]
    return listing("The repair", ["", ""], lines)
