"""Samples to a level, as a page shows them."""

import re

from learned_mapping_companion.mcm.levels import level_table


def row(method, target, value, metric="samples"):
    return {
        "instance": "bert",
        "method": method,
        "metric": metric,
        "target": target,
        "value": value,
    }


def cells(page):
    """Row's name -> its cells, tags as blanks."""
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
    return {
        name: [re.sub(r"<[^>]+>", " ", c) for c in re.findall(r"<td>(.*?)</td>", rest)]
        for name, rest in rows
    }


def test_each_number_is_in_its_place():
    """Would catch cells of another level or method, minutes of the wrong row, a level not reached
    shown as one, and a column of dashes in the place of a word."""
    ours = [
        row("random", "2.55", 40.0),
        row("random", "2.60", None),
        row("rl", "2.55", None),
        row("random", "2.55", 18.0, "minutes"),
    ]
    paper = [row("random", "2.55", 447), row("sa", "2.60", 576), row("random", "2.60", None)]
    page = level_table({"rows": ours, "paper": paper}, "t", paper_seconds_a_sample=30.0)
    assert "<caption>t; ours reach none of 2.60</caption>" in page
    actual = cells(page)
    assert actual["random"][0].split() == ["40,", "18.0", "min", "paper", "447,", "223.5", "min"]
    assert actual["random"][1].split() == ["paper", "–"]
    assert [cell.strip() for cell in actual["rl"]] == ["–", ""]
    assert actual["sa"][0] == "" and actual["sa"][1].split() == ["paper", "576,", "288.0", "min"]


def test_without_minutes_there_are_samples_alone():
    actual = cells(
        level_table({"rows": [row("rl", "1.60", 1234.0)], "paper": [row("rl", "1.60", 330)]}, "t")
    )
    assert actual["rl"][0].split() == ["1,234", "paper", "330"]


def test_only_the_levels_asked_for():
    """Would catch methods with nothing at these levels as empty rows."""
    ours = [row("rl", "1.60", 12.0), row("rl", "75%", 34.0)]
    actual = cells(
        level_table({"rows": ours, "paper": [row("sa", "1.60", 56)]}, "t", levels=["75%"])
    )
    assert actual == {"rl": ["34"]}
