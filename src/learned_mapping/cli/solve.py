"""``lmap solve``: a method on an instance, what the independent judge says of its solution, and how
far that is from the optimum at most."""

import dataclasses
import time
from pathlib import Path
from typing import Any

from learned_mapping.cli.instances import (
    given_options,
    of_file,
    problem_of,
    read_instance,
    task_options,
)
from learned_mapping.cli.made import origin
from learned_mapping.cli.output import (
    JSON_ENDINGS,
    NOTES,
    check_out,
    print_json,
    search_progress,
    tell_notes,
)
from learned_mapping.doors import minimalloc
from learned_mapping.errors import InputError, LearnedMappingError, shown
from learned_mapping.interrupts import patient
from learned_mapping.learning.device import on_device
from learned_mapping.problem import Problem, Result
from learned_mapping.problem import solve as solve_task
from learned_mapping.programs.json_io import write_bytes, write_json
from learned_mapping.verdict import Verdict

BOUND_SECONDS = 60.0
"""Of the search for a bound where the exact method is out of reach and no time was given."""
PATIENCE_S = 5.0  # After an interrupt, for the method to come to its end.
READY_S = 1.0  # From here on the seconds that compiling took are told.
AUTO, AUTO_SECONDS = "auto", 30.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run of a method came to."""

    method: str  # That ran: another one where the optimum is out of reach.
    result: Result
    ready_s: float  # Spent on compiling.
    interrupted: bool


def solve(options: Any) -> int:
    """Solves an instance, has the independent validator judge the solution, and writes it if it is
    valid. An interrupt ends the search, and the best so far is written."""
    out = _checked_out(options)
    paper = problem_of(options)
    _expect_method(paper, options)
    chosen = given_options(options)
    hardware = task_options(paper, chosen)
    instance = read_instance(paper, options, chosen)
    with of_file(instance, options.instance):
        task = paper.task(instance, **hardware)
    outcome = _run(paper, task, instance, options)
    if unseen := paper.unseen(task, outcome.method):
        NOTES.append(unseen)
    solution = outcome.result.solution
    verdict = paper.validate(task, solution)
    if not verdict.valid:
        broken = verdict.violations[0]
        raise LearnedMappingError(f"{options.method} found no valid solution: {broken}")
    made = origin(paper, instance, task, outcome.method, outcome.result, chosen, options)
    if str(out).endswith(minimalloc.ENDINGS):
        from learned_mapping.mmap.mapping import offsets_of

        offsets = offsets_of(instance, solution)
        write_bytes(out, minimalloc.offsets_csv(options.instance, offsets).encode())
    else:
        write_json(out, paper.to_json(solution, instance) | {"made": made})
    _tell(paper, task, outcome, verdict, {"instance": instance.name, **made}, options)
    if outcome.interrupted:
        raise KeyboardInterrupt
    return 0


def _tell(
    paper: Problem,
    task: Any,
    outcome: Outcome,
    verdict: Verdict,
    made: dict[str, Any],
    options: Any,
) -> None:
    """Prints the verdict, whose solution it is, what stands beside it, and how far the optimum can
    be."""
    method, result = outcome.method, outcome.result
    cost, others = paper.beside(task)
    value, metrics = verdict.costs.get(cost), result.metrics
    never = [number for name, number in others.items() if name.endswith("is below")]
    gap = _gap(value, metrics.get("bound_s", metrics.get("bound")), *never)
    chain_gap = _gap(value, metrics.get("chain_bound_s"))
    asked = made["network"]["name"] if "network" in made else None
    if options.json:
        gaps = {"gap": gap, "chain_gap": chain_gap}
        print_json(
            {
                **{name: made[name] for name in ("instance", "method", "by", "seed", "samples")},
                "seconds": round(result.seconds, 3),
                "compile_s": round(outcome.ready_s, 3),
                "metrics": dict(metrics),
                "costs": dict(verdict.costs),
                "out": options.out,
                "network": asked,
                "beside": others,
                **{name: number for name, number in gaps.items() if number is not None},
            }
        )
        return
    tell_notes()
    compiled = f", after {outcome.ready_s:.1f} s to compile" if outcome.ready_s >= READY_S else ""
    print(
        f"{verdict}\n{result.samples} samples in {result.seconds:.2f} s{compiled} ->"
        f" {shown(options.out, 1000)}"
    )
    lines = [
        _by_whom(paper, method, result),
        f"network {asked}{paper.use_of(method)}" if asked else "",
    ]
    if value is not None:
        lines += [_beside(name, cost, value, other) for name, other in others.items()]
    lines += [*paper.hints(task, result.solution), proved(gap, chain_gap)]
    print("\n".join(filter(None, lines)), end="\n" if any(lines) else "")


def _expect_method(paper: Problem, options: Any) -> None:
    """Raises `InputError` for an unknown method, and for options that it does not take."""
    if options.method == AUTO:
        _expect_plain(options)
    else:
        paper.method(options.method)
    if options.checkpoint is not None:
        paper.expect_resumable(options.method)
    narrow = [name for name in paper.options if name not in ("machine", "fused")]
    paper.refuse(options.method, [n for n in narrow if getattr(options, n) is not None], "--")


def _expect_plain(options: Any) -> None:
    """Raises `InputError` for options that no choice of methods can keep to."""
    for name in ("samples", "checkpoint", "start", "repair", "iterations", "size"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}", "", "is for one method, not for auto")
    if options.hardware == "silicon":
        raise InputError("--method", "auto", "is for the analytical model")
    if options.alone:
        raise InputError("--alone", "", "is for one method, not for auto")


def _by_auto(paper: Problem, task: Any, options: Any, progress: Any) -> tuple[str, Result]:
    """The best of what rules, an exact method and searches find, and by which; its metrics have the
    bound."""
    from learned_mapping.auto import answer
    from learned_mapping.budget import Budget

    clock = Budget(seconds=options.seconds or AUTO_SECONDS)
    found = answer(paper, task, clock, seed=options.seed, progress=progress)
    if found.result is None:
        fault = found.refusal or "nothing found that fits; no proof that nothing does"
        raise LearnedMappingError(f"{options.instance}: {fault}")
    metrics: dict[str, Any] = found.result.metrics
    if paper.minimised:
        metrics = {"bound_s": found.bound} | metrics
    result = dataclasses.replace(found.result, metrics=metrics, by="", seconds=clock.seconds)
    return found.result.by, result


def _checked_out(options: Any) -> Path:
    """The path of the solution; raises `InputError`, before anything is computed, where it cannot
    be written."""
    inputs = [options.instance, *filter(None, [options.machine])]
    foreign = minimalloc.ENDINGS if options.instance.endswith(minimalloc.ENDINGS) else ()
    out = check_out(
        options.out, JSON_ENDINGS + foreign, inputs + [*filter(None, [options.checkpoint])]
    )
    if options.checkpoint is not None:
        check_out(options.checkpoint, (".npz",), inputs)
    return out


def _run(paper: Problem, task: Any, instance: Any, options: Any) -> Outcome:
    """The run of a method. Where the optimum is out of reach, another method takes its place in the
    time that is left."""
    limits = {"seed": options.seed, "seconds": options.seconds, "samples": options.samples}
    limits |= {"alone": options.alone, "checkpoint": options.checkpoint, "strict": True}
    limits |= {"profile": "paper"} if options.size == "paper" else {}
    method, since = options.method, time.perf_counter()
    with (
        patient(
            "the best so far follows", wanted=options.checkpoint is None, seconds=PATIENCE_S
        ) as interrupted,
        search_progress(method, options.seconds, options.samples, interrupted) as progress,
        on_device(options.device),
    ):
        try:
            if method == AUTO:
                method, result = _by_auto(paper, task, options, progress)
            else:
                with of_file(instance, options.instance):
                    result = solve_task(paper, task, method, **limits, progress=progress)
        except LearnedMappingError as error:
            if type(error).__name__ != "TooManyIdealsError":
                raise
            if options.alone:
                hint = "" if options.fold else "; --fold makes many graphs narrower"
                raise LearnedMappingError(f"{error}{hint}") from None
            method = paper.instead_of_optimum(task)
            left = (
                BOUND_SECONDS
                if options.seconds is None
                else options.seconds - (time.perf_counter() - since)
            )
            limits["seconds"] = max(left, 0.2 * (options.seconds or BOUND_SECONDS))
            NOTES.append(f"{shown(error, 300)}: {method} instead")
            since = time.perf_counter()
            result = solve_task(paper, task, method, **limits, progress=progress)
    ready_s = max(time.perf_counter() - since - result.seconds, 0.0)
    return Outcome(method, result, ready_s, bool(interrupted))


def _by_whom(paper: Problem, method: str, result: Result) -> str:
    """Whose solution it is, where it is not the method's own; empty otherwise."""
    if result.by in paper.method(method).then:
        return (
            f"{result.by} went on from the best mapping and found more (--alone gives {method}'s"
            " own)"
        )
    if result.by:
        why = (
            "found nothing better (--alone gives that)"
            if result.samples
            else "had no time to finish one sample"
        )
        return f"this is what {result.by} finds, a rule; {method} {why}"
    return (
        ""
        if result.samples
        else f"{method} had no time to finish one sample: --seconds gives it more"
    )


def _beside(name: str, cost: str, value: float, other: float) -> str:
    """A solution's cost beside another's."""
    share = value / other - 1 if other > 0 else 0.0
    if other <= 0 and value != other:
        return f"{name}: {cost} {other:.6g}; this is {value:.6g}"
    where = (
        f"{abs(share):.2%} {'above' if share > 0 else 'below'} it"
        if abs(share) > 5e-5
        else "the same"
    )
    return f"{name}: {cost} {other:.6g}; this is {where}"


def proved(gap: float | None, chain_gap: float | None) -> str:
    """The optimum that a solution is, or how far it is above one, in a sentence; empty where
    nothing was proved.

    Args:
      gap: share above what no solution is below.
      chain_gap: share above what none is below that obeys the chain rule, of paper 2.
    """
    if chain_gap is None:
        if gap is None:
            return ""
        return f"at most {100 * gap:.3g}% above the optimum's cost" if gap > 1e-9 else "the optimum"
    if gap is not None and gap <= 1e-9:
        return "the optimum of all partitions"
    above = f"at most {100 * chain_gap:.3g}% above " if chain_gap > 1e-9 else ""
    others = "" if gap is None else f"; at most {100 * gap:.3g}% above any partition"
    return f"{above}the optimum under the chain rule{others}"


def _gap(value: float | None, proven: float | None, *others: float) -> float | None:
    """The share of the least cost that may be possible by which a cost is above it; None where
    nothing was proved.

    Args:
      value: the cost of the solution.
      proven: what the method proved that none is below.
      others: what else none is below.
    """
    if proven is None or value is None:
        return None
    bound = max([proven, *others])
    if bound <= 0.0:
        return 0.0 if value <= 0.0 else None
    return max(value / bound - 1.0, 0.0)
