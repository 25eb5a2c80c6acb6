"""Two products and a sum in HLO, before and after a mapping is written into them: the example of
the book's page."""

import difflib
from collections.abc import Sequence

from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.rules.play import Game

from .compiler import Compilation
from .extract import assemble
from .hlo import parse_module
from .hlo_mapping import write_mapping
from .hlo_program import hlo_program

HLO = """HloModule two_layers, is_scheduled=true

ENTRY %main (x: f32[512,512], v: f32[512,512], w: f32[512,512]) -> f32[512,512] {
  %x = f32[512,512]{1,0:T(8,128)} parameter(0)
  %v = f32[512,512]{1,0:T(8,128)} parameter(1)
  %w = f32[512,512]{1,0:T(8,128)} parameter(2)
  %first = f32[512,512]{1,0:T(8,128)} dot(%x, %v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %second = f32[512,512]{1,0:T(8,128)} dot(%first, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %sum = f32[512,512]{1,0:T(8,128)} add(%first, %second)
}
"""


def mapped(actions: Sequence[int]) -> str:
    """What a game by these actions, one a buffer, changes in `HLO`, as a unified diff."""
    module = parse_module(HLO)
    hlo = hlo_program(module)
    program = assemble(
        Compilation(HLO, module, module, None, (), 0.0), hlo, {}, name="two_layers"
    ).program
    game = Game(program)
    for action in actions:
        game.step(action)
    played = game.played()
    mapping = make_mapping(program, played.action, played.offset, played.start, played.end)
    text = write_mapping(module, hlo, program, mapping).text
    return "\n".join(
        difflib.unified_diff(
            HLO.splitlines(), text.splitlines(), "before", "mapped", lineterm="", n=1
        )
    )
