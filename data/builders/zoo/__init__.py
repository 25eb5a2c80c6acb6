"""Public models at realistic shapes, each a JAX function with abstract arguments: nothing is allocated.

`ZOO` is the registry. ``graph("bert_large_inference")`` traces a member, ``example("lstm",
steps=20)`` gives its function and arguments with other options than the defaults.
"""

from learned_mapping.programs.trace.user_function import Example as Example

from .models import ZOO as ZOO
from .models import Model as Model
from .models import example as example
from .models import frozen_trace as frozen_trace
from .models import graph as graph
from .models import program as program
