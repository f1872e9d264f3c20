"""Commands whose work is done by other processes: the same results, and the same rules."""

import json
from pathlib import Path

import pytest

from tests.cli.running import json_of, plain, run

TRAIN = ("train", "--dataset", "karate", "--epochs", "3", "--seeds", "0..1")
PROCESSES = ("--executor", "processes", "--workers", "2")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_trainings_experiments_and_certificates_are_those_of_one_process() -> None:
    """One test, so that workers start once."""
    here, there = json_of(*TRAIN, "--out", "one"), json_of(*TRAIN, *PROCESSES, "--out", "two")
    assert here["evaluation"] == there["evaluation"]
    for seed in ("seed-0", "seed-1"):
        assert Path("one", seed, "encoder.npz").read_bytes() == Path("two", seed, "encoder.npz").read_bytes()
        assert json.loads(Path("two", seed, "result.json").read_text())["epochs"] == 3
    again = run(*TRAIN, *PROCESSES, "--out", "two")
    assert again.exit_code == 1
    assert "with the files of a run" in plain(again.stderr)
    assert run(*TRAIN, *PROCESSES, "--out", "two", "--resume").exit_code == 0

    for name, more in (("a", ()), ("b", PROCESSES)):
        result = run(
            "certify",
            "--run",
            "one/seed-0",
            "--budget",
            "1",
            "--method",
            "interval",
            "--shards",
            "4",
            "--reproducible",
            "--out",
            name,
            *more,
        )
        assert result.exit_code == 0, result.stderr
    assert Path("a/certificate.npz").read_bytes() == Path("b/certificate.npz").read_bytes()

    pytest.importorskip("matplotlib", reason="figures need the extra plots")
    for name, more in (("c", ()), ("d", PROCESSES)):
        result = run(
            "reproduce",
            "imbalance",
            "--dataset",
            "karate",
            "--epochs",
            "2",
            "--pairs",
            "2",
            "--nodes",
            "8",
            "--methods",
            "grace",
            "--seeds",
            "2",
            "--out",
            name,
            *more,
        )
        assert result.exit_code == 0, result.stderr
    assert Path("c/imbalance-karate.csv").read_text() == Path("d/imbalance-karate.csv").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--executor", "dask"), "'dask' is not one of here, processes, ray"),
        (("--workers", "2"), "workers=2 with executor='here'"),
        (("--executor", "processes", "--address", "auto"), "address='auto' with executor='processes'"),
        (("--seeds", "3..1"), "is neither a number of seeds"),
    ],
)
def test_wrong_usage_ends_with_2(options: tuple[str, ...], message: str) -> None:
    result = run("train", "--dataset", "karate", *options)
    assert result.exit_code == 2
    assert message in plain(result.stderr)
