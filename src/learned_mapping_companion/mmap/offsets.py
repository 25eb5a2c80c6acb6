"""MiniMalloc's eleven instances: how much of the bytes each method finds offsets for, beside CP-SAT
in equal seconds.

Nothing can be copied and every lifetime is given, so a mapping is a choice of buffers and an offset
for each. All eleven fit as a whole (Moffitt, ASPLOS 2023).
"""

import numpy as np

from learned_mapping import clock
from learned_mapping.budget import Budget
from learned_mapping.doors.minimalloc import read_minimalloc
from learned_mapping.folders import data_folder
from learned_mapping.mmap.mapping import Mapping, mapping_at
from learned_mapping.mmap.methods import PLANS, solve
from learned_mapping.mmap.rules.actions import NO_OFFSET
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program
from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.mmap.runs import judged, return_of
from learned_mapping_companion.table import (
    Record,
    Records,
    Rows,
    grouped,
    mean_row,
    row,
    sweep,
)

INSTANCES = "ABCDEFGHIJK"
SECONDS = 20.0  # CPU seconds of one core.
CAPACITY = 1_048_576
REPLAYED = "heuristic-replayed"
"""The game played with the heuristic's choices of buffers, which gives each the lowest free offset
in program order."""
METHODS = ("heuristic", REPLAYED, "edit-search", "packing", "cp-sat")


def instance_of(name: str) -> Program:
    """One of the eleven, by its letter."""
    return read_minimalloc(data_folder() / "minimalloc" / f"{name}.{CAPACITY}.csv")


def packed_by_cp_sat(program: Program, seconds: float, seed: int = 0) -> Mapping:
    """The buffers and offsets of most bytes that CP-SAT finds, as rectangles of time and memory
    that do not overlap.

    For half of the `seconds`, of one core, it looks for offsets of all of them; then, where there
    was no answer, each may be left out, and it starts from the heuristic's plan, which is the
    mapping where it finds none better.
    """
    from ortools.sat.python import cp_model

    from learned_mapping.cp_sat import run

    start = solve(program, "heuristic").solution
    planned = np.full(program.num_tensors, NO_OFFSET)
    planned[program.buffer_tensor[start.placed]] = start.offset[start.placed]
    sizes = program.tensor_bytes.tolist()
    for all_of_them in (True, False):
        model, inside, offsets, spans, places = cp_model.CpModel(), [], [], [], []
        for size, (first, last), at in zip(sizes, program.tensor_live.tolist(), planned.tolist()):
            fits = size <= program.fast_bytes
            held = (
                model.new_constant(int(fits)) if all_of_them or not fits else model.new_bool_var("")
            )
            offset = model.new_int_var(0, max(program.fast_bytes - size, 0), "")
            spans.append(
                model.new_optional_fixed_size_interval_var(first, last + 1 - first, held, "")
            )
            places.append(model.new_optional_fixed_size_interval_var(offset, size, held, ""))
            if fits and not all_of_them:
                model.add_hint(held, at != NO_OFFSET)
                model.add_hint(offset, max(at, 0))
            inside.append(held)
            offsets.append(offset)
        model.add_no_overlap_2d(spans, places)
        if not all_of_them:
            model.maximize(cp_model.LinearExpr.weighted_sum(inside, sizes))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers, solver.parameters.random_seed = 1, seed
        solver.parameters.max_time_in_seconds = seconds / 2
        if run(solver, model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            at = [
                solver.value(o) if solver.value(h) else NO_OFFSET for h, o in zip(inside, offsets)
            ]
            return mapping_at(program, np.array(at))
    return mapping_at(program, planned)


def run_offsets(method: str, instance: str, config: Record, seed: int) -> Record:
    """The record of a method on an instance in ``config["seconds"]`` of one core; its return is the
    share of bytes."""
    program, seconds = instance_of(instance), config["seconds"]
    if method == "cp-sat":
        return judged(program, packed_by_cp_sat(program, seconds / clock.rate(), seed), exact=False)
    if method == REPLAYED:
        search = Search(program, Budget(samples=1))
        search.play_actions(solve(program, "heuristic").solution.action)
        return judged(program, search.mapping())
    result = solve(program, method, seed=seed, seconds=seconds, cpu=True)
    return judged(program, result.solution, exact=method not in PLANS)


def plan_offsets(seeds: int) -> Runs:
    """A run of every method on every instance."""
    return sweep("mmap.offsets", METHODS, INSTANCES, {"seconds": SECONDS})


def assemble_offsets(records: Records) -> Rows:
    """Per instance and over all ``share`` of the bytes that is placed; over all on how many all
    are, ``whole``."""
    shares: dict[str, list[float]] = {}
    for (name, method), group in grouped(records).items():
        share = return_of(group[0])
        shares.setdefault(method, []).append(share)
        yield row(name, method, "share", share, n=1)
    for method, values in shares.items():
        yield mean_row("all", method, "share", values)
        yield row(
            "all", method, "whole", sum(value > 1.0 - 1e-9 for value in values), n=len(values)
        )


OFFSETS = Artifact(
    "mmap.offsets",
    assemble_offsets,
    plan_offsets,
    Quick(instances=("B", "K"), config={"seconds": 2.0}),
)
