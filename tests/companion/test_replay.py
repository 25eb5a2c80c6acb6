"""Every stored result is what its stored records give: no row that was typed, and none that other
code would make."""

import json

import pytest

from learned_mapping_companion import fingerprints, results
from learned_mapping_companion.artifact import RUN, TABLE, Run, find_artifact
from learned_mapping_companion.records import read_records

LONG = ("mmap.table3", "mcm.fig5")
ARTIFACTS = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in TABLE]


def compared(rows):
    """Rows as JSON has them, but for those of what a clock measured: a run may have been timed
    again. Twelve digits of a number count: the last depend on how a processor adds."""
    rounded = json.loads(
        json.dumps(rows), parse_float=lambda text: pytest.approx(float(text), rel=1e-12, abs=1e-15)
    )
    return [row for row in rounded if row["metric"] != "seconds"]


@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_result_follows_from_its_records(name):
    """Catches a ratio turned upside down, seeds or programs mixed, a mean of another kind, an
    invalid solution that is not counted, records or a part replaced since: whatever changes a
    number that a reader is shown. And a method that a result holds runs of and that it would not
    notice to behave differently."""
    stored, artifact = results.load(name), find_artifact(name)
    records = read_records(results.runs_path(name))
    planned = [
        records[run.digest]
        for run in artifact.runs("full", stored["seeds"])
        if run.digest in records
    ]
    result = artifact.result(planned, *map(results.load, artifact.parts))
    assert compared(result["rows"]) == [row for row in stored["rows"] if row["metric"] != "seconds"]
    assert (result["validated"], result["invalid"]) == (stored["validated"], stored["invalid"])
    keys = {fingerprints.key_of(Run(*(record[name] for name in RUN))) for record in planned}
    assert keys - {*fingerprints.NO_METHOD} <= {*stored["fingerprints"]}
