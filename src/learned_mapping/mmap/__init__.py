"""Paper 1: which buffers live in fast memory, when, and at what offset (the MMapGame)."""

from importlib import import_module

from learned_mapping.mmap.validate import validate

__all__ = ["METHODS", "PROBLEM", "Mapping", "env", "solve", "validate"]

_HOMES = {
    "solve": "methods",
    "METHODS": "methods",
    "PROBLEM": "methods",
    "Mapping": "mapping",
}
"""Public name -> the module of this package it stands in; imported when it is asked for."""


def __getattr__(name: str):
    if name == "env":
        return import_module("learned_mapping.mmap.env")
    if name in _HOMES:
        return getattr(import_module(f"learned_mapping.mmap.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'learned_mapping.mmap' has no attribute {name!r}")
