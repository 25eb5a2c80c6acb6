"""Learned Mapping: reinforcement learning inside ML compilers, reproduced so that it runs."""

__version__ = "0.1.0"
