"""What there is to read grows only knowingly: tokens by folder, of which `make size` keeps the
numbers."""

import pytest
import yaml

from size import FILE, FOLDERS, tokens

SLACK = 0.01


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_grows_only_knowingly(folder):
    """Catches code that came without anybody having weighed it, and a number that a smaller folder
    has left behind."""
    kept, now = yaml.safe_load(FILE.read_text())[folder], tokens(folder)
    assert abs(now - kept) <= SLACK * kept, (
        f"{folder}: {now} tokens, {kept} when they were last counted: make size"
    )
