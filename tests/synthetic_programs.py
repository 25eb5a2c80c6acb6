"""The generator of programs, which stands among the builders and is no part of the package."""

from learned_mapping.companion.datasets.registry import builder

_BUILDER = builder("synthetic_programs")
random_program, peak_live_bytes, SyntheticMachine = (
    getattr(_BUILDER, name) for name in ("random_program", "peak_live_bytes", "SyntheticMachine")
)
