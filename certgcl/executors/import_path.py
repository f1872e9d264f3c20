"""The import path of processes that certgcl starts: that of this one, without the current folder.

joblib starts a worker by ``python -m``, which puts the current folder first on its path, and then passes it the path of
this process, which may contain that folder too: a ``zipfile.py`` there would be run. certgcl itself stays importable,
if necessary from the end of the path.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOME = str(Path(__file__).resolve().parents[2])
_SAFE, _PATH = "PYTHONSAFEPATH", "PYTHONPATH"
_guard, _before = threading.Lock(), list[tuple[list[str], dict[str, str | None]]]()
_inside = 0


@contextmanager
def without_current_folder() -> Iterator[None]:
    """In this context, processes start with that path, and this one imports nothing new from the current folder
    either."""
    global _inside
    with _guard:
        if _inside == 0:
            _before.append((sys.path[:], {name: os.environ.get(name) for name in (_SAFE, _PATH)}))
            sys.path[:] = importable()
            os.environ[_SAFE] = "1"
            os.environ.pop(_PATH, None)
        _inside += 1
    try:
        yield
    finally:
        with _guard:
            _inside -= 1
            if _inside == 0:
                sys.path[:], environment = _before.pop()
                for name, value in environment.items():
                    if value is None:
                        os.environ.pop(name, None)
                    else:
                        os.environ[name] = value


def importable() -> list[str]:
    """The path of this process without the current folder, under whatever name, and without entries that depend on
    it."""
    try:
        current = Path.cwd().resolve()
    except FileNotFoundError:
        current = None
    path = [
        entry
        for entry in sys.path
        if isinstance(entry, str) and os.path.isabs(entry) and Path(entry).resolve() != current
    ]
    return path if _HOME in path else [*path, _HOME]
