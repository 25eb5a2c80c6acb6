"""Models: known sizes and costs of those published, and one conformance test for every one of the
zoo and of a set."""

import time

import jax
import numpy as np
import pytest
from learned_mapping_builders import mcm_members, workload_models, zoo

from learned_mapping.errors import InputError
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import schedule

MODELS = workload_models.MODELS | mcm_members.MODELS
SMALL = {
    "xception": {"middle": 1},
    "very_deep_text_classifier": {"depth": 9},
    "captioner": {"frames": 2, "words": 2},
    "character_generator": {"steps": 2},
    "highway_forecaster": {"steps": 2},
    "weather_forecaster": {"steps": 2},
    "wavenet_coherent_batch32": {"cycles": 1, "dilations": 2, "batch": 2, "samples": 32},
    "wavenet_inference": {"cycles": 1, "dilations": 2, "samples": 32},
    "AlphaTensor": {"iterations": 1, "policy_layers": 1},
    "tensor2tensor_transformer_bf16": {"layers": 1},
    "transformer_train": {"layers": 1},
    "resnet50_inference": {"depth": 14},
    "resnet50_train": {"batch": 2, "depth": 14},
    "densenet121_train": {"blocks": (1, 1)},
    "inception_inference": {"blocks": ((64, 96, 128, 16, 32, 32),)},
    "inception_train": {"blocks": ((64, 96, 128, 16, 32, 32),)},
    "unet_train": {"depth": 2},
    "unet_inference": {"depth": 2},
    "mlp_mixer_inference": {"layers": 1},
    "mnasnet_train": {"stages": ((3, 24, 2, 2, 3),)},
    "efficientnet_train": {"stages": ((6, 24, 2, 2, 3),)},
    "shufflenet_train": {"stages": ((116, 2),)},
    "convnext_train": {"stages": ((96, 1),)},
    "vit_train": {"layers": 1},
    "super_resolution_train": {"blocks": 1},
    "super_resolution_inference": {"blocks": 1},
    "alphazero_train": {"blocks": 1},
    "bert_train": {"layers": 1},
    "mixture_of_experts_train": {"layers": 1},
    "decoder_inference": {"layers": 2},
    "language_model_train": {"steps": 3},
    "seq2seq_train": {"length": 2, "layers": 1},
    "nmt_train": {"length": 2, "layers": 2},
    "vanilla_rnn": {"steps": 3},
    "tcn_train": {"levels": 2},
    "tabnet_train": {"steps": 1},
    "graph_network_train": {"steps": 1},
    "dlrm_train": {"tables": 3},
    "bert_large_inference": {"layers": 1},
    "densenet121_inference": {"blocks": (2, 2)},
    "lstm": {"steps": 3},
    "gru": {"steps": 3},
    "bidirectional_tagger": {"steps": 3},
}
"""Options that keep the conformance test quick."""


PUBLISHED = (
    ("vgg16_inference", 138.36e6, 2 * 15.47),
    ("resnet50_inference", 25.56e6, 2 * 4.09),
    ("mobilenet_inference", 4.23e6, 2 * 0.569),
    ("squeezenet_inference", 1.24e6, 2 * 0.352),
    ("inception_inference", 7.0e6, 2 * 1.58),
    ("lenet_inference", 61.7e3, 2 * 0.000417),
    ("mlp_mixer_inference", 18.53e6, 2 * 3.78),
    ("mnasnet_inference", 4.38e6, 2 * 0.315),
    ("efficientnet_inference", 5.29e6, 2 * 0.386),
    ("shufflenet_inference", 2.28e6, 2 * 0.146),
    ("vit_inference", 86.57e6, 2 * 17.58),
    ("convnext_inference", 28.59e6, 2 * 4.46),
)
"""Member, parameters, and GFLOP of the products for one image: two for each multiply-add."""

TWINS = {
    name
    for name in MODELS
    if name.endswith("_train") and name.replace("_train", "_inference") in MODELS
}
"""Members that train a model whose inference is a member as well."""
SCHEDULED = (
    "alexnet_train_batch_32",
    "wavenet_coherent_batch32",
    "AlphaTensor",
    "tensor2tensor_transformer_bf16",
    "transformer_train",
    "resnet50_train",
    "bert_large_inference",
    "alexnet_inference",
    "lenet_inference",
    "vgg16_inference",
    "squeezenet_inference",
    "mobilenet_inference",
    "unet_inference",
    "densenet121_inference",
    "resnet50_inference",
    "inception_inference",
    "mlp_mixer_inference",
    "wavenet_inference",
    "lstm",
    "gru",
    "bidirectional_tagger",
    "decoder_inference",
    "language_model_train",
    "mnasnet_train",
)
SCHEDULED_ONLY = {
    "alexnet_train_batch_32",
    "wavenet_coherent_batch32",
    "AlphaTensor",
    "tensor2tensor_transformer_bf16",
    "transformer_train",
}
"""Large training steps, of which scheduling traces as much as a graph would."""


@pytest.mark.parametrize("name", sorted(TWINS))
def test_training_steps_of_known_models(name):
    """Would catch a model that cannot be trained; its forward pass is checked by its twin."""
    alive = len(jax.live_arrays())
    model = MODELS[name].build(**SMALL.get(name, {}))
    assert len(jax.live_arrays()) == alive
    assert model.donated == model.parameters == (0, 1, 2)
    assert jax.tree_util.tree_leaves(model.args[0])


@pytest.mark.parametrize(
    "name", sorted(set(MODELS) - SCHEDULED_ONLY - {row[0] for row in PUBLISHED} - TWINS)
)
def test_every_other_member_traces(name):
    """Would catch a member that allocates arrays, has no parameters or loses its arithmetic."""
    alive = len(jax.live_arrays())
    model = MODELS[name].build(**SMALL.get(name, {}))
    graph = trace(model.function, *model.args, name=name, parameters=model.parameters)
    assert len(jax.live_arrays()) == alive
    assert graph.name == name
    assert graph.op_flop.sum() > 0 and graph.metadata["parameters"] > 0


def test_every_member_has_a_source():
    """Would catch a model without its publication."""
    assert len(MODELS) >= 60
    assert all(model.source for model in MODELS.values())


@pytest.mark.parametrize("name", SCHEDULED)
def test_members_are_scheduled(name):
    """Would catch a member that allocates, gains nothing from fast memory, or donates in vain."""
    alive = len(jax.live_arrays())
    model = MODELS[name].build(**SMALL.get(name, {}))
    program = schedule(
        model.function, *model.args, machine=MemoryHierarchy(), name=name, donated=model.donated
    )
    assert len(jax.live_arrays()) == alive
    assert program.name == name
    assert program.num_instructions > 5
    assert bool(program.num_alias_groups) == bool(model.donated)
    assert program.possible_saving_s > 0


@pytest.mark.parametrize(("name", "parameters", "gigaflop"), PUBLISHED)
def test_sizes_and_costs_are_those_published(name, parameters, gigaflop):
    """Would catch a missing layer, a wrong stride or a wrong kernel; published parameters and
    multiply-adds."""
    alive = len(jax.live_arrays())
    graph = zoo.graph(name, batch=1)
    assert len(jax.live_arrays()) == alive
    products = np.isin(graph.op_kinds, ["dot_general", "conv_general_dilated"])
    assert graph.metadata["parameters"] == pytest.approx(parameters, rel=0.03)
    assert graph.op_flop[products].sum() / 1e9 == pytest.approx(gigaflop, rel=0.03)


def test_shapes_of_results():
    """Would catch a feature map lost from SSD, a wrong stride of a decoder, and pixels that are not
    spread out."""
    ssd, larger = (
        zoo.example("ssd_inference", batch=1),
        zoo.example("super_resolution_inference", batch=1, blocks=1),
    )
    boxes, scores = jax.eval_shape(ssd.function, *ssd.args)
    assert (boxes.shape, scores.shape) == ((1, 8732, 4), (1, 8732, 81))
    assert jax.eval_shape(larger.function, *larger.args).shape == (1, 256, 256, 3)
    step = zoo.example("decoder_inference", batch=2, layers=1, room=16)
    scores, cache = jax.eval_shape(step.function, *step.args)
    assert (
        scores.shape == (2, 50_257)
        and [c.shape for pair in cache for c in pair] == [(2, 12, 16, 64)] * 2
    )


def test_bert_large():
    """Would catch a BERT that is not BERT-large, allocates its parameters, or takes half a minute
    to trace."""
    alive, start = len(jax.live_arrays()), time.process_time()
    graph = zoo.graph("bert_large_inference")
    assert time.process_time() - start < 30
    assert len(jax.live_arrays()) == alive
    assert graph.num_ops == pytest.approx(2138, rel=0.05)
    assert graph.metadata["parameters"] == pytest.approx(340e6, rel=0.05)
    assert graph.op_weight_bytes.sum() == pytest.approx(4 * graph.metadata["parameters"], rel=0.01)
    sources = set(range(graph.num_ops)) - set(graph.edge_consumer.tolist())
    assert {graph.op_kinds[op] for op in sources} == {"input"}
    assert np.isin(np.arange(graph.num_ops), graph.op_edges).all()


def test_unknown_members_and_options_are_input_errors():
    """Would catch a traceback for a mistyped name."""
    with pytest.raises(InputError, match="lstm"):
        zoo.example("lstn")
    wrong = (
        ("lstm", {"stepps": 3}),
        ("alexnet_train_batch_32", {"depth": 3}),
        ("vgg16_inference", {"depth": 12}),
    )
    for name, options in wrong:
        with pytest.raises(InputError):
            zoo.graph(name, **options)
