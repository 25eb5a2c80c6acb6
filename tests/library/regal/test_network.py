import jax
import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.checkpoint import read_checkpoint, write_checkpoint
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.forward import MODELS, logits, model_of
from learned_mapping.regal.agent.learner import Learner, read_learner, write_learner
from learned_mapping.regal.agent.network import (
    ROUNDS,
    initial_parameters,
    make_batch,
    network,
)
from learned_mapping.regal.rules.instance import Instance


@pytest.fixture(scope="module")
def graphs():
    return [
        features(Instance(random_graph(np.random.default_rng(n), "layered", n))) for n in (1, 9, 33)
    ]


def noisy_parameters(model, batch):
    """Away from the zeros and ones of the start, which would hide a mistake."""
    rng = np.random.default_rng(1)
    drawn = initial_parameters(model, batch, np.random.default_rng(0))
    return jax.tree_util.tree_map(
        lambda v: (v + 0.1 * rng.standard_normal(v.shape)).astype(np.float32), drawn
    )


@pytest.mark.parametrize("model", MODELS)
def test_numpy_computes_what_haiku_computes(model, graphs):
    """Also that padding and the other graphs of a batch change nothing."""
    batch = make_batch(graphs)
    parameters = noisy_parameters(model, batch)
    together = np.asarray(jax.jit(network(model).apply)(parameters, batch))
    offset = 0
    for seen in graphs:
        alone = logits(parameters, seen, ROUNDS)
        np.testing.assert_allclose(alone, together[offset : offset + len(alone)], atol=1e-5)
        assert np.abs(alone).max() > 0.1
        offset += len(alone)


def test_messages_go_both_ways(graphs):
    """An attribute of the last op must reach the first, and the reverse; catches one direction
    only."""
    seen = graphs[-1]
    parameters = noisy_parameters("gnn", make_batch([seen]))
    start = logits(parameters, seen, ROUNDS)
    first, last = int(seen.senders[0]), int(seen.receivers[0])
    for changed, read in ((first, last), (last, first)):
        nodes = seen.nodes.copy()
        nodes[changed, 0] += 1.0
        assert (
            np.abs(logits(parameters, seen._replace(nodes=nodes), 1)[read] - start[read]).max()
            > 1e-4
        )


@pytest.mark.parametrize("model", MODELS)
def test_a_checkpoint_comes_back_the_same(model, graphs, tmp_path):
    learner = Learner(
        noisy_parameters(model, make_batch(graphs)), ROUNDS, "memory", "traced-memory", 3
    )
    write_learner(tmp_path / "x.npz", learner)
    actual = read_learner(tmp_path / "x.npz")
    assert (model_of(actual.parameters), actual.objective, actual.seed) == (model, "memory", 3)
    np.testing.assert_array_equal(
        logits(actual.parameters, graphs[1], ROUNDS),
        logits(learner.parameters, graphs[1], ROUNDS),
    )


def test_unusable_checkpoints_are_refused(graphs, tmp_path):
    """Other features, an array missing, of another shape, or not a number: one clear line, no wrong
    law."""
    learner = Learner(
        noisy_parameters("gnn", make_batch(graphs)), ROUNDS, "memory", "traced-memory", 3
    )
    write_learner(tmp_path / "good.npz", learner)
    arrays, header = read_checkpoint(tmp_path / "good.npz")
    name = "node_update/mlp_0:w"
    faults = {
        "features": (arrays, header | {"node_features": ["seconds"]}),
        "missing": ({k: v for k, v in arrays.items() if k != name}, header),
        "shape": (arrays | {name: arrays[name][1:]}, header),
        "nan": (arrays | {name: arrays[name] * np.float32(np.nan)}, header),
        "objective": (arrays, header | {"objective": "energy"}),
    }
    for fault, (some, head) in faults.items():
        write_checkpoint(tmp_path / f"{fault}.npz", some, head)
        with pytest.raises(InputError, match=f"{fault}.npz"):
            read_learner(tmp_path / f"{fault}.npz")
