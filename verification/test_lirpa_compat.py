"""auto_LiRPA is loaded in the versions that were tried; all else is an error, and nothing is skipped in silence."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from verification import lirpa_compat
from verification.lirpa_bridge import lirpa_bridge
from verification.lirpa_required import REQUIRED

lirpa_bridge()  # skips these tests, where it may be missing

ROOT = Path(__file__).parent.parent


def test_loading_twice_changes_nothing():
    first = lirpa_compat.load()
    members = first.BoundedModule._named_members
    assert lirpa_compat.load() is first
    assert first.BoundedModule._named_members is members


@pytest.mark.parametrize("version", ["0.2", "0.3.1", "0.6.0", "0.7.1.dev0", "0.7rc1", "0.8", "0.70", "unknown"])
def test_other_auto_lirpa_is_refused(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    with pytest.raises(lirpa_compat.UntriedVersionError, match=rf"auto_LiRPA {re.escape(version)}: .*0\.3.*0\.7"):
        lirpa_compat.load()


def test_the_installed_auto_lirpa_is_the_one_that_is_imported(monkeypatch):
    found = importlib.metadata.version("auto_LiRPA")
    other = next(version for version in lirpa_compat.TRIED_LIRPA if version != found)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: other)
    with pytest.raises(lirpa_compat.UntriedVersionError, match=rf"{re.escape(other)} is installed.*{re.escape(found)}"):
        lirpa_compat.load()


def test_an_auto_lirpa_that_is_not_installed_but_on_the_path_is_an_error(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(lirpa_compat.UntriedVersionError, match="not installed"):
        lirpa_compat.load()


def test_other_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.14.0+cpu")
    with pytest.raises(lirpa_compat.UntriedVersionError, match=r"torch 2\.14\.0.*2\.13"):
        lirpa_compat.load()


def test_patch_release_of_torch_is_accepted(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.13.1+cpu")
    lirpa_compat.load()


@pytest.fixture
def not_installed(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_missing_auto_lirpa_is_a_missing_module(not_installed):
    with pytest.raises(ModuleNotFoundError, match="not installed"):
        lirpa_compat.load()


# -- missing, or broken ----------------------------------------------------------------------------


@pytest.fixture
def not_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "verification.lirpa")


def test_an_auto_lirpa_that_cannot_be_imported_is_an_error(monkeypatch, not_imported):
    monkeypatch.setitem(sys.modules, "auto_LiRPA", None)  # as where a package that it needs is missing
    monkeypatch.delenv(REQUIRED, raising=False)
    with pytest.raises(ModuleNotFoundError):
        lirpa_bridge()


@pytest.mark.parametrize(
    ("required", "outcome"), [("", pytest.skip.Exception), ("required", lirpa_compat.NotInstalledError)]
)
def test_a_missing_auto_lirpa_is_an_error_where_it_is_required(
    monkeypatch, not_imported, not_installed, required, outcome
):
    monkeypatch.setenv(REQUIRED, required)
    with pytest.raises(outcome):
        lirpa_bridge()


def test_a_run_fails_where_a_package_that_auto_lirpa_needs_is_missing(tmp_path):
    """Every version imports appdirs; what is tried is a whole run, without the requirement."""
    (tmp_path / "without_appdirs.py").write_text("import sys\nsys.modules['appdirs'] = None\n")
    environment = {
        **os.environ,
        REQUIRED: "",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "PYTEST_ADDOPTS": "",
    }
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "without_appdirs",
            "-p",
            "no:cacheprovider",
            "--collect-only",
            "verification/test_against_lirpa.py",
        ],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == pytest.ExitCode.INTERRUPTED, found.stdout  # by an error while tests are collected
    assert "appdirs" in found.stdout
    assert "skipped" not in found.stdout
