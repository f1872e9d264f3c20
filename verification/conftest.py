"""Profiles of the audit (``--hypothesis-profile=quick | ci | deep``) and its summary at the end of a run."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from verification.audit import LEDGER
from verification.lirpa_required import pytest_configure  # noqa: F401 - the audit fails where it has to run and does not

# The graphs here are small, and small graphs are bounded without kernels unless this says otherwise: most tests run the
# kernels, and tests that switch them off run torch.
os.environ.setdefault("CERTGCL_KERNELS", "always")

# Only the deep profile draws new cases each time: a push must not fail because of an unlucky draw.
SIZES = {"quick": 6, "ci": 100, "deep": 2500}
for name, size in SIZES.items():
    settings.register_profile(
        name,
        max_examples=size,
        deadline=None,
        derandomize=name != "deep",
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
settings.load_profile(os.environ.get("CERTGCL_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    size = settings().max_examples
    for item in items:
        if size <= SIZES["quick"] and item.get_closest_marker("thorough"):
            item.add_marker(pytest.mark.skip(reason="not in the quick profile"))
        if size < SIZES["deep"] and item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="in the deep profile alone"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist passes on its results."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["ledger"] = LEDGER.plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker that crashed has nothing to pass on; its test counts as a failure anyway."""
    LEDGER.add(getattr(node, "workeroutput", {}).get("ledger", {"tallies": {}, "notes": {}}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not LEDGER.tallies:
        return
    terminalreporter.section("certgcl audit")
    for line in LEDGER.lines():
        terminalreporter.write_line(line)
    path = Path(os.environ.get("CERTGCL_AUDIT_JSON", "audit.json"))
    LEDGER.write(path)
    terminalreporter.write_line(f"written to {path}")
