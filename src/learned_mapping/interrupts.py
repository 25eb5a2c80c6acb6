"""The first interrupt of a run that can end in good order, at a place of its own choice."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def patient(words: str, *, wanted: bool = True, seconds: float | None = None) -> Iterator[list[int]]:
    """A list that the first interrupt is put into, instead of being raised; a second one is raised. Python's own
    handling where not `wanted`, outside the main thread, or where somebody else handles interrupts.

    Args:
      words: what the user is told at the first.
      seconds: for how long it can wait before it is raised after all; None: for ever.
    """
    first: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not wanted or not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield first
        return
    late = threading.Timer(seconds or 0.0, os.kill, (os.getpid(), signal.SIGINT))
    late.daemon = True

    def note(number: int, frame: Any) -> None:
        if first:
            raise KeyboardInterrupt
        first.append(number)
        print(f"interrupted: {words}; again to stop at once", file=sys.stderr)
        if seconds is not None:
            late.start()

    signal.signal(signal.SIGINT, note)
    try:
        yield first
    finally:
        late.cancel()
        signal.signal(signal.SIGINT, signal.default_int_handler)
