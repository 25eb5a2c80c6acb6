"""Extraction from the real compiler: runs only where the extra ``tpu`` is installed; assembly is
tested everywhere."""

import numpy as np
import pytest
from learned_mapping_builders.tpu.compiler import V4, Compilation
from learned_mapping_builders.tpu.extract import assemble, extract
from learned_mapping_builders.tpu.hlo import parse_module
from learned_mapping_builders.tpu.hlo_program import hlo_program
from learned_mapping_builders.tpu.latency_tables import plan, subset_key

from compiler_texts import HAS_COMPILER, IN_PLACE, text
from learned_mapping.errors import InputError


def test_a_game_is_assembled_from_prices():
    """Would catch prices that reach the wrong instruction, subset or unit of time."""
    modules = {
        stage: parse_module(text("mlp_train", stage))
        for stage in ("before", "assigned", "generated")
    }
    compilation = Compilation(text("mlp_train", "before"), **modules, allocations=(), seconds=0.0)
    program = hlo_program(modules["before"])
    planned = plan(modules["before"], program, fast_bytes=64 * 2**20)
    rng = np.random.default_rng(0)
    prices = {
        p.signature: {
            subset_key(s): int(100_000 - 10_000 * len(s) - rng.integers(100))
            for s in (*p.ends, *p.alone)
        }
        for p in planned
    }
    dropped = planned[0].signature
    prices[dropped] = {"": None}
    del prices[planned[2].signature]
    extracted = assemble(compilation, program, prices, name="mlp_train")
    game = extracted.program
    entries = np.diff(game.latency_offsets)
    assert (extracted.unpriced, extracted.inferred) == (1, planned[2].count)
    assert entries[planned[0].instruction] == 1
    # multiply.2 works on scalars, which are no buffers.
    assert [game.instruction_names[t] for t in np.flatnonzero(entries == 1)] == [
        "fusion.28",
        "multiply.2",
    ]
    item = planned[1]
    t = item.instruction
    table = game.latency_s[game.latency_offsets[t] : game.latency_offsets[t + 1]] * V4.clock_hz
    for subset in (*item.ends, *item.alone):
        entry = sum(1 << int(game.buffer_bit[b]) for u in subset for b in item.units[u])
        assert table[entry] == pytest.approx(prices[item.signature][subset_key(subset)])
    assert extracted.compiled_cycles == 716746
    assert extracted.compiler_cycles < extracted.slow_cycles
    assert extracted.fast.sum() == 28


def test_an_update_in_place_without_an_estimate_is_charged_for_its_slice():
    """Would catch a cache of keys and values charged whole at every token."""
    module = parse_module(IN_PLACE)
    compilation = Compilation(IN_PLACE, module, module, generated=None, allocations=(), seconds=0.0)
    extracted = assemble(compilation, hlo_program(module), {}, name="tiny")
    copied, updated = extracted.program.slow_s * 614e9
    assert copied == pytest.approx(2 * 512 * 128 * 4) and updated == pytest.approx(2 * 8 * 128 * 4)


@pytest.mark.skipif(HAS_COMPILER, reason="the extra tpu is installed")
def test_without_the_compiler_the_error_says_what_to_install():
    with pytest.raises(InputError, match=r"pip install -e \'\.\[tpu\]\' in the checkout"):
        extract(abs, (), name="nothing")


@pytest.mark.skipif(not HAS_COMPILER, reason="needs the extra tpu")
def test_the_real_compiler_prices_a_small_function():
    import jax
    import jax.numpy as jnp

    def function(weights, x):
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    array = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    extracted = extract(function, ([array] * 3, array), name="small", cycles=True)
    assert extracted.program.num_buffers >= 9 and extracted.unpriced == 0
    # The tables and the compiler's full compilation speak of the same cycles; `checks.json` says
    # how nearly.
    assert extracted.compiler_cycles == pytest.approx(extracted.compiled_cycles, rel=0.1)
    assert extracted.compiler_cycles <= extracted.slow_cycles
