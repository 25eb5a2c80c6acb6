import pytest

from learned_mapping.folders import data_folder
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.agent.config import AgentConfig
from learned_mapping.mcm.methods import BALANCED
from learned_mapping.mcm.searches.stochastic import AnnealingParameters, BalancedParameters
from learned_mapping.mcm.silicon import PROBLEM
from learned_mapping.programs.json_io import read_json
from learned_mapping_companion.artifact import PROFILES, TABLE, find_artifact
from learned_mapping_companion.figures.mcm import broken_example
from learned_mapping_companion.mcm import classical, cp_sat, eq_4, graphs
from learned_mapping_companion.mcm import silicon as mcm_silicon
from learned_mapping_companion.mcm.graphs import load_graph
from learned_mapping_companion.runs import task_of
from learned_mapping_companion.worker import perform

IDS = [name for name in TABLE if name.startswith("mcm.") and name != "mcm.doors"]
"""All but the doors', whose runs are of no graph's."""
OF_CODE = ("mcm.fig1", "mcm.fig3", "mcm.fig4")
"""Without runs: their numbers are the code's."""


@pytest.mark.parametrize("name", IDS)
def test_plans_ask_for_what_exists(name):
    """Catches a renamed method or graph."""
    artifact = find_artifact(name)
    known = {*PROBLEM.methods(), *classical.ENGINES, *classical.constraints.EXAMPLE_PARTITIONS}
    known |= {*mcm_silicon.RULES, *mcm_silicon.SEARCHES, *mcm_silicon.SAMPLERS, "tied-with-optimum"}
    known |= {*classical.UNSOLVED.values(), eq_4.METHOD}
    repairs = (cp_sat.ENGINE, "cp-sat", cp_sat.EQ_4)
    known |= {
        cp_sat.ENGINE,
        cp_sat.NEAREST,
        *(f"{repair}-{mode}" for repair in repairs for mode in cp_sat.MODES),
    }
    for profile in PROFILES:
        runs = artifact.runs(profile, 2)
        assert runs or artifact.parts or name in OF_CODE
        assert {run.method for run in runs} <= known
        for name in {run.instance for run in runs} - {
            "six-ops",
            *(name for of in graphs.SET_NAMES for name in graphs.names(of=of)),
        }:
            assert (data_folder() / "graphs" / f"{name}.json.gz").exists()
    assert len(artifact.runs("quick", 3)) <= 60


def test_searches_get_equal_samples():
    """Catches a comparison in which one search may try more."""
    for profile in PROFILES:
        runs = classical.OPTIMUM.runs(profile, 3)
        assert len({run.config["samples"] for run in runs if run.method in classical.SEARCHES}) == 1


def test_no_instance_is_decided_by_its_longest_op():
    """The rule by which the numbers of chips were chosen, and that it rules something out."""

    def room(instance: str, chips: int) -> float:
        seconds = ChipModel(load_graph(instance), ChipPackage(chips=chips)).op_seconds
        return seconds.sum() / chips / seconds.max()

    cases = {(run.instance, run.config["chips"]) for run in classical.OPTIMUM.runs("full", 1)}
    assert all(room(*case) >= 2.0 for case in cases)
    assert room("inception_inference", 4) < 2.0


def test_annealing_has_the_parameters_of_its_record():
    """Catches a grid search run anew whose winner never reached the method."""
    record = read_json(data_folder() / "mcm" / "annealing.json").value
    for start, parameters in (
        ("uniform", AnnealingParameters()),
        ("balanced", BalancedParameters()),
    ):
        best = record["best"][start]
        rows = [row for row in record["grid"] if row["start"] == start]
        assert best == max(rows, key=lambda row: row["over_optimum"])
        for name, value in vars(parameters).items():
            assert value == best.get(name, value)


def test_the_policy_with_a_start_has_settings_of_its_record():
    """Catches settings nobody tried, and settings that lose by more than trainings differ among
    themselves."""
    record = read_json(data_folder() / "mcm" / "policy.json").value
    for kind, settings in (
        ("uniform", {"credit": "flow", "op_weight": AgentConfig().op_weight}),
        ("begun", {k: v for k, v in BALANCED.items() if k != "begun"}),
    ):
        rows = [row for row in record["grid"] if row["kind"] == kind and row["learning"]]
        (mine,) = [row for row in rows if settings.items() <= row.items() and row["usual"]]
        best = max(row["over_optimum"] for row in rows)
        assert best / mine["over_optimum"] < mine["factor_between_seeds"]


def test_each_example_breaks_the_rule_it_is_named_after():
    """The verdicts of Figure 2: the valid one is valid, each other one breaks one rule, all of them
    different."""
    records = [
        {"method": run.method, "instance": run.instance, "result": perform(task_of(run))["result"]}
        for run in classical.FIG2.runs("full", 1)
    ]
    assembled = classical.FIG2.result(records)
    assert (assembled["validated"], assembled["invalid"]) == (1, 0)
    panels = {
        panel.get_title(): panel.get_xlabel()
        for panel in broken_example(assembled).axes
        if panel.get_visible()
    }
    words = {"acyclic": "Eq. 2", "skipping": "Eq. 3", "triangle": "Eq. 4", "memory": "Eq. 5"}
    assert panels.pop("valid") == "valid" and set(panels) == set(words)
    assert all(panels[name].startswith(word) for name, word in words.items())
    broken = [row["value"] for row in assembled["rows"] if row["metric"] == "broken_rules"]
    assert sorted(broken) == [0, 1, 1, 1, 1]


def test_unconstrained_counts_the_valid():
    """On one chip everything is valid, on more chips next to nothing: catches a count stuck at
    zero."""
    few = classical.unconstrained_run(
        "unconstrained", "lenet_inference", {"samples": 30, "chips": 1}, 0
    )
    assert few["valid"] == few["samples"] == 30
    assert (
        classical.unconstrained_run(
            "unconstrained", "lenet_inference", {"samples": 700, "chips": 36}, 0
        )["valid"]
        == 0
    )


@pytest.mark.parametrize("method", ["greedy-careful", "random"])
def test_a_run_returns_a_validated_partition(method):
    task = {"task": "mcm.partition", "method": method, "instance": "squeezenet_inference"}
    outcome = perform(task | {"config": {"chips": 3, "samples": 5}, "seed": 0})
    assert "result" in outcome, outcome
    actual = outcome["result"]
    assert (
        actual["valid"]
        and 0 < actual["throughput"] <= actual["bound"]
        and actual["chips_used"] <= 3
    )
    assert actual["samples"] == (5 if method == "random" else 1)


def test_the_same_seed_repairs_alike():
    config = {"chips": 6, "repairs": 12, "candidates": "near"}
    first, second = (
        classical.repair_run("fix-chain", "lenet_inference", config, 3) for _ in range(2)
    )
    assert (
        first["agreement"] == second["agreement"] and first["valid"] == 12 and first["invalid"] == 0
    )
    assert 0.5 < first["agreement"] < 1.0, "most of a nearly valid candidate is kept, not all of it"
