"""One network for programs that it never saw: taught on the sixty, tried on twelve of other
families.

A run trains every arm with one seed. Its teacher is exact: along a guide, at some decisions, every
legal alternative is played out with the rest of the guide unchanged. Guides are the games of the
rule with prices, with half of the memory, all of it and twice; for `CLONING` it is the best mapping
known.
"""

import hashlib
from typing import NamedTuple

import numpy as np

from learned_mapping.budget import Budget
from learned_mapping.mmap.agent.games import Games, Guide
from learned_mapping.mmap.agent.priced_view import priced_view
from learned_mapping.mmap.mapping import Mapping
from learned_mapping.mmap.observation import PRIOR, SEEN, WIDTH
from learned_mapping.mmap.rules.actions import NUM_ACTIONS
from learned_mapping.mmap.rules.state import benefit_unit
from learned_mapping.mmap.searches.edit_search import search as edits
from learned_mapping.mmap.searches.greedy import greedy
from learned_mapping.mmap.searches.priced import priced
from learned_mapping.mmap.searches.search import Search
from learned_mapping.programs.program import Program
from learned_mapping_companion.artifact import NOTHING, Artifact, Run, Runs
from learned_mapping_companion.datasets import compiled
from learned_mapping_companion.mmap import bench, fresh, runs
from learned_mapping_companion.table import Record, Records, Rows, mean_row, row

CLONING, BEST = "cloning", "rule-prior"


class Arm(NamedTuple):
    """What a network sees, and what it begins with."""

    prices: bool  # Whether it sees what the rule with prices sees.
    prior: bool  # Whether its logits are added to the rule's.


ARMS = {
    CLONING: Arm(prices=False, prior=False),
    "advantages": Arm(prices=False, prior=False),
    "price-inputs": Arm(prices=True, prior=False),
    BEST: Arm(prices=True, prior=True),
}
RULE, EDITS = "priced", "edit-search"
MEMORIES = (0.5, 1.0, 2.0)  # Of a guide, in that of the program.
DECISIONS = 80  # Of each guide.
SIDES = 64  # Alternatives side by side.
UNITS, SPREAD, LEAST = 0.3, 4.0, 0.5
"""Units of benefit that are one nat of the target; the spread of advantages, in units, from which
on a decision weighs no more; and the weight of one at which nothing changes."""
HIDDEN, STEPS, BATCH, RATE, DECAY, KEPT = (128, 64), 1_500, 512, 2e-3, 1e-2, 0.9
"""Hidden units, updates of AdamW and samples of each, learning rate and decay; the share of inputs
that dropout keeps."""
VARIANTS = np.array(
    [[0, 0, 0], [0.7, 0.7, 0], [-0.7, -0.7, 0], [0.7, 0, 0], [-0.7, 0, 0]]
    + [[0, 0.7, 0], [0, -0.7, 0], [1.4, 1.4, 0], [-1.4, -1.4, 0]],
)
"""[9, 3]: what is added to the logits of Copy, NoCopy and Drop in each of nine games."""
SECONDS, WARM = 1.0, 0.05
"""Of the edits, everything before them included; and of a first run that does not count."""
SEEDS = 3


class Lessons(NamedTuple):
    """Decisions of guides, N of them."""

    seen: np.ndarray  # [N, SEEN] observations with prices.
    legal: np.ndarray  # [N, 3].
    chosen: np.ndarray  # [N, 3] one-hot, what the guide does.
    advantage: np.ndarray  # [N, 3], units of benefit, over that.


def plan_unseen(seeds: int) -> Runs:
    """A training of all arms for each seed."""
    names = (*compiled.names(), *compiled.names(fresh.PROGRAMS))
    digests = "".join(compiled.item(name).digest for name in names)
    programs = hashlib.sha256(digests.encode()).hexdigest()[: runs.DIGEST_LENGTH]
    for seed in range(min(seeds, SEEDS)):
        config = {"programs": programs, "seconds": SECONDS}
        yield Run("mmap.unseen", BEST, "sixty", config, seed, long=True)


def run_unseen(method: str, instance: str, config: Record, seed: int) -> Record:
    """Trains a network of each arm on the sixty programs, and plays the twelve by it.

    Args:
      config: ``taught`` and ``tried``, programs in the place of these; ``steps`` in that of
        `STEPS`; ``seconds`` of the edits, which are left out without it.

    Returns:
      A record with ``arms``: arm -> program -> ``one`` and ``nine``, the returns of the first game
      and of the best of nine; those of `RULE` too; and ``edits``: program -> returns after
      these seconds of edits from the rule's game, and from the better of that and the network's.
      All are what the validator says of the mappings; ``validated`` and ``invalid`` count these.
    """
    verdicts = list[bool]()

    def value_of(program: Program, mapping: Mapping) -> float:
        verdict = runs.judged(program, mapping)
        verdicts.append(verdict["valid"])
        return float(verdict["costs"].get("return", 0.0))

    taught: dict[bool, list[Lessons]] = {False: [], True: []}
    tried = config.get("tried", compiled.names(fresh.PROGRAMS))
    for name in config.get("taught", compiled.names()):
        program, _ = compiled.load(name)
        rng = np.random.default_rng([seed, len(taught[True])])  # of each program its own
        for share in MEMORIES:
            smaller = program.with_memory(fast_bytes=int(share * program.fast_bytes))
            taught[False].append(lessons(smaller, rng))
        best = bench.best_mapping(program)
        taught[True].append(lessons(program, rng, best.action.astype(np.int64)))
    steps = config.get("steps", STEPS)
    networks = {
        arm: trained(taught[arm == CLONING], ARMS[arm], seed, steps, clone=arm == CLONING)
        for arm in ARMS
    }
    record: Record = {"arms": {arm: {} for arm in (RULE, *ARMS)}, "edits": {}}
    for name in tried:
        program, _ = compiled.load(name)
        for arm, network in networks.items():
            games = games_of(program, network, ARMS[arm])
            record["arms"][arm][name] = {
                cell: value_of(program, runs.replayed(program, "".join(map(str, actions))))
                for cell, actions in games.items()
            }
        record["arms"][RULE][name] = {}
        for cell, count in (("one", 1), ("nine", len(VARIANTS))):
            search = Search(program, Budget(samples=count))
            priced(search)
            record["arms"][RULE][name][cell] = value_of(program, search.mapping())
        if seconds := config.get("seconds"):
            edited(program, seed, WARM)  # which loads what is compiled
            record["edits"][name] = {
                EDITS: value_of(program, edited(program, seed, seconds)),
                BEST: value_of(program, edited(program, seed, seconds, networks[BEST])),
            }
    return record | {"validated": len(verdicts), "invalid": verdicts.count(False)}


def lessons(
    program: Program, rng: np.random.Generator, actions: np.ndarray | None = None
) -> Lessons:
    """Decisions of a guide, the rule's game where no actions [B] are given, half of them drawn by
    their benefit; every legal alternative is played out with the rest of the guide as it is."""
    game, view = priced_view(program)
    guide, games = Guide(program), Games(program, SIDES)
    guide.follow(game.action.astype(np.int64) if actions is None else actions)
    unit = benefit_unit(guide.program)
    worth = np.clip(guide.program.buffers["benefit_s"][guide.decisions] / unit, 0, 20) + 0.1
    chance = 0.5 / max(len(worth), 1) + 0.5 * worth / worth.sum()
    count = min(DECISIONS, len(worth))
    picks = np.sort(rng.choice(guide.decisions, count, replace=False, p=chance / chance.sum()))
    games.prices = view
    seen, legal = np.zeros((count, SEEN), np.float32), np.zeros((count, NUM_ACTIONS), bool)
    advantage = np.zeros((count, NUM_ACTIONS))
    for first in range(0, count, SIDES):
        rows = slice(first, min(first + SIDES, count))
        places = np.arange(rows.stop - rows.start)
        games.start_at(guide, places, picks[rows])
        games.observe()
        seen[rows], legal[rows] = games.vector[places], games.legal[places]
        for action in range(NUM_ACTIONS):
            at = np.flatnonzero(legal[rows, action] & (guide.actions[picks[rows]] != action))
            games.start_at(guide, places[: len(at)], picks[rows][at])
            games.observe()
            games.step(np.where(np.arange(SIDES) < len(at), action, -1))
            values = games.end_like(guide, places[: len(at)], guide.program.num_buffers)
            lead_s = (values - guide.saved[-1]) * guide.possible_s
            advantage[first + at, action] = lead_s / unit
            games.restart(range(len(places)))
    chosen = np.eye(NUM_ACTIONS, dtype=bool)[guide.actions[picks]]
    return Lessons(seen, legal, chosen, advantage)


def trained(
    parts: list[Lessons], arm: Arm, seed: int, steps: int, *, clone: bool
) -> list[np.ndarray]:
    """Means, inverse deviations, weights and biases of a network whose policy moves towards what
    alternatives gain: softmax(prior + advantage / `UNITS`); or that repeats the guide."""
    import jax
    import jax.numpy as jnp
    import optax

    seen, legal, chosen, advantage = (np.concatenate(column) for column in zip(*parts))
    inputs = seen if arm.prices else seen[:, :WIDTH]
    prior = seen[:, WIDTH + PRIOR :][:, :NUM_ACTIONS] * arm.prior
    mean, inverse = inputs.mean(axis=0), 1.0 / (inputs.std(axis=0) + 1e-2)
    inputs = ((inputs - mean) * inverse).clip(-5, 5)
    logits = np.where(chosen, 0.0, -1e9) if clone else advantage / UNITS + prior
    target = jax.nn.softmax(jnp.where(legal, logits, -1e9), axis=1)
    spread = np.where(legal, advantage, -np.inf).max(1) - np.where(legal, advantage, np.inf).min(1)
    weight = np.ones(len(spread)) if clone else LEAST + spread.clip(0, SPREAD)
    columns = [jnp.asarray(v, jnp.float32) for v in (inputs, legal, target, weight, prior)]
    sizes = (inputs.shape[1], *HIDDEN, NUM_ACTIONS)
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    parameters = [
        v
        for a, b, key in zip(sizes, sizes[1:], keys)
        for v in (jax.random.normal(key, (a, b)) * np.sqrt(2 / a), jnp.zeros(b))
    ]
    parameters[-2] *= 0.05
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.cosine_decay_schedule(RATE, steps), weight_decay=DECAY),
    )

    def loss(parameters, rows, key):
        x, may, wanted, weight, prior = (column[rows] for column in columns)
        x = x * jax.random.bernoulli(key, KEPT, x.shape) / KEPT
        logits = jnp.where(may > 0, forward(parameters, x, jax.nn.relu) + prior, -1e9)
        error = -jnp.sum(wanted * jax.nn.log_softmax(logits) * may, axis=1)
        return jnp.sum(weight * error) / jnp.sum(weight)

    @jax.jit
    def step(parameters, state, key):
        drawn, dropped = jax.random.split(key)
        rows = jax.random.randint(drawn, (BATCH,), 0, len(inputs))
        updates, state = optimizer.update(
            jax.grad(loss)(parameters, rows, dropped), state, parameters
        )
        return optax.apply_updates(parameters, updates), state

    state = optimizer.init(parameters)
    for key in jax.random.split(keys[-1], steps):
        parameters, state = step(parameters, state, key)
    return [mean, inverse, *map(np.asarray, parameters)]


def forward(weights, x, relu=lambda x: np.maximum(x, 0)):
    """Logits [..., 3] of normalised inputs."""
    for matrix, bias in zip(weights[:-2:2], weights[1:-2:2]):
        x = relu(x @ matrix + bias)
    return x @ weights[-2] + weights[-1]


def games_of(program: Program, network: list[np.ndarray], arm: Arm) -> dict[str, np.ndarray]:
    """The actions [B] of a network's first game, ``one``, and of its best of nine, ``nine``."""
    mean, inverse, *weights = network
    games = Games(program, len(VARIANTS))
    _, games.prices = priced_view(program)
    games.observe()
    while not games.over.all():
        inputs = games.vector if arm.prices else games.vector[:, :WIDTH]
        logits = forward(weights, ((inputs - mean) * inverse).clip(-5, 5)) + VARIANTS
        logits += games.vector[:, WIDTH + PRIOR :][:, :NUM_ACTIONS] * arm.prior
        action = np.where(games.legal, logits, -np.inf).argmax(axis=1)
        games.step(np.where(games.over, -1, action))
    return {"one": games.played(0), "nine": games.played(int(games.saved.argmax()))}


def edited(
    program: Program, seed: int, seconds: float, network: list[np.ndarray] | None = None
) -> Mapping:
    """The mapping after so many seconds of edits from the best game of the tuned rule, and of a
    network's nine where one is given; their time counts."""
    budget = Budget(seconds=seconds, cpu=True)
    search = Search(program, budget)
    priced(search, share=edits.START)
    greedy(search)
    if network is not None:
        search.play_actions(games_of(program, network, ARMS[BEST])["nine"])
    edits.EditSearch(search, np.random.default_rng(seed)).run()
    return search.mapping()


def assemble_unseen(records: Records) -> Rows:
    """Over programs, of the mean of the trainings: ``one`` and ``nine`` of each arm and of the
    rule, the ``difference`` of nine games to the rule's nine, and of `EDITS` and `BEST` the return
    after a second of edits, ``edited``, with its ``edited_difference``; of the trainings ``_least``
    and ``_most``. None of no training."""
    found = [record["result"] for record in records]
    if not found:
        return
    names = compiled.names(fresh.PROGRAMS)

    def values(arm: str, cell: str) -> np.ndarray:
        return np.array([np.mean([r["arms"][arm][name][cell] for r in found]) for name in names])

    for arm in (RULE, *ARMS):
        for cell in ("one", "nine"):
            yield mean_row("all", arm, cell, values(arm, cell))
            scatter = [np.mean([r["arms"][arm][name][cell] for name in names]) for r in found]
            yield row("all", arm, f"{cell}_least", min(scatter), n=len(found))
            yield row("all", arm, f"{cell}_most", max(scatter), n=len(found))
        if arm != RULE:
            lead = values(arm, "nine") - values(RULE, "nine")
            yield mean_row("all", arm, "difference", lead, baseline=RULE)
    ends = {
        arm: np.array([np.mean([r["edits"][name][arm] for r in found]) for name in names])
        for arm in (EDITS, BEST)
    }
    for arm, column in ends.items():
        yield mean_row("all", arm, "edited", column)
    yield mean_row("all", BEST, "edited_difference", ends[BEST] - ends[EDITS], baseline=EDITS)


UNSEEN = Artifact("mmap.unseen", assemble_unseen, plan_unseen, NOTHING)
