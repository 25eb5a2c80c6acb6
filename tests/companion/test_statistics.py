"""Statistics against values worked by hand."""

import numpy as np
import pytest

from learned_mapping_companion import statistics
from learned_mapping_companion.table import summary_row


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0, 6.0], 3.0),  # fewer than four: nothing is cut
        ([100.0, 2.0, 1.0, 4.0], 3.0),  # the middle two of 1 2 4 100
        ([5.0, 1.0, 2.0, 3.0, 1000.0], 10.0 / 3),  # the middle three of 1 2 3 5 1000
        (list(range(8)), 3.5),
    ],
)
def test_interquartile_mean_by_hand(values, expected):
    assert statistics.interquartile_mean(values) == pytest.approx(expected)


def test_interquartile_mean_reduces_the_axis_it_is_told():
    values = np.array([[1.0, 2.0, 3.0, 100.0], [4.0, 5.0, 6.0, 7.0]])
    np.testing.assert_allclose(statistics.interquartile_mean(values, axis=1), [2.5, 5.5])
    np.testing.assert_allclose(statistics.interquartile_mean(values.T, axis=0), [2.5, 5.5])


def test_geometric_mean_by_hand_and_its_refusals():
    assert statistics.geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)
    for bad in ([], [1.0, 0.0], [1.0, -2.0], [float("nan")]):
        with pytest.raises(ValueError):
            statistics.geometric_mean(bad)


def test_interval_of_constant_scores_is_that_constant():
    assert statistics.bootstrap_interval({"a": [3.0] * 5, "b": [3.0] * 5}) == (3.0, 3.0)


def test_interval_of_two_values_by_hand(monkeypatch):
    """Resampling {0, 1} twice gives mean 0, .5, 1 with probability 1/4, 1/2, 1/4: both ends lie
    inside 95%."""
    assert statistics.bootstrap_interval([0.0, 1.0], np.mean) == (0.0, 1.0)
    monkeypatch.setattr(statistics, "CONFIDENCE", 0.4)
    low, high = statistics.bootstrap_interval([0.0, 1.0], np.mean)
    assert (low, high) == (0.5, 0.5)


def test_resampling_stays_within_a_task():
    """Pooling the tasks before resampling would mix 0 and 100 in unequal parts and widen the
    interval."""
    assert statistics.bootstrap_interval({"easy": [0.0] * 4, "hard": [100.0] * 4}, np.mean) == (
        50.0,
        50.0,
    )
    low, high = statistics.bootstrap_interval([0.0] * 4 + [100.0] * 4, np.mean)
    assert low < 30 and high > 70


def test_interval_covers_the_mean_as_often_as_it_says(monkeypatch):
    """95% intervals of a normal mean cover it in 85 to 99% of experiments; the bootstrap falls a
    little short."""
    generator = np.random.default_rng(3)
    samples = generator.normal(5.0, 2.0, size=(300, 20))
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    intervals = [statistics.bootstrap_interval(sample, np.mean) for sample in samples]
    covered = np.mean([low <= 5.0 <= high for low, high in intervals])
    assert 0.85 <= covered <= 0.99


def test_probability_of_improvement_by_hand():
    """Pairs (1,1) tie, (1,2) lose, (3,1) and (3,2) win: 2.5 of 4. Averaged with a sure loss:
    .3125."""
    assert statistics.probability_of_improvement({"a": [1.0, 3.0]}, {"a": [1.0, 2.0]}) == 0.625
    scores, baseline = {"a": [1.0, 3.0], "b": [0.0]}, {"a": [1.0, 2.0], "b": [5.0]}
    assert statistics.probability_of_improvement(scores, baseline) == pytest.approx(0.3125)
    assert statistics.probability_of_improvement(baseline, scores) == pytest.approx(1 - 0.3125)


def test_probability_of_improvement_needs_the_same_tasks():
    with pytest.raises(ValueError):
        statistics.probability_of_improvement({"a": [1.0]}, {"b": [1.0]})


def test_a_task_of_one_run_counts_as_much_as_one_of_five():
    assert statistics.mean_over_tasks({"a": [0.2] * 5, "b": [0.8]}) == pytest.approx(
        (0.5, 0.5, 0.5)
    )
    value, low, high = statistics.mean_over_tasks({"a": [0.0, 0.4], "b": [0.8]})
    assert value == pytest.approx(0.5) and (low, high) == pytest.approx((0.4, 0.6))


def test_summary_row_says_what_the_table_needs():
    row = summary_row("bert", "sa", "throughput", [1.0, 2.0, 3.0, 4.0], chips=36)
    assert (
        row["value"] == 2.5
        and row["low"] <= 2.5 <= row["high"]
        and row["n"] == 4
        and row["chips"] == 36
    )
    pooled = summary_row(
        "all", "sa", "throughput", {"a": [1.0, 1.0], "b": [3.0, 3.0]}, statistic=np.mean
    )
    assert (pooled["value"], pooled["low"], pooled["high"], pooled["n"]) == (2.0, 2.0, 2.0, 4)


def test_no_values_are_an_error():
    with pytest.raises(ValueError):
        statistics.interquartile_mean([])
    with pytest.raises(ValueError):
        statistics.interquartile_mean([1.0, 2.0, 3.0, np.nan])
    with pytest.raises(ValueError):
        statistics.improvement_interval({}, {})
    with pytest.raises(ValueError):
        statistics.bootstrap_interval({"a": []})


def test_contrasts_of_means_by_hand():
    """Ratios average in the logarithm, differences plainly; one run each has an interval of no
    width."""
    ours, theirs = {"a": [2.0], "b": [8.0]}, {"a": [1.0], "b": [1.0]}
    assert statistics.mean_ratio(ours, theirs) == pytest.approx((4.0, 4.0, 4.0))
    assert statistics.mean_difference(ours, theirs) == pytest.approx((4.0, 4.0, 4.0))
    assert statistics.mean_ratio({"a": [1.0]}, {"a": [0.0]}) is None
    with pytest.raises(ValueError, match="same tasks"):
        statistics.mean_difference({"a": [1.0]}, {"b": [1.0]})


def test_a_ratio_over_tasks_counts_their_spread():
    """One run each: the whole interval comes from the tasks, drawn alike for both methods whatever
    their order."""
    ours, theirs = {"a": [2.0], "b": [8.0], "c": [4.0]}, {"c": [1.0], "b": [1.0], "a": [1.0]}
    value, low, high = statistics.mean_ratio(ours, theirs, over_tasks=True)
    assert (value, low, high) == pytest.approx((4.0, 2.0, 8.0))
    same = {"a": [3.0], "b": [12.0], "c": [6.0]}
    assert statistics.mean_ratio(same, ours, over_tasks=True) == pytest.approx((1.5, 1.5, 1.5))
    runs = {"a": [1.0, 3.0], "b": [2.0, 2.0], "c": [1.0, 3.0]}
    _, low, high = statistics.mean_ratio(
        runs, {task: [2.0, 2.0] for task in "abc"}, over_tasks=True
    )
    assert 0.5 <= low < 1 < high <= 1.5


def test_a_contrast_lies_within_its_interval():
    """And the interval widens with the spread of either method: catches one that resamples just one
    of them."""
    narrow = {"a": [1.0, 1.1, 0.9]}
    wide = {"a": [0.5, 1.5, 1.0]}
    widths = []
    for ours, theirs in ((narrow, narrow), (wide, narrow), (narrow, wide)):
        value, low, high = statistics.mean_difference(ours, theirs)
        assert low <= value <= high
        widths.append(high - low)
    assert widths[0] < min(widths[1:])


def test_a_difference_over_tasks_counts_their_spread():
    """Would catch an interval over the games of trainings that leaves out how the trainings
    differ."""
    ours, theirs = (
        {"a": [1.0, 1.1], "b": [2.0, 2.1], "c": [3.0, 3.1]},
        {key: [1.0, 1.0] for key in "abc"},
    )
    value, low, high = statistics.mean_difference(ours, theirs)
    assert value == pytest.approx(1.05) and 1.0 <= low < high <= 1.1
    value, low, high = statistics.mean_difference(ours, theirs, over_tasks=True)
    assert value == pytest.approx(1.05) and low < 0.2 and high > 1.9


def test_families_are_drawn_whole():
    """Would catch an interval that takes graphs of one family for independent."""
    families = ["a"] * 6 + ["b"] * 2
    counts = statistics.drawn_families(families)
    assert counts.shape == (statistics.RESAMPLES, 8) and np.array_equal(
        counts, statistics.drawn_families(families)
    )
    of_a, of_b = counts[:, :6].sum(axis=1), counts[:, 6:].sum(axis=1)
    assert set(zip(of_a, of_b)) == {(12.0, 0.0), (6.0, 2.0), (0.0, 4.0)}
    assert abs(np.mean(of_b == 2) - 0.5) < 0.05


def test_trainings_are_the_outer_unit():
    """Three trainings that differ by 3, with runs and tasks that agree: drawing runs alone would
    give an interval of a hundredth; by trainings the ends are those of means of three draws from 0,
    3, 6, the same for every task."""
    values = np.array([[0.0, 0.0, 3.0, 3.0, 6.0, 6.0]] * 50)
    tasks = np.tile(statistics.drawn_tasks(50), (4, 1))
    by_runs = statistics.percentiles(
        statistics.drawn_anew(values, tasks, np.random.default_rng(1)).mean((1, 2))
    )
    drawn = statistics.drawn_anew(values, tasks, np.random.default_rng(1), [0, 0, 1, 1, 2, 2])
    means = drawn.mean((1, 2))
    assert by_runs[1] - by_runs[0] < 0.6 and drawn.shape[:2] == tasks.shape
    # sums of three of 0, 3, 6, over three
    assert set(means.round(9)) == {float(n) for n in range(7)}
    shares = [float(np.mean(np.isclose(means, n))) for n in (0, 3)]
    np.testing.assert_allclose(shares, [1 / 27, 7 / 27], atol=0.02)
    assert statistics.percentiles(means) == (0.0, 6.0)


def test_trainings_of_unequal_runs_weigh_the_same():
    """Five runs of three trainings, as seeds take them in turn; of one training, what varies is its
    runs."""
    values = np.array([[0.0, 3.0, 6.0, 0.0, 3.0]])
    means = statistics.drawn_anew(
        values, np.zeros((9000, 1), int), np.random.default_rng(0), [0, 1, 2, 0, 1]
    ).mean((1, 2))
    assert means.mean() == pytest.approx(3.0, abs=0.1) and set(means.round(9)) == {
        float(n) for n in range(7)
    }
    one = statistics.drawn_anew(
        values, np.zeros((9000, 1), int), np.random.default_rng(0), [0] * 5
    ).mean((1, 2))
    assert len(set(one.round(9))) > 5


def test_two_methods_of_one_training_are_drawn_together():
    """Catches the difference of a policy with fine-tuning and without blamed on which training was
    drawn."""
    ours = {task: [1.0, 2.0, 4.0] for task in "ab"}
    theirs = {task: [0.5, 1.0, 2.0] for task in "ab"}
    together = statistics.mean_ratio(
        ours, theirs, over_tasks=True, trainings=([0, 1, 2], [0, 1, 2])
    )
    apart = statistics.mean_ratio(ours, theirs, over_tasks=True)
    assert together == pytest.approx((2.0, 2.0, 2.0)) and apart[2] > 2.3
