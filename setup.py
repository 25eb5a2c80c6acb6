"""Puts the trained networks of ``data/checkpoints`` into the wheel; everything else is in
pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKPOINTS = Path(__file__).parent / "data" / "checkpoints"


class WithNetworks(build_py):
    """Copies them below the package as ``networks``, but for an editable install, which reads them
    where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for file in CHECKPOINTS.glob("*/*"):
            if file.suffix in (".npz", ".json"):
                target = (
                    Path(self.build_lib)
                    / "learned_mapping"
                    / "networks"
                    / file.parent.name
                    / file.name
                )
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


setup(cmdclass={"build_py": WithNetworks})
