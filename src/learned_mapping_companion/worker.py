"""A process that performs runs: one thread, one run at a time, JSON in, JSON out."""

import json
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from learned_mapping import clock
from learned_mapping.errors import LearnedMappingError
from learned_mapping_companion.artifact import function_of

SINGLE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
"""Environment of a process that keeps to one core; libraries read it when first imported."""


def perform(task: dict[str, Any]) -> dict[str, Any]:
    """Performs one run, given as of `records.task_of`.

    Returns:
      ``{"result", "seconds", "peak_bytes", "cpu", "rate"}``, with the processor's model and its
      `clock.rate`, by which limits in CPU seconds are counted; or ``{"error"}`` with one line where
      the function raised.
    """
    rate = clock.rate()
    clock.count_at(rate)
    # the peak is measured anew, so that a run is not charged for the one before it (Linux)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    start = time.perf_counter()
    try:
        result = function_of(task["task"])(
            task["method"], task["instance"], task["config"], task["seed"]
        )
        seconds = time.perf_counter() - start
        result = json.loads(json.dumps(result, allow_nan=False, default=_plain))
    except LearnedMappingError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(
            f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})".split()
        )
        return {"error": text[:500]}
    cost = {
        "seconds": seconds,
        "peak_bytes": _peak_bytes(),
        "cpu": clock.cpu_model(),
        "rate": round(rate, 4),
    }
    return {"result": result, **cost}


def _plain(value: Any) -> Any:
    """NumPy and JAX scalars and arrays as JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a run returned a {type(value).__name__}, which JSON cannot hold")


def _peak_bytes() -> int:
    """The process's peak resident memory in bytes."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def begin() -> None:
    """The first step of a worker: it ends with its parent, leaves Ctrl-C to it, prints nothing."""
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What a library prints must not mix with the progress bar's line or with `--json` on stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
