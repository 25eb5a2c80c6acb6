"""A policy's numbers do not depend on how many cores the process may use."""

import os
import subprocess
import sys

import pytest

GRADIENT = """
import os, sys
os.sched_setaffinity(0, set(map(int, sys.argv[1].split(","))))
import learned_mapping
import hashlib, jax, numpy as np
draw = np.random.default_rng(0)
x, w = (draw.normal(size=shape).astype(np.float32) for shape in ((1500, 256), (256, 256)))
found = jax.jit(jax.grad(lambda w: jax.numpy.mean(jax.nn.log_softmax(x @ w) ** 2)))(w)
print(hashlib.sha256(np.asarray(found).tobytes()).hexdigest())
"""


def test_one_core_and_all_cores_give_the_same_bits():
    """Catches XLA cutting sums by the cores it sees, which moved a policy's samples on a machine
    shared otherwise."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core only")
    cores = sorted(os.sched_getaffinity(0))
    free = {name: value for name, value in os.environ.items() if name != "NPROC"}
    command, options = [sys.executable, "-c", GRADIENT], {"check": True, "text": True, "env": free}
    choices = [",".join(map(str, of)) for of in (cores[:1], cores)]
    actual = {
        subprocess.run([*command, of], stdout=subprocess.PIPE, **options).stdout for of in choices
    }
    assert len(actual) == 1 and len(actual.pop()) == 65
