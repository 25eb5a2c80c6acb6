"""The sixty workloads: names and kinds, and functions that trace; the compiler itself is not
needed."""

import inspect

import jax
import pytest
from learned_mapping_builders import workloads

from learned_mapping.errors import InputError

BENCHMARK, FLEET, WORKLOADS = workloads.BENCHMARK, workloads.FLEET, workloads.WORKLOADS
TRACED = (
    "inference_mobilenet",
    "inference_gru",
    "alexnet_train_batch_32",
    "rnn_4",
    "fleet_decoder_batch_32",
)


def test_sixty_of_two_kinds():
    """Would catch a workload lost, or one written twice under another name."""
    kinds = [w.kind for w in WORKLOADS.values()]
    assert (kinds.count(BENCHMARK), kinds.count(FLEET), len(kinds)) == (52, 8, 60)
    assert all(name == w.name for name, w in WORKLOADS.items())
    assert len({(w.model, repr(sorted(w.options.items()))) for w in WORKLOADS.values()}) == 60


def test_all_are_of_the_zoo_and_of_many_families():
    """Would catch a set that repeats a handful of models with other numbers."""
    models = [w.model for w in WORKLOADS.values()]
    assert set(models) <= set(workloads.MODELS)
    assert len(set(models)) >= 40


@pytest.mark.parametrize("name", TRACED)
def test_functions_trace_on_flat_arguments(name):
    """Would catch options that do not fit the model, arguments that are not arrays, and donation of
    the wrong ones."""
    alive = len(jax.live_arrays())
    function, arguments, donated = workloads.function_and_arguments(name)
    results = jax.eval_shape(function, *arguments)
    assert len(jax.live_arrays()) == alive
    assert all(isinstance(a, jax.ShapeDtypeStruct) for a in arguments)
    returned = [(r.shape, r.dtype) for r in results]
    # every donated array is given back with the same shape, or its memory could not be taken over
    for i in donated:
        returned.remove((arguments[i].shape, arguments[i].dtype))
    assert bool(donated) == ("train" in name or name in ("rnn_4", "fleet_decoder_batch_32"))


def test_names_and_options_are_checked():
    """Would catch a traceback for a mistyped name, and options that the builder takes under another
    name."""
    with pytest.raises(InputError, match="rnn_7"):
        workloads.workload("rnn_8")
    for w in WORKLOADS.values():
        assert not isinstance(w.options, dict)  # frozen like the rest
        inspect.signature(workloads.MODELS[w.model].build).bind(**w.options)
