"""Damaged models for each door that a parser's process reads, and a judge of what `lmap trace` says
to them: bytes that flip, and files that are well-formed and wrong, which get past their parser.

``python damaged_models.py DOOR[,DOOR] COUNT [FIRST]`` says as a line of JSON for each door what came
of the cases; a case is its number.
"""

import ast
import contextlib
import functools
import io
import json
import logging
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NUMBERS = (0, 1, -1, 2, 3, 5, 7, 16, 255, 2**16, 2**31, 2**40, 2**62, -(2**63))
WORDS = ("", "x", "f32", "名前", "a b", "\x1b[2J", "..", "x" * 700, "%s{}", "main")


Answer = tuple[int, bytes, float, int]
"""Of a process: its exit code, 98 where a function raised, what the function returned, the seconds
of the processor, and the most bytes that it held."""


def exported(module: bytes) -> bytes:
    """The least FlatBuffer that holds a module where `jax.export` puts it: a table of fourteen
    fields, all but the last absent."""
    fields = struct.pack("<HH14H", 32, 8, *[0] * 13, 4)
    return struct.pack("<I", 36) + fields + struct.pack("<iII", 32, 4, len(module)) + module


def flipped(rng: random.Random, data: bytes) -> bytes:
    """Bytes of which a few are changed, left out, repeated or cut off."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(made))
        end = at + rng.choice((0, 1, 1, 1, 2, 4, 30))
        repeated = bytes(made[at:end]) * 2
        made[at:end] = rng.choice((b"", rng.randbytes(end - at), repeated, rng.randbytes(1)))
        made = made or bytearray(b"\0")
    return bytes(made[: rng.randrange(1, len(made) + 1)] if rng.random() < 0.1 else made)


# ONNX: any field of any message.

ONNX_TEXTS = {
    "attention": """g (float[2,4,8,16] q, float[2,4,16,8] k, float[2,4,8,16] v) => (float[a,b,c,d] y)
        { s = MatMul(q, k) c = Constant <value = float {0.25}> () t = Mul(s, c)
          p = Softmax <axis = -1> (t) y = MatMul(p, v) }""",
    "convolution": """g (float[1,4,9,9] x) => (float[n,c,h,w] y) <float[6,2,3,3] k = {}, float[6] b = {}>
        { z = Conv <group = 2, strides = [2, 2], pads = [1, 1, 1, 1]> (x, k, b)
          r = MaxPool <kernel_shape = [2, 2], strides = [1, 1]> (z)
          y = GlobalAveragePool (r) }""",
    "shapes": """g (float[6,4] x) => (float[n,m] y) {
        s = Shape (x) i = Constant <value = int64 {0}> () n = Gather (s, i)
        two = Constant <value = int64 {2}> () half = Div (n, two)
        axes = Constant <value = int64[1] {0}> () h = Unsqueeze (half, axes)
        rest = Constant <value = int64[1] {-1}> () sizes = Concat <axis = 0> (h, rest)
        r = Reshape (x, sizes) a, b = Split <num_outputs = 2, axis = 1> (r)
        y = Where (q, a, b) }""".replace("y = Where (q, a, b)", "y = Add (a, b)"),
    "cell": """g (float[5,2,8] x) => (float[n,d,b,h] y)
        <float[1,64,8] w = {}, float[1,64,16] r = {}>
        { y = LSTM <hidden_size = 16> (x, w, r) }""",
    "loop": """g (float[4,4] x) => (float[4,4] y) {
        count = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
        z = Loop (count, t, x) <body = b (int64 i, bool c, float[4,4] a) =>
          (bool d, float[4,4] e) { d = Identity (c) e = MatMul (a, a) }>
        p = Constant <value = bool {0}> ()
        y = If (p) <then_branch = h () => (float[4,4] k) { k = Relu (z) },
          else_branch = f () => (float[4,4] l) { l = Exp (z) }> }""",
    "norms": """g (float[2,6,8] x) => (float[2,6,8] y) <float[8] s = {}, float[6] m = {}>
        { a = LayerNormalization (x, s) b = BatchNormalization (a, m, m, m, m)
          c = ReduceMean <keepdims = 1> (b) d = Gelu (b) e = Sub (d, c)
          f = Cast <to = 10> (e) g = Cast <to = 1> (f) h = Clip (g)
          i, j = TopK <axis = -1> (h, k) y = CumSum (h, q) }""".replace(
        "i, j = TopK <axis = -1> (h, k) y = CumSum (h, q)", "y = Softmax (h)"
    ),
    "whole": """g (uint8[2,8] x, int8[8,4] w, float[4] f) => (float[2,4] y)
        { p = Constant <value = uint8 {3}> () s = Constant <value = float {0.5}> ()
          z = MatMulInteger (x, w, p) a = Cast <to = 1> (z) b = Mul (a, s) c = Add (b, f)
          q = QuantizeLinear (c, s, p) y = DequantizeLinear (q, s, p) }""",
    "sum": """g (float[2,3] x, float[3,4] z, float[1,2,6,6] v) => (float[2,4] y, float[a,b,c,d] w)
        { y = Einsum <equation = "ij,jk->ik"> (x, z)
          e = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
          w = Resize <mode = "linear"> (v, , e) }""",
}


def onnx_sources() -> list[bytes]:
    from onnx import helper, parser

    models = []
    for text in ONNX_TEXTS.values():
        weights = re.findall(r"float\[([\d,]+)\] (\w+) = \{\}", text)
        graph = parser.parse_graph(re.sub(r"<float\[[\d,]+\] \w+ = \{\}[^>]*>", "", text))
        for sizes, name in weights:
            dims = [int(size) for size in sizes.split(",")]
            zeros = bytes(4 * _product(dims))
            graph.initializer.append(helper.make_tensor(name, 1, dims, zeros, raw=True))
        models.append(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    data = [model.SerializeToString() for model in models]
    return [b"\x08\x0a" + made[2:] for made in data]


def _product(sizes: list[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def damaged_onnx(rng: random.Random, data: bytes, apart: Callable[..., Answer]) -> bytes:
    """A model with a few fields of its messages changed, or a few of its bytes."""
    if rng.random() < 0.1:
        return flipped(rng, data)
    from onnx import ModelProto

    model = ModelProto.FromString(data)
    for _ in range(rng.randint(1, 4)):
        messages = list(_messages(model))
        message = rng.choice(messages)
        if rng.random() < 0.5:  # what a reader looks at most
            kinds = ("NodeProto", "AttributeProto", "TensorProto", "ValueInfoProto", "Dimension")
            message = rng.choice([m for m in messages if m.DESCRIPTOR.name in kinds] or messages)
        with contextlib.suppress(ValueError, TypeError, OverflowError):  # what protobuf refuses
            _change(rng, message, messages)
    made = model.SerializeToString()
    return b"\x08\x0a" + made[2:] if made[:1] == b"\x08" else b"\x08\x0a" + made


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                yield from _messages(part)


def _change(rng: random.Random, message: Any, others: list[Any]) -> None:
    """Changes one field of a message of protocol buffers."""
    stated = [field for field, _ in message.ListFields()]
    field = rng.choice(stated if stated and rng.random() < 0.8 else message.DESCRIPTOR.fields)
    name = field.name
    if rng.random() < 0.1:
        message.ClearField(name)
        return
    alike = [m for m in others if m.DESCRIPTOR is field.message_type]
    if not field.is_repeated:
        if field.type == field.TYPE_MESSAGE:
            if alike:
                getattr(message, name).CopyFrom(_copy(rng.choice(alike)))
        else:
            setattr(message, name, _value(rng, field, others))
        return
    values = getattr(message, name)
    action, at = rng.randrange(4), rng.randrange(len(values)) if len(values) else 0
    if len(values) and action == 0:
        del values[at]
    elif len(values) > 1 and action == 1:
        kept = list(values)
        rng.shuffle(kept)
        message.ClearField(name)
        getattr(message, name).extend(kept)
    elif field.type == field.TYPE_MESSAGE:
        if alike:
            values.add().CopyFrom(_copy(rng.choice(alike)))
    elif len(values) and action == 2:
        values[at] = _value(rng, field, others)
    else:
        values.append(_value(rng, field, others))


def _copy(message: Any) -> Any:
    """A message apart from the others, which may hold what it is copied into."""
    return type(message).FromString(message.SerializeToString())


def _value(rng: random.Random, field: Any, others: list[Any]) -> Any:
    kinds = field.cpp_type
    if kinds == field.CPPTYPE_STRING:
        words = list(WORDS)
        for other in rng.sample(others, min(len(others), 6)):
            for known, value in other.ListFields():
                if known.cpp_type == field.CPPTYPE_STRING:
                    words += list(value) if known.is_repeated else [value]
        if field.name == "op_type":
            from learned_mapping.doors.onnx_layouts import LAYOUTS
            from learned_mapping.programs.trace.names import ONNX

            words = [*ONNX, *LAYOUTS, "Scan", "SequenceAt", "Unique", "NonZero", *words]
        word = rng.choice(words)
        as_bytes = field.type == field.TYPE_BYTES
        if as_bytes:
            return word if isinstance(word, bytes) else word.encode()
        return word.decode("utf-8", "replace") if isinstance(word, bytes) else word
    if kinds in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.0, 0.5, 1e30, float("nan"), float("inf")))
    return rng.choice((*NUMBERS, *range(24)))


# StableHLO: words of its text, of one kind for another, in one place or everywhere.


def stablehlo_texts() -> list[str]:
    """A network with its gradient, loops, sorts, convolutions and what libraries do."""
    import jax
    import jax.numpy as jnp

    def array(*shape: int, dtype: Any = jnp.float32) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    def network(words: Any, table: Any, weight: Any, head: Any) -> Any:
        hidden = jax.nn.gelu(table[words].mean(0) @ weight)
        return jax.nn.softmax(hidden @ head).sum()

    def loops(x: Any) -> Any:
        x = jax.lax.scan(lambda c, r: (c * r, c + r), x[0], x)[1]
        return jax.lax.fori_loop(0, 3, lambda i, c: c.at[i].add(c[i] @ c), x)

    def others(x: Any, w: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", feature_group_count=2)
        z = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.sort(z, 2), jnp.argmax(z, 1), jnp.cumsum(z, 0), jnp.where(z > 0, z, 0)

    def algebra(x: Any, key: Any) -> Any:
        q, s, v = jnp.linalg.svd(x)
        bits = jax.random.normal(jax.random.wrap_key_data(key), (4, 4))
        return q @ jnp.linalg.inv(x) + bits, s, jnp.fft.rfft(v), jax.lax.top_k(s, 2)

    def chosen(i: Any, x: Any) -> Any:
        return jax.lax.switch(i, (jnp.sin, jnp.cos, lambda y: jax.scipy.special.erfc(y)), x)

    whole = array(5, 3, dtype=jnp.int32)
    weights = array(30, 8), array(8, 16), array(16, 4)
    images = array(2, 4, 8, 8), array(6, 2, 3, 3)
    cases: list[tuple[Callable, tuple[Any, ...]]] = [
        (jax.grad(network, (1, 2, 3)), (whole, *weights)),
        (loops, (array(4, 4),)),
        (others, images),
        (algebra, (array(4, 4), array(2, dtype=jnp.uint32))),
        (chosen, (array(dtype=jnp.int32), array(3, 5))),
    ]
    texts = []
    for function, args in cases:
        lowered = jax.jit(function).lower(*args)
        texts += [lowered.as_text(), lowered.as_text(debug_info=True)]
    return texts


CLASSES = (
    r"%[\w#]+",
    r"@[\w.]+",
    r"\b(?:stablehlo|chlo|func|sdy)\.[\w.]+",
    r"tensor<[^<>]*>",
    r"(?<=[x<])(?:[us]?i\d+|f\d\w*|bf16|complex<f\d+>)(?=>)",
    r"-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b",
    r"\b(?:LT|LE|GT|GE|EQ|NE|FLOAT|SIGNED|TOTALORDER|true|false|dense|array)\b",
    r'"[^"\n]*"',
)
UNARY = "abs negate exponential log tanh sqrt rsqrt sine cosine floor ceil sign is_finite not real"
BINARY = "add subtract multiply divide maximum minimum power and or xor atan2 remainder complex"
TYPES = "i1 i4 i8 ui8 i32 ui64 i64 f16 bf16 f32 f64 f8E4M3FN complex<f32> index none !quant".split()
LINES = (
    "  %0 = stablehlo.constant dense<7> : tensor<i32>",
    "  func.func private @g(%a: tensor<f32>) -> tensor<f32> { func.call @g }",
    '  "stablehlo.return"() : () -> ()',
    "}",
    "{",
)


def damaged_text(rng: random.Random, text: str) -> str:
    """A text with a few words changed: into others of their kind, in one place or wherever they
    stand, or lines left out, repeated and exchanged."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.7:
            text = _plausible(rng, text)
            continue
        found = list(re.finditer(rng.choice(CLASSES), text))
        action = rng.randrange(6)
        if action == 0:
            lines = text.split("\n")
            at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
            new = rng.choice(([], [lines[at]] * 2, [lines[other]], [rng.choice(LINES)]))
            lines[at : at + 1] = new
            text = "\n".join(lines)
        elif action == 1:  # of one shape everywhere, or of one element type
            sizes = list(re.finditer(r"(?<=<)(?:\d+x)+(?=\w)", text))
            if sizes:
                size = rng.choice(("", "0x", "1x", "2x3x", "?x", "*x", "4194304x4194304x", "3x5x"))
                text = text.replace(f"<{rng.choice(sizes)[0]}", f"<{size}")
        elif found:
            old = rng.choice(found)
            new = rng.choice((rng.choice(found)[0], rng.choice(found)[0], str(rng.choice(NUMBERS))))
            if action == 2:
                text = text.replace(old[0], new)
            else:
                text = text[: old.start()] + new + text[old.end() :]
    return text


def _plausible(rng: random.Random, text: str) -> str:
    """A text with one change that its parser may well take."""
    action = rng.randrange(7)
    if action == 0:  # an operand becomes another value of its type
        made = re.findall(r"(%\w+)(?: = [^\n]*)?: (tensor<[^<>]*>)(?= loc|\n|,|\))", text)
        kinds = dict(made)
        used = list(re.finditer(r"(?<=[ (,])%\w+(?=[,)\n ])", text))
        used = [use for use in used if use[0] in kinds and text[use.end() : use.end() + 2] != " ="]
        if used:
            use = rng.choice(used)
            alike = [name for name, kind in made if kind == kinds[use[0]]]
            return text[: use.start()] + rng.choice(alike) + text[use.end() :]
    elif action == 1:
        kind = rng.choice(("xf32>", "xi32>", "<f32>", "<i32>", "xui32>"))
        return text.replace(kind, f"{kind[0]}{rng.choice(TYPES)}>")
    elif action == 2:
        for group in (UNARY.split(), BINARY.split()):
            names = re.findall(rf"stablehlo\.(?:{'|'.join(group)}) ", text)
            if names and rng.random() < 0.7:
                new = f"stablehlo.{rng.choice(group)} "
                return text.replace(rng.choice(names), new, rng.choice((1, -1)))
    elif action == 3:
        words = {"LT": "GE", "GT": "NE", "NE": "LE", "EQ": "LT", "SIGNED": "UNSIGNED"}
        old = rng.choice(list(words))
        return re.sub(rf"\b{old}\b", words[old], text, count=rng.choice((0, 1)))
    else:
        patterns = (
            r"(?<=dense<)-?[\d.e+-]+(?=>)",
            r'(?<=@)\w+(?=\()|(?<=")[^"\n]+(?=")',
            r"(?<== )\[[\d, ]+\]",
            r"(?<=[x<])\d+(?=x)",
            r"\{[^{}\n]*\}",
        )
        found = list(re.finditer(rng.choice(patterns), text))
        if found:
            old, other = rng.choice(found), rng.choice(found)[0]
            new = rng.choice((other, other, str(rng.choice(NUMBERS))))
            if rng.random() < 0.5:
                return text.replace(old[0], new)
            return text[: old.start()] + new + text[old.end() :]
    return text


def damaged_mlir(rng: random.Random, text: str, apart: Callable[..., Answer]) -> bytes:
    made = damaged_text(rng, text).encode("utf-8", "replace")
    return flipped(rng, made) if rng.random() < 0.1 else made


def damaged_bytecode(rng: random.Random, text: str, apart: Callable[..., Answer]) -> bytes:
    """The bytecode of a text, damaged before it was written or after."""
    text = damaged_text(rng, text) if rng.random() < 0.7 else text
    code = apart(lambda: bytecode(text))[1] or apart(lambda: bytecode(TEXT))[1]
    return flipped(rng, code) if rng.random() < 0.5 else code


def damaged_export(rng: random.Random, text: str, apart: Callable[..., Answer]) -> bytes:
    data = exported(damaged_bytecode(rng, text, apart))
    return data[:4] + flipped(rng, data[4:80]) + data[80:] if rng.random() < 0.2 else data


TEXT = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"


def bytecode(text: str) -> bytes:
    """What a text is as a portable artifact; raises where it is no module."""
    from jax.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with make_ir_context():
        module = ir.Module.parse(text)
        try:
            version = stablehlo.get_current_version()
            return bytes(stablehlo.serialize_portable_artifact(module, version))
        except Exception:  # of another dialect
            stream = io.BytesIO()
            module.operation.write_bytecode(stream)
            return stream.getvalue()


# Archives of torch.export: values of their program's JSON.


def archives() -> list[bytes]:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    images = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    ).eval()
    examples = [(encoder, torch.zeros(2, 4, 16)), (images, torch.zeros(2, 3, 8, 8))]
    found = []
    for module, example in examples:
        stream = io.BytesIO()
        torch.export.save(torch.export.export(module, (example,)), stream)
        found.append(stream.getvalue())
    return found


def damaged_archive(rng: random.Random, data: bytes, apart: Callable[..., Answer]) -> bytes:
    """An archive of a program with a few values of its JSON changed, or a few bytes."""
    if rng.random() < 0.1:
        return flipped(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        text = archive.read(name)
    program = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        held = list(_held(program["graph_module"] if rng.random() < 0.8 else program))
        place, key = rng.choice(held)
        alike = [other[k] for other, k in held if k == key and not isinstance(key, int)]
        action = rng.randrange(6)
        if action == 0:
            del place[key]
        elif action == 1 and isinstance(place, list):
            place.insert(key, rng.choice(place))
        elif action < 4 and alike:
            place[key] = rng.choice(alike)
        else:
            place[key] = rng.choice((*NUMBERS, *WORDS, None, True, [], {}, 0.5, [1], "relu"))
        program = json.loads(json.dumps(program))
        if not isinstance(program.get("graph_module"), dict):
            break
    text = json.dumps(program).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("m/data/weights/weight_0", b"")
        made.writestr(name, flipped(rng, text) if rng.random() < 0.1 else text)
    return stream.getvalue()


def _held(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place within JSON: its object or list, and the key or number there."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _held(value[key])


DOORS: dict[str, tuple[Callable[[], list[Any]], Callable[..., bytes]]] = {
    "onnx": (onnx_sources, damaged_onnx),
    "text": (stablehlo_texts, damaged_mlir),
    "bytecode": (stablehlo_texts, damaged_bytecode),
    "export": (stablehlo_texts, damaged_export),
    "archive": (archives, damaged_archive),
}


PARSED_WITH = {
    "StableHLO": (
        "jax.interpreters.mlir",
        *(f"jaxlib.mlir.dialects.{name}" for name in ("chlo", "func", "stablehlo")),
        "learned_mapping.programs.trace.graph",
        "learned_mapping.programs.trace.parameters",
        "learned_mapping.doors.stablehlo_reader",
    ),
    "onnx": ("onnx.inliner", "onnx.reference", "learned_mapping.doors.onnx_model"),
    "archive": ("learned_mapping.doors.torch_archive",),
}


OURS = re.compile(r"gave up on it \((?!signal)|not ONNX \((?!DecodeError)")
"""Of a fault that is a reader's own rather than a file's."""


def limit(seconds: int, memory: int) -> None:
    """Bounds what this process uses from here on: seconds of the processor and bytes."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = int(usage.ru_utime + usage.ru_stime) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds, resource.RLIM_INFINITY))
    signal.alarm(600)
    if memory:  # beside what this process has imported, which is more than the parser's own has
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))


def alone(function: Callable[[], bytes], memory: int = 2**30, seconds: int = 20) -> Answer:
    """What a function returns in a process that ends with it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        quiet()
        code, made, *_ = here(function, memory, seconds)
        with open(write, "wb") as stream:
            stream.write(made)
        os._exit(code)
    os.close(write)
    with open(read, "rb") as stream:
        said = stream.read()
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code, said, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def here(function: Callable[[], bytes], memory: int = 2**30, seconds: int = 20) -> Answer:
    """What a function returns in this process."""
    limit(seconds, memory)
    begin, code = time.process_time(), 0
    try:
        made = function()
    except BaseException:
        code, made = 98, b""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return code, made, time.process_time() - begin, most


def quiet() -> None:
    """What a parser says on its own goes nowhere, and a crash leaves no core."""
    warnings.simplefilter("ignore")
    logging.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def each(judge: Callable[[int, Callable], dict], cases: list[int]) -> Iterator[dict]:
    """What comes of each case: many in one process, and alone where that one dies of it."""
    while cases:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            quiet()
            with open(write, "w") as stream:
                for case in cases[:TOGETHER]:
                    print(json.dumps(judge(case, here)), file=stream, flush=True)
            os._exit(0)
        os.close(write)
        with open(read) as stream:
            rows = [json.loads(line) for line in stream if line.endswith("\n")]
        dead = os.waitpid(child, 0)[1] and len(rows) < len(cases)
        yield from rows
        cases = cases[len(rows) :]
        if dead:
            yield judge(cases.pop(0), alone)


LIBRARIES = 1300 * 2**20
"""Bytes of address space that the parser's process has taken before it reads."""
TOGETHER = 100  # Cases of one process: what a parser keeps of each is gone with it.


def warm(answer: Callable, archive: bytes) -> None:
    import torch

    torch.set_num_threads(1)
    with zipfile.ZipFile(io.BytesIO(archive)) as held:
        text = held.read(next(n for n in held.namelist() if n.endswith("models/model.json")))
    asked = {"kind": "torch.export", "name": "m", "parameters": None, "unroll_limit": 1000}
    assert answer(asked, text)[0] == 0


@functools.cache
def made_apart(make: Callable[[], list[Any]]) -> list[Any]:
    """What a function makes in a process whose threads end with it: they would hang the others."""
    made = alone(lambda: repr(make()).encode(), memory=0, seconds=60)[1]
    return ast.literal_eval(made.decode())


def judged(door: str, cases: range) -> dict[str, Any]:
    """What `lmap trace` says to damaged files: exit code -> cases, the seconds and bytes of the
    costliest, the faults by how often, and what breaks a promise."""
    from learned_mapping.cli import main
    from learned_mapping.doors import models

    for module in (*PARSED_WITH["StableHLO"], *PARSED_WITH.get(door, ())):
        import_module(module)  # once, for all children
    make, damage = DOORS[door]
    sources = made_apart(make)
    if door == "archive":  # torch imports most of itself when it is first asked
        warm(models.answer, sources[0])

    def judge(case: int, apart: Callable[..., Answer]) -> dict[str, Any]:
        cost = [0.0, 0]

        def parsed(command: list[str], *, input: bytes, **settings: Any) -> Any:
            asked = json.loads(command[-1])

            def answer() -> bytes:
                return json.dumps(models.answer(asked, input)).encode()

            memory = asked["bytes"] - (0 if door == "archive" else LIBRARIES)
            code, said, *cost[:] = apart(answer, memory, asked["seconds"])
            code, text = json.loads(said) if code == 0 else (1 if code == 98 else code, "")
            out, err = ("", text) if code else (text, "")
            return subprocess.CompletedProcess(command, code, out.encode(), err.encode())

        models.subprocess.run = parsed
        rng = random.Random(f"{door} {case}")
        path.write_bytes(damage(rng, rng.choice(sources), apart))
        out.unlink(missing_ok=True)
        said, told, begin = io.StringIO(), io.StringIO(), time.process_time()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
            code = main(["trace", str(path), "--out", str(out)])
        seconds = max(cost[0], time.process_time() - begin)
        lines = told.getvalue().splitlines()
        good = code == 0 or (code == 2 and len(lines) == 1 and len(lines[0]) < 3000)
        good = good and all(line.isprintable() for line in lines) and out.exists() == (not code)
        good = good and not any(OURS.search(line) for line in lines)
        told = lines[-1].partition(": ")[2].partition(": ")[2][:60] if lines and code == 2 else ""
        row = {"case": case, "code": code, "seconds": round(seconds, 2), "bytes": cost[1]}
        return row | {"fault": told, "broken": "" if good else "\n".join(lines)[-400:] or "no line"}

    with TemporaryDirectory() as folder:
        path, out = Path(folder) / "model", Path(folder) / "out.json"
        rows = list(each(judge, list(cases)))
    return {
        "codes": Counter(row["code"] for row in rows),
        "seconds": max(row["seconds"] for row in rows),
        "bytes": max(row["bytes"] for row in rows),
        "costliest": max(rows, key=lambda row: row["seconds"])["case"],
        "broken": [row for row in rows if row["broken"]][:20],
        "faults": Counter(row["fault"] for row in rows if row["code"] == 2).most_common(40),
    }


if __name__ == "__main__":
    cases = range(int(sys.argv[3]) if len(sys.argv) > 3 else 0, int(sys.argv[2]))
    for door in sys.argv[1].split(","):
        print(json.dumps({"door": door} | judged(door, cases), ensure_ascii=False))
