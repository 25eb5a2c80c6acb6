"""How the compiler's dumps are waited for; the compiler itself is not needed."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import pytest
from learned_mapping_builders.tpu.compiler import _complete, _export

MODULE = """HloModule m, is_scheduled=true

%inner (a: f32[2]) -> f32[2] {
  ROOT %a = f32[2]{0} parameter(0)
}

ENTRY %main (b: f32[2]) -> f32[2] {
  %b = f32[2]{0} parameter(0), metadata={op_name="b"}
  ROOT %c = f32[2]{0} copy(%b)
}
"""


def test_a_dump_is_complete_only_with_its_last_brace(tmp_path):
    """Would catch a compiler stopped while it still writes, at a brace that closes something
    else."""
    path = tmp_path / "module.after.txt"
    assert not _complete(tmp_path, "after.txt")
    for end in range(len(MODULE) - 2):
        path.write_text(MODULE[:end])
        assert not _complete(tmp_path, "after.txt")
    path.write_text(MODULE)
    assert _complete(tmp_path, "after.txt")


def test_static_arguments_are_handed_over_as_they_are():
    """Catches a number that `jax.jit` is traced anew for, exported as an array; and the wrong
    argument donated."""
    pytest.importorskip("flatbuffers")

    @functools.partial(jax.jit, static_argnums=0)
    def power(times, x, y):
        return functools.reduce(jnp.matmul, [x] * times) + y

    array = jax.ShapeDtypeStruct((4, 4), jnp.float32)
    exported, donated = _export(power, (3, array, array), (2,))
    assert donated == [1] and len(jax.export.deserialize(bytearray(exported)).in_avals) == 2
