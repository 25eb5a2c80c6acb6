"""Whatever is handed to any other callable of the page of public names, and to the environments: a
result, or one line. `test_hostile_calls` has the validators and the solvers.

``make fuzz`` sets LMAP_FUZZ for more calls and other seeds.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import learned_mapping as lm
from learned_mapping import gym
from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.mcm.env import PartitionEnv
from learned_mapping.mcm.partition import Partition, make_partition
from learned_mapping.mcm.task import Task
from learned_mapping.mmap import env as mmap_env
from learned_mapping.mmap.mapping import Mapping, all_dropped, make_mapping
from learned_mapping.mmap.rules.play import Game
from learned_mapping.problem import Method, Result
from learned_mapping.programs.formats import write_graph, write_program
from learned_mapping.programs.graph import make_graph
from learned_mapping.programs.program import Step, program_of_steps
from learned_mapping.regal import env as regal_env
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import Schedule
from learned_mapping.verdict import Verdict
from library.test_hostile_calls import GRAPH, ORDER, PROGRAM, OwnError, hostile, raises

COUNT, SEED, CPU_S, GIGABYTE = int(os.environ.get("LMAP_FUZZ", "2000")), 73, 5.0, 2**30
ELSEWHERE = ("solve", "validate")
"""Names of the page whose calls are drawn in `test_hostile_calls`."""


def product(x: Any, y: Any) -> Any:
    return x @ y


def calls(folder: Path) -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Public name -> a callable and arguments that it takes."""
    write_graph(folder / "graph.json", GRAPH)
    write_program(folder / "program.json", PROGRAM)
    shape, dropped = jax.ShapeDtypeStruct((4, 4), "float32"), all_dropped(PROGRAM)
    partition, package = make_partition([0, 0, 1, 1, 1], 2), lm.mcm.ChipPackage(chips=2)
    game, program = Game(PROGRAM), mmap_env.env_program(PROGRAM)
    capacity = mmap_env.capacity_for(PROGRAM)
    state, instance = mmap_env.reset(program, capacity), Instance(GRAPH)
    seen = [features(instance)]
    graph = jax.tree.map(lambda leaf: leaf[0], regal_env.env_graphs([instance], seen))
    machine, seed = instance.machine, np.int32(0)
    begun, _ = regal_env.reset(graph, machine, seed, 300)
    choices = np.zeros((5, machine.devices + 1, 2), np.int32)
    step = Step("i0", "fusion", [(0, True, -1)], range(1), [1.0, 2.0])
    return {
        "Mapping": (
            Mapping,
            {name: getattr(dropped, name) for name in ("action", "offset", "start", "end")},
        ),
        "make_mapping": (
            make_mapping,
            {"program": PROGRAM} | {name: [0, 0] for name in ("action", "offset", "start", "end")},
        ),
        "Game": (Game, {"program": PROGRAM}),
        "Game.step": (game.step, {"action": 0}),
        "MemoryHierarchy": (lm.mmap.MemoryHierarchy, vars(lm.mmap.MemoryHierarchy())),
        "env_program": (mmap_env.env_program, {"program": PROGRAM}),
        "capacity_for": (mmap_env.capacity_for, {"program": PROGRAM}),
        "mmap.env.reset": (mmap_env.reset, {"program": program, "capacity": capacity}),
        "mmap.env.step": (
            mmap_env.step,
            {"program": program, "state": state, "action": np.int32(0)},
        ),
        "Partition": (Partition, {"assignment": [0, 0, 1, 1, 1], "chips": 2}),
        "make_partition": (make_partition, {"assignment": [0, 0, 1, 1, 1], "chips": 2}),
        "Task": (
            Task,
            {
                **{"graph": GRAPH, "package": package, "start": None, "repair": "engine"},
                **{"pretraining": 0, "memory": False},
            },
        ),
        "PartitionEnv": (PartitionEnv, {"model": ChipModel(GRAPH, package)}),
        "ChipPackage": (lm.mcm.ChipPackage, vars(package)),
        "Schedule": (Schedule, {"placement": [0] * 5, "order": ORDER, "devices": 2}),
        "Instance": (Instance, {"graph": GRAPH, "machine": machine, "objective": "runtime"}),
        "env_graphs": (regal_env.env_graphs, {"instances": [instance], "seen": seen}),
        "regal.env.reset": (
            regal_env.reset,
            {"graph": graph, "machine": machine, "seed": seed, "evaluations": 300},
        ),
        "regal.env.step": (
            regal_env.step,
            {"state": begun, "choices": choices, "seed": seed, "bins": (1.0, 2.0)},
        ),
        "Devices": (lm.regal.Devices, vars(machine)),
        "Method": (Method, {"description": "one", "run": raises, "kind": "search", "version": 1}),
        "Result": (
            Result,
            {"solution": partition, "metrics": {}, "curve": {}, "samples": 1, "seconds": 1.0},
        ),
        "Budget": (Budget, {"seconds": 1.0, "samples": 1, "cpu": False, "progress": None}),
        "Verdict": (Verdict, {"violations": (), "costs": {}}),
        "InputError": (InputError, {"source": "file", "field": "field", "fault": "fault"}),
        "trace": (
            lambda x, y, **named: lm.trace(product, x, y, **named),
            {"x": shape, "y": shape, "name": "f", "parameters": 0, "unroll_limit": 9},
        ),
        "trace of": (lambda function: lm.trace(function, shape, shape), {"function": product}),
        "schedule": (
            lambda **named: lm.schedule(product, shape, shape, **named),
            {"machine": lm.mmap.MemoryHierarchy(), "name": "f", "donated": (), "parameters": 0},
        ),
        "read_graph": (lm.read_graph, {"path": folder / "graph.json"}),
        "read_program": (lm.read_program, {"path": folder / "program.json"}),
        "write_graph": (write_graph, {"path": folder / "out.json", "graph": GRAPH}),
        "write_program": (write_program, {"path": folder / "out.json", "program": PROGRAM}),
        "make_graph": (
            make_graph,
            {
                **{"name": "g", "op_names": ["a", "b"], "op_flop": [1.0, 2.0]},
                **{"op_kinds": ["c", "d"], "op_weight_bytes": None, "op_seconds": None},
                **{"op_untouched_bytes": None, "op_chip": None, "op_group": None},
                **{"tensor_names": ["t"], "tensor_bytes": [4], "tensor_producer": [0]},
                **{"tensor_is_output": None, "edge_tensor": [0], "edge_consumer": [1]},
                **{"metadata": None, "source": "graph"},
            },
        ),
        "program_of_steps": (
            program_of_steps,
            {
                **{"steps": [step], "name": "p", "fast_bytes": 8, "copy_bytes_per_s": 1e9},
                **{"tensor_names": ["t"], "tensor_bytes": [4], "tensor_is_parameter": [False]},
                **{"tensor_is_output": [True]},
            },
        ),
    }


def environments() -> dict[str, tuple[Callable, dict[str, Any]]]:
    """Name -> a method of an environment and arguments that it takes."""
    found: dict[str, tuple[Callable, dict[str, Any]]] = {}
    for kind in (gym.MMap, gym.ChipsByOp, gym.Chips, gym.Regal):
        name, instance = kind.__name__, PROGRAM if kind is gym.MMap else GRAPH
        environment = kind(instance)
        environment.reset(seed=0)
        found[name] = (kind, {"instance": instance, "render_mode": None})
        found[f"{name}.reset"] = (environment.reset, {"seed": 0, "options": {}})
        found[f"{name}.step"] = (environment.step, {"action": environment.action_space.sample()})
    return found


class Late(BaseException):
    """A call has used up its processor time."""


def late(*_: Any) -> None:
    raise Late


def ending(function: Callable, given: dict[str, Any]) -> str:
    """The end of a call: ``result``, ``refused``, ``own`` for a user's own error, or what is wrong
    with it."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        function(**given)
    except InputError as error:
        line = str(error)
        return "refused" if line.isprintable() and len(line) <= 4500 else f"no line: {line[:200]!r}"
    except OwnError:
        return "own"
    except Late:
        return f"more than {CPU_S} s"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [f for f in frames if "/learned_mapping/" in f.filename] or frames
        places = [f"{f.filename[-40:]}:{f.lineno}" for f in inside[-2:]]
        return f"{type(error).__name__} at {places}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "result"


def endings(count: int, seed: int) -> Counter[str]:
    """How often `count` calls end in which way."""
    rng, ends = np.random.default_rng(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, mmap_env.exact():
        chosen = calls(Path(folder)) | environments()
        for function, arguments in chosen.values():
            function(**arguments)  # and what it compiles
        names = sorted(chosen)
        for _ in range(count):
            name = names[int(rng.integers(len(names)))]
            function, arguments = chosen[name]
            values, given = hostile(), dict(arguments)
            for key in rng.choice(sorted(arguments), int(rng.integers(1, 3))):
                given[str(key)] = values[rng.integers(len(values))]
            end = ending(function, given)
            ends[end if end in ("result", "refused", "own") else f"{name}: {end}"] += 1
    return ends


def test_each_hostile_call_of_a_public_name_has_a_result_or_is_refused_in_one_line(tmp_path):
    """Catches a callable whose arguments nobody looks at before they are used."""
    ran = subprocess.run(
        [sys.executable, __file__],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},  # helpers
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    ends = json.loads(ran.stdout.splitlines()[-1])
    assert sum(ends.values()) == COUNT and set(ends) <= {"result", "refused", "own"}, ends
    assert ends["result"] > COUNT / 10, "calls that mean nothing find nothing"


def test_the_calls_cover_the_page_of_public_names(tmp_path):
    """Catches a public name to which nobody has handed nonsense yet."""
    page = (Path(__file__).resolve().parents[2] / "book" / "api.md").read_text()
    listed = re.findall(r"auto(?:class|function):: learned_mapping\.(\S+)", page)
    with mmap_env.exact():
        called = {name.rpartition(".")[2] for name in calls(tmp_path)}
    assert {name.rpartition(".")[2] for name in listed} - called <= {*ELSEWHERE, "EnvState"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of NumPy, on values that are refused
    signal.signal(signal.SIGPROF, late)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + GIGABYTE, -1))
    print(json.dumps(endings(COUNT, SEED + (COUNT > 2000) * os.getpid())))
