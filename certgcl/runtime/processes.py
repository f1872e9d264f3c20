"""Python processes with the packages of this one, and nothing of the current folder.

A child that is started by ``python -c`` or ``-m`` has the current folder first on its path: a ``zipfile.py`` that lies
there would be run. So children are isolated (``-I``: no such entry, no ``PYTHON…`` variables, no folder of the user's
own), are handed the safe part of this process's path, and load certgcl by its file, whatever else has that name. The
main module of this process is not imported again, so that scripts need no guard around their main part.
"""

import os
import subprocess
import sys
from pathlib import Path

_HOME = Path(__file__).resolve().parents[1]
_START = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
home, module, function, *path = sys.argv[1:]
sys.path[:] = path + [entry for entry in sys.path if entry not in path]
spec = spec_from_file_location("certgcl", f"{home}/__init__.py", submodule_search_locations=[home])
sys.modules["certgcl"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
getattr(__import__(module, fromlist=[function]), function)()
"""


def start(module: str, function: str, **environment: str) -> "subprocess.Popen[bytes]":
    """A process that calls a function of certgcl, with pipes to its standard input and output."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen([sys.executable, "-I", "-c", _START, str(_HOME), module, function, *importable()],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env=surroundings | {"PYTHONSAFEPATH": "1"} | environment)


def importable() -> list[str]:
    """The path of this process without the current folder, under whatever name, and without what depends on it."""
    try:
        current = Path.cwd().resolve()
    except FileNotFoundError:
        current = None
    return [entry for entry in sys.path
            if isinstance(entry, str) and os.path.isabs(entry) and Path(entry).resolve() != current]
