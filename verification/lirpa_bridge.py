"""The bridge to auto_LiRPA for tests: they are left out where it is not installed, unless it is required."""

import importlib
import types

import pytest

from verification.lirpa_compat import NotInstalledError
from verification.lirpa_required import lirpa_is_required


def lirpa_bridge() -> types.ModuleType:
    """The module :mod:`verification.lirpa`. That auto_LiRPA is installed and cannot be imported is an error always: for
    want of a package that it needs, say."""
    if lirpa_is_required():
        return importlib.import_module("verification.lirpa")
    return pytest.importorskip(
        "verification.lirpa", reason="auto_LiRPA is not installed; `make test` installs it", exc_type=NotInstalledError
    )
