"""Interrupts: one that comes within an import, and the first of a run that can end in good
order."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""The exit code of an interrupted command."""


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """A handler of SIGINT that raises `KeyboardInterrupt`. Within an import it ends the process
    instead: raised into what a native module does when it is loaded, an exception ends it by a
    fault."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with suppress(OSError):
                print("lmap: interrupted", file=sys.stderr, flush=True)
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


@contextmanager
def patient(
    words: str, *, wanted: bool = True, seconds: float | None = None
) -> Iterator[list[int]]:
    """A list that the first interrupt is put into, instead of being raised; a second one is raised.
    Python's own handling where not `wanted`, outside the main thread, or where somebody else
    handles interrupts.

    Args:
      words: what the user is told at the first.
      seconds: for how long it can wait before it is raised after all; None: for ever.
    """
    first: list[int] = []
    main, before = (
        threading.current_thread() is threading.main_thread(),
        signal.getsignal(signal.SIGINT),
    )
    if not wanted or not main or before not in (signal.default_int_handler, raise_interrupt):
        yield first
        return
    late = threading.Timer(seconds or 0.0, os.kill, (os.getpid(), signal.SIGINT))
    late.daemon = True

    def note(number: int, frame: Any) -> None:
        if first:
            raise_interrupt(number, frame)
        first.append(number)
        print(f"interrupted: {words}; again to stop at once", file=sys.stderr)
        if seconds is not None:
            late.start()

    signal.signal(signal.SIGINT, note)
    try:
        yield first
    finally:
        late.cancel()
        signal.signal(signal.SIGINT, before)
