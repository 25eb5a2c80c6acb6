"""Every knob of every page, turned: an answer in time, whatever a reader chooses.

One value of a menu once kept the kernel busy for good, and the page showed nothing.
"""

import contextlib
import io
import itertools
import os
import re
import signal
import sys
from pathlib import Path

import notebooks
import pytest

from learned_mapping.errors import LearnedMappingError
from learned_mapping_companion import knobs as knobs_module

BOOK = Path(__file__).resolve().parents[2] / "book"

LIMIT_S = 10
"""Of computing, so that a busy machine makes nobody late."""
LEARNING_S = {"mcm/learners": 20}
"""The same of pages on which a learner is trained from its start."""
ALL = bool(os.environ.get("LMAP_EVERY_KNOB"))
"""Whether sliders stop at all their values, which takes minutes, and not at five."""
TRAINS = {"mmap/agent"}
"""Pages whose knob says for how many seconds a learner is trained."""
PAGES = sorted(
    path.relative_to(BOOK).with_suffix("").as_posix()
    for path in BOOK.rglob("*.md")
    if not {"_build", ".ipynb_checkpoints"} & set(path.parts) and "\nknobs(" in path.read_text()
)


def stops(choice) -> list:
    """The values of a menu; of a slider both ends and three between."""
    if isinstance(choice, list):
        return choice
    least, most, step = choice
    count = round((most - least) / step)
    picked = range(count + 1) if ALL or count < 5 else [count * i // 4 for i in range(5)]
    return [type(step)(least + i * step) for i in picked]


def turns(choices: dict) -> list[dict]:
    """Each stop of each knob, the others left alone, and all pairs of values of two menus."""
    actual = [{name: value} for name, choice in choices.items() for value in stops(choice)]
    menus = [name for name, choice in choices.items() if isinstance(choice, list)]
    for pair in itertools.combinations(menus, 2):
        actual += [
            dict(zip(pair, values))
            for values in itertools.product(*(choices[name] for name in pair))
        ]
    return actual


@contextlib.contextmanager
def limited(what: str, seconds: float | None = None):
    limit_s = seconds or LIMIT_S

    def late(*_):
        raise AssertionError(f"no answer after {limit_s} s: {what}")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def knobs_of(page: str, monkeypatch) -> list:
    """[what a page shows, its knobs], after all its cells have run."""
    collected = []
    monkeypatch.setattr(
        knobs_module, "knobs", lambda shown, **choices: collected.append((shown, choices))
    )
    cells = [cell.source for cell in notebooks.notebook(page).cells if cell.cell_type == "code"]
    monkeypatch.chdir(BOOK / Path(page).parent)
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(cells[1:]), {"display": lambda *pieces, **more: None})
    return collected


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_knob_has_an_answer_in_time(page, monkeypatch):
    actual = knobs_of(page, monkeypatch)
    assert len(actual) == len(re.findall(r"^knobs\(", (BOOK / f"{page}.md").read_text(), re.M))
    for shown, choices in actual if page not in TRAINS else ():
        shown()  # as the page is opened, when what is compiled is compiled
        for turn in turns(choices):
            with limited(f"{page}, {turn}", LEARNING_S.get(page)):
                try:
                    shown(**turn)
                except LearnedMappingError as fault:
                    # there is no answer, and the reader is told so
                    assert str(fault)


def test_a_knob_that_never_answers_is_found():
    with pytest.raises(AssertionError, match="no answer"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "LIMIT_S", 1)
        with limited("it"):
            while True:
                pass
