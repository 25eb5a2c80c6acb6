"""One browser for all tests of the book; without one they say that they are skipped. And the book's
own modules."""

import sys
from pathlib import Path

import pytest

from book.browser import Browser, executable

BOOK = Path(__file__).resolve().parents[2] / "book"
sys.path[:0] = [str(BOOK), str(BOOK / "_extensions")]


@pytest.fixture(scope="session")
def browser():
    if executable() is None:
        pytest.skip(
            "no Chromium is installed: set CHROMIUM to one, or install the package chromium"
        )
    with Browser() as running:
        yield running
