"""A small artifact for the tests of results, ledger and command line."""

from learned_mapping_companion.artifact import Artifact, Run
from learned_mapping_companion.table import summary_row

FUNCTION = "companion.run_functions:square"


def plan(profile: str, seeds: int) -> list[Run]:
    size = {"quick": 2, "full": 3, "paper": 4}[profile]
    return [
        Run(FUNCTION, "random", f"toy{i}", {"size": size}, seed)
        for i in range(size)
        for seed in range(seeds)
    ]


def assemble(profile: str, records: list[dict]) -> dict:
    rows = []
    for instance in sorted({record["instance"] for record in records}):
        values = [float(r["result"]["square"]) for r in records if r["instance"] == instance]
        rows.append(summary_row(instance, "random", "return", values))
    return {"rows": rows, "validated": len(records), "invalid": 0}


def broken_assemble(profile: str, records: list[dict]) -> dict:
    return assemble(profile, records) | {"invalid": 1}


REPORTED = [{"instance": "toy0", "method": "random", "metric": "return", "value": 1.25}]
TOY = Artifact("toy.table", "A toy", plan, assemble)
BROKEN = Artifact("toy.broken", "A toy that breaks a rule", plan, broken_assemble)


def install(monkeypatch, *artifacts: Artifact) -> None:
    """Makes these the artifacts there are."""
    from learned_mapping.errors import InputError
    from learned_mapping_companion import artifact as module
    from learned_mapping_companion import display, ledger, results

    table = {item.id: {"title": item.title} for item in artifacts}

    def find(artifact_id: str) -> Artifact:
        for item in artifacts:
            if item.id == artifact_id:
                return item
        raise InputError(
            "artifact",
            artifact_id,
            f"is not known; there are: {', '.join(e.id for e in artifacts)}",
        )

    monkeypatch.setattr(module, "TABLE", table)
    monkeypatch.setattr(ledger, "TABLE", table)
    monkeypatch.setattr(module, "PAPERS", {**module.PAPERS, "toy": 1})
    monkeypatch.setattr(ledger, "PAPERS", {**module.PAPERS, "toy": 1})
    monkeypatch.setattr(results, "reported", lambda artifact_id: [dict(row) for row in REPORTED])
    for user in (module, results, display):
        monkeypatch.setattr(user, "find_artifact", find)
