"""A process that ends at the n-th thing it changes in a folder, for every n: what it leaves, and what
the next one makes of it.

Run as ``python deaths.py ACTION FOLDER FIRST STEP``: a line of JSON for each n.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from learned_mapping.programs.json_io import HALF

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link")
DIED = 9
ITERATIONS = 16 if "LMAP_KILLS" in os.environ else 3  # Of the agent that `train` trains.


def arm(folder: Path, count: int) -> None:
    """Ends this process before the `count`-th change in the folder: a file opened to be written,
    brought to the disk, renamed, removed, a folder made."""
    left, sync = [count], os.fsync

    def change() -> None:
        left[0] -= 1
        if not left[0]:
            os._exit(DIED)

    def hook(event: str, arguments: tuple) -> None:
        opened = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        inside = (event in CHANGES or opened) and str(arguments[0]).startswith(str(folder))
        if inside:
            change()

    def synced(handle: int) -> None:
        change()
        sync(handle)

    sys.addaudithook(hook)
    os.fsync = synced


def deaths(
    action: Callable[[Path], None], place: Path, first: int = 1, step: int = 1
) -> Iterator[dict]:
    """For each n: whether the process died, what was torn, whether the next one ends as the whole
    one did, and what is left over that it should have removed.

    The action starts from a copy of ``place/begin`` each time.
    """
    whole = shutil.copytree(place / "begin", place / "whole")
    child = os.fork()
    if not child:  # what an action runs, such as JAX, starts threads, which no fork takes along
        _perform(action, whole, place / "modules")
    assert os.waitpid(child, 0)[1] == 0, "the action fails where nobody kills it"
    for module in (place / "modules").read_text().split():  # once, for all children
        with contextlib.suppress(Exception):
            import_module(module)
    expected = contents(whole)
    for count in range(first, 100_000, step):
        folder = shutil.copytree(place / "begin", place / str(count))
        codes = []
        for armed in (count, 0):
            child = os.fork()
            if not child:
                if armed:
                    arm(folder, armed)
                _perform(action, folder)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if armed:
                torn = [name for name in contents(folder) if is_torn(folder / name)]
        after = contents(folder)
        yield {
            "count": count,
            "codes": codes,
            "torn": torn,
            "equal": after == expected,
            "left": sorted(set(after) - set(expected)),
        }
        shutil.rmtree(folder)
        if codes[0] != DIED:
            return


def _perform(action: Callable[[Path], None], folder: Path, modules: Path | None = None) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            action(folder)
        if modules is not None:
            modules.write_text(" ".join(sys.modules))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def contents(folder: Path) -> dict[str, str]:
    """Every file and its digest, hidden ones too, but for the half-written ones that the next writer
    of the folder removes; of a JSON file without what a clock says."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and HALF not in p.name)
    return {str(path.relative_to(folder)): digest(path) for path in files}


def digest(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix in (".json", ".jsonl"):
        lines = data.splitlines() if path.suffix == ".jsonl" else [data]
        with contextlib.suppress(ValueError):
            data = json.dumps([_timeless(json.loads(line)) for line in lines]).encode()
    if path.suffix == ".npz":
        from learned_mapping.learning.checkpoint import read_checkpoint

        arrays, header = read_checkpoint(path)
        kept = {name: array.tolist() for name, array in arrays.items()}
        data = json.dumps([_timeless(header), kept]).encode()
    return hashlib.sha256(data).hexdigest()


CLOCKS = ("seconds", "created", "peak_bytes", "pid", "machine", "cpu_s", "rate", "curve_s")


def _timeless(value):
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in CLOCKS}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def is_torn(path: Path) -> bool:
    """Whether a file that others may read is not whole; the last line of records may be."""
    if path.name.startswith("."):
        return False
    try:
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        elif path.suffix == ".npz":
            import numpy as np

            np.load(path).files  # noqa: B018
    except ValueError:
        return True
    return False


def solve(folder: Path) -> None:
    """A learner with a checkpoint of two iterations, which the next process goes on from."""
    from learned_mapping.cli import main

    os.chdir(folder)
    arguments = "solve mcm graph.json --method rl --chips 2 --samples 60"
    assert main([*arguments.split(), "--checkpoint", "c.npz", "--out", "p.json"]) == 0


def draw(folder: Path) -> None:
    """A solution, its picture and its table."""
    from learned_mapping.cli import main

    os.chdir(folder)
    for command in (
        "solve regal graph.json --method list-scheduler --out s.json",
        "show regal graph.json s.json --out s.svg",
        "solve mmap program.json --method greedy-tuned --out m.json",
    ):
        assert main(command.split()) == 0


def make(folder: Path) -> None:
    """Runs of a toy artifact and the records that they leave."""
    from companion.run_functions import runs_of
    from learned_mapping_companion.runs import execute

    execute(runs_of("raising", range(2), bad=-1), store=folder / "runs.jsonl", progress=False)


def build(folder: Path) -> None:
    """A data set made anew over its former one, whose card stays."""
    from learned_mapping.programs.formats import graph_from_json
    from learned_mapping.programs.json_io import read_json
    from learned_mapping_companion.datasets import registry
    from learned_mapping_companion.datasets.manifest import Manifest

    building = registry.builder("building")

    def toys(target: Path, progress) -> Manifest:
        items = building.Items(target, 2)
        for name in ("a", "b"):
            graph = graph_from_json(read_json(folder / "graph.json"))
            items.add(f"{name}.json", replace(graph, name=name))
        return Manifest("toys", "Two graphs.", None, tuple(items))

    registry.builder = lambda name: SimpleNamespace(toys=toys)
    build = registry.DataSet("toys", "toys", "Two graphs.", "deaths.toys")
    building.build_in(build, folder / "set")


def train(folder: Path) -> None:
    """Iterations of a counting agent: its log and its checkpoint."""
    from learned_mapping.learning.loop import Log, resume
    from learned_mapping.learning.loop import train as run

    agent = Counting()
    resume(agent, folder / "c.npz")
    run(agent, lambda: False, log=Log(folder / "log.jsonl", agent.iterations),
        checkpoint=folder / "c.npz", every=1)  # fmt: skip


class Counting:
    """An agent whose parameters are how often it was asked."""

    iterations = 0

    @property
    def done(self) -> bool:
        return self.iterations == ITERATIONS

    def iterate(self, stop):
        self.iterations += 1
        return {"iteration": self.iterations}

    def state(self):
        import numpy as np

        return {"count": np.array([self.iterations])}, {}

    def restore(self, arrays, header, source):
        self.iterations = int(arrays["count"][0])


ACTIONS = {action.__name__: action for action in (solve, draw, make, build, train)}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    for row in deaths(ACTIONS[sys.argv[1]], Path(sys.argv[2]), *map(int, sys.argv[3:])):
        print(json.dumps(row), flush=True)
