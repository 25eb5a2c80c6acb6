"""The registry of the zoo: names as the papers have them, default options, and where each model comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import optax

from learned_mapping.errors import InputError
from learned_mapping.programs.graph import ComputationGraph
from learned_mapping.programs.program import Program
from learned_mapping.programs.schedule import schedule
from learned_mapping.programs.trace import trace
from learned_mapping.programs.zoo.alexnet import alexnet_loss
from learned_mapping.programs.zoo.bert import bert_question_answering
from learned_mapping.programs.zoo.model import Example, array, inference, train_step


@dataclass(frozen=True)
class Model:
    """One member of the zoo."""

    build: Callable[..., Example]
    """Makes the example; its keyword arguments, all with defaults, are the model's options."""
    source: str
    """The publication."""


def _alexnet_train(batch: int = 32, classes: int = 1000) -> Example:
    return train_step(
        alexnet_loss,
        array(batch, 224, 224, 3),
        array(batch, dtype=jnp.int32),
        optimiser=optax.sgd(0.01, momentum=0.9),
        random=True,
    )


def _bert_inference(
    batch: int = 1, length: int = 384, layers: int = 24, width: int = 1024, heads: int = 16, vocabulary: int = 30_522
) -> Example:
    tokens = array(batch, length, dtype=jnp.int32)

    def forward(tokens: Any, segments: Any, mask: Any) -> Any:
        return bert_question_answering(
            tokens, segments, mask, layers=layers, width=width, heads=heads, vocabulary=vocabulary
        )

    return inference(forward, tokens, tokens, tokens)


ZOO: dict[str, Model] = {
    "alexnet_train_batch_32": Model(_alexnet_train, "Krizhevsky et al. 2012, ImageNet classification with deep CNNs"),
    "bert_large_inference": Model(_bert_inference, "Devlin et al. 2018, BERT"),
}
"""Members by name."""


def example(name: str, **options: Any) -> Example:
    """A member's function and abstract arguments.

    Args:
      name: a key of `ZOO`.
      **options: keyword arguments of the member's `build`.

    Raises:
      InputError: unknown member or option.
    """
    if name not in ZOO:
        raise InputError("zoo", "", f"no model is named {name!r}, known are {', '.join(ZOO)}")
    known = inspect.signature(ZOO[name].build).parameters
    for option in options:
        if option not in known:
            raise InputError("zoo", name, f"no option is named {option!r}, known are {', '.join(known)}")
    return ZOO[name].build(**options)


def graph(name: str, **options: Any) -> ComputationGraph:
    """The computation graph of a member, its parameters folded; raises `InputError` as `example`."""
    model = example(name, **options)
    return trace(model.function, *model.args, name=name, parameters=model.parameters)


def program(name: str, machine: Any, **options: Any) -> Program:
    """The scheduled program of a member on a machine (see `schedule`); raises `InputError` as `example`."""
    model = example(name, **options)
    return schedule(model.function, *model.args, machine=machine, name=name, donated=model.donated)
