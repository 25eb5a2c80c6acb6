"""The engine's domains against CP-SAT: a chip is in a domain exactly if some partition has the op
there."""

import numpy as np

from learned_mapping.mcm.repair.solver import ConstraintSolver
from learned_mapping.mcm.rules.cp_sat import Rules
from learned_mapping.programs.synthetic import random_graph

CONNECTED = ("series-parallel", "towers", "attention")


def compare(instances: int, seed: int) -> tuple[int, int, int]:
    """(answers that agree, answers that do not, answers that are "impossible") over random small
    instances."""
    rng = np.random.default_rng(seed)
    agree = differ = impossible = 0
    for number in range(instances):
        graph = random_graph(rng, CONNECTED[number % len(CONNECTED)], int(rng.integers(6, 13)))
        chips = int(rng.integers(2, 6))
        engine, fixed = ConstraintSolver(graph.num_ops, graph.op_edges, chips), {}
        for op in rng.choice(graph.num_ops, 2, replace=False).tolist():
            fixed[op] = int(rng.choice(engine.get_domain(op)))
            engine.set_domain(op, [fixed[op]])
        asked = int(rng.choice([op for op in range(graph.num_ops) if op not in fixed]))
        domain = engine.get_domain(asked)
        for chip in range(chips):
            rules = Rules(graph, chips, "chain")
            for op, at in (*fixed.items(), (asked, chip)):
                rules.model.add(rules.on[op][at] == 1)
            possible = rules.solve(10.0, None, 0)[0] is not None
            agree += possible == (chip in domain)
            differ += possible != (chip in domain)
            impossible += not possible
    return agree, differ, impossible


def test_domains_hold_what_cp_sat_can_complete():
    """Catches propagation that is unsound (a dead end is left in) or incomplete (a partition is
    lost)."""
    agree, differ, impossible = compare(150, 0)
    assert differ == 0
    assert 50 < impossible < agree - 50  # both answers occur often
