"""The benchmark runner: rows come back from a process of its own, bars are judged, a crash is
reported."""

import json

import pytest
from benchmarks import run as benchmarks


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a benchmark module and returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, body: str) -> str:
        (tmp_path / f"{name}.py").write_text(f"import os\n{body}\n")
        return name

    return write


def test_rows_come_from_one_core_and_what_is_printed_does_not_mix_in(module, capfd):
    name = module(
        "bench_one",
        "def benchmark():\n    print('noise')\n    return [dict(name='cores',"
        " value=len(os.sched_getaffinity(0)), unit='cores', bar=None)]",
    )
    assert benchmarks.main(["--json", name]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["rows"] == [
        {"module": name, "name": "cores", "value": 1, "unit": "cores", "bar": None}
    ]


def test_a_missed_bar_and_a_crash_fail_the_command(module, capfd):
    """Otherwise a slow kernel would pass unseen."""
    slow = module(
        "bench_slow",
        "def benchmark():\n    return [dict(name='s', value=9.0, unit='1/s', bar=10.0)]",
    )
    crash = module("bench_crash", "def benchmark():\n    os._exit(3)")
    assert benchmarks.main([slow, crash]) == 1
    out, err = capfd.readouterr()
    assert "MISSED" in out and "bench_crash: the benchmark failed with exit status 3" in err


@pytest.mark.parametrize(
    ("value", "bar", "unit", "word"),
    [
        (2.0, 1.0, "1/s", "reached"),
        (2.0, 1.0, "s", "MISSED"),
        (0.5, 1.0, "s", "reached"),
        (1.0, None, "s", ""),
    ],
)
def test_bars(value, bar, unit, word):
    row = {"name": "x", "value": value, "unit": unit, "bar": bar}
    assert benchmarks.verdict(row) == word
