"""The package's own exceptions. Each is raised where the fault enters and reads as one line."""

from __future__ import annotations


class LearnedMappingError(Exception):
    """Base of every exception this package raises on purpose."""


class InputError(LearnedMappingError):
    """A file, an argument or a value from outside is unusable.

    Args:
      source: the file's path, or the name of the argument.
      field: where in it, such as ``tensors[3].bytes``; empty when the whole is at fault.
      fault: what is wrong, with the offending value.
    """

    def __init__(self, source: object, field: str, fault: str):
        self.source = str(source)
        self.field = field
        self.fault = fault
        super().__init__(": ".join(part for part in (self.source, field, fault) if part).replace("\n", " "))


class MissingNetworkError(InputError):
    """A method asks a trained network that is not there."""


class UnfinishedError(LearnedMappingError):
    """There is more to do than was done; what is done is kept, and the same call goes on with it."""
