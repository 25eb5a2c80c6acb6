"""Paper 2's Figures 1, 3 and 4: the method, the network of its policy, and pre-training.

Every number comes from the rows of ``mcm.fig1``, ``mcm.fig3`` and ``mcm.fig4``; in brackets that of the profile `paper`
where it is another.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from learned_mapping.companion.figures.charts import Canvas
from learned_mapping.style import PALETTE

LEARNED, SOLVED, JUDGED, GIVEN = PALETTE[0], PALETTE[2], PALETTE[1], PALETTE[7]
"""What is learned, what the solver does, what judges, and what is given."""
PAPER = "paper"


class _Numbers:
    """The numbers of a result, as text."""

    def __init__(self, result: Mapping[str, Any]):
        self.profiles = list(dict.fromkeys(row["instance"] for row in result["rows"]))
        self.shown = self.profiles[0]
        rows = [row for row in result["rows"] if "module" not in row]
        self._values = {(row["instance"], row["metric"]): row["value"] for row in rows}

    def __getitem__(self, name: str) -> str:
        """``3 (8)``: of the profile shown, and in brackets of `PAPER` where that differs."""
        own, paper = self._values[self.shown, name], self._values.get((PAPER, name))
        text = _text(own)
        return text if paper is None or paper == own else f"{text} ({_text(paper)})"

    def value(self, name: str) -> Any:
        return self._values[self.shown, name]


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


def method(result: Mapping[str, Any]) -> Figure:
    """Figure 1: the policy proposes, the solver repairs, the evaluation pays.

    Args:
      result: of ``mcm.fig1``.
    """
    of = _Numbers(result)
    draw = Canvas(3.1)
    y, tall = 2.2, 1.15
    solver = {
        "fix": "FIX keeps the chips of y\nthat a valid partition\ncan have, draws the rest",
        "sample": "SAMPLE draws each chip\nfrom P within the domain",
    }[of.value("mode")]
    draw.box(0.72, y, 1.2, tall, "graph", "operations, tensors,\ntheir costs", GIVEN)
    words = f"a distribution over the\nchips, {of['chips']} by default,\nfor each operation"
    draw.box(2.42, y, 1.5, tall, "policy", words, LEARNED)
    draw.box(4.3, y, 1.5, tall, "constraint solver", solver, SOLVED)
    draw.box(6.06, y, 1.3, tall, "evaluation", "analytical model\nor silicon", JUDGED)
    draw.arrow((1.32, y), (1.67, y))
    draw.arrow((3.17, y), (3.55, y), words="y, P", at=(3.36, y + 0.14))
    draw.arrow((5.05, y), (5.41, y), words="y′", at=(5.23, y + 0.14))
    credit = {"sample": "y′", "candidate": "y", "flow": "y′, op by op"}[of.value("credit")]
    words = (
        f"{of['rollouts']} partitions a batch, in {of['minibatches']} mini-batches, {of['epochs']} times over\n"
        f"clip ε = {of['clip']}, learning rate {of['learning_rate']}, "
        f"entropy {of['entropy']}, value {of['value_weight']}"
    )
    draw.box(2.42, 0.68, 3.9, 0.95, "PPO", words, LEARNED)
    words = f"reward: throughput of y′,\ncredited to {credit}"
    draw.arrow((6.06, y - tall / 2), (6.06, 0.68), (4.37, 0.68), words=words, at=(5.2, 0.98))
    draw.arrow((2.42, 0.68 + 0.475), (2.42, y - tall / 2), words="gradient", at=(2.5, 1.38), ha="left")
    draw.arrow((6.06, y + tall / 2), (6.06, y + tall / 2 + 0.26), words="the best y′ so far", at=(5.05, 2.93))
    return draw.figure


def model(result: Mapping[str, Any]) -> Figure:
    """Figure 3: GraphSAGE, T iterations of Eq. 7, the policy network, and what of it goes to the solver.

    Args:
      result: of ``mcm.fig3``.
    """
    of = _Numbers(result)
    modules = {
        row["module"]: row for row in result["rows"] if row["metric"] == "parameters" and row["instance"] == of.shown
    }

    def weights(*starts: str) -> str:
        count = sum(row["value"] for name, row in modules.items() if name.startswith(starts))
        return f"{count:,} weights"

    depth = sum(name.startswith("value_") and "norm" not in name for name in modules)
    draw = Canvas(4.1)
    draw.box(0.85, 3.3, 1.5, 1.2, "graph", f"{of['features']} numbers for\neach operation,\nthe edges", GIVEN)
    words = f"an operation, the mean of its\nproducers, that of its consumers;\nwidth {of['width']}; "
    words += weights("encoder", "sage_")
    draw.box(3.05, 3.3, 2.1, 1.2, f"GraphSAGE, {of['layers']} layers", words, LEARNED)
    draw.box(5.4, 3.3, 1.5, 1.2, "value", f"mean over operations,\nthen {depth} layers\n{weights('value')}", LEARNED)
    draw.arrow((1.6, 3.3), (2.0, 3.3))
    draw.arrow((4.1, 3.3), (4.65, 3.3), words="$h_G$", at=(4.37, 3.44))
    draw.frame(0.1, 0.12, 6.7, 2.34, f"Eq. 7: t = 1 … T, T = {of['iterations']}")
    policy = (
        f"{of['policy_layers']} layers of width {of['width']},\nlogits at {of['positions']} positions,\n"
        f"which the chips read\n{weights('policy_')}"
    )
    draw.box(3.05, 1.3, 2.1, 1.35, "policy network", policy, LEARNED)
    draw.arrow((3.05, 2.7), (3.05, 1.975), words="$h_G$ of each operation", at=(3.13, 2.5), ha="left")
    words = "a distribution over\nchips for each\noperation, and a\nchip drawn from it"
    draw.box(5.35, 1.3, 1.5, 1.35, "$P^{(t)}$ and $y^{(t)}$", words, GIVEN)
    draw.arrow((4.1, 1.3), (4.6, 1.3))
    words = f"{of['state']} numbers that tell\neach operation of\n$y^{{(t-1)}}$; 0 for t = 1"
    draw.box(0.95, 1.3, 1.45, 1.35, "state", words, GIVEN)
    draw.arrow((1.675, 1.3), (2.0, 1.3))
    draw.arrow((5.35, 0.625), (5.35, 0.3), (0.95, 0.3), (0.95, 0.625), words="t < T", at=(3.05, 0.42))
    draw.arrow((6.1, 1.3), (6.45, 1.3), (6.45, 3.75), words="t = T:\nto the\nsolver", at=(6.45, 3.92))
    return draw.figure


def pretraining(result: Mapping[str, Any]) -> Figure:
    """Figure 4: the training worker, the validation worker, and what is done with the copy it chooses.

    Args:
      result: of ``mcm.fig4``.
    """
    of = _Numbers(result)
    draw = Canvas(4.1)
    draw.frame(0.1, 1.7, 6.7, 4.0, "training phase")
    draw.box(0.95, 3.1, 1.35, 1.0, "training set", f"{of['graphs_train']} graphs,\nanalytical model", GIVEN)
    worker = (
        f"one graph after another, {of['rollouts']} partitions\nand an update each; {of['samples']}\npartitions in "
        f"{of['iterations']} updates;\nlearning rate {of['learning_rate']}, entropy {of['entropy']}"
    )
    draw.box(3.0, 3.1, 2.3, 1.15, "training worker", worker, LEARNED)
    copies = f"{of['snapshots']} copies of the\nweights, evenly spaced"
    draw.box(5.55, 3.1, 1.75, 1.0, "checkpoints", copies, GIVEN)
    draw.arrow((1.625, 3.1), (1.85, 3.1))
    draw.arrow((4.15, 3.1), (4.675, 3.1))
    draw.box(0.95, 2.2, 1.35, 0.62, "validation set", f"{of['graphs_validation']} graphs", GIVEN)
    validation = (
        f"each copy zero-shot, {of['zero_shot_samples']} partitions a graph;\n"
        f"the best {of['finalists']} fine-tuned, {of['fine_tune_samples']} a graph"
    )
    draw.box(5.02, 2.1, 2.9, 0.66, "validation worker", validation, JUDGED)
    draw.arrow((1.625, 2.1), (3.57, 2.1))
    draw.arrow((5.55, 2.6), (5.55, 2.43))
    draw.frame(0.1, 0.1, 6.7, 1.55, "deployment phase")
    draw.box(0.95, 0.7, 1.35, 0.85, "test set", f"{of['graphs_test']} graphs,\nand BERT", GIVEN)
    draw.box(2.95, 0.7, 1.95, 0.85, "zero-shot", "the policy is sampled\nas it is", LEARNED)
    draw.box(5.3, 0.7, 1.9, 0.85, "fine-tuning", "PPO goes on\non the new graph", LEARNED)
    draw.arrow((1.625, 0.6), (1.975, 0.6))
    draw.arrow((1.3, 0.275), (1.3, 0.2), (5.3, 0.2), (5.3, 0.275))
    draw.arrow((4.4, 1.77), (4.4, 1.3), (3.4, 1.3), (3.4, 1.125))
    draw.arrow((5.3, 1.77), (5.3, 1.125), words="the best checkpoint", at=(5.38, 1.4), ha="left")
    return draw.figure
