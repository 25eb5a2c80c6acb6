"""A limit on the time a series of runs may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from learned_mapping.companion.artifact import Run


class TimeLimit:
    """Says whether a run may still start: only where it would end in time if it took as long as others of its kind.

    Of a kind are runs of one task, method and instance. Of a kind never seen a run may start until the time is up.

    Args:
      seconds: from now.
      clock: returns seconds, ascending.
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
        """Whether `run` may start now."""
        expected = self._longest.get((run.task, run.method, run.instance), 0.0)
        return self._clock() + expected < self._end
