"""``lmap extract`` and ``lmap price``: programs and prices from the TPU compiler."""

from typing import Any


def extract(options: Any) -> int:
    """Compiles a user's function with the TPU compiler and writes its memory-mapping game."""
    from learned_mapping_companion.datasets.registry import builder

    return builder("tpu.commands").extract(options)


def price(options: Any) -> int:
    """Has the TPU compiler price mappings of a program, beside everything in HBM and its own
    mapping."""
    from learned_mapping_companion.datasets.registry import builder

    return builder("tpu.commands").price(options)
