"""No command prints a warning of Python's: what is wrong is told in one line, and what overflows is
told or avoided."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.programs.formats import write_graph
from learned_mapping.programs.graph import make_graph

BLOCKS = 1_120
"""Residual blocks: from 1,024 on, a sum over paths is beyond a float."""
HIDDEN = [word for kind in ("Deprecation", "PendingDeprecation", "Import", "Resource")
          for word in ("-W", f"ignore::{kind}Warning")]  # fmt: skip
"""What Python's own filters would not print either; all else is an error."""
COMMANDS = [
    [
        "solve",
        "mcm",
        "g.json",
        "--chips",
        "8",
        "--fold",
        "--method",
        "greedy-careful",
        "--out",
        "mcm.json",
    ],
    [
        "solve",
        "mcm",
        "g.json",
        "--hardware",
        "silicon",
        "--method",
        "random",
        "--samples",
        "20",
        "--out",
        "chips.json",
    ],
    ["solve", "regal", "g.json", "--method", "gp-dfs", "--out", "regal.json"],
    ["solve", "regal", "g.json", "--method", "brkga", "--evaluations", "60", "--out", "regal.json"],
    ["solve", "mmap", "g.json", "--method", "greedy", "--samples", "1", "--out", "mmap.json"],
    *(["check", "g.json", f"{solution}.json"] for solution in ("mcm", "regal", "mmap")),
    ["show", "mcm", "g.json", "mcm.json", "--out", "g.svg"],
]
CALLS = """
import json, sys
from learned_mapping.cli import main
for arguments in json.loads(sys.argv[1]):
    print("exit", main(arguments), *arguments, file=sys.stderr)
"""


def residual_graph(depth: int):
    """A chain of `BLOCKS` blocks of so many ops; the last of each adds what the block began
    with."""
    ops = 1 + BLOCKS * depth
    chain = [(op, op + 1) for op in range(ops - 1)]
    skips = [(depth * b, depth * (b + 1)) for b in range(BLOCKS)]
    edges = np.array(sorted(chain + skips))
    return make_graph(
        name="residual",
        op_names=[f"op{i}" for i in range(ops)],
        op_kinds=["input", *["dot_general", "tanh"] * (ops // 2)],
        op_flop=[0, *[1e6] * (ops - 1)],
        op_weight_bytes=[0, *[4096, 0] * (ops // 2)],
        tensor_names=[f"t{i}" for i in range(ops)],
        tensor_producer=range(ops),
        tensor_bytes=[1024] * ops,
        tensor_is_output=[False] * (ops - 1) + [True],
        edge_tensor=edges[:, 0],
        edge_consumer=edges[:, 1],
    )


@pytest.mark.parametrize("depth", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_no_command_prints_a_warning_of_python(tmp_path, depth):
    """Catches a count that doubles at every residual block, until it is infinite and NumPy says so
    in a terminal; and any other warning from a command on a graph of ten thousand ops."""
    write_graph(tmp_path / "g.json", residual_graph(depth))
    words = [sys.executable, "-W", "error", *HIDDEN, "-c", CALLS, json.dumps(COMMANDS)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0 and ran.stderr.count("exit 0") == len(COMMANDS), ran.stderr[-2000:]
    assert "Warning" not in ran.stderr


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_what_is_recomputed_once_a_path_stays_a_number(seconds):
    """Catches arithmetic that doubles at every block where the times a graph states are 0, so that
    all is cheap."""
    graph = residual_graph(8)
    if seconds is not None:
        graph = dataclasses.replace(
            graph, op_seconds=np.array([*[seconds] * (graph.num_ops - 1), 1.0])
        )
    folded = fold_cheap_sources(graph)
    assert 0 < folded.num_ops < graph.num_ops
    assert graph.op_flop.sum() <= folded.op_flop.sum() < 100 * graph.op_flop.sum()
