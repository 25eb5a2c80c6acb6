"""The device that JAX computes on: its own choice, or the platform that somebody names."""

from collections.abc import Iterator
from contextlib import contextmanager

from learned_mapping.errors import InputError

AUTO = "auto"
"""JAX's own choice: an accelerator where there is one."""


@contextmanager
def on_device(name: str | None) -> Iterator[None]:
    """A context in which JAX computes on the first device of a platform: ``cpu``, ``gpu``, ``tpu``,
    `AUTO` or None.

    Raises:
      InputError: JAX does not have the platform here.
    """
    if name is None or name == AUTO:
        yield
        return
    import jax

    try:
        device = jax.devices(name)[0] if name else None
    except RuntimeError:
        device = None
    if device is None:
        there = sorted({"cpu"} | {known.platform for known in jax.devices()})
        raise InputError(
            "--device", "", f"JAX has no platform {name!r} here; it has {', '.join(there)}"
        )
    with jax.default_device(device):
        yield
