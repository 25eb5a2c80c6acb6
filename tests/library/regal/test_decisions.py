import numpy as np
from learned_mapping_builders.training.elites import TRANSFER, draw_pairs

from learned_mapping.regal.rules.decode import decode
from learned_mapping.regal.rules.instance import Instance
from learned_mapping.regal.schedule import RUN_OP


def items_of(instance, schedule):
    what, target = schedule.order[:, 0].astype(np.int64), schedule.order[:, 1]
    d = instance.machine.devices
    return np.where(target == RUN_OP, what, instance.graph.num_ops + what * d + target)


def needs(instance, placement):
    """Item -> items that must come before it, in plain Python."""
    graph, d = instance.graph, instance.machine.devices
    n = graph.num_ops
    before = {op: set() for op in range(n)}
    for tensor in range(graph.num_tensors):
        producer = int(graph.tensor_producer[tensor])
        for consumer in graph.consumers(tensor).tolist():
            if placement[consumer] == placement[producer]:
                before[consumer].add(producer)
            else:
                transfer = n + tensor * d + int(placement[consumer])
                before.setdefault(transfer, set()).add(producer)
                before[consumer].add(transfer)
    return before


def test_pairs_are_of_items_that_were_ready_at_once(odd_graph):
    """Catches pairs whose order follows from the graph, and ready items that are never drawn."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        instance = Instance(odd_graph(rng, int(rng.integers(2, 14))))
        n = instance.graph.num_ops
        schedule = decode(instance, rng.random(instance.chromosome_length))
        order = items_of(instance, schedule)
        position = {int(item): at for at, item in enumerate(order)}
        before = needs(instance, schedule.placement)
        ready_at = {
            item: max((position[p] + 1 for p in ps), default=0) for item, ps in before.items()
        }
        possible = {
            (one if one < n else TRANSFER, other if other < n else TRANSFER)
            for one in before
            for other in before
            if ready_at[other] <= position[one] < position[other] and (one < n or other < n)
        }
        drawn = {
            tuple(pair)
            for seed in range(30)
            for pair in draw_pairs(
                instance, schedule.placement, order, np.random.default_rng(seed)
            ).tolist()
        }
        assert drawn <= possible
        assert len(drawn) >= 0.9 * len(possible)


def test_nothing_to_decide(diamond):
    """One op after the other on one device: only b and c could have been exchanged."""
    instance = Instance(diamond)
    pairs = draw_pairs(instance, np.zeros(4, np.int64), np.arange(4), np.random.default_rng(0))
    assert {tuple(pair) for pair in pairs.tolist()} == {(1, 2)}
