"""The set ``mcm-headroom``: sixteen test graphs of paper 2 on which the careful greedy rule is not
the optimum.

On half of `mcm-graphs`' test graphs it is, so that nothing can be learned there. Here it leaves at
least a tenth: the optimum's throughput is `LEAST` times the careful greedy's or more, by the
analytical model, on the chips of `mcm_chips`. The optimum must be proven by the dynamic programme
over at most `MAX_IDEALS` ideals. Nothing else decides, and no search or learner is run. Candidates
are looked at in the order of two tables until each has given eight graphs:

- Traced: forward passes of architectures of which no graph of `mcm-graphs` is, in alphabetical
  order, those of a training step with its loss. Each gives one graph, the first of its sizes, from
  large to small, that fulfils the rule.
- Generated: the families of `random_graph` in turn. A family gives the next of its candidates that
  fulfils the rule, from large to small, `COPIES` of each size.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path

import numpy as np

from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.mcm.bounds.optimum import TooManyIdealsError, ideals_of, optimum
from learned_mapping.mcm.rules.fold import fold_cheap_sources
from learned_mapping.mcm.searches.greedy import careful_greedy
from learned_mapping.programs.graph import ComputationGraph, frozen_array
from learned_mapping.programs.synthetic import GRAPH_FAMILIES, random_graph
from learned_mapping_companion.datasets.manifest import Manifest
from learned_mapping_companion.datasets.registry import SETS, Progress

from .building import Items
from .mcm_chips import chip_count
from .mcm_facts import MAX_IDEALS, facts
from .topology import topology_digest
from .zoo import games, recurrent, tabular, transformer
from .zoo.examples import array, inference
from .zoo.models import example, frozen_trace, integers, tensor_game

NAME = "mcm-headroom"
LEAST = 1.10
EACH = 8
"""Traced graphs, and generated ones."""
SEED = 2022  # First entry of every seed; the family's place, the ops and the copy follow.
OPS, COPIES = (120, 80, 60, 40), 10

# Name -> what makes the graph, from large to small.
Candidates = Mapping[str, Callable[[], ComputationGraph]]


def _loss(forward: Callable, *inputs: object, **options: object):
    return inference(partial(forward, **options), *inputs)


def _sizes(pattern: str, sizes: tuple, make: Callable) -> Candidates:
    """A candidate per size, named after it; `made` takes the size to an example."""
    texts = {size: "x".join(map(str, size)) if isinstance(size, tuple) else size for size in sizes}
    names = {pattern.format(text): size for size, text in texts.items()}
    return {name: lambda n=name, s=size: frozen_trace(make(s), n) for name, size in names.items()}


def _stacked(core: str) -> Callable:
    return lambda size: example(core, layers=size[0], steps=size[1])


TRACED: dict[str, Candidates] = {
    "alphatensor": _sizes(
        "alphatensor_{}",
        (2, 1),
        lambda n: _loss(
            games.alphatensor_loss,
            *tensor_game(array),
            iterations=n,
            channels=256,
            policy_width=512,
        ),
    ),
    "alphazero": _sizes(
        "alphazero_{}",
        (8, 4, 2),
        lambda n: _loss(
            games.alphazero_loss, array(64, 19, 19, 17), array(64, 362), array(64), blocks=n
        ),
    ),
    "bert": _sizes("bert_{}", (4, 2, 1), lambda n: example("bert_large_inference", layers=n)),
    "decoder": _sizes("decoder_{}", (4, 2, 1), lambda n: example("decoder_inference", layers=n)),
    "dlrm": _sizes(
        "dlrm_{}",
        (13, 8, 4),
        lambda n: _loss(tabular.dlrm_loss, array(2048, 13), integers(2048, n), array(2048)),
    ),
    "elman_classifier": _sizes(
        "elman_{}", ((3, 4), (3, 3), (2, 4), (2, 3)), _stacked("vanilla_rnn")
    ),
    "gru_classifier": _sizes("gru_{}", ((3, 4), (3, 3), (2, 4), (2, 3)), _stacked("gru")),
    "language_model": _sizes(
        "language_model_{}",
        (4, 2, 1),
        lambda n: _loss(
            transformer.language_model_loss, integers(2, 257), layers=n, vocabulary=8192
        ),
    ),
    "mixer": _sizes("mixer_{}", (4, 2, 1), lambda n: example("mlp_mixer_inference", layers=n)),
    "seq2seq": _sizes(
        "seq2seq_{}",
        (4, 3, 2),
        lambda n: _loss(recurrent.seq2seq_loss, integers(n, 64), integers(n + 1, 64), layers=1),
    ),
    "super_resolution": _sizes(
        "super_resolution_{}", (16, 8, 4), lambda n: example("super_resolution_inference", blocks=n)
    ),
    "tagger": _sizes("tagger_{}", (4, 3, 2), lambda n: example("bidirectional_tagger", steps=n)),
    "vit": _sizes("vit_{}", (4, 2, 1), lambda n: example("vit_inference", layers=n)),
}
"""Architecture -> sizes: blocks, layers, tables, steps, or layers by steps."""


def generated(family: str, ops: int, copy: int) -> ComputationGraph:
    """A candidate; running times are rounded to nanoseconds, so that no machine's exponential
    function changes them."""
    rng = np.random.default_rng([SEED, list(GRAPH_FAMILIES).index(family), ops, copy])
    graph = random_graph(rng, family, ops, name=f"{family}_{ops}_{copy}".replace("-", "_"))
    nanoseconds = np.round(1e9 * graph.op_seconds)
    flop, seconds = (frozen_array(nanoseconds * scale, np.float64) for scale in (1e3, 1e-9))
    return dataclasses.replace(graph, op_flop=flop, op_seconds=seconds)


GENERATED: dict[str, list[Callable[[], ComputationGraph]]] = {
    family: [partial(generated, family, ops, copy) for ops in OPS for copy in range(COPIES)]
    for family in GRAPH_FAMILIES
}


def headroom(graph: ComputationGraph) -> float | None:
    """The optimum's throughput over the careful greedy's; None where no proven optimum is at
    hand."""
    folded = fold_cheap_sources(graph)
    model = ChipModel(folded, ChipPackage(chips=chip_count(folded)))
    try:
        best = optimum(model, ideals=ideals_of(model, MAX_IDEALS))
    except TooManyIdealsError:
        return None
    return model.runtime(careful_greedy(model)) / model.runtime(best)


Found = Iterator[tuple[str, ComputationGraph, float]]


def _fulfilling(family: str, candidates) -> Found:
    for make in candidates:
        graph = make()
        ratio = headroom(graph)
        if ratio is not None and ratio >= LEAST:
            yield family, graph, ratio


def chosen() -> Found:
    """Family, graph and headroom of the set's graphs, in its order."""
    traced = (islice(_fulfilling(name, sizes.values()), 1) for name, sizes in TRACED.items())
    yield from islice(chain.from_iterable(traced), EACH)
    rounds = zip_longest(*(_fulfilling(name, candidates) for name, candidates in GENERATED.items()))
    yield from islice(
        (candidate for candidate in chain.from_iterable(rounds) if candidate is not None), EACH
    )


def build(folder: Path, *, progress: Progress | None = None) -> Manifest:
    """Looks through the candidates and writes those chosen into ``FOLDER/NAME.json.gz``. Some
    minutes."""
    items = Items(folder, 2 * EACH, progress)
    for family, graph, ratio in chosen():
        kind = "generated" if family in GENERATED else "traced"
        measured = facts(graph) | {
            "optimum_over_careful": round(ratio, 4),
            "topology": topology_digest(graph),
        }
        items.add(
            f"{graph.name}.json.gz", graph, split="test", family=family, kind=kind, **measured
        )
    kinds = [item.facts["kind"] for item in items]
    counts = {f"graphs_{kind}": kinds.count(kind) for kind in ("traced", "generated")}
    return Manifest(
        NAME, SETS[NAME].about, SEED, tuple(items), {"least_optimum_over_careful": LEAST, **counts}
    )
