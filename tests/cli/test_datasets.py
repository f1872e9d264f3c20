from pathlib import Path

import pytest

from certgcl.graphs.datasets import DATASETS, GRAPH_SETS
from tests.cli.running import json_of, plain, run


def test_every_dataset_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERTGCL_DATA", str(tmp_path))
    monkeypatch.setenv("CERTGCL_CACHE", str(tmp_path / "cache"))
    rows = {row["name"]: row for row in json_of("datasets")["datasets"]}
    assert list(rows) == list(DATASETS)
    sets = {row["name"]: row for row in json_of("datasets")["sets"]}
    assert list(sets) == list(GRAPH_SETS)
    assert (sets["MUTAG"]["graphs"], sets["MUTAG"]["found"]) == (188, None)
    assert {row["found"] for row in rows.values()} == {None}
    assert (rows["Cora"]["kind"], rows["Cora"]["nodes"], rows["karate"]["kind"]) == ("paper", 2708, "embedded")
    shown = run("datasets", env={"COLUMNS": "100"})
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in [*DATASETS, *GRAPH_SETS])
    assert "missing" in shown.stdout


def test_files_are_found_where_they_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "Amazon" / "Photo" / "raw"
    raw.mkdir(parents=True)
    (raw / "amazon_electronics_photo.npz").touch()
    monkeypatch.setenv("CERTGCL_CACHE", str(tmp_path))
    monkeypatch.delenv("CERTGCL_DATA", raising=False)
    for arguments in ((), ("--data-root", str(tmp_path))):
        rows = json_of("datasets", *arguments)["datasets"]
        assert str(tmp_path) in {row["found"] for row in rows if row["name"] == "Photo"}
    assert json_of("datasets", "--data-root", str(raw))["datasets"][10]["found"] is None


def test_the_files_of_a_set_are_found(tmp_path: Path) -> None:
    raw = tmp_path / "TU" / "MUTAG" / "raw"
    raw.mkdir(parents=True)
    for file in GRAPH_SETS["MUTAG"].files:
        (raw / file).touch()
    rows = json_of("datasets", "--data-root", str(tmp_path))["sets"]
    assert [row["name"] for row in rows if row["found"] == str(tmp_path)] == ["MUTAG"]


def test_help_has_examples() -> None:
    assert "certgcl datasets --data-root data --json" in plain(run("datasets", "--help").stdout)
