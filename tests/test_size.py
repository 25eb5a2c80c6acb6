"""Lines of Python by folder: a number may only go up with a reason beside it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST = {
    "src/learned_mapping/cli": 1215,  # 1,190 before MMapBench
    "src/learned_mapping/companion": 9652,  # 9,592 before return and latency were compared by the compiler's cycles
    "src/learned_mapping/hardware": 1181,
    "src/learned_mapping/learning": 370,
    "src/learned_mapping/mcm": 4430,  # 4,100 before ops could be fixed to chips and kept together
    "src/learned_mapping/mmap": 8044,  # 8,035 before the games of a training kept their actions
    "src/learned_mapping/programs": 4229,  # 3,700 before MiniMalloc and StableHLO
    "src/learned_mapping/regal": 4755,  # 4,570 before GAS, IDRS and the choice of a cut
    "data/builders": 9208,  # 9,205 before games of a training were priced
    "book/_extensions": 1620,  # 1,560 before numbers in the text came from the code
    "tests": 21203,  # 21,129 before return and latency were compared by the compiler's cycles
}


def lines(folder: str) -> int:
    """Lines of all Python files in a folder."""
    return sum(len(path.read_bytes().splitlines()) for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", MOST)
def test_a_folder_grows_only_with_a_reason(folder):
    """Catches lines that came without anybody having weighed them."""
    assert lines(folder) <= MOST[folder], f"{folder}: {lines(folder)} lines; say beside the number why it goes up"
    assert lines(folder) > 0.9 * MOST[folder], f"{folder}: {lines(folder)} lines; let the number follow down"


def test_every_folder_has_a_number():
    """Catches a new folder that nobody counts."""
    folders = {p.name for p in (ROOT / "src" / "learned_mapping").iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    assert folders == {name.rsplit("/", 1)[1] for name in MOST if name.startswith("src/")}
