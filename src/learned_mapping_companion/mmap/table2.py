"""Paper 1's Table 2 and Figures 5 and 7: every method on four compiled programs, for equal CPU
seconds on one core; random play and the rules have less.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from learned_mapping.mmap.agent import config as agent_config
from learned_mapping_companion import results, statistics
from learned_mapping_companion.artifact import NOTHING, Artifact, Quick, Runs
from learned_mapping_companion.mmap import runs
from learned_mapping_companion.table import (
    Record,
    Records,
    Row,
    Rows,
    by,
    column,
    grouped,
    interval_row,
    mean_row,
    row,
)

WORKLOADS = (
    "alexnet_train_batch_32",
    "wavenet_coherent_batch32",
    "AlphaTensor",
    "tensor2tensor_transformer_bf16",
)
"""The paper's four programs, by its names; ours are compiled from models of our own."""
PAPER_EVOLUTION = ("evolution-logits", "evolution-logits-64")
"""The paper's: a preference for every buffer and action, with populations of 8 and of 64."""
EVOLUTION = (*PAPER_EVOLUTION, "evolution-policy")
BEST_EVOLUTION, BEST_OF_PAPER = "evolution-best", "evolution-paper"
"""The variant with the largest mean on each program: of all, and of the paper's."""
BESTS = {BEST_EVOLUTION: EVOLUTION, BEST_OF_PAPER: PAPER_EVOLUTION}
MODEL_FREE = "ppo"
"""The control that learns without search or model, for as long as the agent."""
PRICES_ALONE = "muzero-priced-frozen"
"""The control of `muzero-priced`, which learns nothing: what is between the two is learned."""
METHODS = (
    "random",
    "greedy",
    "greedy-tuned",
    "priced",
    "heuristic",
    *EVOLUTION,
    "edit-search",
    "edit-search-repeats",
    MODEL_FREE,
    "muzero",
    "muzero-priced",
    PRICES_ALONE,
)
IN_WINDOWS = ("muzero-frozen", "learning-only")
"""Besides, where the agent plays windows and merges them into its best game: without learning, and
without search."""
CONTRASTS = (
    *BESTS,
    "greedy-tuned",
    "priced",
    "edit-search",
    "random",
    MODEL_FREE,
    PRICES_ALONE,
)
"""Methods that these are compared with:"""
CONTRASTED = (
    "muzero",
    "muzero-priced",
    "edit-search",
    "edit-search-repeats",
)
TIMES = {"muzero": 2} | dict.fromkeys(PAPER_EVOLUTION, 3)
"""A method that the paper compares -> the seeds it has for each of another."""
EARLY = 0.2
"""The share of a training that counts as early."""
LARGE = 3000
"""Buffers, above which a program is among the large ones of Figure 5."""
NEAR, SAME, FEW = 0.01, 1e-4, 5
"""Returns that are near the best one, and as good as it, on the compiler's scale of 0 to 1; and how
few say nothing."""
Returns = dict[str, dict[str, list[float]]]
CURVE_POINTS = 40
BOTH = "muzero"
"""The agent of Figure 7, which searches and learns, in one round."""
ALONE = ("muzero-frozen", "search-only", "learning-only", "imitation", MODEL_FREE)
"""Its other arms: the untrained network, the paper's two, one that imitates its best game, and one
that learns from games alone."""
FIG7_PROGRAM, FIG7_SEEDS = WORKLOADS[0], 3
"""The paper's program for it, and at most so many seeds of an arm."""


def plan_table2(seeds: int) -> Runs:
    """The compiler's mapping of every program, and every method on it, those without randomness
    once."""
    for instance in WORKLOADS:
        yield runs.plan_run(runs.XLA, instance, {})
    for instance in WORKLOADS:
        windows = runs.num_buffers(instance) >= agent_config.LONG
        for method in (*METHODS, *IN_WINDOWS) if windows else METHODS:
            yield from runs.plan_by_clock(method, instance, seeds * TIMES.get(method, 1))


def assemble_table2(records: Records) -> Rows:
    """Returns, latencies, speedups and games per program and method; over all programs; searches
    against others.

    ``best_found`` is the return of the best game that a learner met, put together of windows or its
    own; ``speedup`` is over the compiler's mapping. Numbers over seeds are means. Of all mappings
    of a program there are `near_rows`.
    """
    groups = grouped(records)
    for key, group in groups.items():
        outcomes = [record["result"] for record in group]
        yield return_row(*key, group)
        yield from runs.learning_rows(*key, outcomes)
        latencies = [result["costs"].get("latency_s", result["slow_s"]) for result in outcomes]
        yield mean_row(*key, "latency_s", latencies)
        if (key[0], runs.XLA) in groups:
            (baseline,) = groups[key[0], runs.XLA]
            speeds = [baseline["result"]["costs"]["latency_s"] / latency for latency in latencies]
            yield mean_row(*key, "speedup", speeds, baseline=runs.XLA)
        for name in ("samples", "seconds"):
            yield mean_row(*key, name, [float(result[name]) for result in outcomes])
        yield from best_found_rows(*key, outcomes)
    for name, of_program in by(records, "instance").items():
        yield from near_rows(name, [r["result"] for r in of_program if r["result"]["judged"]])
    returns = returns_of(groups.values())
    for method, scores in returns.items():
        if len(scores) == len({instance for instance, _ in groups}):
            cells = {"n": sum(map(len, scores.values()))}
            yield interval_row("all", method, "return", statistics.mean_over_tasks(scores), **cells)
            if method != runs.XLA:  # which does not keep to the game's rules
                rule, cells["baseline"] = returns["greedy-tuned"], "greedy-tuned"
                ends = statistics.improvement_interval(scores, rule)
                ends = (statistics.probability_of_improvement(scores, rule), *ends)
                yield interval_row("all", method, "improvement_probability", ends, **cells)
    for method in CONTRASTED:
        yield from contrasts(returns, method)


TABLE2 = Artifact(
    "mmap.table2",
    assemble_table2,
    plan_table2,
    Quick(
        (runs.XLA, *(method for method in METHODS if method not in (MODEL_FREE, *runs.LEARNED))),
        WORKLOADS[:2],
        config={"seconds": 0.5},
    ),
    {"seconds": 4},
)


def returns_of(groups: Iterable[Records]) -> Returns:
    """Method -> program -> the return of each seed."""
    returns: Returns = {}
    for group in groups:
        values = returns.setdefault(group[0]["method"], {})
        values[group[0]["instance"]] = [runs.return_of(record) for record in group]
    return returns


def return_row(instance: str, method: str, group: Records) -> Row:
    """The row ``return`` of a method's records on a program, with its curves over CPU seconds and
    over games."""
    extra: Record = {"program": group[0]["config"]["program"]}
    curves = [record["result"].get("curve", {"x": ()}) for record in group]
    if all(curve["x"] for curve in curves):
        extra["curve"] = mean_curve(curves, "x", "s")
        extra["games_curve"] = mean_curve(curves, "samples", "games")
    return mean_row(instance, method, "return", [runs.return_of(r) for r in group], **extra)


def near_rows(instance: str, outcomes: Records) -> Rows:
    """Whether the return tells the faster of good mappings: of those within `NEAR` of the best
    return ``near_rank``, the rank correlation of return and latency, and of those within `SAME`
    ``near_spread``, by which share the slowest takes longer than the fastest; None where fewer than
    `FEW` are there."""
    from scipy.stats import spearmanr

    points = np.array(
        [[r["costs"]["return"], r["costs"]["latency_s"]] for r in outcomes if r["valid"]]
    ).reshape(-1, 2)
    near, same = (
        points[points[:, 0] >= points[:, 0].max(initial=0.0) - width] for width in (NEAR, SAME)
    )
    varied = len(near) >= FEW and np.ptp(near, axis=0).all()
    rank = spearmanr(near[:, 0], near[:, 1]).statistic if varied else None
    spread = float(np.ptp(same[:, 1]) / same[:, 1].min()) if len(same) >= FEW else None
    yield row(instance, "all", "near_rank", rank, n=len(near))
    yield row(instance, "all", "near_spread", spread, n=len(same))


def best_found_rows(instance: str, method: str, outcomes: Records) -> Rows:
    """The row ``best_found`` of a learner's results on a program, with its curve over CPU seconds,
    and the row ``best_found_early``, after `EARLY` of them; none of others."""
    logs = [
        [look for look in result.get("log", ()) if look["best_found"] is not None]
        for result in outcomes
    ]
    if not all(logs):
        return
    curves = [{"x": [r["cpu_s"] for r in log], "y": [r["best_found"] for r in log]} for log in logs]
    last, curve = [float(result["best_found"]) for result in outcomes], mean_curve(curves, "x", "s")
    yield mean_row(instance, method, "best_found", last, curve=curve)
    early = [
        max((y for x, y in zip(*curve.values()) if x <= EARLY * result["seconds"]), default=0.0)
        for curve, result in zip(curves, outcomes)
    ]
    yield mean_row(instance, method, "best_found_early", early)


def contrasts(returns: Returns, method: str) -> Rows:
    """Rows ``ratio`` and ``difference`` of mean returns of a method and each of `CONTRASTS` that is
    there, per program and over all, with 95% bootstrap intervals, and ``ahead``, the share of
    programs on which the mean is larger."""
    for baseline in CONTRASTS:
        if baseline == method:
            continue
        theirs = returns.get(baseline, {})
        if baseline in BESTS:
            theirs = best_of(returns, BESTS[baseline])
        shared = [name for name in returns.get(method, {}) if name in theirs]
        everywhere = (
            [("all", shared)]
            if {*shared} == {name for scores in returns.values() for name in scores}
            else []
        )
        for instance, names in [*((name, [name]) for name in shared), *everywhere]:
            ours, against = (
                {name: scores[name] for name in names} for scores in (returns[method], theirs)
            )
            cells = {"baseline": baseline, "n": sum(map(len, ours.values()))}
            both = {"ratio": statistics.mean_ratio, "difference": statistics.mean_difference}
            for metric, contrast in both.items():
                if (difference := contrast(ours, against)) is not None:
                    yield interval_row(instance, method, metric, difference, **cells)
            ahead = np.mean([np.mean(ours[name]) > np.mean(against[name]) for name in names])
            yield row(instance, method, "ahead", ahead, **cells)


def best_of(returns: Returns, variants: Sequence[str]) -> dict[str, list[float]]:
    """Program -> the returns of the one of some methods with the largest mean on it."""
    best: dict[str, list[float]] = {}
    for variant in variants:
        for name, values in returns.get(variant, {}).items():
            if name not in best or np.mean(values) > np.mean(best[name]):
                best[name] = values
    return best


def assemble_fig5(records: Records, table: Record) -> Rows:
    """The best return so far over CPU seconds (metric ``return``) and over games
    (``return_by_games``): the curves of the runs of `mmap.table2`. ``lead`` is how far a method
    ends above the best evolution, by `LARGE`; its interval is the widest that the programs'
    allow."""
    for entry in results.select(table, metric="return"):
        if "curve" in entry:
            plain = {key: value for key, value in entry.items() if key != "games_curve"}
            yield plain
            yield plain | {"metric": "return_by_games", "curve": entry["games_curve"]}
    yield from runs.learned(table)
    leads: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for entry in results.select(table, metric="difference", baseline=BEST_EVOLUTION):
        if entry["instance"] != "all":
            size = "large" if runs.num_buffers(entry["instance"]) > LARGE else "small"
            ends = tuple(entry[end] for end in ("value", "low", "high"))
            leads.setdefault((size, entry["method"]), []).append(ends)
    for key, ends in leads.items():
        cells = {"n": len(ends), "values": [value for value, *_ in ends]}
        cells["baseline"] = BEST_EVOLUTION
        yield interval_row(*key, "lead", np.mean(ends, axis=0), **cells)


FIG5 = Artifact("mmap.fig5", assemble_fig5)


def plan_fig7(seeds: int) -> Runs:
    """All arms for the same CPU seconds, each in one round; long runs."""
    count, seconds = min(seeds, FIG7_SEEDS), runs.seconds_of(FIG7_PROGRAM)
    for seed in range(count):
        yield runs.plan_one_round(FIG7_PROGRAM, seconds, seed)
    for method in ALONE:
        yield from runs.plan_runs(method, FIG7_PROGRAM, {"seconds": seconds}, count, long=True)


def assemble_fig7(records: Records) -> Rows:
    """Returns with their curves over CPU seconds and games, games, updates and ``best_found`` (the
    best game met by whatever means, windows included) of all arms, and `moves_per_game`. For
    the agent and each other arm ``by_games`` of both, the ``baseline`` being the other: their
    returns when both have played as many games as the slower run of the two; and ``by_moves``, when
    both have made as many moves in all."""
    groups = grouped(records)
    for key, group in groups.items():
        yield return_row(*key, group)
        yield from runs.learning_rows(*key, [record["result"] for record in group])
        yield mean_row(*key, "moves_per_game", [moves_per_game(key[1])] * len(group))
        if all("best_found" in record["result"] for record in group):
            yield mean_row(*key, "best_found", column(group, "best_found"))
    for name, arm in groups:
        both = {one: groups.get((name, one), []) for one in (arm, BOTH)}
        if arm not in ALONE or not both[BOTH]:
            continue
        for metric in ("by_games", "by_moves"):
            weight = {one: moves_per_game(one) if metric == "by_moves" else 1.0 for one in both}
            shared = min(
                r["result"]["samples"] * weight[one] for one, group in both.items() for r in group
            )
            if not shared:  # one of them has not finished a game
                continue
            for one, other in ((arm, BOTH), (BOTH, arm)):
                values = [best_after(r["result"]["curve"], shared / weight[one]) for r in both[one]]
                yield mean_row(name, one, metric, values, games=shared, baseline=other)


FIG7 = Artifact("mmap.fig7", assemble_fig7, plan_fig7, NOTHING)


def moves_per_game(arm: str) -> float:
    """Moves in the game itself for each whole game, in games' worth: search alone looks at one for
    every simulation, the learned model costs none."""
    return 1.0 + agent_config.WHOLE.simulations if arm == "search-only" else 1.0


def best_after(curve: Record, games: float) -> float:
    """The best return after so many games; 0 before the first."""
    return max((y for n, y in zip(curve["samples"], curve["y"]) if n <= games), default=0.0)


def mean_curve(curves: Records, key: str, unit: str) -> Record:
    """The best return so far: mean, least and most over the seeds, at places even in the logarithm;
    `key` and `unit` of the places are ``x`` and s, or ``samples`` and games."""
    # nothing has ended yet after the first move of a long game
    first = max(1e-3, *(curve[key][0] for curve in curves))
    last = max(max(curve[key][-1] for curve in curves), first * 1.01)
    x = np.geomspace(first, last, CURVE_POINTS)
    x[-1] = last
    y = np.array(
        [
            np.array(c["y"])[np.maximum(np.searchsorted(c[key], x, side="right") - 1, 0)]
            for c in curves
        ]
    )
    lines = {"y": y.mean(axis=0), "low": y.min(axis=0), "high": y.max(axis=0)}
    places = [round(float(v), 5) for v in x]
    return {
        "x": places,
        **{name: [round(float(v), 6) for v in line] for name, line in lines.items()},
        "x_unit": unit,
    }
