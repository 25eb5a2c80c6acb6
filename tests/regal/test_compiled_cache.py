"""Compiled code of an earlier state of the package must not run."""

import os
import subprocess
import sys
from pathlib import Path

from learned_mapping.mmap import compiled_cache as chosen
from learned_mapping.regal import compiled_cache

SHOW = "import os, learned_mapping.regal.brkga, learned_mapping.mmap.kernel; print(os.environ['NUMBA_CACHE_DIR'])"


def shown(code: str, **environment: str) -> Path:
    """The folder that a fresh process names."""
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, check=True
    )
    return Path(run.stdout.strip())


def test_the_folder_names_the_code_of_both_packages(tmp_path):
    """Catches a search that runs with a decoder compiled before it was changed, whichever package comes first."""
    expected = Path(chosen.FOLDER, "__pycache__", "numba", chosen.code_digest(chosen.FOLDER))
    expected /= compiled_cache.PREFIX + chosen.code_digest(compiled_cache.FOLDER)
    assert shown(SHOW) == shown("import learned_mapping.mmap.kernel; " + SHOW) == expected
    assert shown(SHOW, NUMBA_CACHE_DIR=str(tmp_path)) == tmp_path


def test_another_state_is_another_folder(tmp_path, monkeypatch):
    """Catches a folder that stays when a file with compiled functions changes, and old ones that are never removed."""
    base = Path(chosen.FOLDER, "__pycache__", "numba", "test")
    found = []
    try:
        for state in range(chosen.KEPT + 3):
            (tmp_path / "draws.py").write_text(f"@numba.njit\ndef f(): return {state}\n")
            monkeypatch.setenv("NUMBA_CACHE_DIR", str(base))
            monkeypatch.setattr(compiled_cache.sys, "modules", {})
            compiled_cache.use_cache(tmp_path)
            found.append(os.environ["NUMBA_CACHE_DIR"])
            os.utime(found[-1], (state, state))
        assert len(set(found)) == len(found)
        assert len(list(base.iterdir())) <= chosen.KEPT + 1
    finally:
        compiled_cache.shutil.rmtree(base, ignore_errors=True)
