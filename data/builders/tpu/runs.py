"""The runs of `mmap.compiler`: a mapping of a compiled program, priced by the compiler; and play on
its prices."""

import functools
from dataclasses import replace
from typing import Any

from learned_mapping.folders import build_folder
from learned_mapping.hardware.copy_engines import shared_copy_latency
from learned_mapping.hardware.memory_hierarchy import placed_latency_s, program_latency
from learned_mapping.mmap.mapping import Mapping, all_dropped
from learned_mapping.mmap.methods import PLANS, solve
from learned_mapping.mmap.validate import validate
from learned_mapping.programs.json_io import read_bytes, write_bytes
from learned_mapping.programs.program import Program
from learned_mapping_companion.datasets.registry import SETS
from learned_mapping_companion.mmap.compiler import (
    AGENT,
    HBM,
    ON_PRICES,
    TRAINED,
    WORST,
    XLA,
    trained,
)
from learned_mapping_companion.mmap.runs import load, replayed
from learned_mapping_companion.mmap.stages import games_of
from learned_mapping_companion.table import Record

from ..compiled import compile_workload, read_prices
from .compiler import CompilerError
from .hlo_probe import signature
from .hlo_program import Resolver
from .latency_tables import complete_table, subset_key, subset_of, varied_units
from .price import PriceCache, generation_of, known_prices, price, price_key, source, with_stalls


@functools.lru_cache(maxsize=2)
def origin(instance: str):
    """The compiler's program of one of the sixty, compiled anew up to memory assignment, and the
    prices known of it."""
    program, _ = load(instance)
    kept = build_folder() / "hlo" / f"{instance}.{program.digest[:16]}.txt.gz"
    if not kept.exists():
        write_bytes(kept, compile_workload(instance).before_text.encode())
    compiled = source(read_bytes(kept).decode(), program)
    cache = PriceCache(build_folder() / "prices.jsonl")
    stored = read_prices(SETS["compiled"].path / "prices.json.gz")
    cache.prices = known_prices(compiled, stored) | cache.prices
    return compiled, cache


def mapping_of(method: str, instance: str, config: dict[str, Any], seed: int) -> Mapping:
    """The mapping a run prices, but for the agent's."""
    program, compiler = load(instance)
    if method in (HBM, XLA):
        return compiler if method == XLA else all_dropped(program)
    if "game" in config:
        return replayed(program, games_of(instance, seed)[config["game"]][-1])
    limits = {name: config[name] for name in ("seconds", "samples") if name in config}
    return solve(program, method, seed=seed, cpu=True, **limits).solution


def run_price(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Maps a program by one of `mmap.methods`, or `HBM`, `XLA`, under the limits in `config`,
    validates the mapping, and has the compiler price it.

    Returns:
      The four cycles of `MEASURES`; ``fast_bytes``; what was not expressed; the instructions on
      which tables and compiler differ most, as (name, kind, cycles by the table, by the compiler);
      of the agent its return, and `TRAINED` of its training.
    """
    compiled, cache = origin(instance)
    if "rounds" in config:
        return play_on_prices(compiled, cache, method, config, seed)
    told: Record = {}
    if method == AGENT and "game" not in config:
        training = trained(instance, config, seed)
        told = {name: training[name] for name in TRAINED}
        told["return"] = training["costs"]["return"]
        mapping = replayed(compiled.program, told["actions"])
    else:
        mapping = mapping_of(method, instance, config, seed)
    return judge(compiled, cache, method, mapping, exact=method not in PLANS) | told


def judge(
    compiled: Any,
    cache: Any,
    method: str,
    mapping: Mapping,
    *,
    game: Program | None = None,
    exact: bool = True,
) -> Record:
    """Validates a mapping and has the compiler price it; ``failed`` says why it could not.

    Args:
      compiled, cache: the `tpu.price.Source` of the program, and its `PriceCache`.
      method: what made the mapping; the compiler's own need not keep the rules.
      game: what it was made for, if not `compiled.program`: the same with less memory.
      exact: whether the mapping holds nothing longer than its uses need.
    """
    program = compiled.program
    valid = method == XLA or validate(game or program, mapping, exact=exact).valid
    answer = {"judged": method != XLA, "valid": valid, **model_cycles(program, mapping)}
    try:
        priced = price(compiled, mapping, cache, checked=method != HBM)
    except CompilerError as error:
        return answer | {"failed": str(error)}
    return answer | _told(
        program, mapping, priced, with_stalls(program, mapping, priced)["stalled_cycles"]
    )


def play_on_prices(
    compiled: Any, cache: Any, method: str, config: dict[str, Any], seed: int
) -> Record:
    """Lets a method of `ON_PRICES` play in ``rounds`` of ``seconds`` each, with a share of the fast
    memory, ``headroom``, left free: the best mapping that fits at its own offsets. `compiled`
    and `cache` are as of `judge`."""
    best, rounds = {}, []
    for number in range(config["rounds"]):
        game = refined(compiled, cache)
        game = game.with_memory(fast_bytes=round(game.fast_bytes * (1 - config["headroom"])))
        mapping = solve(
            game, ON_PRICES[method], seed=seed + number, cpu=True, seconds=config["seconds"]
        ).solution
        judged = judge(compiled, cache, method, mapping, game=game)
        if not judged["failed"]:
            rounds.append([judged["stalled_cycles"], judged["fast_bytes"]])
            judged["rank"] = [
                judged["fast_bytes"] > compiled.program.fast_bytes,
                judged["stalled_cycles"],
            ]
        if not best or judged.get("rank", [2]) < best.get("rank", [2]):
            best = judged
    return best | {"rounds": rounds}


def refined(compiled: Any, cache: Any) -> Program:
    """A game whose latency tables have every price known by now; the rest is filled in as when it
    was made."""
    program, hlo, entry = compiled.program, compiled.hlo, compiled.module.entry
    latency, resolver = program.latency_s.copy(), Resolver(entry)

    def tensor(operand: str) -> int:
        shape = entry.by_name[operand].shape
        return -1 if isinstance(shape, tuple) else hlo.number.get(resolver.resolve(operand, ()), -1)

    for t, instruction in enumerate(hlo.instructions):
        begin, end = program.latency_offsets[t : t + 2].tolist()
        units = (
            () if hlo.opaque[t] or end - begin == 1 else varied_units(hlo, t, program.fast_bytes)
        )
        if not units:
            continue
        work, read = (
            signature(compiled.module, instruction),
            [tensor(operand) for operand in instruction.operands],
        )
        prices = {}
        for inside in range(1 << len(units)):
            chosen = [b for u, unit in enumerate(units) if inside >> u & 1 for b in unit]
            tensors = {int(hlo.buffer_tensor[b]) for b in chosen if not hlo.buffer_is_output[b]}
            results = [list(hlo.buffer_position[b][1]) for b in chosen if hlo.buffer_is_output[b]]
            key = price_key(
                compiled.generation, work, [k for k, n in enumerate(read) if n in tensors], results
            )
            if key in cache.prices:
                prices[subset_key(subset_of(inside))] = cache.prices[key]
        table = complete_table([int(program.buffer_bytes[unit[0]]) for unit in units], prices)
        for placed in range(end - begin if table is not None else 0):
            inside = sum(
                1 << u
                for u, unit in enumerate(units)
                if all(placed >> int(program.buffer_bit[b]) & 1 for b in unit)
            )
            latency[begin + placed] = table[inside] / compiled.generation.clock_hz
    return replace(program, latency_s=latency)


def _told(program: Program, mapping: Mapping, priced: Any, stalled_cycles: float) -> dict[str, Any]:
    """What a record says of a priced mapping."""
    table = placed_latency_s(program, mapping.placed) * generation_of(program).clock_hz
    known = [
        (name, program.instruction_kinds[t], round(float(table[t])), priced.cycles[name])
        for t, name in enumerate(program.instruction_names)
        if priced.cycles.get(name) is not None
    ]
    return {
        "failed": "",
        "cycles": priced.total,
        "stalled_cycles": stalled_cycles,
        "unestimated_model_cycles": float(table.sum()) - sum(entry[2] for entry in known),
        "fast_bytes": priced.fast_bytes,
        "placed": int(mapping.placed.sum()),
        "copies": priced.copies,
        "left": list(priced.left),
        "compiled": priced.compiled,
        "instructions": len(priced.cycles),
        "price_seconds": priced.seconds,
        "worst": [
            list(entry)
            for entry in sorted(known, key=lambda entry: -abs(entry[2] - entry[3]))[:WORST]
        ],
    }


def model_cycles(program: Program, mapping: Mapping) -> dict[str, float]:
    """Cycles by the program's latency tables, without waits and with those of the faster of two
    models."""
    times = program_latency(program, mapping).total_s, shared_copy_latency(program, mapping).total_s
    plain = float(placed_latency_s(program, mapping.placed).sum())
    hz = generation_of(program).clock_hz
    return {"model_cycles": plain * hz, "model_stalled_cycles": min(times) * hz}
