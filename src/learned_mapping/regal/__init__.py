"""Paper 3: the device of each op and the order of the ops (REGAL)."""

from learned_mapping import lazily
from learned_mapping.regal.validate import validate

__all__ = ["METHODS", "PROBLEM", "Instance", "Schedule", "env", "solve", "validate"]

__getattr__ = lazily(
    __name__,
    env="env",
    solve="methods",
    METHODS="methods",
    PROBLEM="methods",
    Schedule="schedule",
    Instance="rules.instance",
)
