"""Reading and writing JSON from strangers: every fault becomes an `InputError` that names file and
field."""

import fcntl
import functools
import gzip
import hashlib
import io
import json
import math
import os
import re
import socket
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from learned_mapping.errors import InputError, shown, told
from learned_mapping.programs.recognition import HEAD, JSON, TEXTS, kind_of, refused

MAX_FILE_BYTES = 64 * 2**20  # Largest text accepted, after decompression, in bytes.
MAX_VALUES = 8_000_000
"""Most braces, brackets, colons and commas of a JSON text: what bounds the memory that its values
can take."""
MAX_NAME = 1000  # Characters of the longest name.
MAX_METADATA_DEPTH = 20
GZIP = b"\x1f\x8b"


@dataclass(eq=False, slots=True)
class Node:
    """A JSON value together with where it stands, so that every complaint can say so."""

    value: Any
    source: object
    field: str = ""

    def fail(self, fault: str) -> NoReturn:
        """Raises `InputError` for this field."""
        raise InputError(self.source, self.field or "(top level)", fault)

    def _wrong_type(self, expected: str) -> NoReturn:
        self.fail(f"expected {expected}, got {_shorten(self.value)}")

    def object(
        self, required: Iterable[str] = (), optional: Iterable[str] = ()
    ) -> dict[str, "Node"]:
        """The members of a JSON object; raises for a missing or an unknown one."""
        if not isinstance(self.value, dict):
            self._wrong_type("an object")
        required, optional = tuple(required), tuple(optional)
        for key in required:
            if key not in self.value:
                self.fail(f"missing field {key!r}")
        for key in self.value:
            if key not in required and key not in optional:
                self.fail(f"unknown field {_shorten(key)}")
        prefix = self.field + "." if self.field else ""
        return {key: Node(value, self.source, prefix + key) for key, value in self.value.items()}

    def mapping(self, limit: int, required: Iterable[str] = ()) -> dict[str, "Node"]:
        """The members of a JSON object with free keys, at most `limit` of them; raises for a
        missing one."""
        if not isinstance(self.value, dict):
            self._wrong_type("an object")
        if len(self.value) > limit:
            self.fail(f"{len(self.value)} entries, at most {limit} are supported")
        for key in required:
            if key not in self.value:
                self.fail(f"missing field {key!r}")
        return {
            key: Node(value, self.source, f"{self.field}[{_shorten(key)}]")
            for key, value in self.value.items()
        }

    def elements(self, limit: int) -> list["Node"]:
        """The elements of a JSON array, at most `limit` of them."""
        if not isinstance(self.value, list):
            self._wrong_type("an array")
        if len(self.value) > limit:
            self.fail(f"{len(self.value)} entries, at most {limit} are supported")
        return [
            Node(value, self.source, f"{self.field}[{i}]") for i, value in enumerate(self.value)
        ]

    def name(self) -> str:
        """A string as `string`; a whole number stands for its digits."""
        if (
            isinstance(self.value, int)
            and not isinstance(self.value, bool)
            and abs(self.value) < 10**18
        ):
            return str(self.value)
        return self.string()

    def string(self, limit: int = MAX_NAME) -> str:
        """A non-empty string of at most `limit` characters that can be printed on one line."""
        if not isinstance(self.value, str):
            self._wrong_type("a string")
        if not self.value:
            self.fail("empty string")
        if len(self.value) > limit:
            self.fail(f"string of {len(self.value)} characters, at most {limit} are supported")
        if not self.value.isprintable():
            self.fail(f"unprintable characters in {_shorten(self.value)}")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self._wrong_type("true or false")
        return self.value

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]; 100.0 is one, as other tools write it."""
        whole = isinstance(self.value, int) or (
            isinstance(self.value, float) and self.value.is_integer()
        )
        if isinstance(self.value, bool) or not whole:
            self._wrong_type("an integer")
        if not low <= self.value <= high:
            self.fail(f"{_shorten(self.value)} is outside [{low}, {high}]")
        return int(self.value)

    def number(self, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._wrong_type("a number")
        if not low <= self.value <= high:
            self.fail(f"{_shorten(self.value)} is outside [{low:g}, {high:g}]")
        return float(self.value)

    def choice(self, *options: str) -> str:
        if self.value not in options or not isinstance(self.value, str):
            self.fail(f"expected one of {', '.join(options)}, got {_shorten(self.value)}")
        return self.value

    def metadata(self) -> dict[str, Any]:
        """A free-form object: anything JSON can hold."""
        if not isinstance(self.value, dict):
            self._wrong_type("an object")
        if _depth(self.value, MAX_METADATA_DEPTH) > MAX_METADATA_DEPTH:
            self.fail(f"nested deeper than {MAX_METADATA_DEPTH} levels")
        return self.value


def _depth(value: Any, limit: int) -> int:
    """The depth to which lists and objects nest; counts no further than `limit` + 1."""
    if not isinstance(value, dict | list) or limit < 0:
        return 0
    return 1 + max(
        (_depth(v, limit - 1) for v in (value.values() if isinstance(value, dict) else value)),
        default=0,
    )


def _shorten(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)} entries"
    if isinstance(value, str):
        return repr(shown(value, 60))
    return json.dumps(value)[:60]


def expect_path(path: object) -> Path:
    """A file's name as a path; raises `InputError` for all else."""
    try:
        if isinstance(path, str | os.PathLike) and os.fsencode(path):
            return Path(path)
    except Exception:  # of another's object, or no text of the file system's
        pass
    raise InputError("file", "", f"expected a file's name, got {told(path)}")


def read_bytes(path: str | os.PathLike, limit: int = MAX_FILE_BYTES) -> bytes:
    """A file's bytes, unpacked where its name ends in ``.gz`` or its bytes are gzip's; raises
    `InputError` past `limit` bytes."""
    data = read_head(path, limit + 1)
    if len(data) > limit:
        raise InputError(path, "", f"more than {limit} bytes")
    return data


def read_head(path: str | os.PathLike, count: int = HEAD, raw: bool = False) -> bytes:
    """The first bytes of a file, unpacked unless `raw`; raises `InputError` for what is no
    file."""
    path = expect_path(path)
    try:
        if path.is_dir():
            raise InputError(path, "", "is a folder, expected a file")
        if path.exists() and not path.is_file():
            raise InputError(path, "", "is not a regular file")
        with open(path, "rb") as stream:
            packed = path.suffix == ".gz" or stream.peek(2)[:2] == GZIP
            if not packed or raw:
                return stream.read(count)
            with gzip.open(stream, "rb") as unpacked:
                return unpacked.read(count)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(path, "", "no such file") from None
    except PermissionError:
        raise InputError(path, "", "permission denied") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(path, "", f"broken gzip file ({error})") from None
    except (OSError, ValueError) as error:
        raise InputError(
            path, "", f"cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None


def file_sha256(path: str | os.PathLike) -> str:
    """SHA-256 of a file's bytes, as stored, in hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def utf8_text(data: bytes, source: object) -> str:
    """The text of some bytes; raises `InputError` where they are no UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        way = "" if kind_of(data) in TEXTS else refused(data, "")
        fault = f"not UTF-8 text {way}".rstrip()
        raise InputError(source, f"byte {error.start}", fault) from None
    return text.removeprefix("\ufeff")  # a byte order mark


def parse_json(data: bytes, source: object) -> Node:
    """Parses UTF-8 JSON text; refuses duplicate keys, NaN and infinities, absurd nesting and too
    many values."""
    if not data.strip():
        raise InputError(source, "", "is empty")
    values = sum(data.count(character) for character in b"{[,:")
    if values > MAX_VALUES:
        raise InputError(
            source, "", f"holds up to {values} values, at most {MAX_VALUES} are supported"
        )
    text = utf8_text(data, source)
    del data
    faults: list[str] = []  # of numbers; a NaN stands in their places, by which the first is found

    def no_duplicates(pairs):
        result = dict(pairs)
        if len(result) < len(pairs):
            seen = set()
            key = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise InputError(source, _shorten(key), "the same field appears twice in one object")
        return result

    def fault(text):
        faults.append(text)
        return math.nan

    def parse_integer(digits):
        return int(digits) if len(digits) <= 400 else fault(f"an integer of {len(digits)} digits")

    def parse_number(digits):
        number = float(digits)
        return (
            number
            if math.isfinite(number)
            else fault(f"{_shorten(digits)} is beyond the range of a float")
        )

    try:
        value = json.loads(
            text,
            object_pairs_hook=no_duplicates,
            parse_constant=lambda name: fault(f"{name} is not a finite number"),
            parse_int=parse_integer,
            parse_float=parse_number,
        )
    except json.JSONDecodeError as error:
        why = refused(text[:HEAD].encode("utf-8"), JSON) or f"({error.msg})"
        raise InputError(
            source, f"line {error.lineno} column {error.colno}", f"not JSON {why}"
        ) from None
    except RecursionError:
        raise InputError(source, "", "nested too deeply") from None
    if faults:
        raise InputError(source, _place_of_nan(value) or "(number)", faults[0])
    return Node(value, source)


def _place_of_nan(value: Any) -> str:
    """The field of the first number that is none, in the order of the text."""
    waiting = [(value, "")]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, float) and math.isnan(value):
            return place
        if isinstance(value, dict):
            prefix = place + "." if place else ""
            waiting += [(item, prefix + shown(key, 60)) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(value[i], f"{place}[{i}]") for i in reversed(range(len(value)))]
    return ""


def read_json(path: str | os.PathLike, schema: str | None = None) -> Node:
    """Reads a ``.json`` or ``.json.gz`` file; raises `InputError` where it is missing, truncated,
    not JSON, or, with a `schema`, where its field ``schema`` is not
    ``learned-mapping/SCHEMA/1``."""
    node = parse_json(read_bytes(path), path)
    if schema is not None:
        expect_schema(node, schema)
    return node


@functools.cache
def read_yaml(path: Path) -> Any:
    """A table in YAML that comes with the project; a second reading is the first one's value, not
    to be changed."""
    import yaml

    return yaml.load(
        path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )


def schema_name(node: Node) -> str:
    """The kind of a file: the NAME of ``learned-mapping/NAME/1``."""
    if not isinstance(node.value, dict):
        node.fail("expected a JSON object with a 'schema' field")
    if "schema" not in node.value:
        node.fail("missing field 'schema'")
    schema = Node(node.value["schema"], node.source, "schema")
    match = re.fullmatch("learned-mapping/([^/]*)/1", schema.string())
    if match is None:
        schema.fail(f"expected learned-mapping/NAME/1, got {_shorten(schema.value)}")
    return match[1]


def expect_schema(node: Node, schema: str) -> None:
    """Raises `InputError` unless the file is of the kind `schema`."""
    if schema_name(node) != schema:
        fault = f"expected learned-mapping/{schema}/1, got {_shorten(node.value['schema'])}"
        raise InputError(node.source, "schema", fault)


def write_bytes(path: str | os.PathLike, data: bytes) -> None:
    """Writes a file, or the one a link names, whole or not at all; packed, reproducibly, when its
    name ends in ``.gz``."""
    path = expect_path(path)
    packs, path = path.suffix == ".gz", Path(os.path.realpath(path))
    if packs:
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as stream:
            stream.write(data)
        data = packed.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path.parent)
        handle, temporary = _locked_beside(path)
    except (OSError, ValueError) as error:
        raise InputError(
            path, "", f"cannot be written ({getattr(error, 'strerror', None) or error})"
        ) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(handle)  # or the name may outlive what it names when the power goes
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)  # while it is locked
    except OSError as error:
        raise InputError(path, "", f"cannot be written ({error.strerror})") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


HALF = f".lmap-{re.sub('[^A-Za-z0-9]', '-', socket.gethostname())[:40]}-"
"""What the names of half-written files of this host have in common. Whoever writes one holds a lock
on it."""


def _locked_beside(path: Path) -> tuple[int, str]:
    """The handle and the name of a new file beside a file, locked where the file system knows
    locks."""
    while True:
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:40]}{HALF}", suffix=".tmp"
        )
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(temporary):
            return handle, temporary
        os.close(handle)  # before it was locked, another process took it for a killed writer's


@functools.cache
def _remove_stale(folder: Path) -> None:
    """Removes what killed writers of this host have left in a folder; once in a process. A lock
    that can be had is of none that writes."""
    for path in folder.glob(f".*{HALF}*.tmp"):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder that no other process changes meanwhile, of those that ask; by a file in it where
    the file system locks no folders, as one of several hosts."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            os.close(handle)
            handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def append_line(path: str | os.PathLike, value: Any) -> None:
    """Adds JSON as a line to a file, on the disk before it returns, also beside others who do;
    after a line that was cut off it starts a new one."""
    path = Path(path)
    dumped = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    line = dumped.encode() + b"\n"
    check_writable(path.parent)
    try:
        with locked(path.parent), open(path, "a+b") as stream:
            if stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                line = b"\n" * (stream.read(1) != b"\n") + line
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(path, "", f"cannot be written ({error.strerror})") from None


def check_writable(folder: str | os.PathLike) -> None:
    """Makes a folder where there is none; raises `InputError` where it cannot be written to."""
    folder = expect_path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fault = "" if os.access(folder, os.W_OK | os.X_OK) else "no permission"
    except OSError as error:
        fault = str(error.strerror)
    if fault:
        raise InputError(folder, "", f"cannot be written ({fault})")


def write_json(path: str | os.PathLike, value: Any, *, indent: int | None = None) -> None:
    """Writes JSON atomically; raises ValueError for NaN and infinities rather than write them."""
    separators = (",", ":") if indent is None else None
    dump = functools.partial(
        json.dumps, value, indent=indent, separators=separators, allow_nan=False
    )
    try:
        data = dump(ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # half of a surrogate pair, which JSON can escape and UTF-8 cannot hold
        data = dump().encode()
    write_bytes(path, data + b"\n")


def plain_number(value: float) -> float | int:
    """A number as JSON shows it best: whole ones without a fraction, for shorter files of the same
    value."""
    value = float(value)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
