"""One machine file for three problems: presets, what each problem sees of it, and its faults."""

import dataclasses
import json

import numpy as np
import pytest

from cli_files import MACHINE
from learned_mapping.errors import InputError
from learned_mapping.hardware import machine as machines
from learned_mapping.hardware.chip_package import ChipPackage
from learned_mapping.hardware.devices import Devices
from learned_mapping.hardware.machine import (
    devices_of,
    hierarchy_of,
    machine_of,
    machine_to_json,
    package_of,
    read_machine,
)
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.json_io import Node

PRESETS = sorted(path.stem for path in machines.PRESETS.glob("*.yml"))
WORKSTATION = """
schema: learned-mapping/machine/1
name: workstation
source: "data sheets of both cards"
devices:                          # in this order in a row
  - flop_per_s: 165e12
    memory_bytes: 24e9
    memory_bytes_per_s: 1008e9
    op_overhead_s: 3e-6
  - {count: 2, flop_per_s: 71e12, memory_bytes: 12e9, memory_bytes_per_s: 504e9, weight_bytes_per_s: 1e9}
links: {topology: all-to-all, bytes_per_s: 25e9, latency_s: 10e-6, transfers: queued}
"""


def of_text(folder, text):
    (folder / "machine.yml").write_text(text)
    return read_machine(str(folder / "machine.yml"))


def with_links(count, **links):
    """A machine of alike devices, joined so."""
    device = {**MACHINE["devices"][0], "count": count}
    return machine_of(Node({**MACHINE, "devices": [device], "links": links}, "machine"))


def test_the_papers_machines_are_presets():
    """Would catch a table that moves because somebody named its machine."""
    assert hierarchy_of(read_machine("paper-1")) == MemoryHierarchy()
    assert package_of(read_machine("paper-2")) == ChipPackage()
    assert devices_of(read_machine("paper-3")) == Devices()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_its_sheet(name):
    """Would catch numbers from nowhere, and assumptions that look like a sheet's."""
    machine = read_machine(name)
    assert len(machine.source) > 50 and len(machine.devices) == int(
        {"paper-1": 1, "paper-2": 36, "paper-3": 2, "tpu-v5e-8": 8}.get(name, 4)
    )
    text = json.dumps(machine_to_json(machine), allow_nan=False)
    assert machine_of(Node(json.loads(text), name)) == machine


def test_each_problem_sees_its_part(tmp_path):
    """Rates by hand: would catch a column in another order, or a field that reaches nobody."""
    machine = of_text(tmp_path, WORKSTATION)
    package = package_of(machine)
    assert package.chips == 3 and package.flop_per_s == (165e12, 71e12, 71e12)
    assert package.sram_bytes == (24e9, 12e9, 12e9)
    assert package.sram_bytes_per_s == (1008e9, 504e9, 504e9)
    assert package.weight_bytes_per_s == (1008e9, 1e9, 1e9)
    assert package.op_overhead_s == (3e-6, 0, 0) and package.link_bytes_per_s == 25e9
    devices = devices_of(machine)
    assert devices.transfers == "queued" and devices.op_overhead_s == (3e-6, 0, 0)
    assert (devices.link_bytes_per_s, devices.link_latency_s) == (25e9, 10e-6)
    assert devices.memory_bytes == (24e9, 12e9, 12e9)
    with pytest.raises(InputError, match=r"workstation: devices\[0\]\.fast_memory: none"):
        hierarchy_of(machine)
    slow = machine_of(Node(MACHINE, "slow"))
    core = hierarchy_of(slow)
    assert (core.cmem_bytes, core.cmem_bytes_per_s, core.copy_bytes_per_s) == (2048, 1e12, 1e9)
    assert (core.hbm_bytes_per_s, core.peak_flop_per_s, core.overhead_s) == (512e9, 1e6, 0)


def test_a_row_passes_on(tmp_path):
    """Three hops take a third of the bandwidth and three latencies. Would catch a row that costs
    what all-to-all costs."""
    row = devices_of(with_links(4, topology="row", bytes_per_s=3e9, latency_s=1e-6))
    hops = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    speed, latency = row.links
    away = hops > 0
    assert np.allclose(speed[away], 3e9 / hops[away]) and np.allclose(latency, 1e-6 * hops)
    assert devices_of(with_links(4, topology="row", bytes_per_s="infinite")).free_links


def test_pairs_are_as_they_stand():
    """By source and target, the diagonal no matter what. Would catch a transposed matrix."""
    speeds = [[0, 1e9, 2e9], [3e9, 0, "infinite"], [5e9, 6e9, 0]]
    machine = with_links(3, topology="pairs", bytes_per_s=speeds, latency_s=1e-6)
    speed, latency = devices_of(machine).links
    assert speed[0].tolist() == [np.inf, 1e9, 2e9] and speed[1, 2] == np.inf
    assert speed[2, 0] == 5e9 and latency[2, 0] == 1e-6 and latency[1, 1] == 0
    assert package_of(machine).link_bytes_per_s == (1e9, np.inf, np.inf)
    assert machine_of(Node(machine_to_json(machine), "again")) == machine


def test_one_device_needs_no_links():
    whole = {name: value for name, value in MACHINE.items() if name != "links"}
    device = {**MACHINE["devices"][0], "count": 1}
    machine = machine_of(Node({**whole, "devices": [device]}, "machine"))
    assert package_of(machine).chips == devices_of(machine).devices == 1
    many = machine_of(Node({**MACHINE, "devices": [{**device, "count": 9}]}, "machine"))
    with pytest.raises(InputError, match="devices: 9, schedules are for at most 8"):
        devices_of(many)
    assert package_of(many).chips == 9


FAULTY = """
schema: learned-mapping/machine/1
devices:
  - {flops_per_s: 1, memory_bytes: 12GB, memory_bytes_per_s: 0, count: 0}
  - 5
  - {flop_per_s: 1e12, memory_bytes: 1e9, memory_bytes_per_s: yes, fast_memory: {bytes: -1}}
links: {topology: ring, transfers: "no"}
colour: red
"""
FAULTS = """12 faults: name: missing; devices[0].flop_per_s: missing;
devices[0].flops_per_s: unknown; did you mean flop_per_s?;
devices[0].memory_bytes: expected a number, got '12GB';
devices[0].memory_bytes_per_s: must be above 0, got 0; devices[0].count: 0 is outside [1, 4096];
devices[1]: expected an object, got 5; devices[2].memory_bytes_per_s: expected a number, got 'yes';
devices[2].fast_memory.bytes_per_s: missing; devices[2].fast_memory.copy_bytes_per_s: missing;
and 5 more"""


def test_all_faults_are_told_at_once(tmp_path):
    """Would catch a user who has to try a file once for each of its faults."""
    with pytest.raises(InputError) as caught:
        of_text(tmp_path, FAULTY)
    told = str(caught.value).partition("machine.yml: ")[2]
    count, _, rest = told.partition(" faults: ")
    assert int(count) == 15
    assert rest == FAULTS.replace("\n", " ").partition(" faults: ")[2]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected an object, got null"),
        ("a: 1\na: 2", "line 1: not YAML ('a' stands twice)"),
        ("? [a]\n: 3", "is no word"),
        ("&a [*a]", "expected an object, got an array"),
        ("[" * 3000, "not YAML"),
        ("- " * 3000, "not YAML"),
        ("!!python/object:os.system x", "not YAML"),
        ("!!float x", "not YAML"),
        ("!!timestamp 2020-01-01", "not YAML"),
        ("name: \x00", "not YAML"),
        ("schema: learned-mapping/package/1", "expected learned-mapping/machine/1"),
        ("schema: 1", "schema: expected a string"),
        (WORKSTATION.replace("bytes_per_s: 25e9", "bytes_per_s: fast"), "a number or infinite"),
        (WORKSTATION.replace("bytes_per_s: 25e9", "bytes_per_s: [[1]]"), "expected a number"),
        (WORKSTATION.replace("all-to-all, bytes_per_s: 25e9", "pairs, bytes_per_s: [[1, 2]]"), "3 rows of 3"),
        (WORKSTATION.replace("links:", "lines:"), "links: missing: several devices say"),
        (WORKSTATION.replace("count: 2", "count: 2.5"), "expected an integer, got 2.5"),
        (WORKSTATION.replace("count: 2", "count: 4096"), "devices: 4,097 devices, at most 4,096"),
        (WORKSTATION.replace("165e12", ".nan"), "expected a number, got '.nan'"),
        (WORKSTATION.replace("165e12", "1e400"), "is outside"),
        (WORKSTATION.replace("3e-6", "0x10"), "expected a number, got '0x10'"),
        (WORKSTATION.replace("- flop", "- &a\n    flop") + "more: *a", "more: unknown"),
    ],
)  # fmt: skip
def test_a_faulty_file_is_one_line(tmp_path, text, fault):
    """Would catch YAML's own types and tags, endless nesting, numbers that are text."""
    with pytest.raises(InputError) as caught:
        of_text(tmp_path, text)
    assert fault in str(caught.value) and str(caught.value).isprintable()


def test_names_are_guessed(tmp_path, monkeypatch):
    """Would catch a preset that nobody finds, or a file behind a preset's name."""
    with pytest.raises(InputError, match="did you mean 4xa100-pcie"):
        read_machine("4xa100-pci")
    with pytest.raises(InputError, match=r"known are .*paper-1, paper-2"):
        read_machine("zzz")
    with pytest.raises(InputError, match="is a folder"):
        read_machine(str(tmp_path))
    alike = of_text(tmp_path, json.dumps(MACHINE))
    other = dataclasses.replace(alike, name="another", source="")
    assert alike.digest == other.digest != read_machine("paper-2").digest
