"""The page of a bundled graph, trained on the way."""

from pathlib import Path
from typing import Any

import pytest
import torch

import certgcl
from certgcl import report
from tests.cli.running import json_of, plain, run
from tests.report.report_pages import Page

SHORT = ("explore", "karate", "--epochs", "2", "--budget", "1")


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been opened in a browser."""
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: seen.append(address) or True)
    return seen


def test_the_page_is_written_and_opened(tmp_path: Path, opened: list[str]) -> None:
    target = tmp_path / "karate.html"
    found = json_of(*SHORT, "--out", str(target))
    assert (found["out"], found["opened"], opened) == (str(target), True, [target.as_uri()])
    page = Page(target.read_text(encoding="utf-8"))
    data = certgcl.load_dataset("karate")
    method = certgcl.GRACE(**certgcl.presets.get("grace", "karate").settings() | {"epochs": 2}).fit(data)
    certificate = certgcl.node_compactness(method, data, 1)
    assert page.numbers["summary"]["by_certificate"] == int(certificate.positive.sum())
    assert page.numbers["values"]["nominal"] == pytest.approx(certificate.nominal.tolist())
    assert found["certificate"]["kept"] == pytest.approx(certificate.measures.kept)
    assert [section for section in page.numbers if "reason" in (page.numbers[section] or {})] == []
    assert len(page.numbers["explorer"]["details"]) == 34
    assert page.numbers["origin"]["commands"] == ["certgcl explore karate --budget 1 --epochs 2 --seed 0"]
    assert page.numbers["origin"]["seed"] == 0
    assert page.numbers["origin"]["versions"]["torch"] == torch.__version__
    assert "loss" in page.text
    assert "InfoNCE" not in page.text  # the same curve, without a regularizer


def test_without_a_browser_the_path_is_printed_by_one_thread(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, threads, before = report.build_report, [], torch.get_num_threads()

    def built(*arguments: Any, **settings: Any) -> report.Report:
        threads.append(torch.get_num_threads())
        return build(*arguments, **settings)

    monkeypatch.setattr(report, "build_report", built)
    torch.set_num_threads(2)
    try:
        result = run(*SHORT, "--no-browser")
        assert (threads, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
    assert result.exit_code == 0, result.stderr
    path = Path(result.stdout.splitlines()[-1].removeprefix("written to "))
    assert path.name == "report.html"
    assert "half lost at drop rate" in result.stdout
    assert "certgcl report: GRACE on karate" in path.read_text(encoding="utf-8")
    assert opened == []
    path.unlink()
    path.parent.rmdir()  # there was nothing else in it


def test_only_bundled_graphs_can_be_explored() -> None:
    result = run("explore", "Cora")
    assert (result.exit_code, "'Cora' is not one of digits, karate" in plain(result.stderr)) == (2, True)
    assert run("explore", "karate", "--budget", "-1").exit_code == 2


def test_help_has_examples() -> None:
    assert "certgcl explore karate --budget 1 --no-browser" in plain(run("explore", "--help").stdout)
