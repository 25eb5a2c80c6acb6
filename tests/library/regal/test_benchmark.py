import numpy as np
import pytest
from benchmarks.regal import PythonDecoder, benchmark, instance_of, peer

from learned_mapping.regal.rules.decode import fitness_of, make_workspace
from learned_mapping.regal.rules.instance import OBJECTIVES, Instance


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_peer_decodes_the_same_schedules(objective, odd_graph):
    """A comparison of speed means nothing where the two do different work."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        instance = Instance(odd_graph(rng, 15), objective=objective)
        chromosome = rng.random(instance.chromosome_length)
        expected = fitness_of(instance.arrays, chromosome, make_workspace(instance))
        assert PythonDecoder(instance).decode(chromosome.tolist(), False) == expected


def test_the_peer_reaches_our_quality():
    """Catches a handicapped opponent: with equal parameters and evaluations it must come as far as
    ours, about."""
    from learned_mapping.budget import Budget
    from learned_mapping.regal.searches.brkga import brkga

    instance = instance_of(30)
    budget = Budget(samples=5000)
    brkga(instance, np.random.default_rng(0), budget)
    assert peer(instance, PythonDecoder(instance)) == pytest.approx(budget.best, rel=0.1)


def test_rows_carry_what_the_report_prints():
    rows = benchmark(sizes=(50,), repeats=1)
    assert [set(row) for row in rows] == [{"name", "value", "unit", "bar"}]
    assert rows[0]["value"] > 0 and "50 ops" in rows[0]["name"]
