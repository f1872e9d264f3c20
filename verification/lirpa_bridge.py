"""The bridge to auto_LiRPA for tests: they are left out where it is not installed, unless it is required."""

import importlib
import os
import types

import pytest

from verification.lirpa_compat import NotInstalledError

REQUIRED = "CERTGCL_LIRPA"
"""The environment variable that ``make test`` sets to ``required``: then a missing auto_LiRPA is an error."""


def lirpa_bridge() -> types.ModuleType:
    """The module :mod:`verification.lirpa`. That auto_LiRPA is installed and cannot be imported is an error always: for
    want of a package that it needs, say."""
    if os.environ.get(REQUIRED) == "required":
        return importlib.import_module("verification.lirpa")
    return pytest.importorskip("verification.lirpa", reason="auto_LiRPA is not installed; `make test` installs it",
                               exc_type=NotInstalledError)
