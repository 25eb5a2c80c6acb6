"""``python -m builders.training.mmap_muzero PROGRAM``: a resumable training of the agent, or of one
of its controls."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import changes_from_json, config_for, config_to_json
from learned_mapping.mmap.agent.result import LearnedResult
from learned_mapping.mmap.agent.solve import solve
from learned_mapping.mmap.mapping import write_mapping
from learned_mapping.mmap.methods import METHODS
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import parse_json, write_json
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap.runs import LEARNED, SCHEMA, thinned


def record_of(
    program: str, seed: int, config: dict[str, Any], result: LearnedResult
) -> dict[str, Any]:
    """A finished training as JSON; its curve is `thinned`."""
    return {
        "schema": SCHEMA,
        "program": program,
        "seed": seed,
        "config": config,
        "cpu_seconds": result.seconds,
        "games": result.samples,
        "best_whole": result.metrics["return"],
        **{name: value for name, value in result.metrics.items() if name != "return"},
        "curve": thinned(result.log),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the command line and trains."""
    parser = argparse.ArgumentParser(prog="builders.training.mmap_muzero", description=__doc__)
    parser.add_argument("program", help="name of a compiled program")
    parser.add_argument("--seconds", type=float, help="CPU seconds of training")
    parser.add_argument(
        "--iterations", type=int, default=0, help="end after so many, whatever the seconds"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for checkpoint, curve, mapping and record"
    )
    parser.add_argument("--name", help="of the files; default PROGRAM.SEED")
    parser.add_argument(
        "--method", choices=LEARNED, default="muzero", help="the agent or a control; default muzero"
    )
    parser.add_argument("--config", default="{}", help="JSON object of settings to change")
    parser.add_argument("--every", type=int, default=50, help="iterations between checkpoints")
    options = parser.parse_args(arguments)
    try:
        return _train(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _train(options: argparse.Namespace) -> int:
    program, _ = compiled.load(options.program)
    changes = METHODS[options.method].settings | changes_from_json(
        parse_json(options.config.encode(), "--config")
    )
    if options.iterations:
        changes["iterations"] = options.iterations
    config = config_for(program.num_buffers, **changes)
    if options.seconds is None and not config.iterations:
        raise InputError("--seconds", "", "give a limit in seconds or in iterations")
    name = options.name or f"{options.program}.{options.seed}"
    os.makedirs(options.out, exist_ok=True)

    def path(suffix: str) -> Path:
        return options.out / f"{name}.{suffix}"

    result = solve(
        program,
        options.seed,
        seconds=options.seconds,
        config=config,
        cpu=True,
        checkpoint=path("npz"),
        every=options.every,
        log=path("jsonl"),
    )
    verdict = validate(program, result.solution, exact=True)
    if not verdict.valid:
        raise InputError(name, "mapping", str(verdict.violations[0]))
    record = record_of(options.program, options.seed, config_to_json(config), result)
    write_mapping(path("mapping.json"), result.solution, program)
    write_json(path("json"), record)
    shown = {k: v for k, v in record.items() if not isinstance(v, list | dict)}
    print(
        " ".join(f"{k}={v:.5g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items())
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
