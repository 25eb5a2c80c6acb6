"""One function by every door: what its FLOP, weights and bytes are, over those of the trace."""

from learned_mapping_companion.artifact import Artifact, Quick, Runs
from learned_mapping_companion.table import Records, Rows, row, sweep

TRACE = "trace"
DOORS = ("text", "cpu", "tpu", "cuda")
"""StableHLO as JAX prints it, and its exports for three platforms."""
INSTANCE = "functions"
ALLOWED = {"flop": 0.02, "weights": 0.02, "bytes": 0.10}
"""How far a door may be from the trace, in shares of it."""


def plan_doors(seeds: int) -> Runs:
    """A run for each door, over all functions."""
    return sweep("mcm.doors", (TRACE, *DOORS), [INSTANCE])


def assemble_doors(records: Records) -> Rows:
    """By function and door the FLOP over the trace's, ``flop``, where the door takes the function,
    with ``weights`` and ``bytes`` likewise, and whether they are `ALLOWED`; by door the number of
    functions, ``taken``, and of those that are, ``alike``."""
    counts = {record["method"]: record["result"]["sizes"] for record in records}
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
            cells = dict(zip(("weights", "bytes"), others)) | {"alike": near}
            yield row(name, door, "flop", flop, **cells)
        yield row(INSTANCE, door, "taken", len(ratios))
        yield row(INSTANCE, door, "alike", alike)


BY_EVERY_DOOR = Artifact(
    "mcm.doors", assemble_doors, plan_doors, Quick(config={"functions": ["exp", "softmax"]})
)
