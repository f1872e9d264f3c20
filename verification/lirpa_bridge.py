"""The bridge to auto_LiRPA for tests: they are skipped if it is not installed, unless it is required."""

import importlib
import types

import pytest

from verification.lirpa_compat import NotInstalledError
from verification.lirpa_required import lirpa_is_required


def lirpa_bridge(module: str = "verification.lirpa") -> types.ModuleType:
    """The module :mod:`verification.lirpa`, or another one that uses it. If auto_LiRPA is installed but cannot be
    imported, for example because a package is missing, that is always an error."""
    if lirpa_is_required():
        return importlib.import_module(module)
    return pytest.importorskip(
        module, reason="auto_LiRPA is not installed; `make test` installs it", exc_type=NotInstalledError
    )
