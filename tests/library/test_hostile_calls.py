"""Whatever is handed to the validators and the solvers of the three papers: a result of finite
numbers, or one line.

The calls run in a process of their own under a limit on its memory, as what is wrong here may take
all there is.
"""

import decimal
import fractions
import itertools
import json
import os
import resource
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import learned_mapping as lm
from by_hand import hand_graph, hand_program
from learned_mapping import problem
from learned_mapping.errors import InputError
from learned_mapping.mcm.partition import Partition
from learned_mapping.mmap.mapping import Mapping, all_dropped
from learned_mapping.problem import Method, Result
from learned_mapping.regal.schedule import Schedule
from learned_mapping.verdict import Verdict

CALLS, MEMORY = int(os.environ.get("LMAP_FUZZ", "2000")), 6 * 2**30
"""Calls, which ``make fuzz`` sets, and bytes of addresses, most of which the libraries reserve and never touch."""
GRAPH = hand_graph(5, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], op_flop=[1e9] * 5)
PROGRAM = hand_program([(0, "x", True), (1, "p", False)], parameters="p")
ORDER = [(op, -1) for op in range(5)]


class Raises:
    """Nothing can be asked of it, and it cannot even be shown."""

    __hash__ = None

    def fail(self, *given, **named):
        raise RuntimeError("asked")

    __getattr__ = __len__ = __iter__ = __bool__ = __eq__ = __repr__ = __float__ = __index__ = (
        __call__
    ) = fail
    __array__ = __int__ = __lt__ = __gt__ = fail


class OwnError(Exception):
    """Of a user's own method, who wants to see it as it is."""


def raises(*given, **named):
    raise OwnError("own")


def hostile():
    """Values of every kind, made anew: iterators can be gone through once."""
    return [
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        2**31,
        2**63,
        -(2**63),
        10**400,
        -(10**400),
        10**5000,
        0.0,
        -0.0,
        0.5,
        1.5,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e308,
        5e-324,
        1e-320,
        1j,
        "",
        "a",
        "0",
        "x" * 5000,
        "\ud800",
        "random",
        "optimum",
        "memory",
        "quick",
        b"abc",
        bytearray(b"x"),
        memoryview(b"ab"),
        [],
        [0],
        [0] * 5,
        [0, 0, 1, 1, 1],
        [0.5] * 5,
        [None] * 5,
        [[0]],
        [[0], [1, 2]],
        [10**400],
        [True] * 5,
        (),
        (1, 2),
        {},
        {"a": 1},
        {1: 2},
        set(),
        range(5),
        slice(1),
        object(),
        type,
        int,
        len,
        raises,
        Raises(),
        Raises,
        Exception("e"),
        ...,
        NotImplemented,
        iter([0] * 5),
        (i for i in range(5)),
        itertools.count(),
        fractions.Fraction(1, 3),
        decimal.Decimal("1"),
        decimal.Decimal("sNaN"),
        np.float64("nan"),
        np.float64(1.5),
        np.float32(2),
        np.int8(2),
        np.int8(127),
        np.uint64(2**63),
        np.bool_(True),
        np.array(3),
        np.array([1]),
        np.zeros(5, int),
        np.zeros(5),
        np.zeros((5, 2), int),
        np.zeros((0, 2)),
        np.array([], int),
        np.array(["a"] * 5),
        np.array([None] * 5),
        np.full(5, 2**40),
        np.full(5, np.nan),
        np.ma.masked_array([0] * 5, [0, 1, 0, 0, 1]),
        np.ma.masked,
        np.datetime64("2020"),
        np.zeros(5, [("a", int)]),
        np.random.default_rng(0),
        GRAPH,
        PROGRAM,
        lm.mcm.ChipPackage(),
        lm.regal.Devices(),
        lm.mmap.MemoryHierarchy(),
        all_dropped(PROGRAM),
        Partition([0] * 5, 2),
        Schedule.of([0] * 5, ORDER, 2),
        Result(None, {}, {}, 0, 0.0),
        Verdict(),
    ]


PAPERS = {
    "mmap": (
        PROGRAM,
        "machine",
        lm.mmap.MemoryHierarchy,
        ("greedy", "greedy-tuned", "random", "heuristic", "packing"),
    ),
    "mcm": (
        GRAPH,
        "package",
        lm.mcm.ChipPackage,
        ("greedy-careful", "greedy-naive", "random", "sa", "climb"),
    ),
    "silicon": (GRAPH, "package", lm.mcm.ChipPackage, ("even-cut", "random", "class-search")),
    "regal": (
        GRAPH,
        "machine",
        lm.regal.Devices,
        ("gp-dfs", "list-scheduler", "random", "brkga", "local-search"),
    ),
}
"""Problem -> an instance, the argument that is its machine, the machine, and methods that take a
moment."""
TASKS = {
    "mmap": (),
    "mcm": ("chips", "package", "start", "repair", "iterations"),
    "silicon": ("chips", "package", "repair", "iterations"),
    "regal": ("objective", "devices", "transfers", "memory_gib"),
}
LIMITS = (
    "seed",
    "samples",
    "seconds",
    "cpu",
    "progress",
    "profile",
    "alone",
    "checkpoint",
    "strict",
)
JUDGED = {"mmap": ("exact",), "mcm": ("memory",), "silicon": (), "regal": ()}


class Draw:
    """One call, drawn from its number."""

    def __init__(self, number: int):
        self.rng = np.random.default_rng([67, number])
        self.share = (0.1, 0.5)[number % 2]  # Of arguments that are hostile where others would do.
        self.paper = str(self.rng.choice(list(PAPERS)))
        self.instance, self.key, self.machine, self.methods = PAPERS[self.paper]
        self.room = getattr(lm, "mcm" if self.paper == "silicon" else self.paper)

    def value(self):
        values = hostile()
        return values[self.rng.integers(len(values))]

    def maybe(self, good):
        return self.value() if self.rng.random() < self.share else good

    def some(self, names, most=3):
        count = min(int(self.rng.integers(0, most + 1)), len(names))
        return (
            {str(name): self.value() for name in self.rng.choice(names, count, replace=False)}
            if count
            else {}
        )

    def solution(self):
        if self.paper == "mmap":
            dropped = all_dropped(PROGRAM)
            return Mapping(
                *map(self.maybe, (dropped.action, dropped.offset, dropped.start, dropped.end))
            )
        if self.paper == "regal":
            return Schedule(self.maybe([0] * 5), self.maybe(ORDER), self.maybe(2))
        return Partition(self.maybe([0, 0, 1, 1, 1]), self.maybe(2))

    def odd_machine(self):
        return self.machine(
            **{f.name: self.value() for f in fields(self.machine) if self.rng.random() < 0.3}
        )

    def judge(self):
        given = self.some((self.key, "listed", *JUDGED[self.paper]), 2)
        return self.room.validate(self.maybe(self.instance), self.maybe(self.solution()), **given)

    def judge_machine(self):
        return self.room.validate(self.instance, self.solution(), **{self.key: self.odd_machine()})

    def judge_task(self):
        task = self.room.PROBLEM.task(self.instance)
        return self.room.PROBLEM.validate(task, self.maybe(self.solution()), self.maybe(20))

    def solve(self):
        given = {"samples": 5, "seed": 1} | self.some(LIMITS)
        if isinstance(given["samples"], int) and given["samples"] > 100:
            given["seconds"] = 0.01
        return self.room.solve(
            self.maybe(self.instance), self.maybe(str(self.rng.choice(self.methods))), **given
        )

    def solve_task(self):
        posed, options = problem.problem(self.paper), self.some(TASKS[self.paper], 2)
        if self.paper in ("mcm", "silicon") and self.rng.random() < 0.5:
            options["package"] = self.odd_machine()
        task = posed.task(self.maybe(self.instance), **options)
        return problem.solve(posed, task, str(self.rng.choice(self.methods)), samples=5)

    def own_method(self):
        outcomes = [
            self.value,
            lambda: (self.value(), self.value()),
            lambda: (self.value(), {"a": self.value()}),
            raises,
            lambda: Result(*(self.value() for _ in range(5))),
            lambda: (self.solution(), {"a": self.value()}),
        ]
        outcome = outcomes[self.rng.integers(len(outcomes))]
        self.room.METHODS["own"] = Method("own", lambda task, rng, budget: outcome())
        try:
            return self.room.solve(self.instance, "own", samples=5)
        finally:
            del self.room.METHODS["own"]


def ending(number: int) -> str:
    """The end of a call: ``result``, ``refused``, ``own`` for a user's own error, or what is wrong
    with it."""
    draw = Draw(number)
    calls = (
        draw.judge,
        draw.judge_machine,
        draw.judge_task,
        draw.solve,
        draw.solve_task,
        draw.own_method,
    )
    call = calls[number % len(calls)]
    try:
        found = call()
    except InputError as error:
        line = str(error)
        return "refused" if line.isprintable() and len(line) <= 4500 else f"no line: {line[:200]!r}"
    except OwnError:
        return "own" if call == draw.own_method else "OwnError from elsewhere"
    except Exception as error:
        places = [
            f"{f.filename[-40:]}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)
        ][-2:]
        return f"{call.__name__} of {draw.paper}: {type(error).__name__} at {places}"
    numbers = (
        found.costs
        if isinstance(found, Verdict)
        else found.metrics
        if isinstance(found, Result)
        else None
    )
    if numbers is None:
        return f"a {type(found).__name__}"
    odd = (
        []
        if call == draw.own_method
        else [name for name, value in numbers.items() if not np.isfinite(value)]
    )
    return f"{call.__name__} of {draw.paper}: {odd} not finite" if odd else "result"


def test_each_hostile_call_has_a_result_or_is_refused_in_one_line(tmp_path):
    """Catches a validator that judges on chips that cannot be, memory that is taken before a number
    is looked at, text or an array where a word or a flag belongs, and any exception from inside."""
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
    assert sum(ends.values()) == CALLS and set(ends) == {"result", "refused", "own"}, ends
    assert ends["result"] > CALLS / 10, "calls that mean nothing find nothing"


@pytest.mark.parametrize("chips", [2**31, 2**63, 3 * 10**7, 0, True, 2.0])
def test_a_number_of_chips_is_bounded_before_anything_is_made_of_it(chips):
    """Catches gigabytes taken for chips that nobody has: one number for each of 2**31 is 16 GB."""
    for asked in (
        lambda: Partition([0] * 5, chips),
        lambda: lm.mcm.validate(GRAPH, Partition([0] * 5, 2), lm.mcm.ChipPackage(chips=chips)),
        lambda: lm.mcm.solve(GRAPH, "greedy-careful", chips=chips),
    ):
        with pytest.raises(InputError, match=r"chips: expected a whole number in \[1, 4096\]"):
            asked()


@pytest.mark.parametrize(
    "kind, wrong",
    [
        (lm.mcm.ChipPackage, {"link_bytes_per_s": -1}),
        (lm.mcm.ChipPackage, {"flop_per_s": float("nan")}),
        (lm.mcm.ChipPackage, {"flop_per_s": 0}),
        (lm.mcm.ChipPackage, {"op_overhead_s": float("inf")}),
        (lm.mcm.ChipPackage, {"flop_per_s": 10**400}),
        (lm.regal.Devices, {"transfers": "xx"}),
        (lm.regal.Devices, {"flop_per_s": -1}),
        (lm.regal.Devices, {"bytes_per_s": 0}),
        (lm.regal.Devices, {"memory_bytes": float("nan")}),
        (lm.regal.Devices, {"memory_bytes": 1e-320}),
        (lm.mcm.ChipPackage, {"sram_bytes": (1e-320, 1.0), "chips": 2}),
        (lm.mmap.MemoryHierarchy, {"contention": float("nan")}),
    ],
)
def test_no_machine_holds_what_cannot_be(kind, wrong):
    """Catches a throughput of 1e30 on a link of -1 bytes/s, and a makespan under transfers of a
    kind that is none: whoever has a machine need not look at it."""
    with pytest.raises(InputError):
        kind(**wrong)
    with pytest.raises(InputError):
        replace(kind(), **wrong)


@pytest.mark.parametrize("of", [GRAPH, PROGRAM], ids=["graph", "program"])
def test_no_instance_holds_what_cannot_be(of):
    """Catches a graph or a program that `replace` takes past its checks, field by field: whoever
    has one need not look at it."""
    refused = 0
    for field in fields(of):
        for value in hostile():
            try:
                made = replace(of, **{field.name: value})
            except InputError as error:
                refused += str(error).isprintable()
                continue
            kept = getattr(made, field.name)
            assert isinstance(made.digest, str) and not isinstance(kept, list)
            assert not isinstance(kept, np.ndarray) or not kept.flags.writeable
    assert refused > 60 * len(fields(of))


@pytest.mark.parametrize(
    "machine",
    [
        lm.mcm.ChipPackage(2, flop_per_s=5e-324),
        lm.regal.Devices(flop_per_s=5e-324),
        lm.mmap.MemoryHierarchy(copy_bytes_per_s=5e-324),
    ],
)
def test_a_judge_refuses_a_machine_on_which_no_time_is_a_number(machine):
    """Catches a solution whose cost is infinite and which is valid."""
    judge, *judged = {
        lm.mcm.ChipPackage: (lm.mcm.validate, GRAPH, Partition([0, 0, 1, 1, 1], 2)),
        lm.regal.Devices: (lm.regal.validate, GRAPH, Schedule.of([0] * 5, ORDER, 2)),
        lm.mmap.MemoryHierarchy: (
            lm.mmap.validate,
            PROGRAM,
            Mapping([2, 0], [-1, 0], [-1, 0], [-1, 1]),
        ),
    }[type(machine)]
    assert judge(*judged).valid
    with pytest.raises(InputError):
        judge(*judged, machine)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of NumPy, on values that are refused
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    first = (CALLS > 2000) * os.getpid() * 10**6  # others each time
    print(json.dumps(Counter(map(ending, range(first, first + CALLS)))))
