"""MiniMalloc's instances as a table: CP-SAT's mappings are the judge's, and the stored rows are of
all eleven."""

import pytest

from learned_mapping.doors.minimalloc import read_minimalloc
from learned_mapping.mmap.methods import solve
from learned_mapping.mmap.validate import validate
from learned_mapping_companion import results
from learned_mapping_companion.mmap.offsets import (
    METHODS,
    OFFSETS,
    packed_by_cp_sat,
)

# of MiniMalloc's README
EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


@pytest.mark.parametrize(("capacity", "share"), [(12, 1.0), (8, 0.8), (4, 0.6), (3, 0.0)])
def test_cp_sat_places_as_many_bytes_as_fit(tmp_path, capacity, share):
    """At 8 bytes one of b1 to b3 and b5 has to go at every time, b2 and b1 being apart; at 4 a
    chain of three fits."""
    path = tmp_path / f"example.{capacity}.csv"
    path.write_text(EXAMPLE)
    program = read_minimalloc(path)
    mapping = packed_by_cp_sat(program, 4.0)
    verdict = validate(program, mapping)
    assert verdict.valid and verdict.costs["return"] == pytest.approx(share, abs=1e-5)
    assert share >= solve(program, "heuristic").metrics["return"] - 1e-12


def test_the_plan_has_every_method_on_all_eleven():
    runs = OFFSETS.runs("full", 1)
    assert len({(run.instance, run.method) for run in runs}) == len(runs) == 11 * len(METHODS)


def test_the_rows_count_what_fits_as_a_whole():
    """Catches a mean over the wrong instances, and a whole that rounding made."""

    def record(instance: str, method: str, share: float) -> dict:
        result = {"judged": True, "valid": True, "costs": {"return": share}}
        return {"instance": instance, "method": method, "config": {}, "result": result}

    outcome = OFFSETS.result([record("A", "packing", 1.0), record("B", "packing", 0.999)])
    assert results.value(outcome, instance="all", method="packing", metric="whole") == 1
    assert results.value(
        outcome, instance="all", method="packing", metric="share"
    ) == pytest.approx(0.9995)
    assert outcome["validated"] == 2 and outcome["invalid"] == 0
