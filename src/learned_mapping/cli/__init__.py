"""`lmap`, the command line.

Exit 0 done, 1 the answer is no, 2 bad usage or input, 3 a fault of ours, 4 not finished, 130
interrupted.

Every error is one line on stderr, ``lmap: FILE: FIELD: fault``. Results go to stdout, progress to
  stderr.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from learned_mapping.cli.output import NOTES, tell_notes
from learned_mapping.cli.parser import make_parser
from learned_mapping.compiling import told
from learned_mapping.errors import InputError, LearnedMappingError, UnfinishedError, shown
from learned_mapping.interrupts import INTERRUPTED, raise_interrupt

DONE, NO, BAD_INPUT, FAULT, UNFINISHED = 0, 1, 2, 3, 4
LONGEST = 10_000  # Characters of an error's line.


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Imports what the command needs, and only that."""
    if hasattr(sys.stdout, "reconfigure"):
        # a terminal without Unicode still gets every line
        sys.stdout.reconfigure(errors="backslashreplace")
    if arguments is None:  # as a program
        sys.stdout, sys.stderr = (
            stream and _Heedless(stream) for stream in (sys.stdout, sys.stderr)
        )
        sys.unraisablehook = _interrupt_again
        # ignored: started with `&`
        if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, raise_interrupt)
    signals = _noted_signals() if arguments is None else None
    NOTES.clear()
    try:
        options = _options(arguments)
        with told(lambda line: print(f"lmap: {line}", file=sys.stderr)):
            code = options if isinstance(options, int) else options.run(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and not _interrupted(signals):
            return _failed(error)
        if signals is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        code = _complain("interrupted", INTERRUPTED)
        # as a program: what runs in threads of its own would bring the interpreter's end down
        if arguments is None:
            os._exit(code)
        return code


def _failed(error: BaseException) -> int:
    """The exit code of a command that ended so; says why."""
    kinds = {InputError: BAD_INPUT, UnfinishedError: UNFINISHED, LearnedMappingError: NO}
    for kind, code in kinds.items():
        if isinstance(error, kind):
            return _complain(error, code)
    if isinstance(error, MemoryError):
        return _complain("not enough memory", BAD_INPUT)
    if os.environ.get("LMAP_TRACEBACK"):
        raise error
    if isinstance(error, OSError) and error.filename is None:
        _discard(sys.stdout)
        return _complain(f"standard output cannot be written ({error.strerror})", BAD_INPUT)
    return _complain(
        f"fault in lmap: {type(error).__name__}: {error} (LMAP_TRACEBACK=1 shows where)", FAULT
    )


def _noted_signals() -> int:
    """A pipe into which Python puts the number of each signal as it comes, whoever loses the
    exception afterwards."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(ends[1], warn_on_full_buffer=False)
    return ends[0]


def _interrupted(signals: int | None) -> bool:
    """Whether an interrupt is among the signals: a failure after it is its own, as of a compiler
    that was cut off."""
    try:
        return signals is not None and signal.SIGINT in os.read(signals, 2**16)
    except BlockingIOError:
        return False


def _interrupt_again(unraisable: Any) -> None:
    """An interrupt that comes while memory is tidied up is lost there; so it is raised again where
    it counts."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()  # once this is over
    else:
        sys.__unraisablehook__(unraisable)


class _Heedless:
    """A stream whose reader may go, as `head` does: what is said to it then is lost."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            _discard(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            _discard(self._stream)


def _options(arguments: Sequence[str] | None) -> Any:
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit:  # argparse has said what was asked for, help or version
        return DONE
    if not hasattr(options, "run"):  # `lmap` alone
        make_parser().print_help()
        return DONE
    return options


def _discard(stream: Any) -> None:
    """A stream's last write: from here on it goes nowhere, so that the interpreter's end has
    nothing to complain of."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError, AttributeError):
        pass


def _complain(message: object, code: int) -> int:
    if sys.stderr is not None:
        try:
            if code != BAD_INPUT:
                tell_notes()
            print(f"lmap: {shown(message, LONGEST)}", file=sys.stderr, flush=True)
        except (OSError, ValueError):  # nobody can be told; the code says it
            _discard(sys.stderr)
    return code
