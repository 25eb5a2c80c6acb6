"""`lmap`, the command line.

Exit 0 done, 1 the answer is no, 2 bad usage or input, 3 a fault of ours, 4 not finished, 130 interrupted.

Every error is one line on stderr, ``lmap: FILE: FIELD: fault``. Results go to stdout, progress to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from learned_mapping.cli.parser import make_parser
from learned_mapping.errors import InputError, LearnedMappingError, UnfinishedError

DONE, NO, BAD_INPUT, FAULT, UNFINISHED, INTERRUPTED = 0, 1, 2, 3, 4, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code. Imports what the command needs, and only that."""
    try:
        options = make_parser().parse_args(arguments)
        return options.run(options)
    except SystemExit as end:  # argparse has said what there is to say
        return end.code if isinstance(end.code, int) else DONE
    except InputError as error:
        return _complain(error, BAD_INPUT)
    except UnfinishedError as error:
        return _complain(error, UNFINISHED)
    except LearnedMappingError as error:
        return _complain(error, NO)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except MemoryError:
        return _complain("not enough memory", BAD_INPUT)
    except BrokenPipeError:  # the reader of stdout has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        if os.environ.get("LMAP_TRACEBACK"):
            raise
        return _complain(f"fault in lmap: {type(error).__name__}: {error} (LMAP_TRACEBACK=1 shows where)", FAULT)


def _complain(message: object, code: int) -> int:
    text = "".join(c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in str(message))
    print(f"lmap: {text}", file=sys.stderr)
    return code
