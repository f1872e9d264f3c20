"""A folder whose modules have the names of others, and tell when they are run."""

from pathlib import Path

NAMES = (
    "zipfile",
    "json",
    "torch",
    "numpy",
    "sitecustomize",
    "usercustomize",
    "pickle",
    "queue",
    "networkx",
    "numba",
    "certgcl",
)


def hostile_folder(folder: Path) -> Path:
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"import pathlib\npathlib.Path(__file__ + '.ran').touch()\n"
            f"raise SystemExit('{name}.py of this folder was run')\n"
        )
    return folder


def has_run(folder: Path) -> list[str]:
    """The modules that were run."""
    return sorted(path.name.removesuffix(".py.ran") for path in folder.glob("*.ran"))
