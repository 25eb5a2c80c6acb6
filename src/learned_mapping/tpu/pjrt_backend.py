"""The back end of the TPU compiler alone: scheduled HLO in, HLO with estimated cycles out, through PJRT's C interface.

Only the few calls needed are bound here, by their fixed places in the interface's table of functions (``pjrt_c_api.h``,
whose order only ever grows at the end). Import this in a process set up by `tpu_compiler.compiler_environment`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import tempfile
from pathlib import Path

from learned_mapping.errors import LearnedMappingError
from learned_mapping.tpu.hlo import Module, parse_module

_ERROR_DESTROY, _ERROR_MESSAGE, _PLUGIN_INITIALIZE, _TOPOLOGY_CREATE, _COMPILE = 0, 1, 3, 82, 89
_FUNCTIONS_AT = 8 + 8 + 24
"""Bytes before the table: the struct's size, its extensions, the version."""
_BACKEND_ONLY = b"\x1a\x02\x58\x01"
"""Serialized ``executable_build_options.run_backend_only = true``, appended to the options (protobuf merges fields)."""

_SIZE, _POINTER, _TEXT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p


class BackendError(LearnedMappingError):
    """The compiler's back end refused a module; the message is its own."""


def _struct(name: str, *fields: tuple[str, type]) -> type[ctypes.Structure]:
    every = [("struct_size", _SIZE), ("extension_start", _POINTER), *fields]
    return type(name, (ctypes.Structure,), {"_fields_": every})


_Plain = _struct("_Plain")
_Destroy = _struct("_Destroy", ("error", _POINTER))
_Message = _struct("_Message", ("error", _POINTER), ("message", _POINTER), ("message_size", _SIZE))
_Topology = _struct(
    "_Topology", ("name", _TEXT), ("name_size", _SIZE), ("options", _POINTER), ("num_options", _SIZE),
    ("topology", _POINTER),
)  # fmt: skip
_Program = _struct(
    "_Program", ("code", _TEXT), ("code_size", _SIZE), ("format", _TEXT), ("format_size", _SIZE)
)  # fmt: skip
_Compile = _struct(
    "_Compile", ("topology", _POINTER), ("program", _POINTER), ("options", _TEXT), ("options_size", _SIZE),
    ("client", _POINTER), ("executable", _POINTER),
)  # fmt: skip


class Backend:
    """A loaded compiler for one described topology."""

    def __init__(self, topology: str):
        folder = Path(importlib.util.find_spec("libtpu").origin).parent
        library = ctypes.CDLL(str(folder / "libtpu.so"))
        library.GetPjrtApi.restype = ctypes.c_void_p
        self._table = library.GetPjrtApi() + _FUNCTIONS_AT
        self._call(_PLUGIN_INITIALIZE, _Plain())
        name = topology.encode()
        arguments = _Topology(name=name, name_size=len(name))
        self._call(_TOPOLOGY_CREATE, arguments)
        self._topology = arguments.topology

    def compile(self, hlo_text: str) -> Module:
        """Runs the back end on a scheduled module; returns it with the compiler's estimates attached."""
        from jaxlib import _hlo, xla_client

        code = _hlo.hlo_module_from_text(hlo_text).as_serialized_hlo_module_proto()
        with tempfile.TemporaryDirectory(prefix="learned-mapping-backend-") as folder:
            options = xla_client.CompileOptions()
            options.num_replicas = options.num_partitions = 1
            options.env_option_overrides = [("xla_dump_to", folder), ("xla_dump_hlo_as_text", True)]
            serialized = options.SerializeAsString() + _BACKEND_ONLY
            program = _Program(code=code, code_size=len(code), format=b"hlo", format_size=3)
            program.struct_size = ctypes.sizeof(program)
            arguments = _Compile(
                topology=self._topology,
                program=ctypes.addressof(program),
                options=serialized,
                options_size=len(serialized),
            )
            self._call(_COMPILE, arguments)
            dumps = sorted(Path(folder).glob("*after_codegen.txt"))
            if not dumps:
                raise BackendError("the back end left no estimates")
            return parse_module(dumps[-1].read_text(), "after_codegen")

    def _call(self, number: int, arguments: ctypes.Structure) -> None:
        arguments.struct_size = ctypes.sizeof(arguments)
        error = self._function(number)(ctypes.addressof(arguments))
        if error:
            message = _Message(error=error)
            message.struct_size = ctypes.sizeof(message)
            self._function(_ERROR_MESSAGE)(ctypes.addressof(message))
            text = ctypes.string_at(message.message, message.message_size).decode(errors="replace")
            destroy = _Destroy(error=error)
            destroy.struct_size = ctypes.sizeof(destroy)
            self._function(_ERROR_DESTROY)(ctypes.addressof(destroy))
            raise BackendError(" ".join(text.split())[:500])

    def _function(self, number: int):
        address = ctypes.cast(self._table + 8 * number, ctypes.POINTER(ctypes.c_void_p)).contents.value
        return ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
