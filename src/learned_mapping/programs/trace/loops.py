"""Loops that count: how often they run, and how every writer spells those that are unrolled."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}
"""Comparisons that can end a counting loop, and what they are with their sides exchanged."""


def in_blocks(params: Mapping[str, Any]) -> Callable:
    """A scan whose rounds are unrolled in blocks, as every writer spells it: a scan of blocks of
    rows, and the rounds that are left over."""
    body, constants = jex.jaxpr_as_fun(params["jaxpr"]), params["num_consts"]
    length, each, turned = int(params["length"]), int(params["unroll"]), params["reverse"]
    blocks, left = divmod(length, each) if 0 < each < length else (0, length)

    def rounds(carry: Any, rows: Any, fixed: Any, count: int) -> Any:
        results = []
        for i in range(count)[:: -1 if turned else 1]:
            row = [jax.lax.index_in_dim(x, i, keepdims=False) for x in rows]
            made = body(*fixed, *carry, *row)
            carry = tuple(made[: params["num_carry"]])
            results.append(made[params["num_carry"] :])
        stacked = zip(*results[:: -1 if turned else 1])
        return carry, [jnp.concatenate([y[None] for y in every]) for every in stacked]

    def run(*args: Any) -> list[Any]:
        fixed, carry = args[:constants], args[constants : constants + params["num_carry"]]
        rows = args[constants + params["num_carry"] :]
        first = left if turned else 0  # Of the blocks.
        inside = [x[first : first + length - left] for x in rows]
        rest = [x[:left] if turned else x[length - left :] for x in rows]
        parts = []
        if blocks:
            shaped = [x.reshape(blocks, each, *x.shape[1:]) for x in inside]
            block = partial(rounds, fixed=fixed, count=each)
            carry, made = jax.lax.scan(block, carry, shaped, blocks, turned)
            parts.append([y.reshape(blocks * each, *y.shape[2:]) for y in made])
        if left:
            carry, made = rounds(carry, rest, fixed, left)
            parts.append(made)
        whole = [jnp.concatenate(y[:: -1 if turned else 1]) for y in zip(*parts)]
        return [*carry, *whole]

    return run


def trip_count(equation: Any, numbers: Sequence[Any] | None = None) -> tuple[int | None, int]:
    """The most times that a `while` runs, and the place of its counter: where its condition, or a
    part of it joined by *and*, compares a counter with a number, and its body adds a number to it.
    `numbers` are the operands' values where the program's text has them, by default those that
    stand in the equation itself."""
    if numbers is None:
        numbers = [v.val if isinstance(v, jex.Literal) else None for v in equation.invars]
    params = equation.params
    condition, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    first, fixed = params["cond_nconsts"], params["body_nconsts"]
    makers = {var: equation for equation in condition.eqns for var in equation.outvars}
    known = dict(zip(condition.invars[:first], numbers))
    waiting, counts = [condition.outvars[0]], []
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is None:
            continue
        kind = maker.primitive.name
        if kind in ("and", "convert_element_type"):
            waiting += [v for v in maker.invars if not isinstance(v, jex.Literal)]
        elif kind in SWAPPED:
            limits = [v.val if isinstance(v, jex.Literal) else known.get(v) for v in maker.invars]
            for counter, limit, sense in zip(maker.invars, reversed(limits), (kind, SWAPPED[kind])):
                place = (
                    condition.invars.index(counter) - first
                    if counter in condition.invars[first:]
                    else None
                )
                if (
                    place is not None
                    and limit is not None
                    and numbers[first + fixed + place] is not None
                ):
                    step = _step(
                        body, fixed + place, body.outvars[place], numbers[first : first + fixed]
                    )
                    gap = float(limit) - float(numbers[first + fixed + place])
                    counts.append((rounds_within(sense, gap, step), place))
    return min((pair for pair in counts if pair[0] is not None), default=(None, 0))


def rounds_within(sense: str, gap: float, step: float) -> int | None:
    """The number of times that a counter which is `gap` below its limit passes a comparison with
    it, going on by `step`; None where that has no end."""
    if sense in ("gt", "ge"):
        sense, gap, step = SWAPPED[sense], -gap, -step
    if not math.isfinite(gap) or (gap < 0 and sense != "ne") or (gap == 0 and sense != "le"):
        return 0 if math.isfinite(gap) else None
    if not step or gap / step < 0 or (sense == "ne" and gap % step):
        return None
    return math.floor(gap / step) + 1 if sense == "le" else math.ceil(gap / step)


def _step(body: Any, place: int, result: Any, fixed: Sequence[Any]) -> float:
    """The number that the body adds to its operand at `place`; 0 where it does something else with
    it."""
    known = dict(zip(body.invars, fixed))
    maker = next((e for e in body.eqns if result in e.outvars), None)
    if (
        maker is None
        or maker.primitive.name not in ("add", "sub")
        or body.invars[place] not in maker.invars
    ):
        return 0.0
    at = maker.invars.index(body.invars[place])
    other = maker.invars[1 - at]
    amount = other.val if isinstance(other, jex.Literal) else known.get(other)
    if amount is None or (maker.primitive.name == "sub" and at == 1):
        return 0.0
    return -float(amount) if maker.primitive.name == "sub" else float(amount)
