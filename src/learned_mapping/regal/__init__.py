"""Paper 3: the device of each op and the order of the ops (REGAL)."""

from typing import TYPE_CHECKING

from learned_mapping.lazy import lazily
from learned_mapping.regal.validate import validate

if TYPE_CHECKING:
    from learned_mapping.hardware.devices import Devices
    from learned_mapping.regal import env
    from learned_mapping.regal.methods import METHODS, PROBLEM, solve
    from learned_mapping.regal.rules.instance import Instance
    from learned_mapping.regal.schedule import Schedule

__all__ = ["METHODS", "PROBLEM", "Devices", "Instance", "Schedule", "env", "solve", "validate"]

__getattr__, __dir__ = lazily(
    __name__,
    env="env",
    solve="methods",
    METHODS="methods",
    PROBLEM="methods",
    Devices="rules.instance",
    Schedule="schedule",
    Instance="rules.instance",
    decode="rules.decode",
)
