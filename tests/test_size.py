"""Lines of Python by folder: a number may only go up with a reason beside it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST = {
    "src/learned_mapping/cli": 1261,
    "src/learned_mapping/companion": 9914,  # 9,603 before silent values, judges and intervals were mended
    "src/learned_mapping/hardware": 1179,  # 1,167 before silent values, judges and intervals were mended
    "src/learned_mapping/learning": 389,  # 377 before silent values, judges and intervals were mended
    "src/learned_mapping/mcm": 4445,  # 4,420 before silent values, judges and intervals were mended
    "src/learned_mapping/mmap": 8140,  # 8,108 before silent values, judges and intervals were mended
    "src/learned_mapping/programs": 4432,  # 4,363 before silent values, judges and intervals were mended
    "src/learned_mapping/regal": 4743,  # 4,732 before silent values, judges and intervals were mended
    "data/builders": 9300,  # 9,225 before silent values, judges and intervals were mended
    "book/_extensions": 1645,  # 1,607 before silent values, judges and intervals were mended
    "tests": 23414,  # 21,859 before silent values, judges and intervals were mended
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
