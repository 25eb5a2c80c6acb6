"""Checkpoints: whole, repeatable, and nothing that could run code."""

from typing import NamedTuple

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import flatten, read_checkpoint, unflatten, write_checkpoint


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
    with open(path, "wb") as stream:
        np.savez(stream, a=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="no checkpoint"):
        read_checkpoint(path)
    with open(path, "wb") as stream:
        np.savez(stream, a=np.zeros(2))
    with pytest.raises(InputError, match="header"):
        read_checkpoint(path)


def test_other_shapes_are_refused():
    arrays = flatten(TREE, "t")
    with pytest.raises(InputError, match="expected float64"):
        unflatten(Pair({"w": np.zeros((3, 2)), "b": np.float32(0)}, TREE.two), arrays, "t")
    with pytest.raises(InputError, match="missing"):
        unflatten(TREE, {}, "t")
