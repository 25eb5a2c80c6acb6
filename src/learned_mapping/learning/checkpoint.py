"""Checkpoints: one npz file of named arrays and a JSON header, written whole or not at all, never
pickled."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.programs.json_io import write_bytes

HEADER = "header.json"
SCHEMA = "learned-mapping/checkpoint/1"
MAX_BYTES = 2**31
MAX_HEADER = 2**24  # Bytes of the header's text, whose values take many times as much.


def write_checkpoint(
    path: str | os.PathLike, arrays: dict[str, np.ndarray], header: dict[str, Any]
) -> None:
    """Writes arrays and a JSON header atomically; the same content gives the same bytes.

    Raises:
      InputError: an array holds objects, the header is not JSON, or the file cannot be written.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise InputError(path, name, "arrays of objects cannot be stored")
    try:
        text = json.dumps({"schema": SCHEMA, **header}, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(path, "header", f"is not JSON ({error})") from None
    packed = io.BytesIO()
    named: dict[str, Any] = {HEADER: np.frombuffer(text.encode(), np.uint8), **arrays}
    np.savez(packed, **named)
    write_bytes(path, packed.getvalue())


def read_checkpoint(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the header of a checkpoint.

    Raises:
      InputError: the file is missing, damaged, or no checkpoint.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(path, "", f"larger than {MAX_BYTES} bytes")
        with np.load(path, allow_pickle=False) as stored:
            parts = stored.zip.infolist()
            unpacked = sum(entry.file_size for entry in parts)
            if unpacked > size:
                raise InputError(
                    path, "", f"{unpacked} bytes once unpacked, and a checkpoint is never packed"
                )
            text = max(
                (entry.file_size for entry in parts if entry.filename.startswith(HEADER)), default=0
            )
            if text > MAX_HEADER:
                raise InputError(path, HEADER, f"{text} bytes, at most {MAX_HEADER} are supported")
            header = _header(stored, path)
            arrays = {name: stored[name] for name in stored.files if name != HEADER}
    except OSError as error:
        raise InputError(path, "", f"cannot be read ({error.strerror or error})") from None
    except InputError:
        raise
    except Exception as error:  # what unpacking damaged bytes may raise is nowhere written down
        fault = "no zip file of arrays" if isinstance(error, ValueError | TypeError) else error
        raise InputError(path, "", f"is no checkpoint ({fault})") from None
    return arrays, header


def _header(stored: Any, path: Path) -> dict[str, Any]:
    """The header of an open file; before any of its arrays is read."""
    try:
        header = json.loads(stored[HEADER].tobytes())
        schema = header.pop("schema")
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(path, HEADER, f"is missing or damaged ({error})") from None
    if schema != SCHEMA:
        raise InputError(path, "schema", f"{schema!r}, expected {SCHEMA!r}")
    return header


def flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """The leaves of a pytree as arrays, named after `prefix` and their place in it."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(
    template: Any, arrays: dict[str, np.ndarray], prefix: str, source: object = "checkpoint"
) -> Any:
    """A pytree of the template's structure with the arrays that `flatten` named.

    Raises:
      InputError: an array is missing or of another shape or type than the template's.
    """
    import jax

    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = prefix + jax.tree_util.keystr(path)
        if name not in arrays:
            raise InputError(source, name, "is missing")
        array, expected = arrays[name], np.asarray(leaf)
        if array.shape != expected.shape or array.dtype != expected.dtype:
            fault = (
                f"{array.dtype}{list(array.shape)}, expected {expected.dtype}{list(expected.shape)}"
            )
            raise InputError(source, name, fault)
        restored.append(array)
    return jax.tree_util.tree_unflatten(structure, restored)
