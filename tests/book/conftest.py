"""One browser for all tests of the book; without one they say that they are skipped."""

import pytest

from book.browser import Browser, executable


@pytest.fixture(scope="session")
def browser():
    if executable() is None:
        pytest.skip("no Chromium is installed: set CHROMIUM to one, or install the package chromium")
    with Browser() as running:
        yield running
