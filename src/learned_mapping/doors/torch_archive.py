"""An archive of `torch.export.save` as a dataflow. Of the archive only the text of the program is
opened, never a pickle in it, and not the numbers of its weights: shapes are enough.

Torch's own reader takes the text apart. It looks up whatever a file names, evaluates what a file
says of sizes, and makes code of names and guards. So guards are left out, and a text whose names
are more than names, or whose operations are other than ATen's, does not get there. It runs in the
process of `models`.
"""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from learned_mapping.doors.torch_module import flow_of
from learned_mapping.errors import InputError, shown
from learned_mapping.programs.json_io import MAX_FILE_BYTES, parse_json
from learned_mapping.programs.trace.dataflow import as_input_error
from learned_mapping.programs.trace.operations import Dataflow

PROGRAM = re.compile(r"([^/]+/)?(models/[^/]+|serialized_exported_program)\.json")
NAME = re.compile(r"[\w.:+ -]*", re.ASCII)
TEXTS = {  # Field -> what it may hold, where that is more than a name.
    "target": re.compile(r"torch\.ops\.(aten|prims)\._?[a-z]\w*\.[a-zA-Z]\w*|_operator\.getitem"),
    "as_string": re.compile(r"[\w.,>; -]*"),  # such as an equation of einsum
    "in_spec": re.compile(r'[\w\s.,:"\[\]{}-]*'),
    "out_spec": re.compile(r'[\w\s.,:"\[\]{}-]*'),
    "nn_module_stack": re.compile(r"[^\n]*"),
}
HELD = ("parameter", "buffer", "tensor_constant")


def program_text(path: str | os.PathLike) -> bytes:
    """The JSON of an archive's program; raises `InputError` where there is none, or several."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [i for i in archive.infolist() if PROGRAM.fullmatch(i.filename)]
            if len(found) != 1:
                fault = f"holds {len(found)} programs of torch.export, expected one"
                raise InputError(path, "", fault)
            with archive.open(found[0]) as stream:
                text = stream.read(MAX_FILE_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, RuntimeError) as error:
        fault = f"not a whole archive ({shown(error, 200)})"
        raise InputError(path, "", fault) from None
    if len(text) > MAX_FILE_BYTES:
        raise InputError(path, "", f"its program is more than {MAX_FILE_BYTES} bytes")
    return text


def read(data: bytes, asked: Mapping[str, Any]) -> tuple[Dataflow, list[int]]:
    """The dataflow of a program, and the values of what its module holds."""
    name = asked["name"]
    program = checked(data, name)
    try:
        import torch  # noqa: F401, that it is there
    except ImportError:
        fault = "an archive of torch.export needs torch: pip install torch"
        raise InputError(name, "", fault) from None
    with as_input_error(name, "torch does not read it"):
        made = _program(program)
    return flow_of(made, (), name)


def checked(data: bytes, source: object) -> Any:
    """The JSON of a program that torch's reader may see; raises `InputError` for another one."""
    program = parse_json(data, source).value
    with as_input_error(str(source), "not a program of torch.export"):
        program["guards_code"], program["graph_module"]["metadata"] = [], {}
        for node in program["graph_module"]["graph"]["nodes"]:
            stack = node["metadata"].get("nn_module_stack")
            node["metadata"] = {} if stack is None else {"nn_module_stack": stack}
    for key, value in _texts(program):
        if key == "field" and (value == "as_expr" or value.startswith("as_sym")):
            raise InputError(source, "", "a dynamic shape: export it with fixed shapes")
        if TEXTS.get(key, NAME).fullmatch(value) is None:
            fault = "is no operation of ATen, or no plain name: export the model without it"
            raise InputError(source, key, f"{shown(value, 200)} {fault}")
    return program


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Each text within JSON's objects, with the field that it is of, and each field's name."""
    waiting = [("", value)]
    while waiting:
        key, held = waiting.pop()
        if isinstance(held, dict):
            yield from (("field", field) for field in held)
            waiting += held.items()
        elif isinstance(held, list):
            waiting += [(key, item) for item in held]
        elif isinstance(held, str):
            yield key, held


def _program(stated: Any) -> Any:
    """The exported program, whose weights have shapes and no numbers."""
    import torch
    from torch._export.serde import schema, serialize

    state: dict[str, Any] = {}
    for spec in stated["graph_module"]["signature"]["input_specs"]:
        for kind in {*HELD} & {*spec}:
            number = torch.empty((), device="meta")
            named = spec[kind][f"{kind}_name"]
            state[named] = torch.nn.Parameter(number) if kind == "parameter" else number
    whole = serialize._dict_to_dataclass(schema.ExportedProgram, stated)
    reader = serialize.ExportedProgramDeserializer()
    program = reader.deserialize(whole, dict(state), dict(state), None)
    arrays = {}
    for node in program.graph.nodes:
        arrays[node.name] = node.meta.get("val")
        if node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload):
            assert node.target.__name__ == "getitem", f"{node.target} is no operation"
    for spec in program.graph_signature.input_specs:
        if spec.target in state:
            array = arrays[spec.arg.name]
            is_parameter = isinstance(state[spec.target], torch.nn.Parameter)
            array = torch.nn.Parameter(array, False) if is_parameter else array
            program.state_dict[spec.target] = program.constants[spec.target] = array
            if is_parameter or spec.persistent:  # others are held with the constants alone
                del program.constants[spec.target]
    return program
