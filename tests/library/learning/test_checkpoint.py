"""Checkpoints: whole, repeatable, and nothing that could run code."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import (
    flatten,
    read_checkpoint,
    unflatten,
    write_checkpoint,
)


class Pair(NamedTuple):
    one: dict
    two: tuple


TREE = Pair({"w": np.arange(6.0).reshape(2, 3), "b": np.float32(2)}, (np.array([True]), ()))


def test_trees_come_back(tmp_path):
    """Catches names that collide and types that change on the way."""
    path = tmp_path / "x.npz"
    write_checkpoint(path, flatten(TREE, "t"), {"count": 3})
    first = path.read_bytes()
    arrays, header = read_checkpoint(path)
    assert header == {"count": 3}
    actual = unflatten(TREE, arrays, "t")
    assert isinstance(actual, Pair) and actual.two[1] == ()
    np.testing.assert_array_equal(actual.one["w"], TREE.one["w"])
    assert actual.one["b"].dtype == np.float32
    write_checkpoint(path, flatten(TREE, "t"), {"count": 3})
    assert path.read_bytes() == first


def test_unusable_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(InputError, match="cannot be read"):
        read_checkpoint(path)
    with pytest.raises(InputError, match="objects"):
        write_checkpoint(path, {"a": np.array([object()])}, {})
    with pytest.raises(InputError, match="not JSON"):
        write_checkpoint(path, {}, {"a": float("nan")})
    assert not path.exists()
    write_checkpoint(path, {"a": np.zeros(3)}, {})
    whole = path.read_bytes()
    for bad in (whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(bad)
        with pytest.raises(InputError, match=r"x\.npz"):
            read_checkpoint(path)
    header = np.frombuffer(b'{"schema": "learned-mapping/checkpoint/1"}', np.uint8)
    with open(path, "wb") as stream:
        np.savez(stream, **{"header.json": header}, a=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="no checkpoint"):
        read_checkpoint(path)
    with open(path, "wb") as stream:
        np.savez(stream, a=np.zeros(2))
    with pytest.raises(InputError, match="header"):
        read_checkpoint(path)


@pytest.mark.parametrize("bomb", ["arrays", "header"])
def test_a_checkpoint_costs_no_more_than_it_is_large(tmp_path, bomb):
    """Catches a file of 64 KB that unpacks to 64 MB before it is refused, and a header of as much
    text: what is written is never packed, so that nothing needs more memory than the file has
    bytes."""
    path, text = tmp_path / "x.npz", b'{"schema": "learned-mapping/checkpoint/1"}'
    if bomb == "arrays":
        np.savez_compressed(
            path, **{"header.json": np.frombuffer(text, np.uint8)}, a=np.zeros(2**23)
        )
    else:
        np.savez(path, **{"header.json": np.full(2**25, ord(" "), np.uint8)}, a=np.zeros(2))
    tracemalloc.start()
    with pytest.raises(
        InputError, match="never packed" if bomb == "arrays" else "at most 16777216"
    ):
        read_checkpoint(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_other_shapes_are_refused():
    arrays = flatten(TREE, "t")
    with pytest.raises(InputError, match="expected float64"):
        unflatten(Pair({"w": np.zeros((3, 2)), "b": np.float32(0)}, TREE.two), arrays, "t")
    with pytest.raises(InputError, match="missing"):
        unflatten(TREE, {}, "t")
