"""Tests of the artifact of silicon: rows of hand-made records, runs of a small graph, parameters as
recorded."""

import dataclasses

import numpy as np
import pytest
from learned_mapping_builders import mcm_tuning

from learned_mapping.folders import data_folder
from learned_mapping.hardware.chip_package import MIB
from learned_mapping.hardware.silicon import SRAM_BYTES, SiliconParameters
from learned_mapping.mcm.searches.even_cut import SPREAD
from learned_mapping.programs.json_io import read_json
from learned_mapping_companion.artifact import reported
from learned_mapping_companion.mcm import silicon as mcm_silicon
from learned_mapping_companion.worker import perform

PAPER = {row["metric"]: row["value"] for row in reported("mcm.fig7")}


def test_the_silicon_has_the_parameters_of_its_record():
    """Catches a calibration run anew whose result never reached the simulator, and one that chose
    by something else."""
    record = read_json(data_folder() / "mcm" / "silicon.json").value
    distance = [abs(row["pearson"] - PAPER["pearson"]) for row in record["candidates"]]
    assert record["candidates"][int(np.argmin(distance))] == record["best"]
    assert record["target"] == {
        "pearson": PAPER["pearson"],
        "invalid": PAPER["invalid_percent"] / 100,
    }
    assert SRAM_BYTES == record["sram_mib"] * MIB and list(SPREAD) == record["spread"]
    assert (
        abs(record["invalid"] - record["target"]["invalid"]) < 0.01
        and 0.2 < record["uniform_runs"] < 0.9
    )
    for name, value in dataclasses.asdict(SiliconParameters()).items():
        assert value == record["best"].get(name, value), name
    assert set(record["best"]) == {*mcm_tuning.RANGES, "pearson"}


def test_partitions_are_not_those_of_the_calibration():
    """Catches a check on the very samples that were fitted."""
    seeds = range(mcm_silicon.SEED_OFFSET, mcm_silicon.SEED_OFFSET + 100)
    assert mcm_tuning.SEED not in seeds


def test_correlation_by_hand():
    """Catches invalid partitions that count as run times of zero, and percentages over the wrong
    base."""
    predicted, measured = np.arange(1.0, 21.0), np.arange(1.0, 21.0) * 3
    measured[[4, 5, 6, 7]] = 0.0
    actual = mcm_silicon._correlated(predicted, measured)
    assert actual == pytest.approx(
        {"pearson": 1.0, "invalid_percent": 20.0, "false_positive_percent": 0.0}
    )
    measured[0] = 1000.0  # one of the two predicted fastest
    actual = mcm_silicon._correlated(predicted, measured)
    assert actual["pearson"] < 0.5 and actual["false_positive_percent"] == 50.0


def test_runs_of_a_small_graph():
    """Catches a run that cannot be performed in another process, and draws that depend on more than
    the seed."""
    config = {"chips": 3, "partitions": 4, "samples": 5}
    task = {"instance": "resnet_14", "config": config, "seed": 1}
    for method in mcm_silicon.SAMPLERS:
        outcomes = [perform(task | {"task": "silicon.sample", "method": method}) for _ in range(2)]
        assert outcomes[0]["result"] == outcomes[1]["result"], outcomes
        assert outcomes[0]["result"]["broken"] == 0
    for method in ("random", "sa"):
        assert perform(task | {"task": "silicon.measure", "method": method})["result"]["valid"]
    for method in ("optimum", "informed-cut", "class-search", "random-balanced"):
        actual = perform(task | {"task": "silicon.measure", "method": method})["result"]
        assert (
            actual["valid"]
            and actual["fits"]
            and 0 < actual["throughput"] < actual["predicted_throughput"]
        )
