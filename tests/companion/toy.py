"""A small artifact for the tests of results, ledger and command line."""

from __future__ import annotations

from learned_mapping.companion.artifact import Artifact, Run
from learned_mapping.companion.statistics import summary_row

FUNCTION = "companion.run_functions:square"


def plan(profile: str, seeds: int) -> list[Run]:
    size = {"quick": 2, "full": 3, "paper": 4}[profile]
    return [Run(FUNCTION, "random", f"toy{i}", {"size": size}, seed) for i in range(size) for seed in range(seeds)]


def assemble(profile: str, records: list[dict]) -> dict:
    rows = []
    for instance in sorted({record["instance"] for record in records}):
        values = [float(r["result"]["square"]) for r in records if r["instance"] == instance]
        rows.append(summary_row(instance, "random", "return", values))
    paper = [{"instance": "toy0", "method": "random", "metric": "return", "value": 1.25}]
    return {"rows": rows, "paper": paper, "validated": len(records), "invalid": 0}


def broken_assemble(profile: str, records: list[dict]) -> dict:
    return assemble(profile, records) | {"invalid": 1}


TOY = Artifact("toy.table", 1, "A toy", plan, assemble, ("learned_mapping.budget",))
BROKEN = Artifact("toy.broken", 1, "A toy that breaks a rule", plan, broken_assemble, ("learned_mapping.budget",))
