"""Public models at realistic shapes, each a JAX function with abstract arguments: nothing is
allocated.

`ZOO` is the registry. ``graph("bert_large_inference")`` traces a member, ``example("lstm",
steps=20)`` gives its function and arguments with other options than the defaults.
"""

from learned_mapping.doors.user_function import Example

from .models import ZOO, Model, example, frozen_trace, graph, program

__all__ = ["ZOO", "Example", "Model", "example", "frozen_trace", "graph", "program"]
