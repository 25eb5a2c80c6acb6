"""What a file holds, by its bytes and whatever its name, and which door takes it.

Every command asks here: a kind of `READ` has a reader, all others are told the way.
"""

import re
import struct

HEAD = 2**16  # Bytes of a file that say what it is.
JSON, COSTGRAPH, MINIMALLOC = "JSON", "CostGraphDef", "MiniMalloc"
TEXT, BYTECODE, EXPORTED = "StableHLO text", "StableHLO bytecode", "jax.export"
ONNX, ARCHIVE = "ONNX", "torch.export"
MODELS = (TEXT, BYTECODE, EXPORTED, ONNX, ARCHIVE)
"""Kinds that a parser's process of its own reads."""
TEXTS = (JSON, COSTGRAPH, MINIMALLOC, TEXT)
READ = (*TEXTS, *MODELS)

MODEL_WAY = "a model, which `lmap trace` makes a graph of"
NUMBERS_WAY = (
    "write a graph of learned-mapping/graph/1, whose ops have `seconds` and whose tensors `bytes`"
)
GIVE = "give the model as StableHLO, ONNX, torch.export's .pt2 or a function"
_COMMENTS = rb"(?:\s*(?://|#)[^\n]*\n)*\s*"
KINDS: tuple[tuple[bytes, str, str], ...] = (
    (rb"ML\xefR", BYTECODE, MODEL_WAY),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", "write it in UTF-8"),
    (rb"[\s\S]{4}TFL3", "TFLite", GIVE),
    (
        rb"PK\x03\x04[\s\S]{26}([^/]{1,200}/(data/(weights|constants)/|models/|archive_)"
        rb"|serialized_exported_program)",
        ARCHIVE,
        MODEL_WAY,
    ),
    (
        rb"PK\x03\x04[\s\S]{26}[^/]{1,200}/(data\.pkl|\.data/|\.format_version|byteorder|code/)",
        "a pickle in a zip archive, as torch.save writes it",
        "it runs code and is never opened: torch.export.save(program, 'model.pt2') is read",
    ),
    (rb"PK\x03\x04", "a zip archive, such as NumPy's .npz or a Keras model", GIVE),
    (rb"\x80[\x02-\x05]", "a pickle", f"it runs code and is never opened: {GIVE}"),
    (rb"GGUF", "GGUF, weights alone", GIVE),
    (rb"\x89HDF", "HDF5, such as a Keras model", GIVE),
    (rb"[\s\S]{4}[\s\S]\x00\x00\x00\{\s*\"", "safetensors, weights alone", GIVE),
    (rb"\x08[\x02-\x20][\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2\xca]", ONNX, MODEL_WAY),
    (
        rb"HloModule\b",
        "HLO text of XLA",
        "StableHLO is what `jax.jit(f).lower(...).as_text()` says",
    ),
    (
        _COMMENTS + rb"(#\w+ = .*\n\s*|!\w+ = .*\n\s*)*"
        rb"(module\b|func\.func\b|\"?(builtin|stablehlo|func)\.)",
        TEXT,
        MODEL_WAY,
    ),
    (rb"\s*(strict\s+)?(di)?graph\b[^\n{:]*\{", "DOT, a drawing without costs", NUMBERS_WAY),
    (
        rb"(?:\s*#[^\n]*\n)*\s*"
        rb"(node|versions|cost|graph|cost_graph|step_stats|partition_graphs)\s*[:{]",
        COSTGRAPH,
        "protobuf text, of which CostGraphDef is read as a graph",
    ),
    (
        rb"\s*(<\?xml[^>]*>\s*)?(<!--[\s\S]*?-->\s*)*<adag\b",
        "a DAX workflow of Pegasus",
        NUMBERS_WAY,
    ),
    (rb"\s*<(\?xml|graphml|html|!)", "XML", NUMBERS_WAY),
    (
        rb"\s*\d+[ \t]*\r?\n([ \t]*\d+){3,}[ \t]*\r?\n",
        "STG, a task graph without sizes",
        NUMBERS_WAY,
    ),
    (rb"(?:[\w ]+,)+[\w ]*\r?(\n|$)", MINIMALLOC, "CSV, and `lmap solve mmap` takes MiniMalloc's"),
    (
        rb"[\x08\x0a][\x00-\xff]{0,40}[\x00-\x08\x0e-\x1a\x1c-\x1f]",
        "protobuf, such as HloProto or GraphDef",
        GIVE,
    ),
)
"""Beginning, kind, and what may be done with it; the first that fits."""
WRITTEN = re.compile(rb"\s*([\[{]|(null|true|false|\"[^\"\n]*\"|-?\d[\d.eE+-]*)?\s*$)")
"""What begins as JSON, or is nothing but space so far."""
LATER_MLIR = re.compile(rb"^\s*(module\b[^\n]*\{|func\.func\b)", re.MULTILINE)


def kind_of(head: bytes) -> str:
    """The kind of a file that begins with these bytes; empty where nothing of it is known."""
    return _recognised(head)[0]


def refused(head: bytes, taken: str) -> str:
    """What bytes are that are not `taken`, and the way to go with them; empty where that is not
    known."""
    kind, way = _recognised(head)
    return f"but {kind}: {way}" if kind not in ("", taken) else ""


def _recognised(head: bytes) -> tuple[str, str]:
    head = head[:HEAD].removeprefix(b"\xef\xbb\xbf")  # a byte order mark
    if WRITTEN.match(head):
        return JSON, "a graph, a program or a solution in JSON"
    for pattern, kind, way in KINDS:
        if re.match(pattern, head):
            return kind, way
    if exported_at(head) is not None:
        return EXPORTED, MODEL_WAY
    if b"\0" not in head and LATER_MLIR.search(head):  # after aliases, or after the writer's words
        return TEXT, MODEL_WAY
    return "", ""


EXPORTED_FIELD = 30
"""Place, in the table of a serialised `jax.export.Exported`, of the module's bytecode."""


def exported_at(data: bytes) -> int | None:
    """Where the module of a serialised `jax.export.Exported` begins with its length, by the tables
    of FlatBuffers; None where the bytes are no such thing."""
    try:
        (root,) = struct.unpack_from("<I", data)
        table = root - struct.unpack_from("<i", data, root)[0]
        (size,) = struct.unpack_from("<H", data, table) if table >= 0 else (0,)
        if size <= EXPORTED_FIELD or size > 1000:
            return None
        (field,) = struct.unpack_from("<H", data, table + EXPORTED_FIELD)
        at = root + field
        return at + struct.unpack_from("<I", data, at)[0] if field else None
    except struct.error:
        return None


def exported_module(data: bytes) -> bytes | None:
    """The bytecode that a serialised `jax.export.Exported` holds; None where it holds none."""
    at = exported_at(data)
    if at is None or at + 4 > len(data):
        return None
    (length,) = struct.unpack_from("<I", data, at)
    module = data[at + 4 : at + 4 + length]
    return module if len(module) == length and module.startswith(b"ML\xefR") else None
