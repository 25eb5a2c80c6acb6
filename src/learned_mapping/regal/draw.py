"""Pictures of schedules, as Gantt charts over their memory."""

import numpy as np
from matplotlib.figure import Figure

from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices, Simulation, simulate
from learned_mapping.hardware.drawing import drawing, op_colours
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.regal.schedule import RUN_OP, Schedule
from learned_mapping.regal.validate import validate
from learned_mapping.style import INK, PALETTE, byte_unit, new_figure, time_unit, written

LABELLED_OPS = 24  # Up to this many ops, a chart writes their names.
DRAWN_TRANSFERS = 150
"""Up to this many transfers, a chart draws each; of more it bundles those near each other, arrows
as thick as many."""
BUNDLES = 60  # Moments at which it does.


def picture(
    graph: ComputationGraph, schedule: Schedule | None = None, machine: Devices | None = None
) -> Figure:
    """A schedule as a Gantt chart over its memory, or a graph alone; raises `InputError` as
    `gantt`."""
    return drawing(graph) if schedule is None else gantt(graph, schedule, machine)


def gantt(
    graph: ComputationGraph, schedule: Schedule, machine: Devices | None = None, *, title: str = ""
) -> Figure:
    """The ops of each device over time, transfers between, and each device's memory underneath.

    Args:
      graph, schedule: a schedule that obeys the rules.
      machine: the devices; the defaults with the schedule's number of them where None.
      title: above the chart; graph, makespan and peak where empty.

    Raises:
      InputError: the schedule breaks a rule other than the memory limit.
    """
    machine = Devices(devices=schedule.devices) if machine is None else machine
    broken = [v for v in validate(graph, schedule, machine).violations if v.rule != "memory limit"]
    if broken:
        raise InputError("schedule", broken[0].rule, broken[0].detail)
    steps = schedule.order.tolist()
    run = simulate(graph, schedule.placement, steps, machine)
    scale, unit = time_unit(run.makespan_s)
    devices = machine.devices
    height = 1.6 + 0.55 * devices + 1.2
    figure, (chart, memory) = new_figure(
        2, 1, sharex=True, height=height, height_ratios=[devices, 2]
    )
    start, finish = run.start_s * scale, run.finish_s * scale
    width = max(run.makespan_s * scale, 1e-12)
    colour_of, kinds = op_colours(graph)
    # Ops.
    for device in range(devices):
        on_device = [
            i
            for i, (what, to) in enumerate(steps)
            if to == RUN_OP and schedule.placement[what] == device
        ]
        bars = [(start[i], finish[i] - start[i]) for i in on_device]
        edge = "white" if len(on_device) <= 200 else "none"
        colours = [colour_of[steps[i][0]] for i in on_device]
        chart.broken_barh(
            bars, (device - 0.36, 0.72), facecolors=colours, edgecolors=edge, linewidth=0.4
        )
        if graph.num_ops <= LABELLED_OPS:
            for i, (left, length) in zip(on_device, bars):
                name = graph.op_names[steps[i][0]]
                if length > 0.011 * width * len(name):
                    chart.text(
                        left + length / 2,
                        device,
                        written(name),
                        ha="center",
                        va="center",
                        color="white",
                        fontsize=8,
                    )
    # Transfers, bundled where they are many.
    sends = [(i, steps[i]) for i in range(len(steps)) if steps[i][1] != RUN_OP]
    bundled = len(sends) > DRAWN_TRANSFERS
    arrows: dict[tuple[float, int, int], int] = {}
    for i, (tensor, target) in sends:
        moment = (
            (int(start[i] / width * BUNDLES) + 0.5) * width / BUNDLES
            if bundled
            else float(start[i])
        )
        key = (moment, int(schedule.placement[graph.tensor_producer[tensor]]), target)
        arrows[key] = arrows.get(key, 0) + 1
    most = max(arrows.values(), default=1)
    for (moment, source, target), count in arrows.items():
        down, thick = 1 if target > source else -1, 0.9 if not bundled else 0.5 + 2 * count / most
        chart.annotate(
            "",
            (moment, target - 0.36 * down),
            (moment, source + 0.36 * down),
            arrowprops={
                "arrowstyle": "-|>",
                "color": INK,
                "linewidth": thick,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    chart.set_yticks(range(devices), [f"device {k}" for k in range(devices)])
    chart.set_ylim(devices - 0.5, -0.5)
    chart.grid(axis="y", visible=False)
    # Memory.
    size, size_unit = byte_unit(run.peak_bytes)
    for device in range(devices):
        moments, held = map(np.array, memory_curve(graph, schedule, run, device))
        colour = PALETTE[device % len(PALETTE)]
        memory.step(
            moments * scale, held / size, where="post", color=colour, label=f"device {device}"
        )
    memory.axhline(run.peak_bytes / size, color=INK, linewidth=0.8, linestyle=":")
    memory.set_ylim(0, 1.12 * max(run.peak_bytes / size, 1e-12))
    memory.set_xlim(0, 1.005 * width)
    memory.set_xlabel(f"time ({unit})")
    memory.set_ylabel(f"memory ({size_unit})")
    memory.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=devices, borderaxespad=0)
    peak = f"peak {run.peak_bytes / size:.4g} {size_unit}"
    text = title or f"{written(graph.name)}: {run.makespan_s * scale:.4g} {unit}, {peak}"
    chart.set_title(f"{text}, {len(sends)} transfers{', bundled' * bundled}", loc="left")
    if len(kinds) > 1:
        figure.legend(
            handles=kinds, loc="outside lower center", ncols=min(len(kinds), 6), title="kind of op"
        )
    return figure


def memory_curve(
    graph: ComputationGraph, schedule: Schedule, run: Simulation, device: int
) -> tuple[list[float], list[int]]:
    """Moments in seconds and the bytes held from each on: during a step its sample, after it what
    is left.

    What is left follows from the next sample, less what the next step allocates.
    """
    allocated = []
    for what, target in schedule.order.tolist():
        if target == RUN_OP and schedule.placement[what] == device:
            allocated.append(int(graph.op_output_bytes[what]))
        elif target == device:
            allocated.append(int(graph.tensor_bytes[what]))
        elif target != RUN_OP and schedule.placement[graph.tensor_producer[what]] == device:
            allocated.append(0)
    at_home = schedule.placement == device
    kept = graph.tensor_bytes[graph.tensor_is_output & at_home[graph.tensor_producer]].sum()
    samples = run.memory[device]
    after = [held - new for (_, _, held), new in zip(samples[1:], allocated[1:])]
    after.append(int(kept + graph.op_weight_bytes[at_home].sum()))
    first = samples[0][2] - allocated[0] if samples else after[0]
    moments, held = [0.0], [first]
    for (start, finish, during), left in zip(samples, after):
        moments += [start, finish]
        held += [during, left]
    return [*moments, run.makespan_s], [*held, held[-1]]
