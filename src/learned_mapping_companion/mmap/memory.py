"""The rules and edit-search where the chip has other memory: sixty programs with half of the 64 MiB
of the compiler's chip, with these, and with the 128 MiB of the paper's grid of 32,768 rows, if a
row has 4 KiB."""

from learned_mapping_companion.artifact import Artifact, Quick, Run, Runs
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.mmap.runs import plan_run, return_of
from learned_mapping_companion.mmap.speedup import AHEAD, QUICK_PROGRAMS
from learned_mapping_companion.table import Records, Rows, by, mean_row, row

SHARES = {"32 MiB": 0.5, "64 MiB": 1.0, "128 MiB": 2.0}
"""What is written of a memory -> its share of the programs' own."""
METHODS = ("greedy-tuned", "priced", "edit-search")
(RULE, PRICES), BOUND = METHODS[:2], "bound-prices"
SECONDS = 1.0  # Of one core, for each method.


def plan_memory(seeds: int) -> Runs:
    """A second of every method on every program with each memory; and its bound by prices."""
    for name in compiled.names():
        for share in SHARES.values():
            config = {"seconds": SECONDS, "memory": share}
            yield from (plan_run(method, name, config) for method in METHODS)
            settings = {"memory": share, "program": runs.program_digest(name)}
            yield Run("mmap.bound", BOUND, name, settings)


def assemble_memory(records: Records) -> Rows:
    """For each memory the mean ``return`` of each method over the programs, and of their bounds;
    and the ``difference`` of the two rules, with ``ahead`` and ``behind``, on how many programs the
    one with prices returns more and less."""
    for memory, share in SHARES.items():
        held = [record for record in records if record["config"]["memory"] == share]
        returns: dict[str, list[float]] = {}
        for method, group in by(held, "method").items():
            proven = method == BOUND
            returns[method] = [r["result"]["return"] if proven else return_of(r) for r in group]
            yield mean_row("all", method, "return", returns[method], memory=memory)
        gains = [ours - theirs for ours, theirs in zip(returns[PRICES], returns[RULE])]
        cells = {"memory": memory, "baseline": RULE}
        yield mean_row("all", PRICES, "difference", gains, **cells)
        for metric, sign in (("ahead", 1), ("behind", -1)):
            count = sum(sign * gain > AHEAD for gain in gains)
            yield row("all", PRICES, metric, count, n=len(gains), **cells)


MEMORY = Artifact("mmap.memory", assemble_memory, plan_memory, Quick(instances=QUICK_PROGRAMS))
