"""What the explorables show: real small programs and graphs, what methods reach on them, and the
verdicts of claims.

Everything is computed by the package when the book is built. Each function returns JSON.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from learned_mapping import mcm, mmap, regal
from learned_mapping.hardware.chip_package import ChipModel, ChipPackage
from learned_mapping.hardware.copy_engines import shared_copy_latency
from learned_mapping.hardware.devices import op_seconds
from learned_mapping.hardware.memory_hierarchy import MemoryHierarchy, program_latency
from learned_mapping.mcm.agent.credit import flow_gains
from learned_mapping.mcm.repair.engine import repair_arrays, repair_batch
from learned_mapping.mcm.searches.moves import move_arrays, single_moves
from learned_mapping.mmap.bounds.upper import upper_bound
from learned_mapping.mmap.mapping import make_mapping
from learned_mapping.mmap.rules.actions import toy_program
from learned_mapping.mmap.rules.play import Game
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.programs.trace.graph import trace
from learned_mapping.programs.trace.schedule import schedule
from learned_mapping.regal.agent.features import features
from learned_mapping.regal.agent.policy import policy_for
from learned_mapping.regal.searches.brkga import BrkgaParameters, populations
from learned_mapping.regal.searches.proposals import spectral_law
from learned_mapping_companion import results
from learned_mapping_companion.claims import (
    BY,
    MEANING,
    PAPERS,
    Claim,
    Judged,
    family_of,
    judge_all,
    rows_of,
    without_learning,
)
from learned_mapping_companion.measures import LEARNERS, Measured
from learned_mapping_companion.mmap.runs import load

MIB = 2**20
CAPACITIES_MIB = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
BANDWIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
GAME_SAMPLES, AGENT_GAMES = 400, 5000
ALEXNET_MIB, ALEXNET_SAMPLES = (8, 16, 24, 32, 48, 64, 80, 96, 128), 2000
RACE_OPS, RACE_SEED, RACES, RACE_EVALUATIONS = 50, 4, 30, 5000
RACE_FAMILIES = {
    "layered": "layers, densely joined",
    "series-parallel": "branches that part and join",
    "towers": "towers side by side",
    "attention": "attention blocks",
    "random-dag": "edges at random",
}
"""Family of synthetic graphs -> its shape in words. Each has one graph, of the same seed."""
# Moves that a reader follows, and how much faster they make the graph at least.
CREDIT_STEPS, CREDIT_GAIN = 6, 1.4
CHIPS, CHIP_SAMPLES = 4, 50
FIELDS = (
    "instruction",
    "tensor",
    "is_output",
    "alias",
    "bit",
    "bytes",
    "live_end",
    "uses_left",
    "group_left",
)


def program_json(program: Any) -> dict[str, Any]:
    """A program as ``game_rules.js`` takes it."""
    game = Game(program)
    arrays = game.program
    columns = {
        name: arrays.buffers[name].tolist() for name in (*FIELDS, "benefit_s", "benefit_left_s")
    }
    return columns | {
        "name": program.name,
        "fast_bytes": program.fast_bytes,
        "copy_bytes_per_s": program.copy_bytes_per_s,
        "first_buffer": arrays.first_buffer.tolist(),
        "table_start": arrays.table_start.tolist(),
        "latency_s": arrays.latency_s.tolist(),
        "supply_s": arrays.supply_s.tolist(),
        "is_parameter": arrays.is_parameter.tolist(),
        "num_groups": program.num_alias_groups,
        "possible_saving_s": program.possible_saving_s,
        "scale": game.scale.tolist(),
        "slow_s": float(program.slow_s.sum()),
        "instructions": list(program.instruction_names),
        "tensors": list(program.tensor_names),
    }


def perceptron() -> Any:
    """A training step of a perceptron with three layers, scheduled for 3 MiB of fast memory."""
    import jax
    import jax.numpy as jnp

    def loss(weights, x, y):
        for w in weights[:-1]:
            x = jax.nn.relu(x @ w)
        return jnp.mean((x @ weights[-1] - y) ** 2)

    def step(weights, x, y):
        return [w - 0.1 * d for w, d in zip(weights, jax.grad(loss)(weights, x, y))]

    shapes = [
        jax.ShapeDtypeStruct(s, jnp.float32)
        for s in ((512, 512), (512, 512), (512, 64), (256, 512), (256, 64))
    ]
    machine = MemoryHierarchy(cmem_bytes=3 * MIB)
    return schedule(step, shapes[:3], *shapes[3:], machine=machine, name="perceptron")


def watched_agent(program: Any, games: int) -> dict[str, Any]:
    """MMap-MuZero after so many games of its own: one game by the search, and at each move the tree
    it searched."""
    import functools

    import jax
    import jax.numpy as jnp
    import mctx

    from learned_mapping.learning.loop import Log, train
    from learned_mapping.mmap.agent.agent import AgentBudget, MMapAgent
    from learned_mapping.mmap.agent.config import config_for
    from learned_mapping.mmap.agent.games import Games
    from learned_mapping.mmap.agent.search import LOWEST_LOGIT, VISITS, model

    config = config_for(program.num_buffers, simulations=12)
    budget = AgentBudget(samples=games)
    agent = MMapAgent(program, config, seed=0)
    agent.start(budget)
    train(agent, budget.spent, log=Log(None, 0), checkpoint=None, every=50)
    networks, recurrent = agent.networks, model(agent.networks, config)
    transform = functools.partial(
        mctx.qtransform_completed_by_mix_value,
        value_scale=config.value_scale / VISITS,
        rescale_values=False,
    )

    @jax.jit
    def search(parameters, vector, ids, legal):
        state = networks.represent(parameters, vector, ids)
        prediction = networks.predict(parameters, state)
        logits = jnp.where(legal, prediction.policy, LOWEST_LOGIT)
        value = networks.atoms.decode(prediction.value)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        output = mctx.gumbel_muzero_policy(
            parameters,
            jax.random.key(0),
            root,
            recurrent,
            config.simulations,
            invalid_actions=~legal,
            qtransform=transform,
            max_num_considered_actions=3,
            gumbel_scale=0.0,
        )
        return output.action_weights, output.search_tree

    game, moves = Games(program, 1), []
    while not game.over[0]:
        weights, tree = jax.device_get(
            search(agent.learner.parameters, game.vector, game.ids, game.legal)
        )
        allowed = np.where(game.legal[0], weights[0], -1.0)
        action = int(np.argmax(allowed))
        nodes = []
        for node in range(1, config.simulations + 1):
            if tree.node_visits[0, node] > 0:
                parent, by = int(tree.parents[0, node]), int(tree.action_from_parent[0, node])
                reward = float(tree.children_rewards[0, parent, by])
                value = float(tree.node_values[0, node])
                nodes.append(
                    [
                        node,
                        parent,
                        by,
                        int(tree.node_visits[0, node]),
                        round(value, 3),
                        round(reward, 3),
                    ]
                )
        policy = [round(max(float(w), 0.0), 4) for w in allowed]
        buffer = int(game.cursor[0])  # buffers with one legal action are no decisions
        value = round(float(tree.node_values[0, 0]), 3)
        moves.append(
            {"buffer": buffer, "action": action, "policy": policy, "value": value, "nodes": nodes}
        )
        game.step(np.array([action]))
    effort = {"games": int(budget.samples), "updates": int(agent.learner.updates)}
    return {
        "moves": moves,
        "actions": game.played(0).tolist(),
        "value": float(game.saved[0]),
    } | effort


def game() -> dict[str, Any]:
    """A small real program; for each setting the best game of edit-search and the proven bound; the
    agent's game."""
    program, best = perceptron(), {}
    for capacity in CAPACITIES_MIB:
        for speed in BANDWIDTHS:
            rate = program.copy_bytes_per_s * speed
            case = replace(program, fast_bytes=int(capacity * MIB), copy_bytes_per_s=rate)
            result = mmap.solve(case, "edit-search", seed=0, samples=GAME_SAMPLES)
            if not mmap.validate(case, result.solution).valid:
                raise ValueError(f"edit-search broke a rule at {capacity} MiB")
            bound = max(upper_bound(case).value, result.metrics["return"])
            best[f"{capacity:g} {speed:g}"] = [
                result.metrics["return"],
                bound,
                result.solution.action.tolist(),
            ]
    return {
        "program": program_json(program),
        "capacities": CAPACITIES_MIB,
        "bandwidths": BANDWIDTHS,
        "best": best,
        "agent": watched_agent(program, AGENT_GAMES),
        "toy": program_json(toy_program()),
    }


def _layout(program: Any, mapping: Any) -> list[list[int]]:
    """[tensor, start, end, offset, bytes] of each allocation."""
    kept = np.flatnonzero(mapping.placed & (mapping.end >= mapping.start) & (mapping.offset >= 0))
    sizes, tensors = program.buffer_bytes, program.buffer_tensor
    columns = (
        tensors[kept],
        mapping.start[kept],
        mapping.end[kept],
        mapping.offset[kept],
        sizes[kept],
    )
    return np.stack(columns, axis=1).astype(int).tolist()


def _alexnet() -> tuple[Any, Any, Any, float]:
    """The program, the compiler's mapping, the best one stored, and its return."""
    program, compiler = load("alexnet_train_batch_32")
    (row,) = [row for row in results.stored("mmap.fig1")["rows"] if "mapping" in row]
    return program, compiler, make_mapping(program, **row["mapping"]), row["value"]


def _clock(program: Any, mapping: Any) -> list[float]:
    """Seconds by the latency model when each instruction ends, with waits for copies, by the better
    of its two models of copying; the last is the program's time."""
    timing = min(
        (model(program, mapping) for model in (program_latency, shared_copy_latency)),
        key=lambda x: x.total_s,
    )
    return [round(float(end), 9) for end in (*timing.instruction_end_s[:-1], timing.total_s)]


def layouts() -> dict[str, Any]:
    """AlexNet's training step as the compiler lays it out, and as the best mapping found does."""
    program, compiler, best, value = _alexnet()
    clocks = [_clock(program, compiler), _clock(program, best)]
    return {
        "steps": program.num_instructions,
        "fast_bytes": program.fast_bytes,
        "compiler": _layout(program, compiler),
        "best": _layout(program, best),
        "value": value,
        "clocks": clocks,
        "tensors": list(program.tensor_names),
    }


def alexnet() -> dict[str, Any]:
    """AlexNet's buffers for the greedy rule, and for each capacity the best mapping found and a
    bound."""
    program, _, best, value = _alexnet()
    bound = results.value(
        results.load("mmap.bound"), instance=program.name, method="bound", metric="return"
    )
    limits, held = {}, [0.0, []]  # what fits a smaller memory fits a larger one
    for capacity in ALEXNET_MIB:
        case = program.with_memory(fast_bytes=capacity * MIB)
        if case.fast_bytes == program.fast_bytes:
            held = [value, _layout(program, best)]
            limits[capacity] = [value, bound, held[1]]
            continue
        result = mmap.solve(case, "edit-search", seed=0, samples=ALEXNET_SAMPLES)
        if not mmap.validate(case, result.solution).valid:
            raise ValueError(f"edit-search broke a rule at {capacity} MiB")
        if result.metrics["return"] > held[0]:
            held = [result.metrics["return"], _layout(case, result.solution)]
        limits[capacity] = [held[0], max(upper_bound(case).value, held[0]), held[1]]
    return {"program": program_json(program), "limits": limits}


def graph_json(graph: Any, op_seconds: np.ndarray) -> dict[str, Any]:
    """A graph as ``chip_rules.js`` and ``schedule_rules.js`` take it."""
    return {
        "name": graph.name,
        "ops": list(graph.op_names),
        "kinds": list(graph.op_kinds),
        "seconds": np.asarray(op_seconds, float).tolist(),
        "weight_bytes": graph.op_weight_bytes.tolist(),
        "tensor_bytes": graph.tensor_bytes.tolist(),
        "tensor_producer": graph.tensor_producer.tolist(),
        "tensor_is_output": graph.tensor_is_output.tolist(),
        "edge_tensor": graph.edge_tensor.tolist(),
        "edge_consumer": graph.edge_consumer.tolist(),
        "op_edges": graph.op_edges.tolist(),
        "order": graph.topological_order.tolist(),
    }


def three_branches() -> Any:
    """A small real graph: a block of three branches, which are joined and projected."""
    import jax
    import jax.numpy as jnp

    def block(weights, x):
        x = x @ weights["stem"]
        left = jax.nn.relu(x @ weights["left"])
        right = jnp.tanh(x @ weights["right"]) @ weights["wide"]
        joined = left + right + x @ weights["skip"]
        return jnp.tanh(joined @ weights["out"]) @ weights["last"]

    def shape(*sizes):
        return jax.ShapeDtypeStruct(sizes, jnp.float32)

    sizes = {"stem": (256, 512), "left": (512, 512), "right": (512, 768), "wide": (768, 512)}
    sizes |= {"skip": (512, 512), "out": (512, 256), "last": (256, 256)}
    return trace(
        block,
        {k: shape(*s) for k, s in sizes.items()},
        shape(128, 256),
        name="three branches",
        parameters=0,
    )


def chips() -> dict[str, Any]:
    """A small real graph, and what the pre-trained policy and a greedy rule make of it."""
    graph, package = three_branches(), ChipPackage(chips=CHIPS)
    solutions = {}
    for method, samples in (("zeroshot", CHIP_SAMPLES), ("greedy-careful", 1), ("optimum", 1)):
        result = mcm.solve(graph, method, chips=CHIPS, seed=0, samples=samples)
        if not mcm.validate(graph, result.solution).valid:
            raise ValueError(f"{method} broke a rule")
        solutions[method] = result.solution.assignment.tolist()
    return {
        "graph": graph_json(graph, ChipModel(graph, package).op_seconds),
        "chips": CHIPS,
        "found": solutions,
        "samples": CHIP_SAMPLES,
        "link_bytes_per_s": package.link_bytes_per_s,
        "sram_bytes": package.sram_bytes,
    }


def credits() -> dict[str, Any]:
    """The same graph, its optimum, and the first of the partitions SAMPLE draws from which the flow
    credit leads on."""
    graph = three_branches()
    model = ChipModel(graph, ChipPackage(chips=CHIPS))
    moves = move_arrays(model)

    def led(y: np.ndarray) -> np.ndarray:
        for _ in range(CREDIT_STEPS):
            gains, _ = flow_gains(model.op_seconds, y[None], model.latencies(y)[None])
            _, allowed = single_moves(moves, y, model.latencies(y))
            offered = np.where(allowed, gains[0], 0.0)
            op, side = np.unravel_index(np.argmax(offered), offered.shape)
            side = side if offered[op, side] > 0.0 else 1
            y = y + (np.arange(len(y)) == op) * (side - 1)
        return y

    drawn = repair_batch(
        repair_arrays(graph), CHIPS, mode="sample", rng=np.random.default_rng(0), count=200
    )
    begin = next(y for y in drawn if model.runtime(y) > CREDIT_GAIN * model.runtime(led(y)))
    best = mcm.solve(graph, "optimum", chips=CHIPS, seed=0).solution.assignment
    return {
        "graph": graph_json(graph, model.op_seconds), "chips": CHIPS, "begin": begin.tolist(),
        "found": {"optimum": best.tolist()}, "link_bytes_per_s": model.package.link_bytes_per_s,
    }  # fmt: skip


def race() -> dict[str, Any]:
    """A graph of each family with REGAL's laws and the eigenvector's, and how thirty races of each
    search end."""
    usual, graphs = BrkgaParameters(), []
    generations = (RACE_EVALUATIONS - usual.population) // (usual.population - usual.elites)
    for family, shape in RACE_FAMILIES.items():
        graph = random_graph(np.random.default_rng(RACE_SEED), family, RACE_OPS, name=shape)
        instance = regal.Instance(graph)
        laws = {
            "brkga": None,
            "regal": policy_for(instance, "synthetic-runtime-0").law(
                instance, np.random.default_rng(0)
            ),
            "fiedler": spectral_law(instance, features(instance), "eigenvector_2", 3.0),
        }
        ends: dict[str, list[float]] = {}
        for name, law in laws.items():
            if law is not None and (law.mutant_share, law.turns) != (1.0, (1.0,)):
                raise ValueError(f"{name}: a law that the page does not draw from")
            ends[name] = []
            for seed in range(RACES):
                evolution = populations(
                    instance, np.random.default_rng(seed), usual, law, usual.population
                )
                next(evolution)
                ends[name].append(float(evolution.send(generations)[1][-1]))
        long = regal.solve(instance, "local-search", seed=0, samples=50_000).metrics["makespan_s"]
        graphs.append(
            {
                "graph": graph_json(graph, op_seconds(graph, instance.machine)),
                "name": shape,
                "ends": ends,
                "best_s": min(float(long), *(min(one) for one in ends.values())),
                "laws": {
                    k: [np.round(v.alpha, 4).tolist(), np.round(v.beta, 4).tolist(), v.in_initial]
                    for k, v in laws.items()
                    if v is not None
                },
            }
        )
    return {"graphs": graphs, "devices": 2, "races": RACES, "evaluations": RACE_EVALUATIONS}


UNITS = {
    "return": "of the possible saving", "difference": "of the possible saving",
    "lead": "of the possible saving", "part_difference": "of the possible saving",
    "mean_return": "of the possible saving",
    "speedup": "times the compiler's speed", "throughput": "times the rival's throughput",
    "ratio": "times the rival's throughput", "graph_gap_percent": "of the rival's gap",
    "samples_at_least": "of the rival's samples",
    "improvement_percent": "percent below BRKGA", "graph_seconds": "of the rival's seconds",
    "graph_cost": "of the cost it is compared with",
    "correlation": "correlation", "valid": "valid samples",
    "false_positive_percent": "percent",
}  # fmt: skip
"""Metric of a claim's rows -> the unit of its number."""
COUNTED = {"games", *(metric for asked in LEARNERS.values() for metric in asked)}


def claims() -> dict[str, Any]:
    """Each claim with its rule, thresholds and verdict, and the stored rows that its rule, or the
    same one of other methods, can ask for."""
    judged, found = judge_all(), dict[str, list[Claim]]()
    for item in judged:
        if item.claim.measure is not None:
            found.setdefault(item.claim.artifact, []).append(item.claim)
    return {
        "claims": [_claim(item) for item in judged],
        "artifacts": {artifact: _columns(artifact, asked) for artifact, asked in found.items()},
        "learners": LEARNERS,
        "plain": {paper: sorted(without_learning(paper)) for paper in PAPERS},
        "papers": PAPERS,
        "meaning": MEANING,
    }


def _claim(item: Judged) -> dict[str, Any]:
    claim, rival, rule = item.claim, item.rival, item.claim.measure
    known = {
        "id": claim.id, "paper": claim.paper, "text": claim.text, "number": claim.number,
        "artifact": claim.artifact, "decided_by": claim.decided_by, "undecided": claim.undecided,
        "printed": claim.papers_value, "unprinted": claim.not_testable or claim.unprinted,
        "not_testable": claim.not_testable, "instances": claim.instances, "falls": claim.falls,
        "few": claim.few,
        "verdict": item.verdict, "measured": _ends(item.measured), "ours": claim.ours,
        "reproduced": _open(claim.reproduced), "same": _open(claim.same_direction),
    }  # fmt: skip
    if rule is not None:
        known["rule"] = {
            "kind": rule.kind, "rows": rule.rows, "against": rule.against, "over": rule.over,
        }  # fmt: skip
        known["unit"] = UNITS[rule.rows["metric"]]
    if rival is not None:
        known["rival"] = {
            "method": rival.method, "verdict": rival.verdict, "adds": rival.adds,
            "measured": _ends(rival.measured), "lead": _ends(rival.lead),
        }  # fmt: skip
    return known


def _ends(value: Measured | None) -> list[float] | None:
    return None if value is None else [value.value, value.low, value.high]


def _open(values: tuple[float, float]) -> list[float | None]:
    return [v if math.isfinite(v) else None for v in values]


def _columns(artifact: str, asked: list[Claim]) -> dict[str, Any]:
    """The rows of an artifact, one column for those that differ in instance alone."""
    rules = [claim.measure for claim in asked]
    metrics = COUNTED | {rule.rows["metric"] for rule in rules} | {f"by_{what}" for what in BY}
    keys = {key for rule in rules for key in (*rule.rows, *rule.against)}
    keys = (keys | {"baseline", "dataset", "from"}) - {"instance", "method", "metric"}
    columns, places = dict[tuple, list[Any]](), dict[tuple, int]()
    for row in rows_of(max(asked, key=lambda claim: len(claim.beside))):
        if row["metric"] in metrics and isinstance(row["value"], int | float):
            cells = tuple((key, str(row[key])) for key in sorted(keys) if key in row)
            columns.setdefault((row["method"], row["metric"], cells), []).append(row)
    series = []
    for (method, metric, cells), here in columns.items():
        names = tuple(row["instance"] for row in here)
        column = {"method": method, "metric": metric, **dict(cells)}
        column["at"] = places.setdefault(names, len(places))
        column["value"] = [_digits(row["value"]) for row in here]
        for name in ("low", "high", "n", "by_training", "values"):
            if any(row.get(name) is not None for row in here):
                column[name] = [_digits(row.get(name)) for row in here]
        series.append(column)
    families = {name: family_of(artifact, name) for names in places for name in names}
    return {"names": list(places), "series": series, "families": families}


def _digits(value: Any) -> Any:
    """A number, or a list of some, in the nine digits that the page needs."""
    if isinstance(value, list):
        return [_digits(entry) for entry in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


MAKERS: dict[str, Callable[[], dict[str, Any]]] = {
    "layouts": layouts, "game": game, "alexnet": alexnet, "chips": chips, "credits": credits,
    "race": race, "claims": claims,
}  # fmt: skip
