"""The same runs on a Ray cluster (extra ``cluster``): every node needs this package, none needs a shared disk."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from learned_mapping.companion.artifact import Run
from learned_mapping.companion.runs import TimeLimit
from learned_mapping.companion.worker import SINGLE_THREAD, perform
from learned_mapping.errors import InputError


def on_cluster(
    runs: Sequence[Run], address: str, limit: TimeLimit | None = None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yields (run, outcome) as the runs finish on the cluster at `address`, one core each.

    A run whose worker dies is tried once more, as in local processes. Under a `limit` no more runs are handed in than
    the cluster has cores now, so that those it does not allow are never started.

    Raises:
      InputError: Ray is not installed, or there is no cluster at this address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no report to Ray's makers
    if address == "local":
        raise InputError("--cluster", address, "would start a Ray of its own on this machine: --jobs N does the same")
    if address.rpartition(":")[0].strip("[]") in ("127.0.0.1", "localhost", "::1"):
        # Otherwise Ray puts the machine's outer address in the place of the loopback one.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise InputError("--cluster", "", "needs Ray: pip install -e '.[cluster]' in the checkout") from None
    own = not ray.is_initialized()
    if own:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError, AssertionError) as error:
            fault = " ".join(str(error).split())[:200]
            raise InputError("--cluster", "", f"no Ray cluster answers at {address!r} ({fault})") from None
    try:
        remote = ray.remote(num_cpus=1, max_retries=1)(_perform_remotely)
        names = ("task", "method", "instance", "config", "seed")
        queue, pending = deque(runs), {}
        places = len(queue) if limit is None else max(1, int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while queue and len(pending) < places:
                run = queue.popleft()
                if limit is None or limit.allows(run):
                    pending[remote.remote({name: getattr(run, name) for name in names})] = run
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
        if own:
            ray.shutdown()


def _perform_remotely(task: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(SINGLE_THREAD)
    return perform(task)
