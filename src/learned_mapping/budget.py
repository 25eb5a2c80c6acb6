"""The limits of a search, in time, in samples, or both; and the curve of its best value so far."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from learned_mapping.clock import cpu_seconds
from learned_mapping.errors import InputError, is_whole, real, shown, told, truth


class Budget:
    """Counts samples and seconds, records the best value after each improvement, and says when to
    stop.

    Args:
      seconds: the limit in seconds, or None.
      samples: the limit in samples (games, repairs or cost-model evaluations), or None.
      cpu: count the process's own CPU seconds (`clock.cpu_seconds`), which do not depend on what
        else the machine does, instead of the wall clock's. Experiments do; a user's ``--seconds``
        does not.
      progress: called with (samples, seconds, best value) at most twice a second; a true answer
        ends the budget.
      checkpoint: file in which a learner keeps its state.
      strict: nothing runs beside the budget, such as the games by which tables judge a learner.

    Raises:
      InputError: neither limit is given, one is not positive, or what is given for another argument
        is none.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        samples: int | None = None,
        cpu: bool = False,
        progress: Callable[[int, float, float | None], object] | None = None,
        checkpoint: str | None = None,
        strict: bool = False,
    ):
        if seconds is None and samples is None:
            raise InputError("budget", "", "give a limit in seconds or in samples")
        if seconds is not None and not real(seconds, "budget", "seconds") > 0:
            raise InputError("budget", "seconds", f"must be a number above 0, got {told(seconds)}")
        if samples is not None and not (is_whole(samples) and 0 < samples < 2**63):
            raise InputError(
                "budget",
                "samples",
                f"must be a whole number above 0, of 63 bits, got {told(samples)}",
            )
        if progress is not None and not callable(progress):
            raise InputError("budget", "progress", f"expected a function, got {told(progress)}")
        if not isinstance(checkpoint, str | os.PathLike | None):
            raise InputError(
                "budget", "checkpoint", f"expected a file's name, got {told(checkpoint)}"
            )
        self.limit_s = None if seconds is None else float(seconds)
        self.limit_samples = None if samples is None else int(samples)
        self.cpu, self.strict = truth(cpu, "budget", "cpu"), truth(strict, "budget", "strict")
        self.progress, self.checkpoint = progress, checkpoint
        self._clock = cpu_seconds if self.cpu else time.perf_counter
        self._start = self._clock()
        self._last_progress = float("-inf")
        self._ended = False
        self.samples = 0
        self.best: float | None = None
        self.curve_s: list[float] = []
        self.curve_samples: list[int] = []
        self.curve_best: list[float] = []

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    def spent_before(self, seconds: float) -> None:
        """Counts what an earlier part of the same run took."""
        self._start -= seconds

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """A stretch whose seconds do not count: it compiles, or gets a network ready, which is no
        search."""
        since = self.seconds
        try:
            yield
        finally:
            self.spent_before(since - self.seconds)

    @property
    def remaining_samples(self) -> int | None:
        return None if self.limit_samples is None else max(self.limit_samples - self.samples, 0)

    @property
    def left_s(self) -> float | None:
        """Seconds up to the limit, at least a tenth; None without one."""
        return None if self.limit_s is None else max(self.limit_s - self.seconds, 0.1)

    def lasts(self, seconds: float) -> bool:
        """Whether so many seconds more keep to the limit, with those that have been used."""
        return self.limit_s is None or self.seconds + seconds <= self.limit_s

    def spent(self, share: float = 1.0) -> bool:
        """Whether this share of a limit is used up, or `progress` has ended it."""
        if self._ended:
            return True
        if self.limit_samples is not None and self.samples >= share * self.limit_samples:
            return True
        return self.limit_s is not None and self.seconds >= share * self.limit_s

    def look(self) -> bool:
        """Whether `progress`, called anew, has ended it: for what runs long and records nothing."""
        self._tell(self.seconds)
        return self._ended

    def record(
        self,
        value: float,
        samples: int = 1,
        *,
        better: Callable[[float, float], bool] = float.__gt__,
    ) -> bool:
        """Counts `samples`, notes `value`; returns whether it is the best so far (the largest, or
        as `better` says)."""
        self.samples += samples
        value = float(value)
        improved = self.best is None or better(value, self.best)
        now = self.seconds
        if improved:
            self.best = value
            self.curve_s.append(now)
            self.curve_samples.append(self.samples)
            self.curve_best.append(value)
        self._tell(now)
        return improved

    def _tell(self, now: float) -> None:
        """Calls `progress`, where half a second has gone by since it was called last."""
        if self.progress is not None and now - self._last_progress > 0.5:
            self._last_progress = now
            try:
                self._ended |= bool(self.progress(self.samples, now, self.best))
            except Exception as error:  # of a user's function
                raise InputError(
                    "budget", "progress", f"failed: {type(error).__name__}: {shown(error)}"
                ) from error

    def curve(self) -> dict:
        """The best value over time as JSON: ``x`` seconds, ``samples`` counts, ``y`` values, up to
        the search's end."""
        if self.best is None:
            return {"x": [], "samples": [], "y": [], "x_unit": "s"}
        return {
            "x": [*self.curve_s, self.seconds],
            "samples": [*self.curve_samples, self.samples],
            "y": [*self.curve_best, self.best],
            "x_unit": "s",
        }
