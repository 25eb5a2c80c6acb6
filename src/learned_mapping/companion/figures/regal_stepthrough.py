"""Two evolutions of one graph side by side, generation by generation, as a piece of HTML with buttons.

A frame has a column per search. Each column shows the population's costs, the graph in the colours of the devices that
the elites choose, and the best schedule over its memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from learned_mapping.companion.display import Html
from learned_mapping.companion.figures import svg
from learned_mapping.companion.regal.graphs import load_graph
from learned_mapping.companion.regal.methods import law_of
from learned_mapping.errors import InputError
from learned_mapping.hardware.device_pair import op_seconds
from learned_mapping.regal.draw import layout, memory_curve
from learned_mapping.regal.methods import EVALUATIONS
from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP, Schedule
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, populations
from learned_mapping.style import GRID, INK, PALETTE, PAPER, byte_unit, time_unit

KEPT, DRAWN, CHILD = range(3)
"""Where a chromosome comes from: an elite of the generation before, the random laws, two parents."""
ORIGINS = ("kept", "drawn", "children")


@dataclass(frozen=True, eq=False)
class Generation:
    """What a population of P chromosomes, E of them elites, holds for N ops."""

    number: int  # From 0, the initial population.
    evaluations: int  # Chromosomes decoded so far.
    fitness: np.ndarray  # [P] float64, seconds or bytes.
    origin: np.ndarray  # [P] int8: `KEPT`, `DRAWN` or `CHILD`.
    elite_devices: np.ndarray  # [E, N] int64, device of each op in each elite, best first.
    best: Schedule

    @property
    def best_fitness(self) -> float:
        return float(self.fitness.min())


def generations(
    instance: Instance,
    rng: np.random.Generator,
    count: int,
    *,
    parameters: BrkgaParameters | None = None,
    law: MutantLaw | None = None,
) -> list[Generation]:
    """The initial population and `count` generations; what `brkga` does with as many, from the same randomness.

    Args:
      instance, rng, parameters, law: as in `brkga`.
      count: generations after the initial population, at least 0.

    Raises:
      InputError: a negative count.
    """
    if count < 0:
        raise InputError("generations", "", f"at least 0, got {count}")
    parameters = BrkgaParameters() if parameters is None else parameters
    n, d, size, elites = instance.graph.num_ops, instance.pair.devices, parameters.population, parameters.elites
    origin = np.repeat(np.int8([KEPT, DRAWN, CHILD]), [elites, parameters.mutants, size - elites - parameters.mutants])
    evolution, found = populations(instance, rng, parameters, law), []
    for number in range(count + 1):
        now, _ = evolution.send(1) if number else next(evolution)
        ranked = now.ranked(elites)
        devices = ranked[:, : n * d].reshape(elites, n, d).argmax(axis=2)
        made = origin if number else np.full(size, DRAWN, np.int8)
        evaluations = size + number * (size - elites)
        fitness = now.fitness[now.present].copy()
        found.append(Generation(number, evaluations, fitness, made, devices, decode(instance, ranked[0])))
    return found


DEVICES = (PALETTE[0], PALETTE[1])
UNDECIDED = "#EEEEEE"
LEGEND = {
    DEVICES[0]: "device 0, in all elites",
    UNDECIDED: "the elites are divided",
    DEVICES[1]: "device 1, in all elites",
}
WIDTH, GAP, LABELS = 760, 24, 60  # Pixels: the picture, between columns, for words at the left of a column.
STRIP, GRAPH, LANE, MEMORY = 16, 170, 20, 64
"""Pixels: heights of a row of costs, of the graph, of a device's ops, of the memory."""
SHOWN = (*range(9), 10, 13, 16, 20, 25, 32, 40, 50)
"""Generations: all early ones, later ones at growing distance."""
AGREED = 0.9  # Share of the elites from which on they agree.


class Scales:
    """What all frames share: the ranges of costs, of time and of memory."""

    def __init__(self, instance: Instance, shown: Iterable[Generation]):
        shown = list(shown)
        runs = [instance.simulate(each.best) for each in shown]
        costs = np.concatenate([each.fitness for each in shown])
        self.cost = (float(costs.min()), max(float(costs.max()), float(costs.min()) * 1.001))
        self.makespan_s = max(max(run.makespan_s for run in runs), 1e-12)
        self.peak_bytes = max(max(run.peak_bytes for run in runs), 1)
        self.time, self.time_name = time_unit(self.makespan_s)
        self.size, self.size_name = byte_unit(self.peak_bytes)

    def cost_words(self, instance: Instance, cost: float) -> str:
        """A cost with its unit."""
        if instance.objective == "runtime":
            return f"{cost * self.time:.4g} {self.time_name}"
        return f"{cost / self.size:.4g} {self.size_name}"


def race(graph: str, seed: int = 0, network: str = "synthetic-runtime-0") -> dict[str, list[Generation]]:
    """BRKGA without laws and with those of ``regal-imitation``, from one seed, on a synthetic graph: name -> the
    generations of as many evaluations as the paper gives them."""
    instance, usual = Instance(load_graph("synthetic", graph)), BrkgaParameters()
    count = (EVALUATIONS - usual.population) // (usual.population - usual.elites)
    laws = {"brkga": None, "regal-imitation": law_of(instance, network, seed)}
    return {name: generations(instance, np.random.default_rng(seed), count, law=law) for name, law in laws.items()}


def share_on_one(generation: Generation) -> np.ndarray:
    """[N] in [0, 1]: the share of the elites that put each op on device 1."""
    return generation.elite_devices.mean(axis=0)


def agreed(generation: Generation) -> int:
    """On how many ops' devices at least `AGREED` of the elites agree."""
    share = share_on_one(generation)
    return int((np.maximum(share, 1 - share) >= AGREED - 1e-9).sum())


def blend(share: float) -> str:
    """From device 0's colour at 0 over `UNDECIDED` at one half to device 1's at 1, as ``#rrggbb``."""
    low, high, part = (DEVICES[0], UNDECIDED, 2 * share) if share < 0.5 else (UNDECIDED, DEVICES[1], 2 * share - 1)
    pairs = ((int(low[i : i + 2], 16), int(high[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in pairs)


class _Column:
    """One search's part of a frame, drawn from the top down."""

    def __init__(self, instance: Instance, scales: Scales, x: float, width: float):
        self.instance, self.scales = instance, scales
        self.x, self.left, self.width = x, x + LABELS, width - LABELS - 6

    def costs(self, generation: Generation, y: float) -> Iterator[str]:
        """A dot per chromosome, one row per origin, the median as a bar."""
        low, high = self.scales.cost
        unit = self.width / (high - low)
        end = y + STRIP * len(ORIGINS)
        for k, name in enumerate(ORIGINS):
            middle = y + (k + 0.5) * STRIP
            yield svg.words(self.left - 6, middle + 4, name, 'text-anchor="end"')
            yield svg.line(self.left, middle, self.left + self.width, middle, f'stroke="{GRID}"')
            values = self.left + (generation.fitness[generation.origin == k] - low) * unit
            # Neighbours stand at different heights, in a fixed pattern.
            lift = (np.arange(len(values)) * 5 % 7 - 3) * 1.4
            style = f'stroke="{INK}" stroke-opacity="0.45" stroke-width="3.6" stroke-linecap="round" fill="none"'
            dots = (f"M{v:.1f} {middle + up:.1f}h0" for v, up in zip(values, lift))
            yield svg.path(dots, f'class="costs" {style}')
            if len(values):
                at = float(np.median(values))
                yield svg.line(at, middle - 7, at, middle + 7, f'stroke="{INK}" stroke-width="2"')
        best = self.left + (generation.best_fitness - low) * unit
        yield svg.line(best, y, best, end, f'stroke="{PALETTE[2]}" stroke-width="1.4" stroke-dasharray="3 2"')
        for at, value, anchor in ((self.left, low, "start"), (self.left + self.width, high, "end")):
            yield svg.words(at, end + 12, self.scales.cost_words(self.instance, value), f'text-anchor="{anchor}"')

    def graph(self, generation: Generation, y: float) -> Iterator[str]:
        """Ops as dots whose area grows with their seconds, painted; tensors as lines."""
        graph = self.instance.graph
        depth, height = layout(graph)
        across = self.x + 8 + depth * ((self.width + LABELS - 16) / max(depth.max(), 1))
        reach = max(np.ptp(height), 1.0)
        down = y + 8 + (height.max() - height) * ((GRAPH - 16) / reach)
        ends = zip(graph.edge_producer.tolist(), graph.edge_consumer.tolist())
        lines = (f"M{across[p]:.1f} {down[p]:.1f}L{across[c]:.1f} {down[c]:.1f}" for p, c in ends)
        yield svg.path(lines, 'stroke="#999999" stroke-width="0.7" fill="none"')
        seconds = op_seconds(graph, self.instance.pair)
        radius = 2.0 + 5.0 * np.sqrt(seconds / max(seconds.max(), 1e-30))
        yield f'<g stroke="{INK}" stroke-width="0.6">'
        for x, at, r, share in zip(across, down, radius, share_on_one(generation)):
            yield f'<circle cx="{x:.1f}" cy="{at:.1f}" r="{r:.1f}" fill="{blend(share)}"/>'
        yield "</g>"

    def schedule(self, best: Schedule, y: float) -> Iterator[str]:
        """The ops of each device over time, transfers as lines between, and below what each device holds."""
        run = self.instance.simulate(best)
        unit = self.width / self.scales.makespan_s
        top = y + 2 * LANE + 10
        for device, colour in enumerate(DEVICES):
            lane = y + device * LANE
            yield svg.words(self.left - 6, lane + 14, f"device {device}", 'text-anchor="end"')
            bars = []
            for i, (what, target) in enumerate(best.order.tolist()):
                if target == RUN_OP and best.placement[what] == device:
                    x, width = self.left + run.start_s[i] * unit, (run.finish_s[i] - run.start_s[i]) * unit
                    bars.append(svg.box_path(x, lane + 2, width, LANE - 4))
            yield svg.path(bars, f'class="ops" fill="{colour}" stroke="{PAPER}" stroke-width="0.5"')
            scale = MEMORY / self.scales.peak_bytes
            moments, held = memory_curve(self.instance.graph, best, run, device)
            curve = f"M{self.left:.1f} {top + MEMORY - held[0] * scale:.1f}"
            for moment, size in zip(moments, held):
                curve += f"H{self.left + moment * unit:.1f}V{top + MEMORY - size * scale:.1f}"
            yield svg.path([curve], f'class="memory" stroke="{colour}" stroke-width="1.4" fill="none"')
        moments = run.start_s[np.flatnonzero(best.order[:, 1] != RUN_OP)]
        sends = (f"M{self.left + moment * unit:.1f} {y + LANE - 4}v8" for moment in moments)
        yield svg.path(sends, f'stroke="{INK}" stroke-width="0.8" fill="none"')
        base, right = top + MEMORY, self.left + self.width
        peak = base - run.peak_bytes * MEMORY / self.scales.peak_bytes
        yield svg.line(self.left, peak, right, peak, f'stroke="{INK}" stroke-width="0.8" stroke-dasharray="1 2"')
        yield svg.line(self.left, base, right, base, f'stroke="{INK}" stroke-width="0.8"')
        end = self.left + run.makespan_s * unit
        yield svg.line(end, y, end, base, f'stroke="{PALETTE[2]}" stroke-width="1.4" stroke-dasharray="3 2"')
        yield svg.words(self.left - 6, top + 12, "memory", 'text-anchor="end"')
        yield svg.words(self.left, base + 13, "0")
        longest = f"{self.scales.makespan_s * self.scales.time:.4g} {self.scales.time_name}"
        yield svg.words(right, base + 13, longest, 'text-anchor="end"')
        most = f"peak {run.peak_bytes / self.scales.size:.4g} {self.scales.size_name}"
        yield svg.words((self.left + right) / 2, base + 13, most, 'text-anchor="middle"')


def draw(instance: Instance, frame: Mapping[str, Generation], scales: Scales) -> str:
    """One frame as inline SVG.

    Args:
      instance: of two devices.
      frame: name of the search -> its generation.
      scales: of all frames.
    """
    width = (WIDTH - GAP * (len(frame) - 1)) / len(frame)
    costs, graph = 30, 30 + STRIP * len(ORIGINS) + 24
    schedule = graph + GRAPH + 12
    height = schedule + 2 * LANE + 10 + MEMORY + 20
    parts: list[str] = []
    for k, (name, generation) in enumerate(frame.items()):
        column = _Column(instance, scales, k * (width + GAP), width)
        best = scales.cost_words(instance, generation.best_fitness)
        parts.append(svg.words(column.x + 4, 14, f"{name}: best {best}", 'font-weight="bold"'))
        parts += column.costs(generation, costs)
        parts += column.graph(generation, graph)
        parts += column.schedule(generation.best, schedule)
    return svg.picture(WIDTH, height, parts, pixels=12)


def tell(instance: Instance, frame: Mapping[str, Generation], scales: Scales) -> str:
    """The frame in words."""
    first = next(iter(frame.values()))
    what = "The initial population" if first.number == 0 else f"Generation {first.number}"
    words = f"{what}, after {first.evaluations:,} evaluations."
    for name, generation in frame.items():
        best = scales.cost_words(instance, generation.best_fitness)
        median = scales.cost_words(instance, float(np.median(generation.fitness)))
        words += (
            f" {name}: the best has {best}, the median {median}; {AGREED:.0%} of the elites agree on the device "
            f"of {agreed(generation)} of {instance.graph.num_ops} ops."
        )
    return words


def stepthrough(
    instance: Instance, searches: Mapping[str, Sequence[Generation]], numbers: Sequence[int] | None = None
) -> Html:
    """The generations `numbers` of some searches as HTML with buttons; at most one on a page.

    Args:
      instance: of two devices.
      searches: name -> its generations, from the initial population on.
      numbers: which of them; None for those of `SHOWN` that all have, and the last.

    Raises:
      InputError: not two devices, no search, or a generation that one of them lacks.
    """
    if instance.pair.devices != 2:
        raise InputError("devices", "", f"the picture is of 2, got {instance.pair.devices}")
    shortest = min((len(found) for found in searches.values()), default=0)
    if numbers is None:
        numbers = [number for number in SHOWN if number < shortest - 1] + [shortest - 1] * (shortest > 0)
    for number in numbers:
        if not 0 <= number < shortest:
            raise InputError("generation", "", f"{number} is outside [0, {shortest - 1}]")
    frames = [{name: found[number] for name, found in searches.items()} for number in numbers]
    scales = Scales(instance, (each for frame in frames for each in frame.values())) if frames else None
    shown = [(draw(instance, f, scales), tell(instance, f, scales)) for f in frames]
    return Html(svg.stepper(shown, LEGEND, "picture"))
