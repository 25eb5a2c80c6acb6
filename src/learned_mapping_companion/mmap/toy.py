"""Tables of the page on paper 1's problem: the toy program, a game of it, and where the time of a
mapping goes."""

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

from learned_mapping.hardware.memory_hierarchy import program_latency
from learned_mapping.mmap.bounds.upper import integer_bound, upper_bound
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.rules.actions import ACTION_NAMES, DROP
from learned_mapping.mmap.rules.play import Game
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.program import Program
from learned_mapping_companion.display import Html, escaped, listing

PARTS = {
    "compute_s": "instructions",
    "arrival_stall_s": "waiting for data",
    "overwrite_stall_s": "waiting to overwrite",
    "write_back_s": "write-back",
    "drain_s": "copies at the end",
    "total_s": "total",
}
"""The parts of a program's latency, in words."""


def buffer_name(program: Program, b: int) -> str:
    """A buffer by its tensor and what its instruction does with it."""
    verb = "written" if program.buffer_is_output[b] else "read"
    return (
        f"{program.tensor_names[program.buffer_tensor[b]]} {verb} at"
        f" {program.buffer_instruction[b]}"
    )


def buffers_table(program: Program) -> Html:
    """The decisions of a game, in order."""
    columns = zip(program.buffer_bytes, program.buffer_demand_s, program.initial_benefit_s)
    rows = [(b + 1, buffer_name(program, b), *cells) for b, cells in enumerate(columns)]
    return listing(
        "Six decisions, in this order", ["", "buffer", "bytes", "copy takes (s)", "saves (s)"], rows
    )


def _outcome(action: int, outcome: Any) -> str:
    """The outcome of an action, in words."""
    if not outcome["legal"] or action == DROP:
        return "saves nothing" if outcome["legal"] else "illegal"
    start, end = outcome["start"], outcome["end"]
    held = f"[{start}, {end}]" if end >= start else "nothing new"
    return f"{held} at {outcome['offset']}, saves {outcome['reward_s']:g} s"


def moves_table(program: Program, moves: Sequence[int]) -> Html:
    """A game: at each move what all three actions would do, the one that is made in bold."""
    game, rows = Game(program), []
    for b, move in enumerate(moves):
        words = [_outcome(action, game.outcomes[action]) for action in range(len(ACTION_NAMES))]
        words[move] = Html(f"<b>{escaped(words[move])}</b>")
        rows.append((b + 1, buffer_name(program, b), *words))
        game.step(move)
    return listing("In bold the move that is made", ["", "buffer", *ACTION_NAMES], rows)


def times_table(program: Program, mappings: Dict[str, Mapping]) -> Html:
    """Return and latency of mappings, the latency by its parts in microseconds."""
    rows = []
    for name, mapping in mappings.items():
        latency, value = (
            program_latency(program, mapping),
            validate(program, mapping).costs["return"],
        )
        rows.append(
            (name, f"{value:.3f}", *(f"{1e6 * getattr(latency, part):,.1f}" for part in PARTS))
        )
    return listing(
        "Where the time goes, in microseconds", ["mapping", "return", *PARTS.values()], rows
    )


def bounds_table(programs: Sequence[Program]) -> Html:
    """Both upper bounds on the return of programs, and the size of the linear program."""
    rows = []
    for program in programs:
        linear, whole = upper_bound(program), integer_bound(program, seconds=20.0)
        sizes = f"{linear.variables:,}", f"{linear.constraints:,}"
        rows.append([program.name, f"{linear.value:.4f}", f"{whole.value:.4f}", *sizes])
    head = ["program", "linear", "whole decisions", "variables", "constraints"]
    return listing("Upper bounds on the return", head, rows)
