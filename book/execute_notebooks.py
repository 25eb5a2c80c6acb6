"""Executes the notebooks that the book's pages download as (`make notebooks`), each with `jupyter
execute`, elsewhere.

A notebook runs in a folder of its own, with nothing of the book beside it. Where the package is not
installed, its first cell installs it from this checkout.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BOOK = Path(__file__).resolve().parent
SOURCES = BOOK / "_build" / "html" / "_sources"
PATIENCE_S = 1800


def execute(path: Path) -> tuple[float, str]:
    """Executes one notebook in a folder of its own; returns (seconds, the end of what it said where
    it failed)."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="lm-notebook-") as folder:
        copy = shutil.copy(path, folder)
        command = [
            str(Path(sys.executable).parent / "jupyter"),
            "execute",
            "--timeout=900",
            str(copy),
        ]
        environment = {**os.environ, "LEARNED_MAPPING_SOURCE": str(BOOK.parent)}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )
    return time.perf_counter() - start, "" if done.returncode == 0 else done.stderr[-1500:]


def main() -> int:
    chosen = sys.argv[1:] or [
        path.relative_to(SOURCES).as_posix() for path in sorted(SOURCES.rglob("*.ipynb"))
    ]
    if not chosen:
        print("notebooks: the book is not built: run make book first", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen:
        seconds, fault = execute(SOURCES / name)
        failed += bool(fault)
        print(
            f"  {name}: {f'failed{chr(10)}{fault}' if fault else f'executed in {seconds:.0f} s'}",
            flush=True,
        )
    print(f"{len(chosen) - failed} of {len(chosen)} notebooks executed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
