"""The stored graphs and programs: how each file under ``data/`` is made, and the facts on its card."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from learned_mapping.programs import zoo
from learned_mapping.programs.formats import write_graph, write_program
from learned_mapping.programs.synthetic import peak_live_bytes

GRAPHS = ("bert_large_inference",)
"""Members of the zoo stored as graphs."""
PROGRAMS = ("alexnet_train_batch_32",)
"""Members of the zoo stored as programs."""


def build_graphs(folder: str | os.PathLike, names: Iterable[str] = GRAPHS) -> list[dict[str, Any]]:
    """Traces members of the zoo into ``FOLDER/NAME.json.gz``; returns one row of facts each."""
    rows = []
    for name in names:
        path = Path(folder) / f"{name}.json.gz"
        graph = zoo.graph(name)
        write_graph(path, graph)
        rows.append(
            {
                "name": name,
                "ops": graph.num_ops,
                "edges": graph.num_edges,
                "GFLOP": round(float(graph.op_flop.sum()) / 1e9, 2),
                "parameters, millions": round(graph.metadata["parameters"] / 1e6, 2),
                "sha256": _sha256(path),
            }
        )
    return rows


def build_programs(folder: str | os.PathLike, machine: Any, names: Iterable[str] = PROGRAMS) -> list[dict[str, Any]]:
    """Schedules members of the zoo for `machine` into ``FOLDER/NAME.json.gz``; returns one row of facts each."""
    rows = []
    for name in names:
        path = Path(folder) / f"{name}.json.gz"
        program = zoo.program(name, machine)
        write_program(path, program)
        demand = float(program.buffer_demand_s[~program.buffer_is_output].sum())
        rows.append(
            {
                "name": name,
                "instructions": program.num_instructions,
                "buffers": program.num_buffers,
                "alias groups": program.num_alias_groups,
                "slow, ms": round(float(program.slow_s.sum()) * 1e3, 3),
                "possible saving, ms": round(program.possible_saving_s * 1e3, 3),
                "fast / peak bytes": round(program.fast_bytes / peak_live_bytes(program), 3),
                "operand demand / supply": round(demand / float(program.supply_s.sum()), 2),
                "sha256": _sha256(path),
            }
        )
    return rows


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
