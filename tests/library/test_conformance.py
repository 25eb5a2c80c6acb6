"""Every method of every problem, on two small frozen instances: valid, within the bounds,
repeatable, and as stored."""

import dataclasses

import numpy as np
import pytest

from learned_mapping.errors import InputError, MissingNetworkError
from learned_mapping.problem import KINDS, Method, Result, problem, solve
from learned_mapping_companion import fingerprints

METHODS = [
    f"{name}/{method}"
    for name in fingerprints.INSTANCES
    for method in problem(name).methods("quick")
]
CASES = [key for key in METHODS if key not in fingerprints.SAME_CODE]
INVALID = ("unconstrained",)
"""Draws without a solver: its partitions need not be valid, and it says so."""
SLACK = 1 + 1e-9


def upper_bound(name: str, task) -> dict[str, float]:
    """Cost -> what no solution can beat: the most for a return or throughput, the least for a
    time."""
    if name == "mmap":
        from learned_mapping.mmap.bounds.upper import upper_bound as bound

        return {"return": bound(task).value}
    if name == "mcm":
        from learned_mapping.mcm.bounds.optimum import optimum

        return {"throughput": task.model.throughput(optimum(task.model))}
    if name == "regal":
        return {"makespan_s": float(task.arrays.seconds.sum() / task.machine.devices)}
    return {}


def same(one, other) -> bool:
    pairs = zip(dataclasses.asdict(one).values(), dataclasses.asdict(other).values())
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


@pytest.mark.parametrize("case", CASES)
def test_a_method_keeps_what_all_methods_promise(case):
    """Would catch an invalid solution, a beaten bound, a seed that does not decide, and a result
    gone stale unseen."""
    name = case.partition("/")[0]
    own, method = problem(name), fingerprints.with_network(case)
    assert own.method(method).kind in KINDS and own.method(method).description
    collected = []
    for place, (file, options) in enumerate(fingerprints.instances_of(case)):
        instance = own.read(str(fingerprints.path().parent / file))
        limits = {
            "seed": fingerprints.SEED,
            "samples": fingerprints.SAMPLES[name],
            "profile": "quick",
        }
        task = own.task(instance, **options)
        try:
            result = solve(own, task, method, **limits)
        except MissingNetworkError as error:
            assert case not in fingerprints.entries(), error
            pytest.skip(str(error))
        verdict = own.validate(task, result.solution)
        collected.append(fingerprints.costs_of(verdict))
        exact = verdict.valid and name != "silicon"  # which measures, with noise
        priced = verdict.costs.keys() & result.metrics.keys() if exact else ()
        assert {cost: result.metrics[cost] for cost in priced} == pytest.approx(
            {c: verdict.costs[c] for c in priced}
        )
        assert verdict.valid or method in INVALID, verdict.violations[0]
        for cost, limit in upper_bound(name, task).items():
            if verdict.valid and cost == "makespan_s":
                assert verdict.costs[cost] >= limit / SLACK
            elif verdict.valid:
                assert verdict.costs[cost] <= limit * SLACK
        if place == 0:
            again = solve(own, own.task(instance, **options), method, **limits)
            assert same(again.solution, result.solution) and again.samples == result.samples
    stored = fingerprints.entries().get(case)
    assert stored is not None, f"no fingerprint of {case}: run `lmap fingerprint {case}`"
    assert stored["costs"] == collected, (
        f"{case} behaves differently: run `lmap fingerprint {case}`"
    )
    assert stored["version"] == own.method(method).version


@pytest.mark.parametrize("task", fingerprints.PROBES)
def test_a_task_without_a_method_does_what_is_stored(task):
    assert fingerprints.changed(fingerprints.measure([task])) == []


@pytest.mark.parametrize("name", fingerprints.INSTANCES)
def test_a_method_of_the_users_that_returns_no_solution_is_told_so(name, monkeypatch):
    """Would catch an unpacking, an attribute or an index that fails in code that is not the
    user's."""
    own, folder = problem(name), fingerprints.path().parent
    task, other = (
        own.task(own.read(str(folder / file)), **options)
        for file, options in fingerprints.INSTANCES[name]
    )
    foreign, good = (solve(own, which, "random", samples=1).solution for which in (other, task))
    wrong = [None, 5, (None, {}), ("x", {}), (good, None), Result("x", {}, {}, 0, 0.0)]
    wrong += [(foreign, {})] if name != "regal" else []

    def told(outcome):
        if isinstance(outcome, InputError):
            raise outcome
        return outcome

    def mine(outcome):
        known = {"mine": Method("returns what it is given", lambda *_: told(outcome))}
        monkeypatch.setattr(type(own), "methods", lambda *_: known)
        return solve(own, task, "mine", samples=1)

    for outcome in wrong:
        with pytest.raises(InputError, match=r"^mine: |expected a |chips for"):
            mine(outcome)
    (cost, actual), *_ = mine((good, {})).metrics.items()
    # also where the toy that compiles was refused
    with pytest.raises(InputError, match=r"^mine: knows one task$"):
        mine(InputError("mine", "", "knows one task"))
    assert (
        mine((good, {cost: 1e99, "more": 1.0})).metrics.items()
        >= {cost: actual, "more": 1.0}.items()
    )
