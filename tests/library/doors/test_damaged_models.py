"""Damaged models of each kind against `lmap trace`: a fixed seed, and ``make fuzz`` sets LMAP_FUZZ
for many more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import damaged_models

CASES = int(os.environ.get("LMAP_FUZZ", "400")) // 5
SECONDS, BYTES = 20.0, 2**30
PACKAGES = {"onnx": "onnx", "archive": "torch", "text,bytecode,export": "jax"}


@pytest.mark.parametrize("doors", PACKAGES)
def test_a_damaged_model_is_a_graph_or_one_line(doors):
    """Catches a traceback of ours or of a parser, a code of ours, more than one line, an output in
    spite of a fault, a gigabyte, and damage that no parser lets through or that all do."""
    pytest.importorskip(PACKAGES[doors])
    script = [sys.executable, str(Path(damaged_models.__file__)), doors, str(CASES)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [found["door"] for found in answers] == doors.split(",")
    for found in answers:
        assert found["broken"] == [] and set(found["codes"]) == {"0", "2"}, found
        assert min(found["codes"].values()) > CASES / 10
        assert found["seconds"] < SECONDS and found["bytes"] < BYTES


def test_every_door_is_tried():
    assert {door for doors in PACKAGES for door in doors.split(",")} == set(damaged_models.DOORS)


def test_a_fault_names_its_line(tmp_path):
    """Catches the parser's own heading, or a place of the writer's, told in place of what is
    wrong."""
    from learned_mapping.doors.models import read_model
    from learned_mapping.errors import InputError

    path = tmp_path / "m"
    text = damaged_models.TEXT.replace("return %x", "%y = stablehlo.not %x : tensor<4xf32> LOC")
    for place, said in (("", "line 2: "), ('loc("f"(callsite("g" at "h"))) ', "m: ")):
        wrong = text.replace("LOC : tensor<4xf32>", f"{place}\n  return %x : tensor<4xf32>")
        path.write_text(wrong)
        with pytest.raises(InputError) as told:
            read_model(path)
        assert f"{said}not StableHLO: " in str(told.value) and "operand #0" in str(told.value)
