import re

import pytest

from certgcl.cli import demo
from tests.cli.running import json_of, plain, run


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demo.__globals__, "DATASET", "karate")


def test_both_trainings_are_in_a_table_as_wide_as_a_terminal() -> None:
    result = run("demo", "--epochs", "2", env={"COLUMNS": "40"})
    assert result.exit_code == 0
    title, *names, grace, certified = result.stdout.splitlines()
    assert title == "karate: any drop of at most round(0.3 degree) edges at each node"
    assert " ".join(" ".join(names).split()) == ("share method accuracy proved kept per norm time")
    for line, name in ((grace, "GRACE"), (certified, "certified GRACE")):
        assert re.fullmatch(name + r" +\d+\.\d ± \d+\.\d % +(?:[<>] )?\d+\.\d % +-?\d+\.\d % +-?\d\.\d{3} +\d+ s", line)
        assert len(line) <= 80


def test_json_has_both_trainings() -> None:
    found = json_of("demo", "--epochs", "2", "--seed", "1")
    assert [result["name"] for result in found["results"]] == ["GRACE", "certified GRACE"]
    for result in found["results"]:
        assert 0 <= result["positive"] <= 1
        assert result["evaluation"]["protocol"] == "random-10-10-80"
        assert result["seconds"] > 0


def test_help_has_examples() -> None:
    assert "certgcl demo --epochs 20 --json" in plain(run("demo", "--help").stdout)
