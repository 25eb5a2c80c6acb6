"""Puts the trained networks and the programs of MMapBench, which lie in ``data``, into the wheel;
everything else is in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DATA = Path(__file__).parent / "data"


class WithData(build_py):
    """Copies them below the package as ``networks`` and ``bench``, but for an editable install,
    which reads them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for file in (DATA / "checkpoints").glob("*/*"):
            if file.suffix in (".npz", ".json"):
                self.bring(file, f"networks/{file.parent.name}")
        self.bring(DATA / "bench" / "table.json", "bench")
        for file in (DATA / "compiled").glob("*.json.gz"):
            if not file.name.endswith(".mapping.json.gz"):
                self.bring(file, "bench")

    def bring(self, file: Path, folder: str) -> None:
        target = Path(self.build_lib) / "learned_mapping" / folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


setup(cmdclass={"build_py": WithData})
