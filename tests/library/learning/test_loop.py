"""The training loop: what is on the disk after a stop."""

import signal

import numpy as np
import pytest

from learned_mapping.errors import InputError
from learned_mapping.learning.loop import Log, read_log, resume, train


class Counter:
    """An agent that counts; `cut` makes one iteration end early."""

    def __init__(self, cut: int = -1):
        self.iterations, self.cut = 0, cut

    @property
    def done(self) -> bool:
        return self.iterations >= 9

    def iterate(self, stop):
        if self.iterations == self.cut:
            return None
        self.iterations += 1
        return {"iteration": self.iterations, "square": self.iterations**2}

    def state(self):
        return {"n": np.array(self.iterations)}, {}

    def restore(self, arrays, header, source):
        self.iterations = int(arrays["n"])


def test_a_run_goes_on_from_its_last_checkpoint(tmp_path):
    """Catches log rows that are doubled, lost, or of iterations that the checkpoint does not know
    of."""
    checkpoint, path = tmp_path / "agent.npz", tmp_path / "log.jsonl"
    train(Counter(cut=7), lambda: False, log=Log(path), checkpoint=checkpoint, every=3)
    assert [row["iteration"] for row in read_log(path)] == [1, 2, 3, 4, 5, 6, 7]
    with open(path, "a") as stream:
        stream.write('{"iteration": 8, "squ')
    agent = Counter()
    assert resume(agent, checkpoint) and agent.iterations == 6
    log = Log(path, agent.iterations)
    assert len(log.rows) == 6
    train(agent, lambda: False, log=log, checkpoint=checkpoint, every=3)
    assert read_log(path) == [{"iteration": i, "square": i * i} for i in range(1, 10)] == log.rows
    again = Counter()
    assert resume(again, checkpoint) and again.iterations == 9
    assert not resume(Counter(), tmp_path / "none.npz")


def test_a_stop_between_iterations_is_saved(tmp_path):
    agent = Counter()
    train(
        agent, lambda: agent.iterations == 4, log=Log(None), checkpoint=tmp_path / "a.npz", every=3
    )
    other = Counter()
    resume(other, tmp_path / "a.npz")
    assert other.iterations == 4


def test_damaged_logs_are_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"iteration": 1}\n[]\n')
    with pytest.raises(InputError, match="line 2"):
        read_log(path)


def test_long_iterations_are_saved_one_by_one(tmp_path, monkeypatch):
    """A kill loses no more than a minute, however many iterations a checkpoint is due after."""
    monkeypatch.setattr("learned_mapping.learning.loop.LONGEST_S", -1.0)
    train(Counter(cut=2), lambda: False, log=Log(None), checkpoint=tmp_path / "a.npz", every=1000)
    again = Counter()
    assert resume(again, tmp_path / "a.npz") and again.iterations == 2


class Interrupted(Counter):
    """Its user presses Ctrl-C within the iterations after these."""

    def __init__(self, *after: int):
        super().__init__()
        self.after = after

    def iterate(self, stop):
        for _ in range(self.after.count(self.iterations)):
            signal.raise_signal(signal.SIGINT)
        return super().iterate(stop)


def test_an_interrupt_leaves_a_checkpoint_of_whole_iterations(tmp_path, capsys):
    """Catches a minute of training lost to Ctrl-C, a state from within an iteration, an interrupt
    that is swallowed, and one that cannot be had at once."""
    path, before = tmp_path / "a.npz", signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(Interrupted(4), lambda: False, log=Log(None), checkpoint=path, every=3)
    agent = Counter()
    assert resume(agent, path) and agent.iterations == 5
    assert capsys.readouterr().err.count("\n") == 1 and signal.getsignal(signal.SIGINT) is before
    for options in ({"checkpoint": tmp_path / "b.npz"}, {}):
        agent = Interrupted(*[4] * (1 + len(options)))
        with pytest.raises(KeyboardInterrupt):
            train(agent, lambda: False, log=Log(None), **options)
        assert agent.iterations == 4 and not (tmp_path / "b.npz").exists()
