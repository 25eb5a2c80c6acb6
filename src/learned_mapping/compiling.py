"""Compiling, which keeps a user waiting for minutes where a method is used for the first time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SILENT_S = 5.0
"""Seconds of compiling of which nobody is told."""
LINE = (
    "compiling what the method needs, before its time begins; a first use takes up to three minutes"
)

_tell: ContextVar[Callable[[str], object] | None] = ContextVar("_tell", default=None)


@contextmanager
def told(tell: Callable[[str], object] | None) -> Iterator[None]:
    """A context in which `tell` gets a line from each stretch of compiling that lasts."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


@contextmanager
def compiling() -> Iterator[None]:
    """A stretch of compiling; others inside it are a part of it."""
    tell = _tell.get()
    if tell is None:
        yield
        return
    notice = threading.Timer(SILENT_S, tell, (LINE,))
    notice.daemon = True
    notice.start()
    try:
        with told(None):
            yield
    finally:
        notice.cancel()
