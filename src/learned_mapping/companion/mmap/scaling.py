"""What a step costs against the size of the program: of the game, of the agent's search, of training, of the edits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from learned_mapping.companion.artifact import Artifact, Run
from learned_mapping.companion.mmap.runs import LEARNED, code_of, load, num_buffers, plan_run, program_digest
from learned_mapping.companion.mmap.table2 import grouped
from learned_mapping.mmap.rules.play import Game

PROGRAMS = (
    "rnn_0", "alexnet_train_batch_32", "inference_resnet", "inference_lstm", "wavenet_coherent_batch32",
    "mlperf_bert_batch_16", "AlphaTensor", "fleet_transformer_46_layers",
)  # fmt: skip
QUICK_PROGRAMS = ("rnn_0", "alexnet_train_batch_32")
PLAY_SECONDS = {"quick": 0.2, "full": 3.0, "paper": 3.0}
REPEATS = {"quick": 3, "full": 20, "paper": 20}
"""Of each timed step of the agent; the median counts."""
SEARCH_SECONDS = {"quick": 0.5, "full": 10.0, "paper": 10.0}
SEARCHES = ("segment-search", "muzero")
STEPS = {
    "observe_ms": "one observation of one game",
    "infer_ms": "the network on a batch of games, divided by the games",
    "decide_ms": "observation and tree search of a batch of games, divided by the games",
    "train_ms": "one training step, on one batch",
}


def run_play(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Random play on the compiled kernel: CPU seconds and steps, those taken back included."""
    program, _ = load(instance)
    game, rng = Game(program), np.random.default_rng(seed)
    game.play_random(rng)
    start, steps, games = time.process_time(), 0, 0
    while time.process_time() - start < config["seconds"] or games == 0:
        game.restart()
        game.play_random(rng)
        steps += game.played().moves
        games += 1
    return {"seconds": time.process_time() - start, "steps": steps, "games": games}


def run_agent(method: str, instance: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """CPU milliseconds of `STEPS` in the middle of games of the paper's agent, compilation left out."""
    import jax

    from learned_mapping.mmap.muzero.config import paper_config
    from learned_mapping.mmap.muzero.learner import Batch, make_learner
    from learned_mapping.mmap.muzero.position import Position
    from learned_mapping.mmap.muzero.representation import Observation, Observer
    from learned_mapping.mmap.muzero.search import make_decide, make_infer, temperatures

    program, _ = load(instance)
    chosen, rng = paper_config(config["profile"]), np.random.default_rng(seed)
    games, samples, steps = chosen.parallel_games, chosen.batch_size, chosen.unroll_steps
    game = Game(program)
    observer = Observer(program, game.scale, chosen.representation)
    positions = [Position(game.program) for _ in range(games)]
    for position in positions:
        while not position.over and position.game.cursor < program.num_buffers // 2:
            position.step(int(rng.choice(np.flatnonzero(position.legal))))
    legal = np.stack([position.legal for position in positions])
    init, update = make_learner(chosen)
    learner, temperature = init(rng), temperatures(chosen, 0)
    decide, infer = make_decide(chosen), make_infer(chosen)
    seen = observer(positions)
    rows = rng.integers(games, size=samples)
    batch = Batch(
        observation=Observation(*(column[rows] for column in seen)),
        action=rng.integers(3, size=(samples, steps)).astype(np.int32),
        policy=np.full((samples, steps + 1, 3), 1 / 3, np.float32),
        policy_weight=np.ones((samples, steps + 1), np.float32),
        value=np.zeros((samples, steps + 1), np.float32),
        reward=np.zeros((samples, steps), np.float32),
    )
    key = jax.random.key(seed)
    timed: dict[str, tuple[Callable[[], Any], int]] = {
        "observe_ms": (lambda: observer(positions), games),
        "infer_ms": (lambda: infer(learner.parameters, seen, legal), games),
        "decide_ms": (lambda: decide(learner.parameters, observer(positions), legal, key, temperature), games),
        "train_ms": (lambda: update(learner, batch), 1),
    }
    found: dict[str, Any] = {"games": games, "batch": samples, "simulations": chosen.simulations}
    for name, (call, share) in timed.items():
        jax.block_until_ready(call())
        spent = []
        for _ in range(config["repeats"]):
            start = time.process_time()
            jax.block_until_ready(call())
            spent.append(1e3 * (time.process_time() - start) / share)
        found[name] = spent
    return found


def plan_scaling(profile: str, seeds: int) -> list[Run]:
    """Three kinds of runs on each program: random play, the steps of the paper's agent, and two searches by edits."""
    runs = []
    for name in QUICK_PROGRAMS if profile == "quick" else PROGRAMS:
        made_for = {"program": program_digest(name)}
        play = {"seconds": PLAY_SECONDS[profile], **made_for}
        runs.append(Run(f"{__name__}:run_play", "random", name, play))
        agent = {"repeats": REPEATS[profile], "profile": profile, **made_for}
        runs.append(Run(f"{__name__}:run_agent", LEARNED[0], name, agent))
        runs += [plan_run(m, name, {"seconds": SEARCH_SECONDS[profile]}, profile=profile) for m in SEARCHES]
    return runs


def assemble_scaling(profile: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows ``step_us`` of random play, the medians of `STEPS`, and games a second of the searches, with ``buffers``."""
    rows: list[dict[str, Any]] = []
    judged = []
    for (name, method), (record,) in grouped(records).items():
        result = record["result"]
        extra = {"buffers": num_buffers(name), "program": record["config"]["program"]}
        if method == "random":
            values = {"step_us": [1e6 * result["seconds"] / result["steps"]]}
        elif method in SEARCHES:
            judged.append(result["valid"])
            values = {"games_per_s": [result["samples"] / result["seconds"]]}
        else:
            values = {metric: result[metric] for metric in STEPS}
            extra |= {key: result[key] for key in ("games", "batch", "simulations")}
        for metric, found in values.items():
            row = {"instance": name, "method": method, "metric": metric, "value": float(np.median(found))}
            rows.append({**row, "low": min(found), "high": max(found), "n": len(found), **extra})
    return {"rows": rows, "paper": [], "validated": len(judged), "invalid": judged.count(False)}


ARTIFACTS: tuple[Artifact, ...] = (
    Artifact("mmap.scaling", 1, "Cost of a step against program size", plan_scaling, assemble_scaling, code_of),
)
