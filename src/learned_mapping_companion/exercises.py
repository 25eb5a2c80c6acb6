"""The exercises of the book, and what marks their answers: a validator, a count or a proven bound.

>>> check("mmap-1", [2, 2, 2, 2, 2, 2])
mmap-1: not yet. It returns 0.0000, and 0.8333 is possible: 0 % of it.
False
"""

import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from learned_mapping import mcm, mmap, regal
from learned_mapping.errors import InputError
from learned_mapping.mcm.rules.constraints import obeys_chain_rule, uses_prefix
from learned_mapping.regal.rules.decode import fitness_of, make_workspace
from learned_mapping_companion import small_learners
from learned_mapping_companion.mcm.graphs import load_graph as mcm_graph
from learned_mapping_companion.mmap.tables import workload
from learned_mapping_companion.regal.graphs import load_graph

MIB = 2**20
NEAR = 1e-6
Marked = tuple[bool, str]


def check(exercise: str, answer: Any) -> bool:
    """Whether an answer to an exercise, such as ``mmap-1``, is right; prints why, and how far it is
    from what is possible. The exercise says what an answer is."""
    if exercise not in MARKS:
        raise InputError("check", "exercise", f"is one of {', '.join(MARKS)}")
    try:
        right, words = MARKS[exercise](answer)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as fault:
        right, words = False, f"The answer cannot be read: {' '.join(str(fault).split())}."
    print(f"{exercise}: {'right' if right else 'not yet'}. {words}")
    return right


def of_possible(right: bool, reached: float, possible: float) -> Marked:
    """A mark, and what an answer reaches of what nothing exceeds."""
    share = 100 * reached / possible
    return right, f"It returns {reached:.4f}, and {possible:.4f} is possible: {share:.0f} % of it."


def _played(program: Any, moves: Any) -> float:
    """The return of a whole game; raises `ValueError` at a move that is not legal."""
    game = mmap.Game(program)
    for move in moves:
        if game.over or move not in range(3) or not game.legal[move]:
            raise ValueError(f"move {game.cursor + 1} is not legal")
        game.step(int(move))
    if not game.over:
        raise ValueError(f"the game has {program.num_buffers} moves")
    return game.value


def more_room(moves: Any) -> Marked:
    """Of six moves of the toy with 12 bytes: 0 is Copy, 1 NoCopy, 2 Drop."""
    program = mmap.toy_program().with_memory(fast_bytes=12)
    reached, bound = _played(program, moves), mmap.upper_bound(program).value
    return of_possible(reached >= bound - NEAR, reached, bound)


def one_decision(moves: Any) -> Marked:
    """Of the moves of a game on AlexNet, not behind that of the moves that save most at once."""
    program = workload("alexnet_train_batch_32")
    rule = mmap.Game(program)
    while not rule.over:
        worth = np.where(rule.legal, rule.outcomes["reward_s"], -np.inf)
        rule.step(int(np.argmax(worth)))
    reached = _played(program, moves)
    return of_possible(reached >= rule.value - NEAR, reached, mmap.upper_bound(program).value)


def less_memory(bounds: Any) -> Marked:
    """Of AlexNet's bounds with 64, 32, 16 and 8 MiB."""
    program = workload("alexnet_train_batch_32")
    sizes = [mib * MIB for mib in (64, 32, 16, 8)]
    proven = [mmap.upper_bound(program.with_memory(fast_bytes=size)).value for size in sizes]
    off = np.abs(np.subtract(_numbers(bounds, 4), proven)).max()
    return bool(off <= NEAR), f"The farthest bound is off by {off:.2g}."


def _numbers(values: Any, count: int) -> np.ndarray:
    array = np.asarray(values, float)
    if array.shape != (count,) or not np.isfinite(array).all():
        raise ValueError(f"expected {count} numbers")
    return array


def another_order(chips: Any) -> Marked:
    """Of the chips of operations a to f after FIX in the order e, f, d, c, b, a."""
    graph, proposed = mcm.example_graph(), [1, 1, 0, 2, 0, 2]
    solver = mcm.ConstraintSolver(graph.num_ops, graph.op_edges, 4)
    rng = np.random.default_rng(0)
    fixed = mcm.fix_repair(solver, [4, 5, 3, 2, 1, 0], proposed, rng)
    same = int((_numbers(chips, graph.num_ops) == fixed).sum())
    return same == graph.num_ops, f"{same} of {graph.num_ops} chips are those of FIX."


def how_rare(formula: Callable[[int, int], int]) -> Marked:
    """Of a function of operations and chips, by counting."""
    for n, chips in itertools.product(range(1, 8), range(1, 5)):
        edges = np.array([(i, i + 1) for i in range(n - 1)], int).reshape(-1, 2)
        tried = map(np.array, itertools.product(range(chips), repeat=n))
        counted = sum(bool(obeys_chain_rule(f, edges) and uses_prefix(f)) for f in tried)
        if formula(n, chips) != counted:
            return False, f"{n} operations on {chips} chips have {counted} valid partitions."
    return True, "It holds for all chains of up to seven operations and four chips."


def ten_lines(assignment: Any) -> Marked:
    """Of a partition of SqueezeNet over six chips, faster than the naive greedy's."""
    graph = mcm_graph("squeezenet_inference")
    package = mcm.ChipPackage(chips=6)
    chips = _numbers(assignment, graph.num_ops).astype(int)
    verdict = mcm.validate(graph, mcm.make_partition(chips, 6), package)
    if not verdict.valid:
        return False, verdict.violations[0].detail
    naive, best = (
        mcm.solve(graph, method, package=package).metrics["throughput"]
        for method in ("greedy-naive", "optimum")
    )
    reached = 1 / verdict.costs["runtime_s"]
    return of_possible(reached > naive, reached, best)


def another_reading(costs: Any) -> Marked:
    """Of the seconds and bytes of the four operations with b on device 1."""
    from learned_mapping import make_graph

    diamond = make_graph(
        name="diamond", op_names=["a", "b", "c", "d"], op_kinds=["op"] * 4, op_flop=[0] * 4,
        op_seconds=[1.0, 4.0, 2.0, 1.0], tensor_names=["x", "y", "z", "w"],
        tensor_producer=[0, 1, 2, 3], tensor_bytes=[8, 4, 2, 1],
        tensor_is_output=[False, False, False, True],
        edge_tensor=[0, 0, 1, 2], edge_consumer=[1, 2, 3, 3],
    )  # fmt: skip
    order = [(0, -1), (0, 1), (2, -1), (1, -1), (1, 0), (3, -1)]
    schedule = regal.Schedule.of([0, 1, 0, 0], order, devices=2)
    judged = regal.validate(diamond, schedule, regal.Devices()).costs
    off = np.subtract(_numbers(costs, 2), [judged["makespan_s"], judged["peak_bytes"]])
    return not off.any(), f"The time is off by {off[0]:g} s, the memory by {off[1]:g} bytes."


def _towers() -> Any:
    return regal.Instance(load_graph("synthetic", "towers-70"))


def mirror(mirrored: Callable[[np.ndarray], np.ndarray]) -> Marked:
    """Of a function of chromosomes, by ten of them: each device's load becomes the other's."""
    instance, rng = _towers(), np.random.default_rng(1)
    for chromosome in rng.random((10, instance.chromosome_length)):
        other = np.asarray(mirrored(chromosome.copy()), float)
        one, two = (regal.decode(instance, each) for each in (chromosome, other))
        if instance.cost(one) != instance.cost(two):
            return False, "A chromosome and its mirror image do not cost the same."
        if (one.placement + two.placement != 1).any():
            return False, "An operation stays on its device."
    return True, "Ten chromosomes cost what their mirror images cost."


def fifteen_lines(chromosome: Any) -> Marked:
    """Of a chromosome, better than any of thirty populations drawn at random."""
    instance, rng = _towers(), np.random.default_rng(0)
    arrays, work, length = instance.arrays, make_workspace(instance), instance.chromosome_length
    found = fitness_of(arrays, _numbers(chromosome, length), work)
    drawn = min(fitness_of(arrays, one, work) for one in rng.random((3000, length)))
    least = arrays.seconds.sum() / 2  # both devices busy all the time
    words = f"It takes {1e3 * found:.4g} ms; no schedule takes less than {1e3 * least:.4g}, "
    return found < drawn, f"{words}and the best drawn takes {1e3 * drawn:.4g}."


def learned(exercise: str, change: Callable[..., Any]) -> list[float]:
    """What the learner of an exercise reaches from each of three seeds, with a reader's function;
    of a schedule the rate, one over its seconds."""
    if exercise == "mmap-4":
        program = workload("mlperf_ssd")
        return [small_learners.learned_game(program, change, seed) for seed in SEEDS]
    if exercise == "mcm-4":
        graph = mcm_graph("squeezenet_inference")
        return [small_learners.learned_partition(graph, 6, change, seed) for seed in SEEDS]
    graph = load_graph("synthetic", "towers-70")
    return [1 / small_learners.learned_chromosome(graph, change, seed) for seed in SEEDS]


SEEDS = range(3)
UNCHANGED: dict[str, Callable[..., Any]] = {
    "mmap-4": lambda savings: savings,
    "mcm-4": lambda seconds, chip, latency: np.zeros((2, len(seconds))),
    "regal-4": lambda costs: -costs,
}
"""Exercise -> what its learner does before a reader changes it."""


@lru_cache
def _before(exercise: str) -> float:
    """The best of the learner as it is."""
    return max(learned(exercise, UNCHANGED[exercise]))


def _changed(exercise: str, change: Callable[..., Any], possible: float) -> Marked:
    """A change counts where the mean of three seeds is above the best of the three without it."""
    now, before = float(np.mean(learned(exercise, change))), _before(exercise)
    shares = [f"{100 * value / possible:.0f} %" for value in (now, before)]
    words = f"It reaches {shares[0]} of what is proven possible, unchanged {shares[1]} at best."
    return now > before, words


def later_savings(credit: Callable[..., Any]) -> Marked:
    """Of a function of savings [games, moves] that says what each move is credited with."""
    return _changed("mmap-4", credit, mmap.upper_bound(workload("mlperf_ssd")).value)


def own_credit(credit: Callable[..., Any]) -> Marked:
    """Of a function of seconds [ops], chip [ops] and latency [chips]: what each op gains one chip
    lower, and one higher."""
    graph, package = mcm_graph("squeezenet_inference"), mcm.ChipPackage(chips=6)
    best = mcm.solve(graph, "optimum", package=package).metrics["throughput"]
    return _changed("mcm-4", credit, best)


def a_baseline(advantage: Callable[..., Any]) -> Marked:
    """Of a function of costs [samples] that says what each sample is worth."""
    return _changed("regal-4", advantage, 2 / _towers().arrays.seconds.sum())


MARKS: dict[str, Callable[[Any], Marked]] = {
    "mmap-1": more_room, "mmap-2": one_decision, "mmap-3": less_memory, "mmap-4": later_savings,
    "mcm-1": another_order, "mcm-2": how_rare, "mcm-3": ten_lines, "mcm-4": own_credit,
    "regal-1": another_reading, "regal-2": mirror, "regal-3": fifteen_lines,
    "regal-4": a_baseline,
}  # fmt: skip
"""Exercise -> what marks an answer to it."""
