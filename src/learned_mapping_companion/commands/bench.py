"""``lmap bench`` in a checkout, where a better mapping is entered."""

from typing import Any

from learned_mapping.cli import bench as library


def bench(options: Any) -> int:
    """The library's command, with the standings open for entries."""
    from learned_mapping_companion.mmap.bench import submit

    return library.bench(options, submit)
