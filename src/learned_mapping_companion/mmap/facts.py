"""Facts of paper 1's programs, game and agent: Tables 1 and 6 and Figures 2, 3, 4 and 9, from the
code and the data.

Table 1 and Figures 2 and 3 come from real states of a compiled program. Figure 4 and Table 6 have
the agent in both sizes, light and the paper's.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from learned_mapping.errors import InputError
from learned_mapping.mmap.agent.config import PAPER, WHOLE, WINDOWS, AgentConfig, config_for
from learned_mapping.mmap.rules.actions import ACTION_NAMES, COPY, DROP, NO_COPY
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.program import Program
from learned_mapping_companion.artifact import Artifact, Runs, reported
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.display import Html, escaped, grid, number
from learned_mapping_companion.mmap.runs import DIGEST_LENGTH
from learned_mapping_companion.table import Record, Records, Rows, row, sweep

INSTANCE = "alexnet_train_batch_32"
"""Whose states and network are shown: only the network's tables of ids grow with the program."""
EXAMPLES = 5  # Buffers shown in table 1.
FEATURES: dict[str, tuple[str, Callable[[Program], np.ndarray], str]] = {
    "size": ("bytes", lambda p: p.buffer_bytes, "bytes it takes in either memory"),
    "is_output": (
        "",
        lambda p: 1 * p.buffer_is_output,
        "1 where the instruction writes it, 0 where it reads it",
    ),
    "target_time": ("step", lambda p: p.buffer_instruction, "the step of its instruction"),
    "tensor_id": (
        "",
        lambda p: p.buffer_tensor,
        "number of its tensor; all uses of a tensor share it",
    ),
    "alias_id": (
        "",
        lambda p: p.buffer_alias,
        "number of its alias group, -1 for none; a group shares an offset or stays in HBM",
    ),
    "live_range": (
        "steps",
        lambda p: p.tensor_live[p.buffer_tensor],
        "first and last step at which its tensor exists",
    ),
    "demand": ("s", lambda p: p.buffer_demand_s, "seconds the copy engine needs for it"),
    "benefit": (
        "s",
        lambda p: p.initial_benefit_s,
        "seconds its instruction saves with it alone in fast memory",
    ),
}
"""Table 1: name and unit of each feature, its column, [B] or [B, 2], and its meaning."""
STATISTICS = ("min", "median", "mean", "max")
ORDERS = (
    ((COPY, DROP, NO_COPY), (COPY, NO_COPY, DROP)),
    ((COPY, NO_COPY, DROP), (NO_COPY, COPY, DROP)),
)
"""Orders of preference of the games in which a state is looked for: of outputs, of inputs."""

FAMILIES = {
    "recurrent": (
        "inference_lstm",
        "inference_gru",
        "mlperf_nmt_1_shard_batch_64",
        "rnn_0",
        "rnn_1",
        "rnn_2",
        "rnn_3",
        "rnn_4",
        "rnn_5",
        "rnn_6",
        "rnn_7",
        "seq2seq_train_batch_128",
    ),
    "attention": (
        "tensor2tensor_transformer_bf16",
        "tensor2tensor_transformer",
        "inference_vit",
        "inference_bert",
        "mlperf_bert_batch_16",
        "vit_train_batch_32_bf16",
        "transformer_train_batch_16",
        "AlphaTensor",
        "fleet_transformer_46_layers",
        "fleet_bert_large",
        "fleet_vit_large",
        "fleet_mixture_of_experts",
        "fleet_decoder_batch_32",
    ),
    "tables, points, mixing": (
        "inference_mixer",
        "mlperf_dlrm_batch_8192",
        "tabnet_train_batch_16384",
        "pointnet_train_batch_32",
        "graph_network_train",
    ),
}
"""The kind of most of a workload's operations; all others are `CONVOLUTIONAL`."""
CONVOLUTIONAL = "convolutional"

SETTINGS = {
    "discount": "discount",
    "simulations": "simulations",
    "batch size": "batch",
    "learning rate": "learning_rate",
    "weight decay": "weight_decay",
    "replay size": "replay",
    "share reanalysed": "share_reanalysed",
    "training steps": "training_steps",
}
"""The paper's settings that `AgentConfig` has too, as a field or a property."""
NETWORKS = {"network": "light", "paper network": "paper"}
"""Method of figure 4's rows -> size of the agent."""


def examples(program: Program) -> list[int]:
    """Buffers to show: the one of largest benefit among parameters, then the largest of each other
    kind there is."""
    benefit, aliased = program.initial_benefit_s, program.buffer_alias >= 0
    parameter = program.tensor_is_parameter[program.buffer_tensor]
    result = program.tensor_is_output[program.buffer_tensor]
    kinds = (
        parameter & ~aliased,
        program.buffer_is_output & ~aliased & ~result,
        ~program.buffer_is_output & ~parameter,
        ~program.buffer_is_output & aliased,
        program.buffer_is_output & aliased,
    )
    chosen: list[int] = []
    for kind in kinds:
        members = [b for b in np.flatnonzero(kind).tolist() if b not in chosen]
        if members:
            chosen.append(max(members, key=lambda b: (benefit[b], program.buffer_bytes[b], -b)))
    return sorted(chosen[:EXAMPLES])


def candidate_moves(program: Program, is_output: bool) -> Iterator[tuple[float, list[int]]]:
    """(score, actions so far) of states where all three actions are legal, place, and differ.

    The score is how much there is to see: the memory the buffer would take by NoCopy, in
    byte-steps, but for no more than a quarter of the fast memory, times the bytes taken there by
    others. Placing saves time.
    """
    for of_output, of_input in itertools.product(*ORDERS):
        game = Game(program)
        moves: list[int] = []
        while not game.over:
            b = game.cursor
            outcomes = game.outcomes
            copy, keep = outcomes[COPY], outcomes[NO_COPY]
            distinct = (
                game.legal.all() and copy["end"] > copy["start"] and keep["end"] > keep["start"]
            )
            if bool(program.buffer_is_output[b]) == is_output and distinct and copy["reward_s"] > 0:
                decided = game.state.moves[:b]
                beside = (decided["end"] >= keep["start"]) & (decided["start"] <= keep["end"])
                beside_bytes = int(program.buffer_bytes[:b][beside].sum())
                size = min(int(program.buffer_bytes[b]), program.fast_bytes // 4)
                yield float(size * (keep["end"] - keep["start"] + 1)) * beside_bytes, list(moves)
            order = of_output if program.buffer_is_output[b] else of_input
            before = game.resets
            action = next(choice for choice in order if game.legal[choice])
            game.step(action)
            if game.resets > before:
                break  # the decisions taken back are not worth following
            moves.append(action)


def find_moves(program: Program, is_output: bool) -> list[int]:
    """The moves of highest score of `candidate_moves`; raises `InputError` where there are none."""
    best = max(
        candidate_moves(program, is_output), key=lambda candidate: candidate[0], default=None
    )
    if best is None:
        raise InputError(
            program.name, "", "no state in which all three actions are legal and differ"
        )
    return best[1]


def state_after(program: Program, moves: Sequence[int]) -> Game:
    """A game in which `moves` have been made."""
    game = Game(program)
    for move in moves:
        game.step(int(move))
    return game


def run_state(method: str, instance: str, config: Record, seed: int) -> Record:
    """A state and what each action does there: moves, buffer, and per action interval, offset,
    reward and copy time."""
    program, _ = compiled.load(instance)
    moves = find_moves(program, bool(config["is_output"]))
    game = state_after(program, moves)
    b, actions = game.cursor, {}
    for action, name in enumerate(ACTION_NAMES):
        outcome = game.outcomes[action]
        start, end = int(outcome["start"]), int(outcome["end"])
        actions[name] = {
            "start": start,
            "end": end,
            "offset": int(outcome["offset"]),
            "reward_s": float(outcome["reward_s"]),
            "steps": 0 if action == DROP else end - start + 1,
            "copy_s": float(program.buffer_demand_s[b]) if action == COPY else 0.0,
        }
    return {
        "moves": moves,
        "buffer": b,
        "tensor": program.tensor_names[program.buffer_tensor[b]],
        "step": int(program.buffer_instruction[b]),
        "bytes": int(program.buffer_bytes[b]),
        "actions": actions,
    }


def plan_fig2(seeds: int, is_output: bool = True) -> Runs:
    """A state in which an output is decided, or an input whose tensor had been in fast memory."""
    config = {"program": compiled.load(INSTANCE)[0].digest[:DIGEST_LENGTH], "is_output": is_output}
    return sweep("mmap.state", ["state"], [INSTANCE], config)


def assemble_fig2(records: Records) -> Rows:
    """A row per action: the reward; steps of memory, seconds of the copy engine and the place as
    further cells. The first row has the moves that lead to the state."""
    (record,) = records
    result = record["result"]
    buffer_cells = {key: result[key] for key in ("buffer", "tensor", "step", "bytes")}
    once = {"moves": result["moves"], "program": record["config"]["program"]}
    for name, outcome in result["actions"].items():
        cells = {key: outcome[key] for key in ("start", "end", "offset", "steps", "copy_s")}
        cells |= {"n": 1, **buffer_cells, **once}
        yield row(record["instance"], name.lower(), "reward_s", outcome["reward_s"], **cells)
        once = {}


FIG2 = Artifact("mmap.fig2", assemble_fig2, plan_fig2)
FIG3 = Artifact("mmap.fig3", assemble_fig2, functools.partial(plan_fig2, is_output=False))


def assemble_table1(records: Records) -> Rows:
    """Per feature: what it means, its spread over the buffers, its value for some of them (method
    ``buffer 12``)."""
    program, _ = compiled.load(INSTANCE)
    for feature, (unit, column_of, meaning) in FEATURES.items():
        column = column_of(program)
        # Of a live range the length counts.
        numbers = column if column.ndim == 1 else column[:, 1] - column[:, 0] + 1
        cells = {"unit": unit, "meaning": meaning, "program": program.digest[:DIGEST_LENGTH]}
        for statistic in STATISTICS:
            value = float(getattr(np, statistic)(numbers))
            yield row(INSTANCE, statistic, feature, value, n=len(numbers), **cells)
        for b in examples(program):
            value = column[b].tolist()
            words = f"[{value[0]}, {value[1]}]" if isinstance(value, list) else value
            tensor = program.tensor_names[program.buffer_tensor[b]]
            yield row(INSTANCE, f"buffer {b}", feature, words, n=1, unit=unit, tensor=tensor)


def family(name: str) -> str:
    """The family of one of the sixty workloads; empty of another program."""
    others = CONVOLUTIONAL if name in compiled.names() else ""
    return next((kind for kind, names in FAMILIES.items() if name in names), others)


def assemble_fig9(records: Records) -> Rows:
    """The number of buffers of each of the sixty workloads, the smallest first; raises `InputError`
    where the manifest is missing or damaged, or lacks a number."""
    counts = {item.name: item.facts.get("buffers") for item in compiled.manifest().items}
    for name, count in counts.items():
        if not isinstance(count, int):
            raise InputError("set compiled", name, "has no number of buffers")
    for name in sorted(counts, key=lambda name: (counts[name], name)):
        yield row(name, "xla", "buffers", counts[name], n=1, family=family(name))


def meanings() -> dict[str, str]:
    """Setting of the agent -> what the docstring below it says, where there is one."""
    (settings,) = ast.parse(inspect.getsource(AgentConfig)).body
    pairs = zip(settings.body, settings.body[1:])
    return {
        name.target.id: " ".join(said.value.value.replace("`", "").split())
        for name, said in pairs
        if isinstance(name, ast.AnnAssign) and isinstance(said, ast.Expr)
    }


def assemble_table6(records: Records) -> Rows:
    """A row per setting of each configuration of the agent: the paper's first, no value for those
    it does not have."""
    meaning = meanings()
    printed = [entry["instance"] for entry in reported("mmap.table6")]
    for method, config in (("whole games", WHOLE), ("windows", WINDOWS), ("paper size", PAPER)):
        numbers = dataclasses.asdict(config)
        names = {name: SETTINGS.get(name) for name in printed}
        names |= {name.replace("_", " "): name for name in numbers if name not in SETTINGS.values()}
        numbers |= {name: getattr(config, name) for name in SETTINGS.values()}
        numbers["training_steps"] = config.training_steps or None
        for name, ours in names.items():
            cells = {"meaning": meaning[ours]} if ours in meaning else {}
            cells |= {"n": 1, "in_paper": name in printed}
            yield row(name, method, "hyperparameter", numbers.get(ours), **cells)


def assemble_fig4(records: Records) -> Rows:
    """A row per module and size: its parameters and shapes; a row per whole, with what it sees."""
    from learned_mapping.mmap.agent.network import Networks
    from learned_mapping.mmap.observation import PARTS

    program, _ = compiled.load(INSTANCE)
    counts = (program.num_buffers, program.num_tensors, program.num_alias_groups + 1)
    for method, size in NETWORKS.items():
        networks = Networks(config_for(program.num_buffers, size=size), counts)
        parameters, total = networks.init(np.random.default_rng(0)), 0
        for part, modules in parameters.items():
            for module, arrays in modules.items():
                shapes = {name: list(array.shape) for name, array in arrays.items()}
                count = sum(int(np.prod(shape)) for shape in shapes.values())
                cells = {"part": part, "module": module, "shapes": shapes}
                yield row(INSTANCE, method, "parameters", count, n=1, **cells)
                total += count
        yield row(INSTANCE, method, "parameters_total", total, n=1, sees=dict(PARTS))


TABLE1 = Artifact("mmap.table1", assemble_table1)
FIG9 = Artifact("mmap.fig9", assemble_fig9)
TABLE6 = Artifact("mmap.table6", assemble_table6)
FIG4 = Artifact("mmap.fig4", assemble_fig4)


def features_table(result: Record) -> Html:
    """The features of `mmap.table1`: what each is, and its spread over the buffers."""
    spread, cells = ("min", "median", "max"), {}
    for entry in result["rows"]:
        if entry["method"] in spread:
            value, feature = entry["value"], entry["metric"].replace("_", " ")
            cells[feature, entry["method"]] = number(int(value) if value % 1 == 0 else value)
            cells[feature, "what it is"] = _wrapped(entry["meaning"])
    down = list(dict.fromkeys(feature for feature, _ in cells))
    return grid(
        "Features of a buffer, over AlexNet's", down, ["what it is", *spread], cells, key=True
    )


def hyperparameters_table(result: Record, of_paper: bool = True) -> Html:
    """The settings of `mmap.table6`: those of the paper's table, or all others."""
    cells = {
        (row["instance"], row["method"]): number(row["value"])
        for row in result["rows"] + result["paper"]
    }
    sizes = ["paper size", "whole games", "windows"]
    if of_paper:
        listed = [row["instance"] for row in result["paper"]]
        return grid(
            "Hyperparameters of the paper's table", listed, ["paper", *sizes], cells, key=True
        )
    cells |= {
        (row["instance"], "what it is"): _wrapped(row.get("meaning", "")) for row in result["rows"]
    }
    listed = list(dict.fromkeys(row["instance"] for row in result["rows"] if not row["in_paper"]))
    return grid("what the paper does not give", listed, ["what it is", *sizes], cells)


def _wrapped(text: str) -> Html:
    return Html(f'<div class="lm-wrap">{escaped(text)}</div>')
