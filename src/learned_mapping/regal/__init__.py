"""Paper 3: the device of each op and the order of the ops (REGAL)."""

from importlib import import_module

from learned_mapping.regal.validate import validate

__all__ = ["METHODS", "PROBLEM", "Instance", "Schedule", "env", "solve", "validate"]

_HOMES = {
    "solve": "methods",
    "METHODS": "methods",
    "PROBLEM": "methods",
    "Schedule": "schedule",
    "Instance": "rules.instance",
}
"""Public name -> the module of this package it stands in; imported when it is asked for."""


def __getattr__(name: str):
    if name == "env":
        return import_module("learned_mapping.regal.env")
    if name in _HOMES:
        return getattr(import_module(f"learned_mapping.regal.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'learned_mapping.regal' has no attribute {name!r}")
