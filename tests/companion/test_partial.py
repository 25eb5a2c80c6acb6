"""Series that stop before they are complete: by a time limit, by a choice of methods and
instances."""

import pytest

from companion.run_functions import runs_of
from companion.toy import TOY
from learned_mapping.errors import InputError
from learned_mapping_companion import results
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.records import read_record, read_records
from learned_mapping_companion.runs import RunsFailedError, RunsMissingError, TimeLimit, execute


class Allowed:
    """Lets so many runs start."""

    def __init__(self, count: int):
        self.left, self.learned = count, []

    def learn(self, record: dict) -> None:
        self.learned.append(record["seed"])

    def allows(self, run: Run) -> bool:
        self.left -= 1
        return self.left >= 0


def test_a_run_starts_only_where_it_would_end_in_time():
    """Would catch a two-hour run started a minute before the end."""
    now = [0.0]
    limit = TimeLimit(100.0, clock=lambda: now[0])
    long, short = Run("m:f", "learned", "toy"), Run("m:f", "random", "toy", {}, 3)
    for run, seconds in ((long, 60.0), (long, 45.0), (short, 5.0)):
        limit.learn(
            {"task": run.task, "method": run.method, "instance": run.instance, "seconds": seconds}
        )
    new = Run("m:f", "learned", "other")
    assert limit.allows(long) and limit.allows(short) and limit.allows(new)
    now[0] = 50.0
    assert not limit.allows(long) and limit.allows(short) and limit.allows(new)
    now[0] = 96.0
    assert not limit.allows(short) and limit.allows(new)
    now[0] = 100.0
    assert not limit.allows(new)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_limited_series_keeps_what_is_finished_and_goes_on(tmp_path, jobs):
    runs = runs_of("count", range(5), folder=str(tmp_path))
    options = {"store": tmp_path / "store", "jobs": jobs, "progress": False}
    with pytest.raises(RunsMissingError, match=r"^runs: 2 of 5 runs are there$"):
        execute(runs, limit=Allowed(2), **options)
    assert sum(read_record(tmp_path / "store", run) is not None for run in runs) == 2
    later = Allowed(2)
    with pytest.raises(RunsMissingError, match=r"4 of 5 runs are there"):
        execute(runs, limit=later, **options)
    assert len(later.learned) == 4, "stored records and new ones both tell how long a run takes"
    assert [record["result"]["seed"] for record in execute(runs, limit=Allowed(1), **options)] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert [(tmp_path / f"{seed}.log").read_text() for seed in range(5)] == ["x"] * 5


def test_a_killed_run_is_not_tried_again_after_the_limit(tmp_path):
    runs = runs_of("killed_once", range(2), folder=str(tmp_path), kill=[0])
    with pytest.raises(RunsMissingError, match=r"1 of 2 runs are there"):
        execute(runs, store=tmp_path / "store", jobs=2, limit=Allowed(2), progress=False)


def test_failures_come_before_what_is_missing(tmp_path):
    with pytest.raises(
        RunsFailedError, match=r"1 of 4 runs failed \(1 of 4 are there\): .*seed of evil"
    ):
        execute(
            runs_of("raising", range(4), bad=1),
            store=tmp_path / "store",
            limit=Allowed(2),
            progress=False,
        )


def test_chosen_runs_are_performed_and_nothing_is_assembled_before_all_are_there(own_folders):
    with pytest.raises(RunsMissingError, match=r"toy.table: 10 of 15 runs are there"):
        results.make(TOY, "full", instances=["toy0", "toy2"], progress=False)
    assert results.stored("toy.table") is None
    stored = set(read_records(results.runs_path("toy.table")))
    assert stored == {run.digest for run in TOY.plan(5) if run.instance != "toy1"}
    result = results.make(TOY, "full", only=["random"], instances=["toy1"], progress=False)
    assert len(result["runs"]) == 15 and results.load("toy.table") == result


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"only": ["random", "magic"]}, "--only: no run has the method 'magic'; there are: random"),
        (
            {"instances": ["toy9"]},
            "--instances: no run has the instance 'toy9'; there are: toy0, toy1",
        ),
    ],
)
def test_a_choice_of_nothing_is_refused(own_folders, options, said):
    """A misspelt name would otherwise do nothing and look like success."""
    with pytest.raises(InputError) as caught:
        results.make(TOY, "quick", progress=False, **options)
    assert str(caught.value) == said
