"""A small artifact for the tests of results, ledger and command line."""

from collections.abc import Mapping

from learned_mapping_companion.artifact import Artifact, Quick, Run
from learned_mapping_companion.table import summary_row

FUNCTION = "companion.run_functions:square"


def plan(seeds: int) -> list[Run]:
    return [
        Run(FUNCTION, "random", f"toy{i}", {"size": 3}, seed)
        for i in range(3)
        for seed in range(seeds)
    ]


def assemble(records: list[dict]) -> dict:
    rows = []
    for instance in sorted({record["instance"] for record in records}):
        values = [float(r["result"]["square"]) for r in records if r["instance"] == instance]
        rows.append(summary_row(instance, "random", "return", values))
    return {"rows": rows, "validated": len(records), "invalid": 0}


def broken_assemble(records: list[dict]) -> dict:
    return assemble(records) | {"invalid": 1}


REPORTED = [{"instance": "toy0", "method": "random", "metric": "return", "value": 1.25}]
TITLES = {"toy.table": "A toy", "toy.broken": "A toy that breaks a rule"}
SMALL, LARGE = Quick(instances=2, config={"size": 2}), {"size": 2.0}
TOY = Artifact("toy.table", assemble, plan, SMALL, LARGE)
BROKEN = Artifact("toy.broken", broken_assemble, plan, SMALL, LARGE)


def install(
    monkeypatch, *artifacts: Artifact, parts: Mapping[str, list[str]] | None = None
) -> None:
    """Makes these the artifacts there are, with the artifacts that each is made of."""
    from learned_mapping.errors import InputError
    from learned_mapping_companion import artifact as module
    from learned_mapping_companion import display, ledger, results

    table = {
        item.id: {"title": TITLES.get(item.id, item.id), "parts": (parts or {}).get(item.id, [])}
        for item in artifacts
    }

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
