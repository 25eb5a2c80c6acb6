"""The exact optimum of the analytical model under the chain rule: dynamic programming over ideals.

Under the chain rule the ops on chips 0..c form an *ideal* I_c (a set that holds every predecessor
of its members), and a partition is a chain of ideals ∅ = I_{-1} ⊂ I_0 ⊂ ... ⊂ I_k = V in which all
consumers of I_{c-1} lie in I_c. A tensor then crosses one link at most, and the bytes on link c ->
c + 1 depend on I_c alone: those of tensors made in I_c with a consumer outside. So the time of chip
c,

    t_c = seconds(I_c \\ I_{c-1}) + (cut(I_{c-1}) + cut(I_c)) / link_bytes_per_s,

depends on two neighbouring ideals, and the least number of chips that reaches an ideal with every t
<= T follows by dynamic programming over the ideals by size. Bisection on T, which ends at the time
of a partition found on one side and a proof that nothing is faster on the other, gives the least
maximum of t_c over every partition that obeys the chain rule, to a relative `TOLERANCE`. That
covers every valid partition in which all neighbouring chips are joined by an edge (see
`constraints`); a partition that obeys Eq. 4 otherwise is bounded only by `lower_bound`.

What a chip holds depends on the same two ideals, and chips need not be alike: `by_chip` goes from
chip to chip then, and proves *fits*, *does not fit*, the fastest that fits, and the least memory
that does.

The number of ideals grows exponentially with the width of a graph. Past `MAX_IDEALS` the method
gives up and says so.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from learned_mapping.errors import InputError, LearnedMappingError
from learned_mapping.hardware.chip_package import ChipModel
from learned_mapping.hardware.fitting import CHAIN, DoesNotFitError, least_share
from learned_mapping.mcm.bounds.by_chip import Layers
from learned_mapping.mcm.rules.pins import chip_bounds
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.programs.graph import ComputationGraph

MAX_IDEALS = 400_000
# On average; a graph of more has too many ideals anyway, and they would fill the memory.
MAX_STEPS_PER_IDEAL = 50
MAX_BITS = 2 * 10**9  # Of all ideals, one for each op.
TOLERANCE = 1e-9
UNREACHED = 1 << 30


class TooManyIdealsError(LearnedMappingError):
    """The graph is too wide for the dynamic programme."""


class Ideals(NamedTuple):
    """The ideals of a graph, in order of size: K of them, L steps that add one op."""

    seconds: np.ndarray  # [K] float64, seconds of the ideal's ops on one chip.
    cut_s: np.ndarray  # [K] float64, seconds a link is busy with the tensors that leave it.
    required: np.ndarray  # [K] int32, the smallest ideal that holds it and all its consumers.
    step_offsets: np.ndarray  # [K + 1] int32.
    steps: np.ndarray  # [L] int32, ideals with one op more.
    # K sets of ops, as bits; the order of sizes makes the first empty and the last the whole graph.
    members: list[int]
    # [K] float64, bytes of the tensors that leave it; of a model with memory, else 0.
    cut_bytes: np.ndarray


def lower_bound(model: ChipModel) -> float:
    """Seconds no partition can beat, whatever rules it obeys: the longest op, and all ops spread
    evenly.

    Where chips differ the longest op is where it runs fastest, and the spreading is at prices of
    the chips' seconds that add up to 1: a partition of runtime t pays at most t, and every op at
    least its price where it is cheapest.
    """
    if model.alike:
        return float(max(model.op_seconds.max(), model.op_seconds.sum() / model.package.chips))
    times = model.chip_seconds
    prices = 1.0 / np.maximum(times.sum(axis=1), 1e-300)
    shared = (times * (prices / prices.sum())[:, None]).min(axis=0).sum()
    return float(max(times.min(axis=0).max(), shared))


def ideals_of(
    model: ChipModel, max_ideals: int = MAX_IDEALS, stop: Callable[[], bool] = lambda: False
) -> Ideals:
    """Enumerates the ideals; raises `TooManyIdealsError` past `max_ideals`, or where `stop` says so
    first, and `InputError` where ops are fixed to a chip: the fewest chips that reach an ideal then
    say nothing."""
    graph = model.graph
    chip_bounds(graph)
    if graph.op_chip is not None:
        raise InputError(
            "optimum",
            "",
            "takes no ops that are fixed to a chip; cp-sat does, and proves its optimum",
        )
    max_ideals = min(max_ideals, MAX_BITS // graph.num_ops)
    too_many = TooManyIdealsError(
        f"{graph.name}: more than {max_ideals} ideals, too wide for the exact optimum"
    )
    num_steps = 0
    # Sets of ops as the bits of one number.
    before, behind, required_by = _masks(graph)
    outputs, used = graph.op_outputs, graph.op_inputs
    carried = _carried(model)
    tensor_users = [
        sum(1 << int(c) for c in set(graph.consumers(t).tolist())) for t in range(graph.num_tensors)
    ]
    # Columns by ideal; the empty one is the first.
    index = {0: 0}
    members, seconds, cuts, required_masks = [0], [0.0], [0], [0]
    ready: list[tuple[int, ...]] = [tuple(u for u in range(graph.num_ops) if not before[u])]
    steps: list[list[int]] = []
    for k, ideal in enumerate(members):  # which grow on the way
        following = []
        for u in ready[k]:
            larger = ideal | 1 << u
            if larger not in index:
                num_steps += len(ready[k])
                if len(members) >= max_ideals or num_steps > MAX_STEPS_PER_IDEAL * max_ideals:
                    raise too_many
                if len(members) % 1000 == 0 and stop():
                    so_far = f"{graph.name}: {len(members)} ideals and more"
                    raise TooManyIdealsError(
                        f"{so_far}, too many for the exact optimum in this time"
                    )
                # A new ideal: its time, what crosses its border, and what it opens.
                index[larger] = len(members)
                members.append(larger)
                seconds.append(seconds[k] + model.op_seconds[u])
                cut = cuts[k] + sum(carried[t] for t in outputs[u] if tensor_users[t])
                cut -= sum(carried[t] for t in used[u] if not tensor_users[t] & ~larger)
                cuts.append(cut)
                required_masks.append(required_masks[k] | required_by[u] | 1 << u)
                opened = [v for v in behind[u] if not before[v] & ~larger]
                ready.append((*(v for v in ready[k] if v != u), *opened))
            following.append(index[larger])
        steps.append(following)
    leaving = np.maximum(np.array([float(cut) for cut in cuts]), 0.0)
    counts = model.limit is not None
    return Ideals(
        seconds=np.array(seconds),
        cut_s=leaving / model.package.each("link_bytes_per_s").min() if counts else leaving,
        required=np.array([index[mask] for mask in required_masks], np.int32),
        step_offsets=np.concatenate([[0], np.cumsum([len(s) for s in steps])]).astype(np.int32),
        steps=np.array([j for s in steps for j in s], np.int32),
        members=members,
        cut_bytes=leaving if counts else np.zeros(len(leaving)),
    )


class Proven(NamedTuple):
    """A partition, and what was proved of it."""

    assignment: np.ndarray  # [N] int32.
    # Seconds that no partition under the chain rule is below; its own but for `TOLERANCE` at the
    # end.
    low_s: float
    exact: bool  # Whether that was reached.


def optimum(model: ChipModel, *, ideals: Ideals | None = None) -> np.ndarray:
    """[N] int32, a fastest partition under the chain rule; as `bisection` without a clock."""
    return bisection(model, ideals_of(model) if ideals is None else ideals).assignment


def bisection(
    model: ChipModel,
    ideals: Ideals,
    *,
    start: np.ndarray | None = None,
    low_s: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> Proven:
    """A fastest partition under the chain rule, or the best by the time that `stop` says so.

    Args:
      ideals: of the same graph and package but for the number of chips.
      start: a valid partition [N] that obeys the chain rule, the careful greedy's where None.
      low_s: what is proved already that no partition under the chain rule is below.

    Raises:
      TooManyIdealsError: by `optimum`, where the graph is too wide.
      DoesNotFitError: no partition under the chain rule fits the chips' memory, if that counts.
    """
    best = careful_greedy(model) if start is None else start
    layers = None if model.alike and model.limit is None else Layers(model, ideals)
    if layers is not None and model.excess(best) > 1.0:
        chain = layers.chain(np.inf, stop)
        if chain is None:
            raise does_not_fit(model, layers, ideals, stop)
        if chain == STOPPED:
            return Proven(best, max(lower_bound(model), low_s) * (1 - 2 * TOLERANCE), False)
        best = _assignment(ideals, chain, model.graph.num_ops)
    high, low = (
        model.runtime(best),
        max(lower_bound(model) * (1 - 2 * TOLERANCE), low_s * (1 - 2 * TOLERANCE)),
    )
    target = (low + high) / 2
    while low < high * (1 - TOLERANCE):
        if layers is None:
            chain = _chain(ideals, model.package.chips, target, stop)
        else:
            chain = layers.chain(target, stop)
        if chain == STOPPED:
            break
        assignment = best if chain is None else _assignment(ideals, chain, model.graph.num_ops)
        faster = model.runtime(assignment)
        if faster < high:
            best, high = assignment, faster
        else:
            low = target
        last = high * (1 - TOLERANCE)
        target = last if high - low <= 4 * TOLERANCE * high else (low + high) / 2
        if not low < target < high:  # numbers too small to be halved
            low = high
    return Proven(best, low, low >= high * (1 - 2 * TOLERANCE))


def least_memory(
    model: ChipModel, ideals: Ideals, stop: Callable[[], bool] = lambda: False
) -> tuple[float, bool]:
    """(the share of its memory that every chip must have for some partition under the chain rule to
    fit, whether nothing less does): by `stop` the least that is known to do."""
    return _least_share(model, Layers(model, ideals), ideals, stop)


def _least_share(
    model: ChipModel, layers: Layers, ideals: Ideals, stop: Callable[[], bool]
) -> tuple[float, bool]:
    one = np.zeros(model.graph.num_ops, np.int32)
    high = min(model.excess(one), model.excess(careful_greedy(model)))
    low = least_share(model.graph, layers.limit) * (1 - TOLERANCE)
    # Bytes are whole: where all chips have as many, no share lies between two of theirs.
    alike = np.ptp(layers.limit) == 0
    least = 1.0 / float(layers.limit.max()) if alike else 0.0
    while high - low >= least and high - low > TOLERANCE * high:
        share = (low + high) / 2
        chain = layers.chain(np.inf, stop, share)
        if chain == STOPPED:
            return high, False
        if chain is None:
            low = share
        else:
            high = model.excess(_assignment(ideals, chain, model.graph.num_ops))
    return high, True


def does_not_fit(
    model: ChipModel, layers: Layers, ideals: Ideals, stop: Callable[[], bool]
) -> DoesNotFitError:
    """The error of a graph that no partition under the chain rule fits, with the least memory that
    does."""
    share, proved = _least_share(model, layers, ideals, stop)
    return DoesNotFitError(model.graph, layers.limit, share, CHAIN, sharp=proved)


def _carried(model: ChipModel) -> Sequence[Any]:
    """[M] seconds that a tensor keeps a link busy, or its bytes where memory counts, to be added
    and taken away again: exact where rounding, of the largest, could be seen in the result."""
    if model.limit is not None:
        return model.graph.tensor_bytes.tolist()
    seconds = model.tensor_seconds
    rounding = seconds.max(initial=0.0) * len(seconds) * np.finfo(np.float64).eps
    unseen = rounding < 1e-3 * TOLERANCE * lower_bound(model)
    return seconds if unseen else [Fraction(value) for value in seconds.tolist()]


def _masks(graph: ComputationGraph):
    """Per op: predecessors (bits), successors (list), its consumers with all that precedes them
    (bits)."""
    n = graph.num_ops
    ancestors = [0] * n
    behind = graph.op_consumers
    before = [sum(1 << u for u in lists) for lists in graph.op_producers]
    for u in graph.topological_order.tolist():
        for v in behind[u]:
            ancestors[v] |= ancestors[u] | 1 << u
    required = [0] * n
    for u in range(n):
        for v in behind[u]:
            required[u] |= ancestors[v] | 1 << v
    return before, behind, required


def _chain(
    ideals: Ideals, chips: int, target_s: float, stop: Callable[[], bool] = lambda: False
) -> list[int] | None:
    """The ideals I_0 ⊂ ... ⊂ V of a partition on at most `chips` chips with every t_c <= target, or
    None; `STOPPED` where `stop` came first."""
    count = len(ideals.seconds)
    fewest = np.full(count, UNREACHED, np.int64)
    came_from, seen = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    fewest[0], reached = 0, 0
    while reached < count:
        reached = _reach_ideals(
            ideals.seconds,
            ideals.cut_s,
            ideals.required,
            ideals.step_offsets,
            ideals.steps,
            chips,
            target_s,
            fewest,
            came_from,
            seen,
            reached,
        )
        if stop():
            return STOPPED
    if came_from[-1] < 0:
        return None
    chain = [count - 1]
    while came_from[chain[-1]] > 0:
        chain.append(int(came_from[chain[-1]]))
    return chain[::-1]


STOPPED: list[int] = []
"""The answer in place of a chain where there was no time to look for one."""
LOOKS = 20_000_000
"""Steps between ideals, some tenths of a second, between two looks at the clock."""


@njit(cache=True)
def _reach_ideals(
    seconds, cut_s, required, step_offsets, steps, chips, target_s, fewest, came_from, seen, first
):
    """Fills in, from ideal `first` on, the fewest chips that reach each ideal and the ideal one
    chip before on such a way, -1 where none is within `chips`; returns the ideal to go on from, K
    at the end."""
    count = len(seconds)
    stack = np.empty(count, np.int64)
    whole = seconds[count - 1]
    looked = 0
    for i in range(first, count):
        if looked > LOOKS:
            return i
        # Even a perfect balance of what is left must fit the chips that are left.
        if fewest[i] >= chips or whole - seconds[i] > (chips - fewest[i]) * target_s * (1 + 1e-12):
            continue
        limit = seconds[i] + target_s - cut_s[i]
        start = required[i]
        if seconds[start] > limit:
            continue
        stack[0] = start
        seen[start] = i
        top = 1
        while top > 0:
            top -= 1
            j = stack[top]
            if j != i and seconds[j] + cut_s[j] <= limit and fewest[i] + 1 < fewest[j]:
                fewest[j] = fewest[i] + 1
                came_from[j] = i
            looked += step_offsets[j + 1] - step_offsets[j] + 1
            for k in range(step_offsets[j], step_offsets[j + 1]):
                larger = steps[k]
                if seen[larger] != i and seconds[larger] <= limit:
                    seen[larger] = i
                    stack[top] = larger
                    top += 1
    return count


def _assignment(ideals: Ideals, chain: list[int], num_ops: int) -> np.ndarray:
    assignment = np.empty(num_ops, np.int32)
    for chip in reversed(range(len(chain))):  # the first chip whose ideal holds an op has it
        ideal = ideals.members[chain[chip]]
        assignment[[op for op in range(num_ops) if ideal >> op & 1]] = chip
    return assignment
