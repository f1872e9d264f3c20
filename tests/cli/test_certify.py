"""What ``certgcl certify`` does with runs and datasets; its shards and files are in ``test_cli.py``."""

from pathlib import Path

import pytest
import torch

import certgcl
from tests.cli.running import json_of, plain, run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("trained") / "run")
    json_of("train", "--dataset", "karate", "--epochs", "3", "--out", out)
    return out


def test_a_run_is_certified_on_its_own_graph(trained: str) -> None:
    found = json_of("certify", "--run", trained, "--budget", "0.4", "--method", "crown")
    assert Path(found["out"]) == Path(trained, "certificates", "crown-0.4")
    certificate = certgcl.Certificate.load(Path(found["out"], "certificate.npz"))
    method = certgcl.GRACE.load(Path(trained, "method.pt"))
    expected = certgcl.node_compactness(method, certgcl.load_dataset("karate"), 0.4, method="crown")
    torch.testing.assert_close(certificate.lower, expected.lower)
    assert json_of("certify", "--run", trained, "--budget", "1")["out"].endswith("degree-1")


def test_weights_on_a_dataset(trained: str, tmp_path: Path) -> None:
    weights, out = str(Path(trained, "encoder.npz")), str(tmp_path / "out")
    found = json_of("certify", "--weights", weights, "--dataset", "KARATE", "--budget", "1", "--out", out)
    assert found["certificate"]["nodes"] == 34


def test_a_search_writes_brackets_and_counts_those_that_are_exact(trained: str, tmp_path: Path) -> None:
    settings = (
        "certify",
        "--run",
        trained,
        "--budget",
        "1",
        "--method",
        "exact",
        "--time-limit",
        "600",
        "--nodes",
        "11:13",
        "--out",
        str(tmp_path / "out"),
    )
    result = run(*settings)
    assert result.exit_code == 0, result.stderr
    assert "2 exact, 0 known to fall below zero" in result.stdout
    found = json_of(*settings)
    assert (found["kept"], found["certificate"]["exact"], found["certificate"]["negative"]) == ([0], 2, 0)
    certificate = certgcl.Certificate.load(tmp_path / "out" / "certificate.npz")
    assert certificate.upper is not None
    assert found["certificate"]["upper_mean"] == pytest.approx(float(certificate.upper.mean()))
    torch.testing.assert_close(certificate.lower, certificate.upper)
    assert certificate.witness(12).shape[0] == 2


def test_a_search_can_be_cut_short_by_branches(trained: str, tmp_path: Path) -> None:
    found = json_of(
        "certify",
        "--run",
        trained,
        "--budget",
        "1",
        "--method",
        "optimized",
        "--branch-limit",
        "0",
        "--nodes",
        "0:3",
        "--out",
        str(tmp_path / "out"),
    )["certificate"]
    assert (found["method"], found["exact"]) == ("optimized", 0)
    assert found["lower_mean"] < found["upper_mean"] <= found["nominal_mean"] + 1e-12


@pytest.mark.parametrize(
    ("option", "shown"), [("--branch-limit", "branch_limit=3"), ("--time-limit", "time_limit=3.0")]
)
def test_only_a_search_can_be_cut_short(trained: str, tmp_path: Path, option: str, shown: str) -> None:
    result = run("certify", "--run", trained, "--budget", "1", option, "3", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert f"{shown} with method 'degree'" in result.stderr
    assert "Use optimized or exact, or leave it out" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--run", ".", "--budget", "1", "--method", "exact", "--time-limit", "-1"), "--time-limit"),
        (("--run", ".", "--budget", "1", "--method", "best"), "'best' is not one of"),
        (("--budget", "1"), "--out"),
        (("--budget", "1", "--out", "out"), "--run, --weights"),
        (("--run", ".", "--budget", "1", "--dataset", "karate"), "a run has its own graph"),
        (("--run", ".", "--weights", __file__, "--budget", "1"), "one of the two"),
        (("--weights", __file__, "--budget", "1", "--out", "out"), "--dataset, --graph"),
        (("--run", "."), "--budget"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    result = run("certify", *arguments)
    assert result.exit_code == 2
    assert message in plain(result.stderr)


def test_a_run_that_is_not_trained_says_so(tmp_path: Path) -> None:
    result = run("certify", "--run", str(tmp_path), "--budget", "1")
    assert (result.exit_code, "without encoder.npz" in result.stderr, "--resume" in result.stderr) == (1, True, True)
