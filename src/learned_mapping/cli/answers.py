"""``lmap map``: a model on a machine, whichever of the three problems is worth caring about.

The problems are named by what they answer: results per second (throughput), one run (latency), and
what the fast memory of a device saves (fast-memory).
"""

import dataclasses
import html
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from learned_mapping.auto import ALL, CHAIN, NONE, Answer, answer, cost_of
from learned_mapping.budget import Budget
from learned_mapping.cli.instances import of_file
from learned_mapping.cli.output import (
    check_out,
    guessed_parameters,
    report,
    rounds_at_most,
    search_progress,
    shared_weights,
    unknown_costs,
)
from learned_mapping.errors import InputError, shown
from learned_mapping.hardware.chip_package import chip_memory
from learned_mapping.hardware.devices import MAX_DEVICES, device_seconds
from learned_mapping.hardware.fitting import DoesNotFitError
from learned_mapping.hardware.machine import (
    Links,
    Machine,
    devices_of,
    hierarchy_of,
    machine_to_json,
    package_of,
    read_machine,
)
from learned_mapping.problem import Problem, problem, read_graph_file
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.json_io import check_writable, write_bytes, write_json

PAPERS = {"throughput": "mcm", "latency": "regal", "fast-memory": "mmap"}
SECONDS = 30.0
FITS, DOES_NOT, NOTHING, NOT_ASKED = "fits", "does-not-fit", "nothing-found", "not-asked"
WEIGHTLESS = (
    "no argument is taken for weights: a function says which are, (function, args, (0,)), a file by"
    " `lmap trace --parameters`"
)
FAR = 0.1  # From this share above a bound on, the bound is said to be far.
MANY = 0.05
"""Share of the FLOP in ops of unknown cost from which times are no estimate."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The answer to one of the problems; `answer` takes its words from here, as JSON does."""

    problem: str
    verdict: str
    text: str
    value: float | None = None
    unit: str = ""
    by: str = ""
    bound: float | None = None
    proved: str = NONE
    peak_bytes: tuple[int, ...] = ()
    memory_bytes: tuple[float, ...] = ()
    least_memory_bytes: float | None = None
    out: str | None = None
    picture: str = dataclasses.field(default="", repr=False)  # SVG


class Case:
    """A model on a machine.

    Args:
      graph: as it was read.
      source: its file or function.
      machine: where it runs.
      clock: of all problems together, since before the graph was read.
      pictures: whether to draw what is found.
      out: folder of solutions, or None.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        source: str,
        machine: Machine,
        clock: Budget,
        pictures: bool,
        out: str | None,
    ):
        self.whole, self.machine, self.clock, self.pictures = graph, machine, clock, pictures
        self.graph, self.source, self.out, self.notes = graph, source, out, []
        try:
            from learned_mapping.programs.trace.fused import fused_graph

            self.graph = fused_graph(graph)
            self.notes.append(f"{self.graph.num_ops:,} instructions once its ops are fused")
        except InputError as error:
            self.notes.append(f"{error.field} {error.fault}")
        if graph.op_seconds is not None:
            self.notes.append("the file says the time of each op: the same on every device")
        elif not graph.op_weight_bytes.any():
            self.notes.append(WEIGHTLESS)
        if machine.source:
            self.notes.append(f"the machine: {shown(machine.source, 900)}")
        if any(d.weight_bytes_per_s not in (None, d.memory_bytes_per_s) for d in machine.devices):
            self.notes.append("one device and latency count weights at memory_bytes_per_s")
        self.peak = int(chip_memory(self.graph, [0] * self.graph.num_ops, 1)[0])
        kinds = {device: self._alone(device) for device in set(machine.devices)}
        self.alone = [kinds[device] for device in machine.devices]
        """[d] seconds of one run on each device by itself."""
        self.room = [self.peak <= device.memory_bytes for device in machine.devices]

    def _alone(self, device: Any) -> float:
        one = dataclasses.replace(self.machine, devices=(device,), links=Links())
        return float(device_seconds(self.graph, devices_of(one)).sum())

    def one_device(self) -> Row:
        """The fastest device by itself, of those with room."""
        order = sorted(range(len(self.alone)), key=lambda d: (not self.room[d], self.alone[d]))
        device = order[0]
        memory = self.machine.devices[device].memory_bytes
        held = (self.peak,), (memory,)
        much = f"{size(self.peak)} of {size(memory)}"
        if not self.room[device]:
            return Row(
                "one-device", DOES_NOT, f"does not fit: {much}", None, "s", "", None, NONE, *held
            )
        seconds = self.alone[device]
        return Row(
            "one-device", FITS, f"{span(seconds)} a run, {much}", seconds, "s", "one-device",
            seconds, ALL, *held,
        )  # fmt: skip

    def unproved(self, row: Row) -> Row:
        """A row; where weights count once for each use, what is said not to fit may fit."""
        if row.verdict != DOES_NOT or not shared_weights(self.whole):
            return row
        text = row.text.partition(";")[0].partition(" (proved")[0]
        text += "; not proved, since what several ops use counts for each use"
        return dataclasses.replace(row, verdict=NOTHING, text=text, least_memory_bytes=None)

    def not_asked(self, name: str) -> str:
        """Why a problem is none on this machine; empty where it is one."""
        if name == "latency" and len(self.alone) > MAX_DEVICES:
            return f"schedules are for at most {MAX_DEVICES} devices"
        if name == "latency" and self.graph.op_is_tied.any():
            return "an op has a chip or a group, which schedules do not know"
        if name == "throughput" and self.graph.op_group is not None:
            return "groups are for chips whose memory does not count: lmap solve mcm"
        if name == "fast-memory" and self.machine.devices[0].fast_memory is None:
            return "no device has one that a program fills itself (a cache is none)"
        return ""

    def solved(self, name: str, share: float, **hardware: Any) -> tuple[Any, Any, Answer]:
        """The problem, the task and what is known of it after this share of the time that is left;
        raises as `Problem.task` does."""
        paper = problem(PAPERS[name])
        with of_file(self.whole, self.source):
            task = paper.task(self.whole if name == "fast-memory" else self.graph, **hardware)
            if name == "throughput":
                task.check()
        with search_progress(name, self.clock.limit_s, None) as progress:
            return paper, task, answer(paper, task, self.clock, share, progress=progress)

    def kept(self, paper: Any, found: Answer, instance: Any) -> str | None:
        """The file of a solution, which `lmap check` judges."""
        if self.out is None or found.result is None:
            return None
        by, samples = found.result.by, found.result.samples
        options = {"machine": machine_to_json(self.machine)}
        fused = {"fused": True} if "fused_ops" in getattr(instance, "metadata", {}) else {}
        made = {"method": by, "by": by, "seed": 0, "samples": samples, "options": options | fused}
        path = Path(self.out) / f"{paper.name}.json.gz"
        write_json(path, paper.to_json(found.result.solution, instance) | {"made": made})
        return str(path)

    def drawn(self, paper: Problem, *given: Any) -> str:
        """A picture as SVG."""
        if not self.pictures:
            return ""
        from learned_mapping.style import svg_text

        try:
            return svg_text(paper.picture(*given))
        except InputError:  # too much for a picture
            return ""

    def throughput(self, share: float) -> Row:
        """Whole copies, one on each device that has room, or a partition, in as many copies as
        alike devices take."""
        package = package_of(self.machine)
        if package.chips > 2 and self.machine.links.topology != "row":
            self.notes.append("a partition sends from each device to the next alone")
        count, ways = sum(self.room), self._ways(package.chips)
        share /= len(ways)
        paper, task, found = self.solved("throughput", share, package=package, memory=True)
        alone = task.model.chip_seconds.sum(axis=1).tolist()  # weights at their own rate
        if min(alone) <= 0.0 and (count or found.result):
            return Row("throughput", FITS, "a run takes no time by this model", unit="runs/s")
        copies = sum(1 / s for s, fits in zip(alone, self.room) if fits and s)
        memory = tuple(float(b) for b in package.each("sram_bytes"))
        found, times = self._in_copies(task, found, ways[1:], share)
        kept = self.kept(paper, found, self.graph)
        rate = 0.0 if found.result is None else times * found.result.metrics["throughput"]
        if not max(rate, copies):
            return _refused("throughput", "runs/s", found, memory)
        limit = None if not found.bound else 1.0 / found.bound
        parts = 0 if found.result is None else found.result.solution.chips_used
        if copies >= rate * (1 - 1e-9):
            best = limit is not None and copies >= limit * (1 - 1e-9)
            where = f"each of {count}" if len(memory) > 1 else "the one device"
            text = f"{_rate(copies)} by a whole copy on {where}"
            text += "; no partition is faster" * best
            text += f" (one of {parts} parts: {_rate(rate)})" * (parts > 1)
            peaks = tuple(self.peak if fits else 0 for fits in self.room)
            most = max(limit or 0.0, copies)  # a single op takes longer in parts than in copies
            return Row(
                "throughput", FITS, text, copies, "runs/s", "whole copies", most,
                ALL if best else NONE, peaks, memory, out=kept,
            )  # fmt: skip
        assert found.result is not None
        chips = found.result.solution.assignment
        peaks = tuple(chip_memory(self.graph, chips, package.chips).tolist())
        fullest = max(range(len(peaks)), key=lambda c: peaks[c] / memory[c])
        full = f"fullest {size(peaks[fullest])} of {size(memory[fullest])}"
        text, proved = f"{_rate(rate)} on {parts} of {package.chips}, {full}", found.proved
        if len(ways) == 1:
            text += f"; {self._apart(task, found)}"
        else:
            limit, proved = sum(1 / s for s in alone), NONE
            if times > 1:
                text = (
                    f"{_rate(rate)} by {times} copies of a partition over {parts} devices, {full}"
                )
                held = [peak for peak in peaks if peak] * times
                peaks = (*held, *[0] * (package.chips - len(held)))
            text += f"; no partitions, however many, give more than {_rate(limit)}"
        return Row(
            "throughput", FITS, text, rate, "runs/s", found.result.by, limit, proved, peaks,
            memory, out=kept, picture=self.drawn(paper, self.graph, found.result.solution, task),
        )  # fmt: skip

    def _ways(self, devices: int) -> list[int]:
        """In how many copies a partition may come, each over as many devices: more than one where
        these are alike, none has room for the model, and fewer of them may."""
        weights, memory = (
            int(self.graph.op_weight_bytes.sum()),
            self.machine.devices[0].memory_bytes,
        )
        ways = [1]
        if len(set(self.machine.devices)) == 1 and self.machine.links.topology != "pairs":
            while not any(self.room) and devices // (2 * ways[-1]) >= 2:
                if weights > devices // (2 * ways[-1]) * memory:
                    break
                ways.append(2 * ways[-1])
        return ways

    def _in_copies(
        self, task: Any, found: Answer, ways: list[int], share: float
    ) -> tuple[Answer, int]:
        """The best of a partition over all devices and those over a part of them, and how often
        that one has room."""
        best, times = found, 1
        for count in ways:
            devices = self.machine.devices[: len(self.machine.devices) // count]
            package = package_of(dataclasses.replace(self.machine, devices=devices))
            with suppress(DoesNotFitError):
                best_of = self.solved("throughput", share, package=package, memory=True)[2]
                result = best_of.result
                rate = 0.0 if best.result is None else times * best.result.metrics["throughput"]
                if result is not None and count * result.metrics["throughput"] > rate:
                    whole = task.partition(result.solution.assignment)
                    best = dataclasses.replace(
                        best_of, result=dataclasses.replace(result, solution=whole)
                    )
                    times = count
        if best.result is not None and ways:
            times = max(times, len(self.machine.devices) // best.result.solution.chips_used)
        return best, times

    def latency(self, share: float) -> Row:
        """A schedule of one run over the devices."""
        machine = devices_of(self.machine)
        memory = tuple(float(b) for b in machine.each("memory_bytes"))
        paper, task, found = self.solved("latency", share, machine=machine)
        if found.result is None:
            return _refused("latency", "s", found, memory)
        schedule, seconds = found.result.solution, found.result.metrics["makespan_s"]
        peaks = tuple(int(peak) for peak in task.simulate(schedule).peaks)
        used = len(set(schedule.placement.tolist()))
        sent = schedule.order[schedule.order[:, 1] >= 0, 0]
        text = f"{span(seconds)} on {used} of {len(memory)}"
        fastest = min((s for s, fits in zip(self.alone, self.room) if fits), default=None)
        if used == 1:
            text = f"{span(seconds)} on one device"
            text += "; every split found costs more in transfers than it saves" * (len(memory) > 1)
        else:
            bytes_sent = int(self.graph.tensor_bytes[sent].sum())
            plural = "s" if len(sent) > 1 else ""
            text += f" ({len(sent):,} transfer{plural}, {size(bytes_sent)})"
            if fastest is not None:
                text += f", {100 - 100 * seconds / fastest:.2g}% below one device"
        text += f"; {self._apart(task, found)}"
        picture = self.drawn(paper, self.graph, schedule, task)
        return Row(
            "latency", FITS, text, seconds, "s", found.result.by, found.bound, found.proved, peaks,
            memory, out=self.kept(paper, found, self.graph), picture=picture,
        )  # fmt: skip

    def fast_memory(self, share: float) -> Row:
        """What a mapping of the first device's fast memory saves."""
        hierarchy = hierarchy_of(self.machine)
        try:
            paper, task, found = self.solved("fast-memory", share, machine=hierarchy)
        except DoesNotFitError:
            raise
        except InputError as error:  # nothing that a mapping could be of
            return Row("fast-memory", NOT_ASKED, error.fault)
        if found.result is None:
            return _refused("fast-memory", "of what could be saved", found, ())
        value = found.result.metrics["return"]
        slow, now = float(task.slow_s.sum()), found.result.metrics["latency_s"]
        text = (
            f"{100 * value:.3g}% of what {size(hierarchy.cmem_bytes)} could save: {span(slow)} ->"
            f" {span(now)} a run"
        )
        bound = found.bound
        if shared_weights(self.whole):  # tensors of their own here, which in truth are one
            text, bound = f"{text}; with each use of a weight as a tensor of its own", None
        else:
            text += f"; no mapping saves more than {100 * (bound or 1):.3g}%"
        text = "; ".join([text, *paper.hints(task, found.result.solution)])
        picture = self.drawn(paper, task, found.result.solution)
        return Row(
            "fast-memory", FITS, text, value, "of what could be saved", found.result.by,
            bound, NONE if bound is None else found.proved, (), (hierarchy.cmem_bytes,),
            out=self.kept(paper, found, task), picture=picture,
        )  # fmt: skip

    def _apart(self, task: Any, found: Answer) -> str:
        """How far a solution is from what is proved."""
        assert found.result is not None and found.bound is not None
        if found.proved != NONE:
            return "the optimum" + " under the chain rule" * (found.proved == CHAIN)
        if found.bound <= 0.0:
            return "no bound is known"
        gap = cost_of(task, found.result) / found.bound - 1
        text = f"at most {100 * gap:.3g}% above the least time"
        return text + "; more --seconds may find more" * (gap > FAR)


def _refused(name: str, unit: str, found: Answer, memory: tuple[float, ...]) -> Row:
    """A row without a solution."""
    least: dict[str, Any] = {"least_memory_bytes": found.least_bytes, "memory_bytes": memory}
    if found.refusal:
        return Row(name, DOES_NOT, found.refusal, unit=unit, **least)
    text = "nothing found that fits; no proof that nothing does"
    return Row(name, NOTHING, text, unit=unit, **least)


def _rate(runs: float) -> str:
    return f"{runs:,.0f} runs/s" if runs >= 1000 else f"{runs:.4g} runs/s"


def size(count: float) -> str:
    """Bytes in words."""
    unit, each = next((u, e) for u, e in UNITS if count >= e or e == 1)
    return f"{count / each:.3g} {unit}"


UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1))


def span(seconds: float) -> str:
    """Seconds in words."""
    unit, each = next((u, e) for u, e in SPANS if seconds >= e or e == 1e-9)
    return f"{seconds / each:.3g} {unit}"


SPANS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def unknown_share(graph: ComputationGraph) -> float:
    """The share of a graph's FLOP that ops of unknown cost are charged, one an element."""
    unknown = graph.metadata.get("unknown_ops")
    if not isinstance(unknown, dict) or not unknown:
        return 0.0
    words = {str(kind).rpartition(".")[2] for kind in unknown}
    flop = sum(
        f for f, k in zip(graph.op_flop.tolist(), graph.op_kinds) if k.rpartition(".")[2] in words
    )
    return flop / max(float(graph.op_flop.sum()), 1e-300)


def described(machine: Machine) -> str:
    """A machine in a line."""
    kinds: dict[Any, int] = {}
    for device in machine.devices:
        kinds[device] = kinds.get(device, 0) + 1
    words = [
        f"{count} x {d.flop_per_s / 1e12:.4g} TFLOP/s, {size(d.memory_bytes)} at"
        f" {size(d.memory_bytes_per_s)}/s"
        for d, count in kinds.items()
    ]
    links, speed = machine.links, machine.links.bytes_per_s
    rate = "free" if speed == float("inf") else "as listed"
    if isinstance(speed, float) and rate != "free":
        rate = f"{size(speed)}/s"
    joined = [f"links {links.topology}, {rate}, {links.transfers}"] * (len(machine.devices) > 1)
    return f"{shown(machine.name)}: {'; '.join(words + joined)}"


def map_model(options: Any) -> int:
    """Answers the problems that are asked about a model on a machine; exit 1 where nothing fits."""
    page = None if options.html is None else check_out(options.html, (".html",), [options.model])
    if options.out is not None:
        if os.path.isfile(options.out):  # False of a name that is none
            raise InputError(options.out, "", "is a file, expected a folder")
        check_writable(options.out)
    clock = Budget(seconds=options.seconds or SECONDS)
    machine = read_machine(options.machine)
    graph = read_graph_file(options.model)
    asked = list(PAPERS) if options.problem in (None, "all") else [options.problem]
    case = Case(graph, options.model, machine, clock, page is not None, options.out)
    head = [
        f"{shown(graph.name)}: {graph.num_ops:,} ops, {graph.op_flop.sum():.3g} FLOP,"
        f" {size(int(graph.op_weight_bytes.sum()))} of weights",
        f"on {described(machine)}",
    ]
    share = unknown_share(graph)
    if line := unknown_costs(graph.metadata):
        sure = "the times below are no estimate of this model"
        sure = sure if share > MANY else "the times below are at least so long"
        head.append(f"! {line}, {100 * share:.3g}% of the FLOP here: {sure}")
    rows = [case.unproved(case.one_device())]
    if not options.json:
        print("\n".join([*head, _line(rows[0])]), flush=True)
    waiting = sum(not case.not_asked(name) for name in asked)
    for name in asked:
        row = case.unproved(_asked(case, name, 1 / max(waiting, 1)))
        waiting -= row.verdict != NOT_ASKED
        rows.append(row)
        if not options.json:
            print(_line(row), flush=True)
    told = (
        guessed_parameters(graph.metadata),
        shared_weights(graph),
        rounds_at_most(graph.metadata),
    )
    notes = [*filter(None, told), *case.notes]
    if page is not None:
        write_bytes(page, _page(graph.name, head, rows, notes).encode())
    if options.out is not None:
        write_json(Path(options.out) / "map.json", _json(case, rows, share))
    text = "\n".join(notes)
    return report(options, _json(case, rows, share), text, any(row.verdict == FITS for row in rows))


def _asked(case: Case, name: str, share: float) -> Row:
    """The row of a problem, which takes this share of the time that is left."""
    if why := case.not_asked(name):
        return Row(name, NOT_ASKED, why)
    asked = {
        "throughput": case.throughput,
        "latency": case.latency,
        "fast-memory": case.fast_memory,
    }
    try:
        return asked[name](share)
    except DoesNotFitError as error:
        least = float(error.least_bytes.max())
        return Row(name, DOES_NOT, str(error).partition(": ")[2], least_memory_bytes=least)


def _line(row: Row) -> str:
    return f"{row.problem.replace('-', ' ') + ':':<13}{row.text}"


def _json(case: Case, rows: list[Row], share: float) -> dict[str, Any]:
    """The object of schema ``learned-mapping/map/1``."""
    graph = case.whole
    model = {
        "name": graph.name,
        "digest": graph.digest,
        "ops": graph.num_ops,
        "flop": float(graph.op_flop.sum()),
        "weight_bytes": int(graph.op_weight_bytes.sum()),
        "parameters": graph.metadata.get("guessed_parameters"),
        "unknown": graph.metadata.get("unknown_ops", {}),
        "unknown_share": share,
    }
    machine = machine_to_json(case.machine) | {"digest": case.machine.digest}
    answers = {}
    for row in rows:
        content = dataclasses.asdict(row)
        del content["picture"], content["problem"]
        answers[row.problem.replace("-", "_")] = content
    return {"schema": "learned-mapping/map/1", "model": model, "machine": machine, **answers}


STYLE = (
    "body{font:16px sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "svg{max-width:100%;height:auto}meter{width:20em}"
)


def _page(name: str, head: list[str], rows: list[Row], notes: list[str]) -> str:
    """One page that needs nothing else: the lines, the memory of each device, the pictures."""
    parts = [
        f"<h1>{html.escape(shown(name))}</h1>",
        *(f"<p>{html.escape(line)}</p>" for line in head),
    ]
    for row in rows:
        title = row.problem.replace("-", " ").capitalize()
        parts.append(f"<h2>{title}</h2><p>{html.escape(row.text)}</p>")
        for device, (held, has) in enumerate(zip(row.peak_bytes, row.memory_bytes)):
            words = f"device {device}: {size(held)} of {size(has)}"
            parts.append(f"<p><meter value='{min(held / has, 1):.4f}'></meter> {words}</p>")
        parts.append(row.picture)
    parts += ["<h2>What this rests on</h2>", *(f"<p>{html.escape(line)}</p>" for line in notes)]
    title = html.escape(shown(name))
    top = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    return f"{top}<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
