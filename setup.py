"""The checker of ``verification/checker`` goes into the wheel as a package of its own, ``certgcl_checker``.

All else about the build is in ``pyproject.toml``. A second folder of packages named there would turn an editable
install into an import hook, which type checkers do not follow.
"""

from pathlib import Path
from typing import ClassVar

from setuptools import setup
from setuptools.command.build_py import build_py


class WithChecker(build_py):
    files: ClassVar = sorted(Path("verification", "checker").rglob("*.py"))

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for file in self.files:
                place = Path(self.build_lib, "certgcl_checker", file.relative_to("verification/checker"))
                self.mkpath(str(place.parent))
                self.copy_file(str(file), str(place))

    def get_source_files(self) -> list[str]:
        """What a source distribution has."""
        return [*super().get_source_files(), *map(str, self.files)]


setup(cmdclass={"build_py": WithChecker})
