"""The training loop around an agent: iterations, checkpoints, a log of JSON lines, and how to go on
after a stop.

Checkpoints and log lines are written between iterations. An iteration that is interrupted, by the
budget or by a kill, is lost whole, so a run that goes on from a checkpoint repeats what an
uninterrupted run does.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.interrupts import patient
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.programs.json_io import append_line, write_bytes

LONGEST_S = 60.0
"""Between two checkpoints, for iterations that take long."""


def seed_of(rng: np.random.Generator) -> int:
    """The seed that a run's generator was made of: learners, which also draw in JAX, begin at
    it."""
    seeds: Any = rng.bit_generator.seed_seq  # NumPy's type of it knows no entropy.
    return int(seeds.entropy)


class Agent(Protocol):
    """The part of an agent that the loop needs."""

    iterations: int  # Finished.

    @property
    def done(self) -> bool:
        """Whether it has trained for as long as its configuration says."""

    def iterate(self, stop: Callable[[], bool]) -> dict[str, Any] | None:
        """Plays and learns a while; returns a row for the log, or None where `stop` cut it
        short."""

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything that the future depends on: arrays, and a JSON header."""

    def restore(
        self, arrays: dict[str, np.ndarray], header: dict[str, Any], source: object
    ) -> None:
        """Back to a state; raises `InputError` where it is another agent's."""


class Log:
    """Rows as JSON lines in a file, or in memory alone.

    Args:
      path: the file, or None. Rows of iterations that a checkpoint does not know of are dropped
        when a run goes on.
      iterations: how many the agent has finished; 0 starts a new file.
    """

    def __init__(self, path: str | os.PathLike | None, iterations: int = 0):
        self.path = None if path is None else Path(path)
        self.rows: list[dict[str, Any]] = []
        if self.path is None:
            return
        if iterations and self.path.exists():
            self.rows = [row for row in read_log(self.path) if row["iteration"] <= iterations]
        write_bytes(self.path, "".join(_line(row) for row in self.rows).encode())

    def write(self, row: dict[str, Any]) -> None:
        """Adds a row, on the disk before it returns."""
        self.rows.append(row)
        if self.path is not None:
            append_line(self.path, row)


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n"


def read_log(path: str | os.PathLike) -> list[dict[str, Any]]:
    """The rows of a log; a last line that was cut off is ignored.

    Raises:
      InputError: a line is not a JSON object with an iteration.
    """
    rows = []
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(path, "", f"cannot be read ({error})") from None
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
            row["iteration"] = int(row["iteration"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(path, f"line {number}", f"is no row of a log ({error})") from None
        rows.append(row)
    return rows


def train(
    agent: Agent,
    stop: Callable[[], bool],
    *,
    log: Log,
    checkpoint: str | os.PathLike | None = None,
    every: int = 10,
) -> None:
    """Iterates until the agent is done or `stop` says so.

    Args:
      agent: fresh or restored.
      stop: asked often, also within an iteration.
      log: gets a row per iteration.
      checkpoint: file, written every `every` iterations, `LONGEST_S` after the last, and at the
        end, unless the end is within an iteration. With it an interrupt waits for the iteration's
        end and its checkpoint; a second does not.
      every: at least 1.
    """
    saved, since = agent.iterations, time.monotonic()
    with patient(
        "the checkpoint follows this iteration", wanted=checkpoint is not None
    ) as interrupted:
        while not agent.done and not stop() and not interrupted:
            row = agent.iterate(stop)
            if row is None:
                break
            log.write(row)
            if checkpoint is not None and (
                agent.iterations % every == 0 or time.monotonic() - since > LONGEST_S
            ):
                write_checkpoint(checkpoint, *agent.state())
                saved, since = agent.iterations, time.monotonic()
        else:
            if checkpoint is not None and saved != agent.iterations:
                write_checkpoint(checkpoint, *agent.state())
        if interrupted:
            raise KeyboardInterrupt


def resume(agent: Agent, checkpoint: str | os.PathLike) -> bool:
    """Restores the agent where the file exists; returns whether it does."""
    if not Path(checkpoint).exists():
        return False
    arrays, header = read_checkpoint(checkpoint)
    agent.restore(arrays, header, checkpoint)
    return True
