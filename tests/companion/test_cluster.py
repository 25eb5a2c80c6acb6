"""The same runs on a Ray cluster of two workers that the test starts itself, one of which dies."""

import os
import sys

import pytest

from companion.run_functions import runs_of
from learned_mapping.errors import InputError
from learned_mapping_companion.records import read_record
from learned_mapping_companion.runs import RunsFailedError, RunsMissingError, execute


def test_without_ray_the_option_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--cluster.*'\.\[cluster\]'"):
        execute(
            runs_of("square", range(1)), store=tmp_path / "store", cluster="auto", progress=False
        )


def start_cluster(attempts: int = 3):
    """A head and one more node, a core each; Ray gives a node 30 s to start, which a busy machine
    may need twice."""
    import ray
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
    for left in reversed(range(attempts)):
        cluster = Cluster()
        try:
            cluster.add_node(**options)
            cluster.add_node(num_cpus=1, object_store_memory=options["object_store_memory"])
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            return cluster
        except Exception:
            ray.shutdown()
            cluster.shutdown()
            if not left:
                raise


@pytest.mark.slow
def test_two_workers_perform_the_runs_and_a_killed_one_costs_its_own(tmp_path, monkeypatch):
    """One cluster for all checks, because it takes seconds to start: order of records, a worker
    killed once, one that always dies, a limit, an exception, and resumption."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    cluster = start_cluster()
    try:
        options = {"store": tmp_path / "store", "cluster": cluster.address, "progress": False}
        slow = runs_of("slow", range(4), folder=str(tmp_path), seconds=0.7)
        records = execute(slow, **options)
        assert [record["result"]["seed"] for record in records] == [0, 1, 2, 3]
        assert len({(tmp_path / f"{seed}.pid").read_text() for seed in range(4)}) >= 2, (
            "both workers take part"
        )
        assert execute(slow, **options) == records

        (single,) = execute(runs_of("square", range(3, 4)), **options)
        assert (single["result"]["square"], single["result"]["threads"]) == (9, "1")

        killed = runs_of("killed_once", range(3), folder=str(tmp_path), kill=[1])
        assert [record["result"]["seed"] for record in execute(killed, **options)] == [0, 1, 2]

        dying = runs_of("killed_always", range(3), kill=[1])
        with pytest.raises(RunsFailedError, match=r"1 of 3 runs failed: random on toy, seed 1"):
            execute(dying, **options)
        assert [read_record(tmp_path / "store", run) is not None for run in dying] == [
            True,
            False,
            True,
        ]

        class Once:
            left = 1

            def learn(self, record):
                pass

            def allows(self, run):
                self.left -= 1
                return self.left >= 0

        limited = runs_of("count", range(3), folder=str(tmp_path))
        with pytest.raises(RunsMissingError, match=r"1 of 3 runs are there"):
            execute(limited, limit=Once(), **options)
        assert len(execute(limited, **options)) == 3

        raising = runs_of("raising", range(2), bad=1)
        with pytest.raises(RunsFailedError, match="ZeroDivisionError: seed of evil"):
            execute(raising, **options)
    finally:
        ray.shutdown()
        cluster.shutdown()
