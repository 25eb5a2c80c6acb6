"""What the validation worker of the pre-training chose, from the headers of the shipped policies."""

from learned_mapping.companion.display import Html, listing
from learned_mapping.learning.checkpoint import read_checkpoint
from learned_mapping.mcm.agent.checkpoints import PRETRAININGS, checkpoint_path

KINDS = {False: "over chips", True: "of moves"}
SCORES = ("zeroshot", "finetune")
COLUMNS = ("policy", "samples", "updates of the copy", "as it is", "fine-tuned", "untrained", "untrained, then PPO")


def trained_policies() -> Html:
    """A row per shipped policy: its training, and scores on the validation graphs beside those of random weights.

    A score is the geometric mean over the graphs of the best throughput so far, averaged over the
    samples, over the naive greedy's.
    """
    rows = []
    for begun, kind in KINDS.items():
        for pretraining in range(PRETRAININGS):
            path = checkpoint_path(pretraining, begun)
            if not path.exists():
                continue
            facts = read_checkpoint(path)[1]["facts"]
            scores = {row["iteration"]: row for row in facts["scores"]}
            cells = [f"{facts['samples']:,}", f"{facts['iteration']:,}"]
            cells += [f"{scores[which][score]:.3f}" for which in (facts["iteration"], 0) for score in SCORES]
            rows.append((kind, *cells))
    return listing("Pre-trained policies on the validation graphs", COLUMNS, rows)
