"""One machine for the three problems: devices, the memories of each, the links between them.

A file of schema ``learned-mapping/machine/1``, YAML or JSON, or a preset by its name. Each paper
reads its part: paper 1 one device with its fast memory (`hierarchy_of`), paper 2 the devices as
chips in a row (`package_of`), paper 3 the devices and every link (`devices_of`).
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml

from learned_mapping.errors import InputError, alternative, shown
from learned_mapping.hardware.chip_package import MAX_NUMBER, ChipPackage
from learned_mapping.hardware.devices import MAX_DEVICES, Devices, Every
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.graph import MAX_CHIPS
from learned_mapping.programs.json_io import (
    Node,
    parse_json,
    read_bytes,
    schema_name,
    utf8_text,
)

SCHEMA = "learned-mapping/machine/1"
TRANSFERS = {"blocking": "rendezvous", "overlapped": "free", "queued": "queued"}
"""Whom a transfer keeps busy -> the name of `Devices`: both devices, nobody, or its link."""
FREE = "infinite"
MAX_BYTES, MAX_FAULTS = 2**18, 10
MAX_PAIRED = 64  # Devices whose links have a number each.
MOST_S = 1e6  # Of a latency or an overhead.
MOST_BYTES = 2**50  # Of a fast memory.
PRESETS = Path(__file__).with_name("machines")


@dataclass(frozen=True)
class FastMemory:
    """A small memory of a device that a program fills itself; a cache is none."""

    bytes: float
    bytes_per_s: float
    copy_bytes_per_s: float  # Of the one engine that copies from and to the device's memory.


@dataclass(frozen=True)
class Device:
    """One device; its FLOP/s are of the element type that the model computes in."""

    flop_per_s: float
    memory_bytes: float
    memory_bytes_per_s: float
    weight_bytes_per_s: float | None = None
    """Where weights come another way; as `memory_bytes_per_s` where None."""
    op_overhead_s: float = 0.0
    fast_memory: FastMemory | None = None


@dataclass(frozen=True)
class Links:
    """How devices are joined: one number for all, or [d][d] by source and target."""

    topology: str = "all-to-all"  # ``row``, ``all-to-all`` or ``pairs``.
    bytes_per_s: Every = float("inf")  # One way.
    latency_s: Every = 0.0
    transfers: str = "blocking"  # One of `TRANSFERS`.


@dataclass(frozen=True)
class Machine:
    """Devices in the order of a row, and their links."""

    name: str
    devices: tuple[Device, ...]
    links: Links = dataclasses.field(default_factory=Links)
    source: str = ""  # Where the numbers are from, in words.

    @property
    def digest(self) -> str:
        """SHA-256 of all that counts, in hexadecimal."""
        content = machine_to_json(self) | {"name": "", "source": ""}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def hierarchy_of(machine: Machine) -> MemoryHierarchy:
    """Paper 1's machine, of the first device; raises `InputError` where that has no fast memory."""
    device = machine.devices[0]
    fast = device.fast_memory
    if fast is None:
        fault = "none that a program fills itself (a cache is none): there is nothing to map"
        raise InputError(machine.name, "devices[0].fast_memory", fault)
    hierarchy = MemoryHierarchy(
        hbm_bytes_per_s=device.memory_bytes_per_s,
        cmem_bytes_per_s=fast.bytes_per_s,
        copy_bytes_per_s=fast.copy_bytes_per_s,
        cmem_bytes=fast.bytes,
        peak_flop_per_s=device.flop_per_s,
        overhead_s=device.op_overhead_s,
    )
    return hierarchy


def package_of(machine: Machine) -> ChipPackage:
    """Paper 2's chips; each sends to the next, however they are joined. A latency keeps no link
    busy, so it takes nothing from the results per second."""
    devices, chips = machine.devices, len(machine.devices)
    speeds = _matrix(machine.links.bytes_per_s, chips)
    links = [float(speeds[chip, chip + 1]) for chip in range(chips - 1)] or [float("inf")]
    weights = [d.weight_bytes_per_s or d.memory_bytes_per_s for d in devices]
    package = ChipPackage(
        chips=chips,
        flop_per_s=_column(devices, "flop_per_s"),
        sram_bytes=_column(devices, "memory_bytes"),
        sram_bytes_per_s=_column(devices, "memory_bytes_per_s"),
        weight_bytes_per_s=_once(weights),
        link_bytes_per_s=_once([*links, links[-1]][:chips]),
        op_overhead_s=_column(devices, "op_overhead_s"),
    )
    return package


def devices_of(machine: Machine) -> Devices:
    """Paper 3's devices; on a row what is sent passes each device in between.

    Raises:
      InputError: more devices than paper 3's methods take.
    """
    devices, links = machine.devices, machine.links
    d = len(devices)
    if d > MAX_DEVICES:
        raise InputError(machine.name, "devices", f"{d}, schedules are for at most {MAX_DEVICES}")
    speed, latency = links.bytes_per_s, links.latency_s
    if links.topology == "row" and d > 2:
        hops = np.maximum(abs(np.subtract.outer(np.arange(d), np.arange(d))), 1)
        speed, latency = _rows(_matrix(speed, d) / hops), _rows(_matrix(latency, d) * hops)
    joined = Devices(
        memory_bytes=_column(devices, "memory_bytes"),
        flop_per_s=_column(devices, "flop_per_s"),
        bytes_per_s=_column(devices, "memory_bytes_per_s"),
        devices=d,
        transfers=TRANSFERS[links.transfers],
        link_bytes_per_s=speed,
        link_latency_s=latency,
        op_overhead_s=_column(devices, "op_overhead_s"),
    )
    return joined


def _column(devices: tuple[Device, ...], name: str) -> Any:
    return _once([getattr(device, name) for device in devices])


def _once(values: list[float]) -> Any:
    """One number where all are equal, so that alike devices look like those of the papers."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def _matrix(value: Every, d: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value, float), (d, d))


def _rows(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


class _Faults(list[str]):
    """What is wrong with a file: all of it, each with its place."""

    def tried(self, read: Callable[[Node], Any], node: Node) -> Any:
        """What a reader makes of a value; None where it complains."""
        try:
            return read(node)
        except InputError as error:
            self.append(f"{error.field}: {error.fault}")
            return None

    def members(
        self, node: Node, readers: Mapping[str, Callable[[Node], Any]], required: tuple[str, ...]
    ) -> dict[str, Any]:
        """The members of an object, each as its reader has it."""
        found: dict[str, Any] = {}
        if self.tried(lambda node: node.mapping(1000), node) is None:
            return found
        prefix = f"{node.field}." if node.field else ""
        for name in required:
            if name not in node.value:
                self.append(f"{prefix}{name}: missing")
        for name, value in node.value.items():
            if name in readers:
                found[name] = self.tried(readers[name], Node(value, node.source, prefix + name))
            else:
                self.append(f"{prefix}{shown(name)}: unknown{alternative(name, readers)}")
        return found

    def end(self, source: object) -> None:
        """Raises `InputError` with all of them, where there are any."""
        if len(self) == 1:
            field, _, fault = self[0].partition(": ")
            raise InputError(source, field, fault)
        if self:
            rest = len(self) - MAX_FAULTS
            others = [f"and {rest:,} more"] if rest > 0 else []
            raise InputError(
                source, "", f"{len(self):,} faults: {'; '.join(self[:MAX_FAULTS] + others)}"
            )


def _positive(node: Node) -> float:
    if (value := node.number(0, MAX_NUMBER)) == 0:
        node.fail("must be above 0, got 0")
    return value


def _bytes(node: Node, most: float = MAX_NUMBER) -> float:
    return node.number(1, most)


def _speed(node: Node) -> float:
    """A bandwidth in bytes/s, or ``infinite``."""
    if node.value == FREE:
        return float("inf")
    if isinstance(node.value, str):
        node.fail(f"expected a number or {FREE}, got {shown(node.value)!r}")
    return _positive(node)


def _seconds(node: Node) -> float:
    return node.number(0, MOST_S)


RATES = ("flop_per_s", "memory_bytes", "memory_bytes_per_s")
FAST = tuple(field.name for field in dataclasses.fields(FastMemory))


def machine_of(node: Node) -> Machine:
    """The machine a value describes; raises `InputError`, which names every fault."""
    if isinstance(node.value, dict) and "schema" in node.value and schema_name(node) != "machine":
        raise InputError(node.source, "schema", f"expected {SCHEMA}, got {node.value['schema']!r}")
    faults = _Faults()
    readers: dict[str, Callable[[Node], Any]] = {
        "schema": Node.string,
        "name": Node.name,
        "source": lambda node: node.string(2000),
        "devices": partial(_devices, faults),
        "links": lambda node: node,
    }
    top = faults.members(node, readers, ("schema", "name", "devices"))
    devices = top.get("devices") or []
    links = Links()
    if "links" in top:
        links = _links(faults, top["links"], len(devices))
    elif len(devices) > 1:
        how = f"several devices say how they are joined: topology, bytes_per_s (or {FREE})"
        faults.append(f"links: missing: {how}")
    faults.end(node.source)
    return Machine(top["name"], tuple(devices), links, top.get("source", ""))


def _devices(faults: _Faults, node: Node) -> list[Any]:
    """A `Device` for each that there is, None in the place of what is faulty."""
    devices: list[Any] = []
    for element in node.elements(MAX_CHIPS):
        readers: dict[str, Callable[[Node], Any]] = {
            **dict.fromkeys((*RATES, "weight_bytes_per_s"), _positive),
            "memory_bytes": _bytes,
            "count": lambda node: node.integer(1, MAX_CHIPS),
            "op_overhead_s": _seconds,
            "fast_memory": partial(_fast_memory, faults),
        }
        row = faults.members(element, readers, RATES)
        count = row.pop("count", None) or 1
        devices += [None if faults else Device(**row)] * count
        if len(devices) > MAX_CHIPS:
            node.fail(f"{len(devices):,} devices, at most {MAX_CHIPS:,} are supported")
    if not devices:
        node.fail("expected a device, got none")
    return devices


def _fast_memory(faults: _Faults, node: Node) -> FastMemory | None:
    row = faults.members(
        node, dict.fromkeys(FAST, _positive) | {"bytes": partial(_bytes, most=MOST_BYTES)}, FAST
    )
    return None if faults else FastMemory(**row)


def _links(faults: _Faults, node: Node, count: int) -> Any:
    pairs = isinstance(node.value, dict) and node.value.get("topology") == "pairs"
    readers: dict[str, Callable[[Node], Any]] = {
        "topology": lambda node: node.choice("row", "all-to-all", "pairs"),
        "transfers": lambda node: node.choice(*TRANSFERS),
        "bytes_per_s": partial(_every, _speed, pairs, count, float("inf")),
        "latency_s": partial(_every, _seconds, pairs, count, 0.0),
    }
    row = faults.members(node, readers, ("topology", "bytes_per_s"))
    return None if faults else Links(**row)


def _every(read: Callable[[Node], float], pairs: bool, count: int, own: float, node: Node) -> Every:
    """One number, or [d][d] by source and target; a device reaches itself as `own` says."""
    if not pairs or not isinstance(node.value, list):
        return read(node)
    rows = [row.elements(MAX_PAIRED) for row in node.elements(MAX_PAIRED)]
    if {len(rows), *map(len, rows)} != {count}:
        node.fail(f"expected {count} rows of {count} numbers, by source and target")
    return tuple(
        tuple(own if i == j else read(cell) for j, cell in enumerate(row))
        for i, row in enumerate(rows)
    )


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """The JSON object of a machine; `machine_of` turns it back into an equal one."""
    devices = []
    for device, alike in groupby(machine.devices):
        row = dataclasses.asdict(device)
        kept = {name: value for name, value in row.items() if value is not None}
        devices.append({"count": len(list(alike))} | kept)
    links = dataclasses.asdict(machine.links)
    links["bytes_per_s"] = _finite(links["bytes_per_s"])
    content = {"schema": SCHEMA, "name": machine.name, "devices": devices, "links": links}
    return content | ({"source": machine.source} if machine.source else {})


def _finite(value: Any) -> Any:
    """Bandwidths as JSON can say them."""
    if isinstance(value, tuple):
        return [_finite(entry) for entry in value]
    return FREE if np.isinf(value) else value


TAG = "tag:yaml.org,2002:"
SCALARS = {
    "null": r"~|null|",
    "bool": r"true|false",
    "int": r"-?(0|[1-9]\d{0,17})",
    "float": r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?",
}
"""What a word is that no quotes make text, as JSON has it; the first that fits."""


class _Loader(yaml.SafeLoader):
    """YAML's values that JSON has too; a key is a word and stands once."""

    yaml_implicit_resolvers: ClassVar[dict] = {}
    yaml_constructors: ClassVar[dict] = {
        None: yaml.SafeLoader.construct_undefined,
        **{
            TAG + kind: yaml.SafeLoader.yaml_constructors[TAG + kind]
            for kind in ("map", "seq", "str", *SCALARS)
        },
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, key in enumerate(keys):
            if not isinstance(key, str) or key in keys[:place]:
                fault = "stands twice" if isinstance(key, str) else "is no word"
                raise yaml.MarkedYAMLError(problem=f"{key!r} {fault}", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


for kind, pattern in SCALARS.items():
    _Loader.add_implicit_resolver(TAG + kind, re.compile(f"(?:{pattern})$"), None)


def _yaml(data: bytes, source: object) -> Node:
    try:
        return Node(yaml.load(utf8_text(data, source), _Loader), source)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(source, line, f"not YAML ({error.problem})") from None
    except InputError:
        raise
    except Exception as error:  # whatever a stranger's tags make the library do
        raise InputError(source, "", f"not YAML ({shown(error)})") from None


def read_machine(name: str) -> Machine:
    """The preset of this name, or the machine of a file; raises `InputError`."""
    known = sorted(path.stem for path in PRESETS.glob("*.yml"))
    preset = name in known
    path = PRESETS / f"{name}.yml" if preset else Path(name)
    if not preset and not os.path.exists(path):
        hint = alternative(name, known) or f"; known are {', '.join(known)}"
        raise InputError(name, "", f"no such file, and no machine of that name{hint}")
    data = read_bytes(path, MAX_BYTES)
    packed = data.lstrip()[:1] == b"{"
    return machine_of(parse_json(data, name) if packed else _yaml(data, name))
