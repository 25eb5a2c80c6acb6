"""Prices of fast memory, and the proven upper bound on the return of the MMapGame that they are.

**Relaxation.** A game satisfies these, whatever the program's length:

1. Memory: at each step the tensors held take at most the whole fast memory. As in
   `mmap.bounds.relaxation`, an output that updates an input in place counts from the step after.
2. Pairs: each pair of consecutive steps lies inside one copy at most (Eq. 6). A copy contains the
   steps of its shortest one, that with all supplies untouched: supplies only shrink.
3. Alias groups: all members are placed or none.
4. Each tensor by itself obeys the rules: an input is placed beside an allocation that began with an
   earlier use and is held until then, or copied in; an output is held over its live range, or until
   it is copied out. A plan is a choice for every use of a tensor.

**Lagrangian.** With a price q_u >= 0 of all memory at step u, r_u >= 0 of the pair (u, u + 1),
payments y_b that add up to 0 in each alias group, and any gains m_b, a game's saving, the sum over
instructions t of f_t(S_t) for the sets S_t that it places, is at most::

    sum_t max_S (f_t(S) - sum_(b in S) m_b)  +  sum_u (q_u + r_u)
      +  sum_n max_plan (sum_(b placed) (m_b + y_b) - share_n q(steps held) - r(pairs of copies))

since the game's own sets and plans are among those of the maxima, and what it holds and copies
costs at most the whole of q and r. Savings need not add up: what several buffers of an instruction
save only together, or each alone, is in its latency table, and the first maximum runs through that.
The inner maxima are exact: over the uses of a tensor a plan is a path through "held" and "not
held".

So every pass of `climb` proves a bound, and the least one counts. A pass raises the prices of what
the best plans ask too much of and lowers those of the rest, by factors, and moves gains and
payments along a subgradient.

**Supply.** For the rule that plays at prices, `searches.priced`, a third price is that of each
step's supply, which the shortest copy takes evenly from its steps. A game's copy may take it from
others, so this price proves nothing: for a bound it is 0.
"""

from typing import NamedTuple

import numba
import numpy as np

from learned_mapping.mmap.rules.kernel import benefit_s
from learned_mapping.mmap.rules.state import NONE, ProgramArrays, program_arrays, record, share
from learned_mapping.programs.program import Program

MEMORY, PAIRS, SUPPLY = range(3)  # What has prices.
PASSES, PROOF_PASSES = 100, 200  # For a game, and for a bound.
RATE, STEP, MARGIN = 0.25, 0.3, 0.15
"""The first step of the logarithm of prices, by what is asked too much; that of gains and payments,
by their scale; and the step of the running mean of `USE`'s value."""
FIRST = np.array([0.5, 0.02, 0.02])
"""The first prices of the three, as shares of the mean saving of a step."""
LEAST = 5e-4  # The share of the first price below which none falls.
SLACK = 1e-9  # Relative, for the rounding of sums: on supplies, and on the bound.
NEVER_S = -1e300  # The value of what cannot be.
UNSEEN = NONE - 1

USE = record(
    "next far in_place placed copied wanted placings copyings"
    " memory_share offered_s gain_s pay_s value_s scale_s keep_s out_s"
)
"""One record per buffer: the next buffer of its tensor or `NONE`; the far step of its shortest copy
or `NONE`; whether it updates in place; whether the best plan places it, and copies it; whether its
instruction's best set has it; in how many of `PASSES` it was placed, and copied, pass k counting k
times. Then the share of the memory that it takes; the supply of the steps of that copy; gain and
payment; what it saves beside the plans of the passes, a running mean; the scale of the two; and
what the later uses are worth at the prices if the tensor is held on to the next one, and if it is
not."""


@numba.njit(cache=True)
def hold_s(uses, sums_s, b: int, first: int, last: int) -> float:
    """The price of holding b's tensor over steps [first, last], seconds; sums_s [3, T + 1]: sums of
    the prices before each step."""
    return uses[b].memory_share * (sums_s[MEMORY, last + 1] - sums_s[MEMORY, first])


@numba.njit(cache=True)
def copy_s(sums_s, first: int, last: int) -> float:
    """The price of a copy over steps [first, last], for supply and the pairs inside, seconds."""
    supply_s = sums_s[SUPPLY, last + 1] - sums_s[SUPPLY, first]
    return supply_s + (sums_s[PAIRS, last] - sums_s[PAIRS, first] if last > first else 0.0)


@numba.njit(cache=True)
def beyond_s(program, uses, sums_s, b: int, end: int) -> float:
    """What the later uses of b's tensor are worth where it is held to step `end` in any case,
    seconds."""
    total_s, last, j = 0.0, b, uses[b].next
    while j != NONE and program.buffers[j].instruction <= end:
        total_s += max(uses[j].gain_s + uses[j].pay_s, 0.0)
        last, j = j, uses[j].next
    held_s = hold_s(uses, sums_s, b, program.buffers[last].instruction + 1, end)
    return total_s + max(uses[last].keep_s + held_s, uses[last].out_s)


@numba.njit(cache=True)
def first_step(program, uses, b: int) -> int:
    """The first step that an allocation beginning with b takes for itself."""
    buffer = program.buffers[b]
    return uses[b].far if buffer.is_output == 0 else buffer.instruction + uses[b].in_place


@numba.njit(cache=True)
def copy_steps(program, uses, b: int) -> tuple[int, int]:
    """First and last step of b's shortest copy."""
    t = program.buffers[b].instruction
    return (t + 1, uses[b].far) if program.buffers[b].is_output != 0 else (uses[b].far, t - 1)


@numba.njit(cache=True, inline="always")
def _begin_s(program, uses, sums_s, b: int, end: int, copied: int) -> float:
    """The value of an allocation from b to step `end` and of all that follows."""
    price_s = hold_s(uses, sums_s, b, first_step(program, uses, b), end)
    if copied != 0:
        price_s += copy_s(sums_s, *copy_steps(program, uses, b))
    return uses[b].gain_s + uses[b].pay_s - price_s + beyond_s(program, uses, sums_s, b, end)


@numba.njit(cache=True)
def look_ahead(program, uses, sums_s) -> None:
    """Fills `keep_s` and `out_s`, from the last use to the first."""
    for b in range(len(uses) - 1, -1, -1):
        use, j, t = uses[b], uses[b].next, program.buffers[b].instruction
        use.keep_s, use.out_s = NEVER_S, 0.0
        if j == NONE:
            continue
        later, u = uses[j], program.buffers[j].instruction
        use.keep_s = max(later.gain_s + later.pay_s, 0.0) + max(later.keep_s, later.out_s)
        use.keep_s -= hold_s(uses, sums_s, b, t + 1, u)
        use.out_s = later.out_s
        if later.far != NONE:
            use.out_s = max(use.out_s, _begin_s(program, uses, sums_s, j, u, 1))


@numba.njit(cache=True, inline="always")
def _begin(program, uses, sums_s, b: int) -> tuple[float, int]:
    """The best value where nothing is held before b, and the step up to which b holds then, or
    `NONE`; notes whether it is copied."""
    use, buffer = uses[b], program.buffers[b]
    best_s, end, output = use.out_s, NONE, buffer.is_output != 0
    for copied in range(2):
        possible, last = output, buffer.live_end
        if copied == 1:
            possible, last = use.far != NONE, use.far if output else buffer.instruction
        if possible:
            begun_s = _begin_s(program, uses, sums_s, b, last, copied)
            if begun_s > best_s:
                best_s, end, use.copied = begun_s, last, copied
    return best_s, end


@numba.njit(cache=True)
def _ask(usage, kind: int, first: int, last: int, amount: float) -> None:
    usage[kind, first] += amount
    usage[kind, last + 1] -= amount


@numba.njit(cache=True)
def plan_tensors(program, uses, sums_s, usage) -> float:
    """Follows the best plan of every tensor, after `look_ahead`; the sum of their values, seconds.

    Args:
      usage: [3, T + 2], filled: what plans ask for, shares of the memory, copies around pairs, and
        shares of the supply.
    """
    held, total_s = np.full(len(program.is_parameter), UNSEEN), 0.0
    usage[:] = 0.0
    for b in range(len(uses)):
        use, buffer = uses[b], program.buffers[b]
        t, n, j = buffer.instruction, buffer.tensor, use.next
        use.placed = use.copied = 0
        if buffer.bytes > program.fast_bytes:
            continue
        if held[n] >= t:
            use.placed = 1 if use.gain_s + use.pay_s > 0.0 else 0
        else:
            value_s, end = _begin(program, uses, sums_s, b)
            total_s += value_s if held[n] == UNSEEN else 0.0
            held[n] = end
            if end != NONE:
                use.placed = 1
                _ask(usage, MEMORY, first_step(program, uses, b), end, use.memory_share)
            first, last = copy_steps(program, uses, b)
            if use.copied != 0 and last >= first:
                _ask(usage, PAIRS, first, last - 1, 1.0)
                _ask(usage, SUPPLY, first, last, buffer.demand_s / use.offered_s)
        if held[n] >= t and j != NONE and program.buffers[j].instruction > held[n]:
            if use.keep_s + hold_s(uses, sums_s, b, t + 1, held[n]) >= use.out_s:
                _ask(usage, MEMORY, held[n] + 1, program.buffers[j].instruction, use.memory_share)
                held[n] = program.buffers[j].instruction
    for i in range(3):
        usage[i] = np.cumsum(usage[i])
    return total_s


@numba.njit(cache=True)
def best_sets(program, uses, moved, saved_s) -> float:
    """Notes which buffers each instruction wants at their gains; the sum over instructions of what
    its set saves beyond them, seconds.

    Args:
      moved: [T], whether gains of an instruction moved since `saved_s` was filled.
      saved_s: [T], what its set saves beyond the gains, filled where they moved.
    """
    total_s, gains_s = 0.0, np.zeros(64)
    left_s = np.zeros(np.diff(program.table_start).max())
    for t in range(len(program.supply_s)):
        if moved[t]:
            table_s = program.latency_s[program.table_start[t] : program.table_start[t + 1]]
            buffers = range(program.first_buffer[t], program.first_buffer[t + 1])
            for b in buffers:
                gains_s[program.buffers[b].bit] = uses[b].gain_s
            left_s[0] = table_s[0]
            best_s, best, half, bit = 0.0, 0, 1, 0
            while half < len(table_s):
                for subset in range(half, 2 * half):
                    left_s[subset] = left_s[subset - half] - gains_s[bit]
                    if left_s[subset] - table_s[subset] > best_s:
                        best_s, best = left_s[subset] - table_s[subset], subset
                half, bit = 2 * half, bit + 1
            for b in buffers:
                bit = program.buffers[b].bit
                uses[b].wanted = (best >> bit) & 1 if bit >= 0 else 0
            saved_s[t] = best_s
        total_s += saved_s[t]
    return total_s


@numba.njit(cache=True)
def move_gains(program, uses, step: float, weight: int, moved) -> None:
    """Moves gains and payments towards what makes plans agree with the instructions' sets and
    within alias groups; notes the instructions of the former, counts the plans, and what buffers
    save beside them."""
    size, joined, scale_s = np.zeros((3, program.num_groups))
    for t in range(len(program.supply_s)):
        buffers = range(program.first_buffer[t], program.first_buffer[t + 1])
        placed, moved[t] = 0, False
        for b in buffers:
            use, buffer = uses[b], program.buffers[b]
            use.placings += weight * use.placed
            use.copyings += weight * use.copied
            if buffer.bit >= 0:
                placed |= use.placed << buffer.bit
                moved[t] |= use.wanted != use.placed
                use.gain_s += step * use.scale_s * (use.wanted - use.placed)
            if buffer.alias != NONE:
                size[buffer.alias] += 1.0
                joined[buffer.alias] += use.placed
                scale_s[buffer.alias] += use.scale_s
        for b in buffers:
            uses[b].value_s += MARGIN * (benefit_s(program, b, placed) - uses[b].value_s)
    for b in range(len(uses) if program.num_groups else 0):
        use, a = uses[b], program.buffers[b].alias
        if a != NONE:
            use.pay_s += step * scale_s[a] / size[a] * (joined[a] / size[a] - use.placed)


@numba.njit(cache=True)
def climb(program, uses, price_s, first, goal, passes: int) -> float:
    """Fills the prices, means that weigh later passes more; the least bound proven, seconds.

    Args:
      uses: as `first_uses` has them.
      price_s: [3, T], seconds for all the memory of a step, a pair of steps, a step's supply.
      first: [3], first prices as shares of the mean saving of a step; what begins at 0 stays there.
      goal: [3], shares of memory, pairs and supply up to which plans may ask before prices rise.
    """
    steps, bound_s, weights = len(program.supply_s), np.inf, 0.0
    unit_s = program.possible_saving_s / steps
    moved, saved_s = np.ones(steps, np.bool_), np.zeros(steps)
    now, sums_s, usage = np.zeros((3, steps)), np.zeros((3, steps + 1)), np.zeros((3, steps + 2))
    for i in range(3):
        now[i] = first[i] * unit_s
    for k in range(passes):
        for i in range(3):
            sums_s[i, 1:] = np.cumsum(now[i])
        look_ahead(program, uses, sums_s)
        value_s = best_sets(program, uses, moved, saved_s)
        value_s += plan_tensors(program, uses, sums_s, usage)
        bound_s = min(bound_s, value_s + now.sum())
        weights += k + 1.0
        price_s += (k + 1.0) / weights * (now - price_s)
        slower = 1.0 / np.sqrt(1.0 + k / 8.0)
        for i in range(3):
            least_s = LEAST * first[i] * unit_s
            for u in range(steps):
                beyond = min(usage[i, u] - goal[i], 1.0)
                now[i, u] = max(now[i, u], least_s) * np.exp(RATE * slower * beyond)
        move_gains(program, uses, STEP * slower, k + 1, moved)
    return bound_s


def far_steps(program: ProgramArrays) -> np.ndarray:
    """[B] int64: the far step of each buffer's shortest copy, that with all supplies untouched: an
    input's first step, an output's last one; `NONE` where no supply suffices, where an input's data
    would not be there yet, and of what does not fit."""
    b, steps = program.buffers, program.num_instructions
    t, output, demand_s = b["instruction"], b["is_output"] != 0, b["demand_s"]
    born = np.full(len(program.is_parameter), NONE)
    born[b["tensor"][output]] = t[output]
    supplied_s = _supplied_s(program)
    slack_s = SLACK * supplied_s[-1]
    back = np.searchsorted(supplied_s, supplied_s[t] - demand_s + slack_s, side="right") - 1
    back = np.minimum(back, t - 1)
    ahead = np.searchsorted(supplied_s, supplied_s[t + 1] + demand_s - slack_s) - 1
    ahead = np.maximum(ahead, t + 1)
    can = np.where(output, ahead < steps, back > born[b["tensor"]])
    can &= b["bytes"] <= program.fast_bytes
    far = np.where(can, np.where(output, ahead, back), NONE)
    return np.where(b["bytes"] == 0, t, far)


def _supplied_s(program: ProgramArrays) -> np.ndarray:
    """[T + 1]: sums of the supplies before each step."""
    return np.concatenate([[0.0], np.cumsum(program.supply_s)])


def first_uses(program: ProgramArrays) -> np.ndarray:
    """[B] `USE` before the first pass: a gain is the mean of what a buffer saves placed first and
    placed last."""
    b, steps, uses = program.buffers, program.num_instructions, np.zeros(len(program.buffers), USE)
    t, output, supplied_s = b["instruction"], b["is_output"] != 0, _supplied_s(program)
    by_tensor = np.argsort(b["tensor"], kind="stable")
    same = np.diff(b["tensor"][by_tensor]) == 0
    uses["next"] = NONE
    uses["next"][by_tensor[:-1][same]] = by_tensor[1:][same]
    uses["next"][b["bytes"] > program.fast_bytes] = NONE
    uses["far"] = far_steps(program)
    offered_s = np.abs(supplied_s[t + output] - supplied_s[uses["far"] + output])
    uses["offered_s"] = np.maximum(np.maximum(offered_s, b["demand_s"]), 1e-300)
    uses["memory_share"] = b["bytes"] / max(program.fast_bytes, 1)
    uses["in_place"] = np.diff(program.updated_offsets) > 0
    everything = program.table_start[t + 1] - 1
    own = np.where(b["bit"] >= 0, 1 << np.maximum(b["bit"], 0), 0)
    last_s = program.latency_s[everything - own] - program.latency_s[everything]
    uses["gain_s"] = uses["value_s"] = 0.5 * (b["benefit_s"] + last_s)
    scale_s, largest_s = 0.5 * (np.abs(b["benefit_s"]) + np.abs(last_s)), np.zeros(steps)
    np.maximum.at(largest_s, t, scale_s)
    uses["scale_s"] = 0.5 * (scale_s + largest_s[t])
    return uses


class Prices(NamedTuple):
    """The prices of a program, what its buffers are worth at them, and the bound they prove."""

    price_s: np.ndarray  # [3, T]: of all memory of a step, of a pair of steps, of its supply.
    sums_s: np.ndarray  # [3, T + 1]: sums of those before each step, at some scale.
    uses: np.ndarray  # [B] `USE`, with values in the place of gains.
    bound_s: float  # The least bound on the seconds saved, where supply has no price.


def prices_of(
    program: ProgramArrays, first: np.ndarray, goal: np.ndarray, passes: int = PASSES
) -> Prices:
    """The prices of a program after so many passes; arguments as in `climb`."""
    uses, price_s = first_uses(program), np.zeros((3, program.num_instructions))
    saves = program.possible_saving_s > 0.0
    bound_s = climb(program, uses, price_s, first, goal, passes) if saves else 0.0
    uses["gain_s"] = uses["value_s"]
    for name in ("placings", "copyings"):  # as shares of what `PASSES` would count
        uses[name] = np.rint(uses[name] * (PASSES * (PASSES + 1) / (passes * (passes + 1))))
    return Prices(price_s, np.zeros((3, program.num_instructions + 1)), uses, bound_s)


def price_bound(program: Program | ProgramArrays) -> float:
    """The return that no game exceeds, by prices: looser than `upper.upper_bound`, and there in
    milliseconds for programs of every length."""
    arrays = program_arrays(program)
    proven = prices_of(arrays, FIRST * (1.0, 1.0, 0.0), np.ones(3), PROOF_PASSES)
    return share(arrays, proven.bound_s + SLACK * arrays.possible_saving_s)
