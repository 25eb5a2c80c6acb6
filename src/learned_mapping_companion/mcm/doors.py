"""One function by every door: what its FLOP, weights and bytes are, over those of the trace."""

from collections.abc import Sequence

from learned_mapping_companion.artifact import Run
from learned_mapping_companion.table import Record, Row, assembled, row, sweep

TRACE = "trace"
DOORS = ("text", "cpu", "tpu", "cuda")
"""StableHLO as JAX prints it, and its exports for three platforms."""
INSTANCE = "functions"
QUICK = ("exp", "softmax")
ALLOWED = {"flop": 0.02, "weights": 0.02, "bytes": 0.10}
"""How far a door may be from the trace, in shares of it."""


def plan_doors(profile: str, seeds: int) -> list[Run]:
    """A run for each door, over all functions."""
    config = {"functions": list(QUICK)} if profile == "quick" else {}
    return sweep("mcm.doors", (TRACE, *DOORS), [INSTANCE], config)


def assemble_doors(profile: str, records: Sequence[Record]) -> Record:
    """By function and door the FLOP over the trace's, ``flop``, where the door takes the function,
    with ``weights`` and ``bytes`` likewise, and whether they are `ALLOWED`; by door the number of
    functions, ``taken``, and of those that are, ``alike``."""
    counts = {record["method"]: record["result"]["sizes"] for record in records}
    entries: list[Row] = []
    for door in DOORS:
        ratios = {
            name: [max(one, 1) / max(other, 1) for one, other in zip(found, counts[TRACE][name])]
            for name, found in counts[door].items()
            if isinstance(found, list)
        }
        alike = 0
        for name, (flop, *others) in ratios.items():
            ends = zip((flop, *others), ALLOWED.values())
            near = all(abs(one - 1) <= most for one, most in ends)
            alike += near
            about = dict(zip(("weights", "bytes"), others)) | {"alike": near}
            entries.append(row(name, door, "flop", flop, **about))
        entries.append(row(INSTANCE, door, "taken", len(ratios)))
        entries.append(row(INSTANCE, door, "alike", alike))
    return assembled(entries)
