"""If the comparison with auto_LiRPA is required, a run that omits any part of it fails.

``make test`` sets ``CERTGCL_LIRPA=required``. Then every file of the comparison has to pass at least one test, and none
of its tests may be skipped or expected to fail, whatever the reason. A test that fails, and a file that cannot be
imported, fail the run by themselves. Nothing here imports auto_LiRPA, so a broken installation cannot prevent the
check.
"""

import os
from collections import Counter
from pathlib import PurePosixPath

import pytest

REQUIRED = "CERTGCL_LIRPA"
"""The environment variable: ``required``, or empty, which skips the comparison if auto_LiRPA is not installed."""

COMPARISON = ("test_against_lirpa.py", "test_features_against_lirpa.py", "test_lirpa.py")


def lirpa_is_required() -> bool:
    """What the environment says.

    Raises:
        UsageError: it is something other than ``required``, which must not count as a no.
    """
    value = os.environ.get(REQUIRED, "")
    if value not in ("", "required"):
        raise pytest.UsageError(f"{REQUIRED}={value!r}: it is 'required' or empty. Set one of the two.")
    return value == "required"


class Requirement:
    """A plugin that counts the results of the comparison, and fails the run if any part is missing."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.left_out: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if _file(report.nodeid) not in COMPARISON:
            return
        if report.skipped or hasattr(report, "wasxfail"):  # an expected failure is reported as skipped, or as passed
            self.left_out.append(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed[_file(report.nodeid)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and _file(report.nodeid) in COMPARISON:
            self.left_out.append(report.nodeid)

    def missing(self) -> list[str]:
        """The parts that the run omitted, in words."""
        return [
            *(f"{test} was skipped" for test in self.left_out),
            *(f"no test of {file} passed" for file in COMPARISON if not self.passed[file]),
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.missing() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.missing():
            terminalreporter.section(
                f"{REQUIRED}=required, and the comparison with auto_LiRPA is not complete", red=True
            )
            for line in self.missing():
                terminalreporter.write_line(line)


def _file(nodeid: str) -> str:
    return PurePosixPath(nodeid.partition("::")[0]).name


def pytest_configure(config: pytest.Config) -> None:
    """Enforce the requirement, in the process that sees all reports: not in the workers of pytest-xdist."""
    if lirpa_is_required() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Requirement(), "comparison with auto_LiRPA required")
