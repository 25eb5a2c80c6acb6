"""Inside the agent, and what it is made of: plans, and figures of the stored trainings."""

from learned_mapping.mmap.agent.config import AgentConfig, config_for, config_to_json
from learned_mapping.style import svg_text
from learned_mapping_companion import results
from learned_mapping_companion.figures import mmap_inside as figures
from learned_mapping_companion.mmap import inside, model
from learned_mapping_companion.mmap.runs import seconds_of


def test_plans_are_long_and_not_quick():
    for artifact in (inside.INSIDE, model.MODEL):
        runs = artifact.runs("full", 5)
        assert (
            runs
            and all(run.long and run.method == "muzero" for run in runs)
            and not artifact.runs("quick", 5)
        )
    planned = model.MODEL.runs("full", 1)
    arms = [run.config["arm"] for run in planned if run.instance == model.INSTANCE]
    assert arms == [*model.ARMS, *model.EQUAL]


def test_arms_for_equal_decisions_differ_in_simulations_alone():
    """Would catch an arm that a clock ends early."""
    planned = [run for run in model.MODEL.runs("full", 1) if run.config["arm"] in model.EQUAL]
    assert {run.instance for run in planned} == set(model.SHORT)
    for run in planned:
        settings = dict(run.config["settings"])
        assert settings.pop("simulations") == model.EQUAL[run.config["arm"]]
        assert settings == {"iterations": model.ITERATIONS}
        assert run.config["seconds"] >= 20 * seconds_of(run.instance)


def test_each_arm_changes_what_it_says():
    """Would catch an arm that is the agent as it is, and one that changes more than its name."""
    plain = config_to_json(AgentConfig())
    for arm, settings in model.ARMS.items():
        changed = config_to_json(config_for(228, **settings))
        differs = {name for name in plain if changed[name] != plain[name]}
        assert differs >= set(settings) and bool(differs) == (arm != "muzero")
        if arm != "windows":
            assert differs == set(settings)


def test_the_figures_show_the_stored_trainings():
    """Would catch a program without a panel, and a tree whose visits are not those of its nodes."""
    rows = results.load("mmap.inside")["rows"]
    for figure in (figures.imagined(rows), figures.value_errors(rows)):
        assert "alexnet" in svg_text(figure)
    (tree,) = [row for row in rows if row["metric"] == "tree"][:1]
    drawn = svg_text(figures.search_tree(tree))
    assert drawn.count("1 visit,") == sum(node["visits"] == 1 for node in tree["nodes"]) > 0


def test_what_is_said_of_a_decision_follows_from_its_numbers():
    """Would catch a search called right where another move returns more, and a loss of the wrong
    size or sign."""
    tree = {
        "instance": "p",
        "buffer": 7,
        "policy": [0.8, 0.0, 0.2],
        "head": [0.3, 0.0, 0.7],
        "exact": [-6.0, None, 0.5],
    }
    said = figures.tree_words(tree).data
    assert (
        "gives Copy a probability of 0.80, and the network alone 0.30" in said
        and "both moves" in said
    )
    assert said.endswith(
        "Drop is right, and the search prefers Copy, which costs 6.5 average savings."
    )
    for exact in ([1.0, -2.0, 0.5], [0.5, 0.5, 0.5]):
        assert figures.tree_words(tree | {"exact": exact}).data.endswith(
            "Copy is right, and the search chooses it."
        )
    near = figures.tree_words(tree | {"exact": [0.48, None, 0.5]}).data
    assert near.endswith("the search prefers Copy, which costs less than 0.1 average savings.")
