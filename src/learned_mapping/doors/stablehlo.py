"""A module of StableHLO as a dataflow, from text or bytecode: what `jax.jit(f).lower(...)` prints,
`jax.export` and others write.

The parser is the one that comes with JAX; it runs in the process of `models`.
"""

import re
from collections.abc import Mapping
from typing import Any

from learned_mapping.errors import InputError, shown

BYTECODE = b"ML\xefR"
MAX_NESTED = 200  # Brackets within one another: the parser's own stack would overflow.

PLACED = re.compile(r'(?:(?:error: )?"?-?"?:(\d+):\d+|error: (?:.*?\)|unknown)): (.*)')
"""What the parser says is wrong, after a line of the text or a place of the writer's."""


def check_nesting(text: str, path: object) -> None:
    """Raises `InputError` for a text that nests brackets deeper than the parser can."""
    depth = 0
    for bracket in re.finditer(r"[\[({<]|[\])}>]", text):
        depth = max(
            depth
            + (1 if bracket[0] in "[({<" else -1 if text[bracket.start() - 1] not in "-=" else 0),
            0,
        )
        if depth > MAX_NESTED:
            line = text.count("\n", 0, bracket.start()) + 1
            raise InputError(
                path, f"line {line}", f"brackets more than {MAX_NESTED} within one another"
            )


def read(data: bytes, asked: Mapping[str, Any]) -> Any:
    """The `Dataflow` of a module; `asked` has its ``name`` and the ``unroll_limit``."""
    from jax.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import chlo, func, stablehlo  # noqa: F401, their types are registered

    with make_ir_context() as context:
        try:
            if data.startswith(BYTECODE):
                try:
                    module = stablehlo.deserialize_portable_artifact(context, data)
                except Exception:
                    module = ir.Module.parse(data)
            else:
                module = ir.Module.parse(data.decode())
        except Exception as error:
            match = PLACED.search(str(error))
            said = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
            fault = f"not StableHLO: {match[2] if match else shown(said, 200)}"
            if re.search("unregistered dialect|: Dialect `", fault):
                fault = "operations of StableHLO are read, lower the module to it"
            if "bad_alloc" in said:
                fault = "too large for the parser"
            if "quant" in str(error):
                fault = "quantised types are not read: export the model before it is quantised"
            line = int(match[1] or 0) if match else 0  # There is none in bytecode.
            place = f"line {line}" if line else ""
            raise InputError(asked["name"], place, fault) from None
        from learned_mapping.doors.stablehlo_reader import Reader

        try:
            return Reader(asked["name"], ir, stablehlo, asked["unroll_limit"]).read(module)
        except RuntimeError as error:
            if "conversion error" not in str(error):  # of the binding, to text
                raise
            raise InputError(asked["name"], "", "holds a name that is not UTF-8") from None
