"""How the compiler's dumps are waited for; the compiler itself is not needed."""

from learned_mapping_builders.tpu.compiler import _complete

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
    """Would catch a compiler stopped while it still writes, at a brace that closes something else."""
    path = tmp_path / "module.after.txt"
    assert not _complete(tmp_path, "after.txt")
    for end in range(len(MODULE) - 2):
        path.write_text(MODULE[:end])
        assert not _complete(tmp_path, "after.txt")
    path.write_text(MODULE)
    assert _complete(tmp_path, "after.txt")
