"""Small valid files of every format, and the command that reads each, for the tests of the command
line."""

import copy
import json
from pathlib import Path
from typing import Any

from learned_mapping.cli import main
from learned_mapping.programs.formats import graph_from_json, program_from_json
from learned_mapping.programs.json_io import Node

GRAPH: dict[str, Any] = {
    "schema": "learned-mapping/graph/1",
    "name": "diamond",
    "ops": [
        {"name": "a", "kind": "input", "flop": 0},
        {"name": "b", "kind": "dot_general", "flop": 4e6, "weight_bytes": 4096},
        {"name": "c", "kind": "tanh", "flop": 1e3},
        {"name": "d", "kind": "add", "flop": 1e3},
    ],
    "tensors": [
        {"name": "ta", "producer": "a", "bytes": 1024, "consumers": ["b", "c"]},
        {"name": "tb", "producer": "b", "bytes": 2048, "consumers": ["d"]},
        {"name": "tc", "producer": "c", "bytes": 1024, "consumers": ["d"]},
        {"name": "td", "producer": "d", "bytes": 512, "consumers": [], "output": True},
    ],
    "metadata": {"ports_without_output": "many"},
}
PROGRAM: dict[str, Any] = {
    "schema": "learned-mapping/program/1",
    "name": "two steps",
    "memory": {"fast_bytes": 2048, "copy_bytes_per_s": 1e9},
    "tensors": [
        {"name": "p", "bytes": 1024, "parameter": True},
        {"name": "h", "bytes": 1024},
        {"name": "y", "bytes": 512, "output": True},
    ],
    "instructions": [
        {
            "name": "i0",
            "kind": "fusion",
            "buffers": [{"tensor": "p", "role": "input"}, {"tensor": "h", "role": "output"}],
            "varied": [0, 1],
            "latency_s": [9e-6, 7e-6, 8e-6, 5e-6],
        },
        {
            "name": "i1",
            "kind": "fusion",
            "buffers": [{"tensor": "h", "role": "input"}, {"tensor": "y", "role": "output"}],
            "latency_s": [9e-6, 6e-6, 8e-6, 5e-6],
        },
    ],
}
_graph_digest = graph_from_json(Node(copy.deepcopy(GRAPH), "graph")).digest
_program_digest = program_from_json(Node(copy.deepcopy(PROGRAM), "program")).digest
MAPPING: dict[str, Any] = {
    "schema": "learned-mapping/mapping/1",
    "instance": {"name": "two steps", "digest": _program_digest},
    "decisions": [
        {"action": "drop"},
        {"action": "nocopy", "offset": 0, "start": 0, "end": 1},
        {"action": "nocopy", "offset": 0, "start": 2, "end": 1},
        {"action": "drop"},
    ],
}
PARTITION: dict[str, Any] = {
    "schema": "learned-mapping/partition/1",
    "graph": "diamond",
    "digest": _graph_digest,
    "chips": 2,
    "assignment": {"a": 0, "b": 0, "c": 0, "d": 1},
}
SCHEDULE: dict[str, Any] = {
    "schema": "learned-mapping/schedule/1",
    "graph": "diamond",
    "digest": _graph_digest,
    "devices": 2,
    "placement": {"a": 0, "b": 0, "c": 0, "d": 1},
    "order": [
        {"op": "a"},
        {"op": "b"},
        {"op": "c"},
        {"transfer": "tb", "to": 1},
        {"transfer": "tc", "to": 1},
        {"op": "d"},
    ],
}
MACHINE: dict[str, Any] = {
    "schema": "learned-mapping/machine/1",
    "name": "slow",
    "source": "a guess",
    "devices": [
        {
            "count": 2,
            "flop_per_s": 1e6,
            "memory_bytes": 1e9,
            "memory_bytes_per_s": 512e9,
            "op_overhead_s": 0,
            "fast_memory": {"bytes": 2048, "bytes_per_s": 1e12, "copy_bytes_per_s": 1e9},
        }
    ],
    "links": {
        "topology": "row",
        "bytes_per_s": 32e9,
        "latency_s": 1e-6,
        "transfers": "queued",
    },
}
SLOW = json.dumps(MACHINE)
COSTGRAPH = """node { name: "a" id: 0 compute_cost: 5 output_info { size: 1024 } }
node { name: "b" id: 1 compute_cost: 7 input_info { preceding_node: 0 preceding_port: 0 } output_info { size: 64 } }
node { name: "c" id: 2 compute_cost: 7 control_input: 1 is_final: true }
"""
VALID = {
    "graph": GRAPH,
    "program": PROGRAM,
    "mapping": MAPPING,
    "partition": PARTITION,
    "schedule": SCHEDULE,
    "machine": MACHINE,
}


def edited(kind: str, *path: str | int, value: Any = None, drop: bool = False) -> dict[str, Any]:
    """A copy of the valid file of this kind in which the value at `path` is replaced or dropped."""
    actual = copy.deepcopy(VALID[kind])
    target: Any = actual
    for key in path[:-1]:
        target = target[key]
    if drop:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return actual


def command(kind: str, path: Path, folder: Path) -> list[str]:
    """The command line that reads a file of this kind; instances of solutions lie in `folder`."""
    if kind in ("graph", "costgraph"):
        return [
            "solve",
            "regal",
            str(path),
            "--method",
            "list-scheduler",
            "--out",
            str(folder / "out.json"),
        ]
    if kind == "program":
        return [
            "solve",
            "mmap",
            str(path),
            "--method",
            "random",
            "--samples",
            "1",
            "--out",
            str(folder / "out.json"),
        ]
    if kind == "machine":
        return [
            *("solve", "mcm", str(folder / "graph.json"), "--machine", str(path)),
            *("--method", "greedy-careful", "--out", str(folder / "out.json")),
        ]
    paper = {"mapping": "mmap", "partition": "mcm", "schedule": "regal"}[kind]
    return [
        "check",
        paper,
        str(folder / ("program.json" if paper == "mmap" else "graph.json")),
        str(path),
    ]


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def one_line(err: str) -> str:
    """What a command says on stderr, which must be one printable line of its own."""
    assert err.startswith("lmap: ") and err.endswith("\n") and err[:-1].isprintable(), err
    return err[:-1]


def refused(code: int, err: str) -> str:
    """`one_line` of a command that must refuse its input."""
    assert code == 2, (code, err)
    return one_line(err)


def answer(capsys, *arguments: object) -> dict[str, Any]:
    """What a command that must succeed says in JSON."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def refusal(capsys, *arguments: object) -> str:
    """The line of a command that must refuse its input."""
    code, _, err = run(capsys, *arguments)
    return refused(code, err)
