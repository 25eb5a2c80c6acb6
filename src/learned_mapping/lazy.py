"""Names of a package that are imported when they are asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, **homes: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are asked
    for.

    Args:
      homes: public name -> the module of the package that it stands in, or is.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        is_module = homes[name].rpartition(".")[2] == name and not hasattr(module, name)
        return module if is_module else getattr(module, name)

    return find, lambda: sorted({*vars(import_module(package)), *homes})
