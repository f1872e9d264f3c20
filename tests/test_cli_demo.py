import pytest

from certgcl.cli import demo
from tests.cli import json_of, plain, run


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demo.__globals__, "DATASET", "karate")


def test_both_trainings_are_in_the_table() -> None:
    result = run("demo", "--epochs", "2", env={"COLUMNS": "120"})
    assert result.exit_code == 0
    for word in ("certified GRACE", "accuracy", "certified share", "mean certified compactness", "over mean norm"):
        assert word in result.stdout


def test_json_has_both_trainings() -> None:
    found = json_of("demo", "--epochs", "2", "--seed", "1")
    assert [result["name"] for result in found["results"]] == ["GRACE", "certified GRACE"]
    for result in found["results"]:
        assert 0 <= result["certified_share"] <= 1
        assert result["evaluation"]["protocol"] == "random-10-10-80"
        assert result["seconds"] > 0


def test_help_has_examples() -> None:
    assert "certgcl demo --epochs 20 --json" in plain(run("demo", "--help").stdout)
