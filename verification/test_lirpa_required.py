"""Where the comparison with auto_LiRPA is required, nothing of it can be left out without the run failing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from verification.lirpa_required import COMPARISON, REQUIRED

ROOT = Path(__file__).parent.parent
PASSES = "def test_it() -> None:\n    pass\n"
LEFT_OUT = {
    "a test is skipped": "import pytest\n@pytest.mark.skip\ndef test_other() -> None:\n    pass\n",
    "a test skips itself": "import pytest\ndef test_other() -> None:\n    pytest.skip('why not')\n",
    "a fixture skips": (
        "import pytest\n@pytest.fixture\ndef one() -> None:\n    pytest.skip('why not')\n"
        "def test_other(one: None) -> None:\n    pass\n"
    ),
    "the file skips": "import pytest\npytest.skip('why not', allow_module_level=True)\n",
    "an import is missing": "import pytest\npytest.importorskip('no_such_module')\n",
    "a failure is expected": "import pytest\n@pytest.mark.xfail\ndef test_other() -> None:\n    assert False\n",
    "an expected failure does not come": "import pytest\n@pytest.mark.xfail\ndef test_other() -> None:\n    pass\n",
}


def run(folder: Path, *arguments: str, required: str = "required", **files: str) -> subprocess.CompletedProcess[str]:
    """pytest on a folder with two files that pass, but for those given by their names without ``.py``."""
    sources = {file.removesuffix(".py"): PASSES for file in COMPARISON} | files
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    (folder / "conftest.py").write_text("from verification.lirpa_required import pytest_configure\n")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, "."],
        cwd=folder,
        env={**os.environ, REQUIRED: required, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_comparison_that_passes_is_accepted(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("source", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_whatever_is_left_out_fails_the_run(tmp_path: Path, source: str) -> None:
    found = run(tmp_path, test_lirpa=PASSES + source)
    assert found.returncode == pytest.ExitCode.TESTS_FAILED, found.stdout
    assert "test_lirpa.py" in found.stdout.partition("not complete")[2]
    assert run(tmp_path, required="", test_lirpa=PASSES + source).returncode == 0, "where it is not required, it may be"


@pytest.mark.parametrize("source", [LEFT_OUT["a test is skipped"], LEFT_OUT["the file skips"]])
def test_workers_report_what_they_left_out(tmp_path: Path, source: str) -> None:
    pytest.importorskip("xdist")
    assert run(tmp_path, "--numprocesses=1", test_lirpa=PASSES + source).returncode == pytest.ExitCode.TESTS_FAILED
    assert run(tmp_path, "--numprocesses=1").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [("-k", "nothing_of_this_name"), ("--ignore=test_lirpa.py",), ("--deselect=test_lirpa.py",), ("--collect-only",)],
)
def test_a_comparison_that_is_not_run_fails_the_run(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    found = run(tmp_path, *arguments)
    assert found.returncode == pytest.ExitCode.TESTS_FAILED, found.stdout
    assert "no test of test_lirpa.py passed" in found.stdout


@pytest.mark.parametrize(
    "source",
    ["", "import no_such_module\n" + PASSES, PASSES.replace("pass", "assert False")],
    ids=["no tests", "import error", "failure"],
)
def test_a_file_without_a_test_that_passes_fails_the_run(tmp_path: Path, source: str) -> None:
    found = run(tmp_path, test_lirpa=source)
    assert found.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "no test of test_lirpa.py passed" in found.stdout


def test_other_tests_may_be_skipped(tmp_path: Path) -> None:
    assert run(tmp_path, test_others=LEFT_OUT["a test is skipped"]).returncode == 0


def test_a_misspelt_requirement_is_refused(tmp_path: Path) -> None:
    found = run(tmp_path, required="require")
    assert found.returncode == pytest.ExitCode.USAGE_ERROR
    assert REQUIRED in found.stderr


def test_every_test_that_takes_the_bridge_is_required() -> None:
    takers = {
        path.name
        for folder in ("tests", "verification")
        for path in (ROOT / folder).glob("**/test_*.py")
        if "= lirpa_bridge(" in path.read_text()
    } - {Path(__file__).name}
    assert takers == set(COMPARISON)


def test_make_requires_the_comparison() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    commands = [line for line in lines if re.search(r"pytest\b.*verification", line)]
    assert commands
    assert all(f"{REQUIRED}=required " in line for line in commands)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
