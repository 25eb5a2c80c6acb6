"""Executes runs as independent keyed tasks: in this process, in local worker processes, or on a Ray
cluster.

A record is stored as each run finishes; a run whose record is there is not redone. So an
interrupted series goes on where it stopped, and a killed worker costs its own run only.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError, LearnedMappingError, UnfinishedError
from learned_mapping.programs.json_io import append_line, check_writable
from learned_mapping_companion.artifact import Run
from learned_mapping_companion.records import (
    read_records,
    record_of,
    task_of,
    tidy_records,
)
from learned_mapping_companion.worker import SINGLE_THREAD, begin, perform

ATTEMPTS = 2  # A run whose worker dies is tried once more.


class RunsFailedError(LearnedMappingError):
    """Some runs failed; the records of all others are stored."""

    def __init__(self, failures: Sequence[tuple[Run, str]], done: int, total: int):
        lines = [
            f"{run.method} on {run.instance}, seed {run.seed}: {fault}" for run, fault in failures
        ]
        text = "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")
        unfinished = f" ({done} of {total} are there)" if done + len(lines) < total else ""
        super().__init__(f"{len(lines)} of {total} runs failed{unfinished}: {text}")


class RunsMissingError(UnfinishedError):
    """Missing runs: not all were to be performed or had the time; the records of `done` of `total`
    are stored."""

    def __init__(self, label: str, done: int, total: int):
        self.done, self.total = done, total
        super().__init__(f"{label}: {done} of {total} runs are there")


class TimeLimit:
    """Says whether a run may still start: only where it would end in time, `seconds` from now, if
    it took as long as others of its kind.

    Of a kind are runs of one task, method and instance. Of a kind never seen a run may start until
    the time is up.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._end = clock() + seconds
        self._longest: dict[tuple[str, str, str], float] = {}

    def learn(self, record: dict[str, Any]) -> None:
        """Takes note of how long a run took."""
        kind = (record["task"], record["method"], record["instance"])
        self._longest[kind] = max(self._longest.get(kind, 0.0), record["seconds"])

    def allows(self, run: Run) -> bool:
        expected = self._longest.get((run.task, run.method, run.instance), 0.0)
        return self._clock() + expected < self._end


def execute(
    runs: Sequence[Run],
    *,
    store: str | os.PathLike,
    jobs: int = 1,
    cluster: str | None = None,
    fingerprint_of: Callable[[Run], str] = lambda run: "",
    reuse_stale: bool = False,
    chosen: Callable[[Run], bool] = lambda run: True,
    limit: TimeLimit | None = None,
    progress: bool = True,
    label: str = "runs",
) -> list[dict[str, Any]]:
    """The records of `runs`, in their order; performs those that `store` does not hold.

    Args:
      runs: what to do; two equal runs share one record.
      store: file of the records (`records`).
      jobs: local worker processes, one thread each; 1 performs the runs in this process.
      cluster: address of a Ray cluster, instead of local processes.
      fingerprint_of: digest of what the run's method does (`fingerprints`); kept in its record. A
        record of another is redone.
      reuse_stale: use records of other fingerprints all the same.
      chosen: which of the runs to perform now, where they are not done.
      limit: no run is started that it does not allow; what is under way is finished.
      progress: show a bar on stderr.
      label: of the bar and in errors.

    Raises:
      RunsFailedError: some runs failed, after all others have finished.
      RunsMissingError: some runs were not `chosen`, or the `limit` did not allow them.
      InputError: `jobs` is below 1, or Ray or the cluster is not there.
    """
    if jobs < 1:
        raise InputError("--jobs", "", f"must be at least 1, got {jobs}")
    store = Path(store)
    distinct = {run.digest: run for run in runs}
    stored, records = read_records(store), {}
    for digest, run in distinct.items():
        record = stored.get(digest)
        if record is not None and limit is not None:
            limit.learn(record)
        if record is not None and (reuse_stale or record["fingerprint"] == fingerprint_of(run)):
            records[digest] = record
    tasks = [run for digest, run in distinct.items() if digest not in records and chosen(run)]
    if tasks:
        check_writable(store.parent)
        if cluster is not None:
            outcomes = on_cluster(tasks, cluster, limit)
        elif jobs == 1 or len(tasks) == 1:
            outcomes = (
                (run, perform(task_of(run))) for run in tasks if limit is None or limit.allows(run)
            )
        else:
            outcomes = in_processes(tasks, min(jobs, len(tasks)), limit)
        from tqdm import tqdm

        failures, bar_options = (
            [],
            {"desc": label, "unit": "run", "file": sys.stderr, "disable": not progress},
        )
        with tqdm(total=len(distinct), initial=len(records), **bar_options) as bar:
            for run, outcome in outcomes:
                if "error" in outcome:
                    failures.append((run, outcome["error"]))
                else:
                    records[run.digest] = record_of(run, outcome, fingerprint_of(run))
                    append_line(store, records[run.digest])
                    if limit is not None:
                        limit.learn(records[run.digest])
                bar.set_postfix_str(f"{run.method} {run.instance}", refresh=False)
                bar.update()
        tidy_records(store)
        if failures:
            raise RunsFailedError(failures, len(records), len(distinct))
    needed = [digest for digest, run in distinct.items() if not run.long]
    if any(digest not in records for digest in needed):
        raise RunsMissingError(label, len(records), len(distinct))
    return [records[run.digest] for run in runs if run.digest in records]


@contextmanager
def _one_core() -> Iterator[None]:
    """The environment that a worker is started with, for libraries read it when imported."""
    before = dict(os.environ)
    os.environ.update(
        SINGLE_THREAD,
        XLA_FLAGS=f"{before.get('XLA_FLAGS', '')} {SINGLE_THREAD['XLA_FLAGS']}".strip(),
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def in_processes(
    runs: Sequence[Run], jobs: int, limit: TimeLimit | None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yields (run, outcome) as the runs finish in `jobs` worker processes; none where `limit` let a
    run not start.

    Each worker is a pool of its own, so that one that dies breaks no other's run.
    """
    from multiprocessing import active_children, get_context

    queue, others = deque((run, 1) for run in runs), active_children()
    under_way: dict[Future[dict[str, Any]], tuple[Run, int, ProcessPoolExecutor]] = {}

    def start(pool: ProcessPoolExecutor | None) -> None:
        """Gives a worker the next run that may start; ends the worker where there is none."""
        while queue:
            run, attempt = queue.popleft()
            if limit is None or limit.allows(run):
                pool = pool or ProcessPoolExecutor(1, get_context("spawn"), begin)
                try:
                    with _one_core():
                        under_way[pool.submit(perform, task_of(run))] = run, attempt, pool
                except BrokenProcessPool:  # the worker died while it had nothing to do
                    pool.shutdown()
                    pool = None
                    queue.appendleft((run, attempt))
                    continue
                return
        if pool is not None:
            pool.shutdown()

    try:
        for _ in range(jobs):
            start(None)
        while under_way:
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                run, attempt, pool = under_way.pop(future)
                outcome = None
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    pool.shutdown()
                    pool = None
                    if attempt < ATTEMPTS:
                        queue.appendleft((run, attempt + 1))
                    else:
                        outcome = {"error": f"its worker process died {ATTEMPTS} times"}
                start(pool)
                if outcome is not None:
                    yield run, outcome
    finally:
        for child in active_children():
            if child not in others:
                child.kill()
        for *_, pool in under_way.values():
            pool.shutdown()


def on_cluster(
    runs: Sequence[Run], address: str, limit: TimeLimit | None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yields (run, outcome) as the runs finish on the cluster at `address`, one core each.

    A run whose worker dies is tried once more, as in local processes. Under a `limit` no more runs
    are handed in than the cluster has cores now, so that those it does not allow are never started.
    Raises `InputError` where Ray is not installed, or there is no cluster at this address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no report to Ray's makers
    if address == "local":
        raise InputError(
            "--cluster",
            address,
            "would start a Ray of its own on this machine: --jobs N does the same",
        )
    if address.rpartition(":")[0].strip("[]") in ("127.0.0.1", "localhost", "::1"):
        # Otherwise Ray puts the machine's outer address in the place of the loopback one.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise InputError(
            "--cluster", "", "needs Ray: pip install -e '.[cluster]' in the checkout"
        ) from None
    started_here = not ray.is_initialized()
    if started_here:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError, AssertionError) as error:
            fault = " ".join(str(error).split())[:200]
            raise InputError(
                "--cluster", "", f"no Ray cluster answers at {address!r} ({fault})"
            ) from None
    try:
        remote = ray.remote(num_cpus=1, max_retries=1)(_perform_remotely)
        queue, pending = deque(runs), {}
        places = len(queue) if limit is None else max(1, int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while queue and len(pending) < places:
                run = queue.popleft()
                if limit is None or limit.allows(run):
                    pending[remote.remote(task_of(run))] = run
            if not pending:
                return
            done, _ = ray.wait(list(pending), num_returns=1)
            for reference in done:
                run = pending.pop(reference)
                try:
                    yield run, ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield run, {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    finally:
        if started_here:
            ray.shutdown()


def _perform_remotely(task: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(SINGLE_THREAD)
    return perform(task)
