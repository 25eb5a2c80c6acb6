"""Functions that the tests of `runs` execute in other processes."""

import os
import signal
import time
from pathlib import Path

from learned_mapping_companion.artifact import Run

FUNCTIONS = "companion.run_functions"


def runs_of(function: str, seeds: range, **config) -> list[Run]:
    """A run of a function of this file for each seed."""
    return [Run(f"{FUNCTIONS}:{function}", "random", "toy", config, seed) for seed in seeds]


def square(method: str, instance: str, config: dict, seed: int) -> dict:
    return {"square": seed**2, "pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def count(method: str, instance: str, config: dict, seed: int) -> dict:
    """Leaves a trace of each execution."""
    with open(Path(config["folder"]) / f"{seed}.log", "a") as log:
        log.write("x")
    return {"seed": seed}


def killed_once(method: str, instance: str, config: dict, seed: int) -> dict:
    """Kills its own process the first time, as the system does when memory runs out."""
    mark = Path(config["folder"]) / f"{seed}.killed"
    if seed in config["kill"] and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seed": seed}


def killed_always(method: str, instance: str, config: dict, seed: int) -> dict:
    if seed in config["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seed": seed}


def raising(method: str, instance: str, config: dict, seed: int) -> dict:
    if seed == config["bad"]:
        raise ZeroDivisionError("seed\nof evil")
    return {"seed": seed}


def interrupted(method: str, instance: str, config: dict, seed: int) -> dict:
    """The user presses Ctrl-C during the run of seed 2, once."""
    mark = Path(config["folder"]) / "interrupted"
    if seed == 2 and not mark.exists():
        mark.touch()
        raise KeyboardInterrupt
    return count(method, instance, config, seed)


def allocate(method: str, instance: str, config: dict, seed: int) -> dict:
    block = bytearray(int(config["bytes"]))
    block[::4096] = b"x" * len(block[::4096])
    return {"length": len(block)}


def slow(method: str, instance: str, config: dict, seed: int) -> dict:
    Path(config["folder"], f"{seed}.pid").write_text(str(os.getpid()))
    time.sleep(config["seconds"])
    return {"seed": seed}
