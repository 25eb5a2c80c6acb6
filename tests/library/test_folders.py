"""Compiled code of an earlier state of the package must not run."""

import os
import subprocess
import sys
from pathlib import Path

from learned_mapping import folders

SHOW = "import os, learned_mapping; print(os.environ['NUMBA_CACHE_DIR'])"


def shown(code: str, **environment: str) -> Path:
    """The folder that a fresh process names."""
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(run.stdout.strip())


def test_the_folder_names_the_code_of_the_package(tmp_path):
    """Catches a search that runs with a decoder compiled before it was changed."""
    assert shown(SHOW) == folders.FOLDER / "__pycache__" / "numba" / folders.code_digest()
    assert shown(SHOW, NUMBA_CACHE_DIR=str(tmp_path)) == tmp_path


def test_another_state_is_another_folder(tmp_path, monkeypatch):
    """Catches a folder that stays when a file with compiled functions changes, and old ones that
    are never removed."""
    collected = []
    for state in range(folders.FOLDERS_KEPT + 3):
        (tmp_path / "draws.py").write_text(
            f"import numba\n\n@numba.njit\ndef f(): return {state}\n"
        )
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        monkeypatch.setattr(folders.sys, "modules", {})
        folders.use_cache(tmp_path)
        collected.append(os.environ["NUMBA_CACHE_DIR"])
        os.utime(collected[-1], (state, state))
    assert len(set(collected)) == len(collected)
    assert len(list((tmp_path / "__pycache__" / "numba").iterdir())) <= folders.FOLDERS_KEPT + 1
