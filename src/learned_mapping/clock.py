"""Calibrated seconds: CPU seconds of this core, times its rate over a reference core's.

A second of one core is worth up to 2.6 seconds of another, or of the same core beside a busy
neighbour. Experiments that are limited in time therefore count calibrated seconds, so that a run on
any machine is about the same run.

What is timed is a walk like the game's, and no network: of one agent's updates some processors make
far more than others in as many counted seconds. Runs that learn are best compared on one machine.
"""

import functools
import os
import platform
import re
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from numba import njit

from learned_mapping.errors import InputError

REFERENCE_RATE = 1.37e8
"""Steps of `_steps` per CPU second of the reference core, to which calibrated seconds refer."""
_NAME = "LEARNED_MAPPING_CALIBRATION_S"
_TEXT = os.environ.get(_NAME, "2")
if not re.fullmatch(r"\d+(\.\d+)?", _TEXT, re.ASCII) or not float(_TEXT):
    raise InputError(_NAME, "", f"expected a number of seconds above 0, got {_TEXT!r}")
CALIBRATION_S = float(_TEXT)
"""CPU seconds of a calibration; pages and tests, which compare nothing by the clock, take fewer."""
VALID_S = 600.0
"""A calibration is used for so many seconds of wall-clock, then made anew: neighbours come and
go."""
TABLE = 1 << 13
"""Entries of the table that a calibration walks about in, 8 bytes each: as large as the state of a
game."""


@njit(cache=True)
def _steps(table, state, count):
    """A walk like the game's: dependent look-ups, comparisons that go either way, a few
    floating-point operations."""
    low = 1.0
    for _ in range(count):
        state = state * 6364136223846793005 + 1442695040888963407
        entry = table[(state >> 33) & (len(table) - 1)]
        if entry < low:
            low = 0.5 * (entry + low)
        else:
            low += 0.25 * (entry - low)
        table[(state >> 40) & (len(table) - 1)] = low
    return state, low


def measured_rate(seconds: float = CALIBRATION_S) -> float:
    """Steps per CPU second of this core now; takes about so many CPU seconds."""
    table, state, done, count = np.random.default_rng(0).random(TABLE), np.int64(1), 0, 200_000
    state, _ = _steps(table, state, 10)  # compiles
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        state, _ = _steps(table, state, count)
        done += count
    return done / spent


@functools.lru_cache(maxsize=1)
def _rate_of(period: int) -> float:
    return measured_rate()


def rate() -> float:
    """The rate of this core over the reference core's, measured once in each `VALID_S` in which it
    is asked for."""
    return _rate_of(int(time.monotonic() // VALID_S)) / REFERENCE_RATE


_factor = 1.0


def count_at(factor: float) -> None:
    """Sets how many seconds `cpu_seconds` counts for a CPU second of this process; 1 unless this is
    called."""
    global _factor
    _factor = factor


def cpu_seconds() -> float:
    """Seconds of the process's CPU time, calibrated where `count_at` has been told the core's
    `rate`."""
    return _factor * time.process_time()


def cpu_model() -> str:
    """The processor's model as the system names it, with the numbers of its family and model where
    there are any: a virtual machine calls several by one name."""
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), " ".join(value.split()))
    name = facts.get("model name") or platform.processor() or platform.machine()
    numbers = [
        f"{part} {facts[key]}"
        for part, key in (("family", "cpu family"), ("model", "model"))
        if key in facts
    ]
    return f"{name} ({', '.join(numbers)})" if numbers else name
