"""What the commands of this folder share: a training that goes on after a stop, words on the way,
and records."""

import sys
import time
from pathlib import Path
from typing import Any

from learned_mapping.folders import data_folder
from learned_mapping.learning.loop import Agent, Log, resume, train
from learned_mapping.programs.json_io import file_sha256, write_json


class _PrintedLog(Log):
    """A log whose rows are said as they come."""

    def write(self, row: dict[str, Any]) -> None:
        super().write(row)
        say(
            " ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())
        )


def go_on(agent: Agent, folder: Path, *, every: int, minutes: float | None = None) -> bool:
    """Trains from where a run in this folder stopped; returns whether the agent is done.

    Args:
      agent: fresh.
      folder: holds the state, ``state.npz``, and the log, ``log.jsonl``, one JSON object an
        iteration.
      every: iterations between states.
      minutes: stops after so long; the next call ends with the same numbers as one that was not
        stopped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    resume(agent, folder / "state.npz")
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    log = _PrintedLog(folder / "log.jsonl", agent.iterations)
    train(
        agent, lambda: time.monotonic() > end, log=log, checkpoint=folder / "state.npz", every=every
    )
    return agent.done


def say(words: Any) -> None:
    """A line on the standard error stream, at once."""
    print(words, file=sys.stderr, flush=True)


def write_record(network: Path, **facts: Any) -> None:
    """The record of a training of paper 3 beside its network, which it names by its digest; the
    last that a training writes."""
    record = {"schema": "learned-mapping/regal-training/1", "network": file_sha256(network)[:16]}
    write_json(network.with_suffix(".json"), record | facts)


def write_tuning(file: str, record: dict[str, Any]) -> None:
    """The record of a grid search, in the data folder."""
    write_json(data_folder() / file, {"schema": "learned-mapping/tuning/1", **record}, indent=1)
