"""A small reader of protocol buffer text format, driven by a schema; every fault names line and field.

The grammar is that of the public text format specification, without extensions, `Any` and adjacent string literals of
different quotes: ``name: value``, ``name { ... }`` or ``name < ... >``, lists in square brackets, comments from ``#``
on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from learned_mapping.errors import InputError

Schema = Mapping[str, Mapping[str, str]]
"""Message name -> field name -> type: ``int32``, ``int64``, ``float``, ``bool``, ``string``, ``enum`` or the name of a
message; a trailing ``*`` marks a repeated field."""

INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
MAX_DEPTH = 16

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\f\v]+|\#[^\n]*)
      | (?P<newline>\n)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>[-+]?[A-Za-z0-9_.](?:[A-Za-z0-9_.]|(?<=[0-9.][eE])[-+])*)
      | (?P<mark>[{}<>\[\]:,;])""",
    re.VERBOSE,
)
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,4})?f?")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class Field(NamedTuple):
    """One occurrence of a field."""

    value: Any
    """A number, a boolean, a string, or a `Message`."""
    line: int


class Message:
    """A parsed message: its fields by name, each with all its occurrences."""

    __slots__ = ("fields", "line", "path")

    def __init__(self, path: str, line: int):
        self.path = path
        self.line = line
        self.fields: dict[str, list[Field]] = {}

    def one(self, name: str, default: Any) -> Any:
        """The value of a field that occurs at most once."""
        found = self.fields.get(name)
        return found[-1].value if found else default

    def all(self, name: str) -> list[Field]:
        return self.fields.get(name, [])

    def line_of(self, name: str) -> int:
        """Where a field stands, or else where the message does."""
        found = self.fields.get(name)
        return found[-1].line if found else self.line


class Token(NamedTuple):
    kind: str
    text: str
    line: int


def fail(source: object, line: int, field: str, fault: str) -> NoReturn:
    """Raises `InputError` for a field at a line."""
    raise InputError(source, f"line {line}" + (f", {field}" if field else ""), fault)


def parse_text_proto(text: str, schema: Schema, root: str, source: object, *, limit: int = 1_000_000) -> Message:
    """Parses a message of type `root`.

    Args:
      text: the file's text.
      schema: what messages hold.
      root: the outermost message's type.
      source: what to name in an error.
      limit: occurrences of any one repeated field at most.

    Raises:
      InputError: the text is no text format, a field is unknown, repeated though it may not be, or of another type.
    """
    return _Parser(text, schema, source, limit).message(root, "", None, 0)


class _Parser:
    def __init__(self, text: str, schema: Schema, source: object, limit: int):
        self.source = source
        self.schema = schema
        self.limit = limit
        self.tokens = self._tokens(text)
        self.ahead = next(self.tokens)

    def _tokens(self, text: str):
        line, position = 1, 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                what = "unterminated string" if text[position] in "\"'" else f"unexpected character {text[position]!r}"
                fail(self.source, line, "", what)
            position = match.end()
            kind = match.lastgroup or ""
            if kind == "newline":
                line += 1
            elif kind != "skip":
                yield Token(kind, match.group(), line)
        while True:
            yield Token("end", "end of file", line)

    def take(self) -> Token:
        token, self.ahead = self.ahead, next(self.tokens)
        return token

    def accept(self, *marks: str) -> Token | None:
        if self.ahead.kind == "mark" and self.ahead.text in marks:
            return self.take()
        return None

    def message(self, kind: str, path: str, closing: str | None, depth: int) -> Message:
        """Reads fields up to `closing`, or to the end of the file where it is None."""
        result = Message(path, self.ahead.line)
        known = self.schema[kind]
        while True:
            if self.ahead.kind == "end":
                if closing is not None:
                    fail(self.source, self.ahead.line, path, f"truncated: the file ends before {closing!r}")
                return result
            if closing is not None and self.accept(closing):
                return result
            token = self.take()
            if token.kind != "word" or not re.fullmatch(r"[A-Za-z_]\w*", token.text):
                fail(self.source, token.line, path, f"expected a field name, got {_shorten(token.text)}")
            name = token.text
            field = f"{path}.{name}" if path else name
            if name not in known:
                fail(self.source, token.line, field, f"unknown field in {kind}")
            self.field(result, name, known[name], field, token.line, depth)
            self.accept(",", ";")

    def field(self, result: Message, name: str, kind: str, field: str, line: int, depth: int) -> None:
        repeated, kind = kind.endswith("*"), kind.rstrip("*")
        found = result.fields.setdefault(name, [])
        colon = self.accept(":")
        if repeated and self.accept("["):
            if not self.accept("]"):
                while True:
                    found.append(self.value(kind, f"{field}[{len(found)}]", colon, depth))
                    if self.accept("]"):
                        break
                    if not self.accept(","):
                        fail(self.source, self.ahead.line, field, f"expected , or ], got {_shorten(self.ahead.text)}")
        else:
            if found and not repeated:
                fail(self.source, line, field, f"given twice, first on line {found[0].line}")
            found.append(self.value(kind, f"{field}[{len(found)}]" if repeated else field, colon, depth))
        if len(found) > self.limit:
            fail(self.source, line, field, f"more than {self.limit} entries")

    def value(self, kind: str, field: str, colon: Token | None, depth: int) -> Field:
        line = self.ahead.line
        if kind in self.schema:
            opening = self.accept("{", "<")
            if opening is None:
                fail(self.source, line, field, f"expected {{, got {_shorten(self.ahead.text)}")
            if depth >= MAX_DEPTH:
                fail(self.source, line, field, "nested too deeply")
            return Field(self.message(kind, field, "}" if opening.text == "{" else ">", depth + 1), line)
        if colon is None:
            fail(self.source, line, field, f"expected :, got {_shorten(self.ahead.text)}")
        return Field(self.scalar(kind, field, self.take()), line)

    def scalar(self, kind: str, field: str, token: Token) -> Any:
        text = token.text
        if kind == "string":
            if token.kind != "string":
                fail(self.source, token.line, field, f"expected a quoted string, got {_shorten(text)}")
            return self.string(token, field)
        if token.kind != "word":
            fail(self.source, token.line, field, f"expected a value of type {kind}, got {_shorten(text)}")
        if kind in INT_RANGES:
            if not _INTEGER.fullmatch(text):
                fail(self.source, token.line, field, f"expected an integer, got {_shorten(text)}")
            digits = text.lstrip("-")
            octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
            number = int(digits, 8 if octal else 0) * (-1 if text[0] == "-" else 1)
            low, high = INT_RANGES[kind]
            if not low <= number <= high:
                fail(self.source, token.line, field, f"{number} is outside {kind}")
            return number
        if kind == "bool":
            if text not in ("true", "True", "t", "1", "false", "False", "f", "0"):
                fail(self.source, token.line, field, f"expected true or false, got {_shorten(text)}")
            return text in ("true", "True", "t", "1")
        if kind == "float":
            if not _FLOAT.fullmatch(text):
                fail(self.source, token.line, field, f"expected a finite number, got {_shorten(text)}")
            return float(text.rstrip("f"))
        return text  # enum: a name or a number, not interpreted

    def string(self, token: Token, field: str) -> str:
        def unescape(match: re.Match) -> str:
            letter = match.group(1)
            if letter not in _ESCAPES:
                fail(self.source, token.line, field, f"escape \\{letter} is not supported")
            return _ESCAPES[letter]

        return re.sub(r"\\(.)", unescape, token.text[1:-1])


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
