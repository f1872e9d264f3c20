"""The version is the same wherever it is written, and what a release needs is there."""

import re
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import certgcl

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASES = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", CHANGELOG, re.MULTILINE)


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    assert "\n## [Unreleased]\n" in CHANGELOG
    assert RELEASES[0][0] == certgcl.__version__
    assert date.fromisoformat(RELEASES[0][1])


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], str(citation["date-released"])) == RELEASES[0]


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda file: file.name)
def test_workflows_and_templates_are_yaml(file: Path) -> None:
    assert isinstance(yaml.safe_load(file.read_text(encoding="utf-8")), dict)


def test_workflows_call_targets_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        called = re.findall(r"run: make ([\w-]+)", workflow.read_text(encoding="utf-8"))
        assert set(called) <= targets, workflow.name


def test_actions_of_others_are_pinned_to_a_commit() -> None:
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for used in re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_type_checkers_find_an_editable_install() -> None:
    """They follow paths, and no import hooks."""
    modulefinder = pytest.importorskip("mypy.modulefinder")
    if (ROOT / "certgcl").samefile(Path(certgcl.__file__).parent):
        folders = [folder for found in modulefinder.get_search_dirs(sys.executable) for folder in found]
        assert any((Path(folder) / "certgcl" / "py.typed").exists() for folder in folders)


def test_the_project_names_its_authors_and_the_paper() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["authors"] == [{"name": "certgcl contributors"}]
    assert project["urls"] == {"Paper": "https://arxiv.org/abs/2309.13944"}
