import dataclasses

import numpy as np
import pytest

from learned_mapping.budget import Budget
from learned_mapping.errors import InputError
from learned_mapping.hardware.devices import Devices
from learned_mapping.programs.synthetic import random_graph
from learned_mapping.regal.rules.decode import evaluate, fitness_of, make_workspace
from learned_mapping.regal.rules.instance import INFEASIBLE, Instance
from learned_mapping.regal.searches.brkga import BrkgaParameters, MutantLaw, brkga, populations
from learned_mapping.regal.searches.local_search import (
    LocalSearchParameters,
    local_search,
    random_search,
)


@pytest.fixture(scope="module")
def instance():
    return Instance(random_graph(np.random.default_rng(7), "layered", 60))


def fitness(instance, chromosome):
    return fitness_of(instance.arrays, chromosome, make_workspace(instance))


def run(search, instance, samples, seed=0, **options):
    budget = Budget(samples=samples)
    return search(instance, np.random.default_rng(seed), budget, **options), budget


@pytest.mark.parametrize("search", [brkga, local_search, random_search])
def test_what_comes_back_is_the_best_recorded(instance, search):
    """Catches a best chromosome overwritten after its fitness was noted, evaluations over the
    limit, and a result that depends on the size of the chunks, which follow the clock."""
    actual, budget = run(search, instance, 3000)
    assert fitness(instance, actual) == budget.best and 3000 - 80 < budget.samples <= 3000
    assert np.all((actual >= 0) & (actual <= 1))
    again, _ = run(search, instance, 3000)
    np.testing.assert_array_equal(actual, again)
    assert not np.array_equal(run(search, instance, 3000, seed=1)[0], actual)


def test_searches_rank_as_they_should(instance):
    """Evolution and climbing must beat blind sampling at equal evaluations, on the same graph and
    seeds."""
    mean = {
        s: np.mean([run(s, instance, 4000, seed)[1].best for seed in range(4)])
        for s in (brkga, local_search)
    }
    blind = np.mean([run(random_search, instance, 4000, seed)[1].best for seed in range(4)])
    assert max(mean.values()) < 0.95 * blind


def test_elites_survive(instance):
    """The best of a generation is never worse than that of the one before."""
    generations = populations(instance, np.random.default_rng(0), BrkgaParameters())
    bests = [next(generations)[1].min(), *(generations.send(1)[1].min() for _ in range(40))]
    assert np.all(np.diff(bests) <= 0) and bests[-1] < bests[0]


def test_feasible_wins_at_any_price(instance):
    """With a limit that most random schedules break, the search must end inside it."""
    unlimited, _ = run(brkga, instance, 3000)
    _, peak, _ = evaluate(instance.arrays, unlimited, make_workspace(instance))
    tight = Instance(instance.graph, Devices(memory_bytes=0.8 * peak))
    actual, budget = run(brkga, tight, 5000)
    assert fitness(tight, actual) < INFEASIBLE and budget.best < INFEASIBLE


def test_law_feeds_initial_population_and_mutants(instance):
    """A law that all but forces every op onto device 0 must show in a population of random
    chromosomes, and only where it is told to."""
    n = instance.graph.num_ops
    alpha = np.ones(3 * n)
    beta = np.ones(3 * n)
    alpha[0 : 2 * n : 2] = beta[1 : 2 * n : 2] = 1000.0
    serial = instance.arrays.seconds.sum()
    forced, budget = run(brkga, instance, 100, law=MutantLaw(alpha, beta))
    assert (
        budget.best == pytest.approx(serial)
        and np.argmax(forced[: 2 * n].reshape(n, 2), axis=1).max() == 0
    )
    _, free = run(brkga, instance, 100, law=MutantLaw(alpha, beta, in_initial=False))
    assert free.best < 0.99 * serial


def test_turns_of_a_law(instance):
    """Every other chromosome follows the law, the others are uniform; catches turns left out of the
    first population or of the mutants, turns that depend on how generations are grouped, and ones
    that take alpha below 0."""
    n = instance.graph.num_ops
    alpha, beta = np.ones(3 * n), np.ones(3 * n)
    alpha[0 : 2 * n : 2] = beta[1 : 2 * n : 2] = 1000.0
    serial = instance.arrays.seconds.sum()
    law = MutantLaw(alpha, beta, turns=(1.0, 0.0))
    np.testing.assert_array_equal(law.by_turn("alpha"), [alpha, np.ones(3 * n)])
    for initial in (True, False):
        usual, rng = BrkgaParameters(), np.random.default_rng(0)
        evolution = populations(instance, rng, usual, dataclasses.replace(law, in_initial=initial))
        now, _ = next(evolution)
        drawn = [now.fitness[now.present].copy()] if initial else []
        for _ in range(4):
            now, _ = evolution.send(1)
            drawn.append(
                now.fitness[now.present][usual.elites : usual.elites + usual.mutants].copy()
            )
        assert all(np.array_equal(np.isclose(c, serial), np.arange(len(c)) % 2 == 0) for c in drawn)
    with pytest.raises(InputError, match="turns"):
        MutantLaw(np.full(3, 0.5), np.ones(3), turns=(2.0,))
    with pytest.raises(InputError, match="turns"):
        MutantLaw(np.ones(3), np.ones(3), turns=())


def test_a_law_of_ones_is_the_uniform_law(instance):
    """Catches another stream of random numbers for laws that say nothing."""
    ones = np.ones(3 * instance.graph.num_ops)
    np.testing.assert_array_equal(
        run(brkga, instance, 1000, law=MutantLaw(ones, ones))[0], run(brkga, instance, 1000)[0]
    )


def test_tiny_budgets(instance):
    for samples in (1, 7, 99, 100, 101):
        _, budget = run(brkga, instance, samples)
        assert 1 <= budget.samples <= samples


ONE, TWO = np.array([1.0]), np.array([1.0, 1.0])


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *(
            (BrkgaParameters, item)
            for item in ({"population": 2}, {"bias": 1.0}, {"elite_fraction": 0.86})
        ),
        *((MutantLaw, {"alpha": ONE} | item) for item in ({"beta": TWO}, {"beta": np.nan * ONE})),
        *(
            (MutantLaw, {"beta": ONE} | item)
            for item in ({"alpha": 0 * ONE}, {"alpha": ONE, "mutant_share": 1.5})
        ),
        *((LocalSearchParameters, item) for item in ({"device_share": 0.8}, {"cluster_ops": 1})),
    ],
)
def test_unusable_parameters_are_refused(kind, given):
    with pytest.raises(InputError):
        kind(**given)


def test_a_law_longer_than_the_chromosome(instance):
    ones = np.ones(instance.chromosome_length + 1)
    with pytest.raises(InputError, match="alpha"):
        run(brkga, instance, 100, law=MutantLaw(ones, ones))
