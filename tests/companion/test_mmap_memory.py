"""Other memories: the plan, and rows worked out by hand."""

import pytest

from learned_mapping_companion import results
from learned_mapping_companion.mmap import memory, runs


def test_a_run_has_the_memory_that_it_says():
    """Would catch a mapping that is made for one memory and judged with another."""
    name = "rnn_0"
    program, _ = runs.load(name)
    planned = {
        (run.method, run.config["memory"]): run
        for run in memory.MEMORY.runs("full", 1)
        if run.instance == name
    }
    assert len(planned) == len(memory.SHARES) * (len(memory.METHODS) + 1)
    half = runs.program_of(name, planned[memory.PRICES, 0.5].config)
    assert half.fast_bytes == program.fast_bytes // 2 and half.digest != program.digest
    values = {}
    for share in memory.SHARES.values():
        run = planned[memory.PRICES, share]
        config = run.config | {"seconds": 0.05}
        values[share] = runs.run_method(run.method, name, config, run.seed)
    assert all(value["judged"] and value["valid"] for value in values.values())
    played = runs.replayed(half, values[0.5]["actions"])
    assert int((played.offset + program.buffer_bytes)[played.placed].max()) <= half.fast_bytes


def test_rows_are_of_one_memory_each():
    """Would catch programs of another memory in a mean, and a lead counted the wrong way round."""
    records = []
    for share, returns in ((0.5, (0.2, 0.5)), (1.0, (0.6, 0.4)), (2.0, (0.8, 0.9))):
        for method, value in zip(memory.METHODS, (*returns, 0.9)):
            result = {"judged": True, "valid": True, "costs": {"return": value}}
            about = {"method": method, "instance": "one", "config": {"memory": share}}
            records.append(about | {"result": result})
    rows = list(memory.assemble_memory(records))
    for label, lead in zip(memory.SHARES, (0.3, -0.2, 0.1)):
        (row,) = results.select({"rows": rows}, metric="difference", memory=label)
        assert row["value"] == pytest.approx(lead)
        counts = [
            results.select({"rows": rows}, metric=metric, memory=label)[0]["value"]
            for metric in ("ahead", "behind")
        ]
        assert counts == [lead > 0, lead < 0]
