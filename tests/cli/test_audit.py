from pathlib import Path

import pytest

import certgcl
from certgcl.certify.audit import audit
from certgcl.cli import audit as command
from tests.cli.running import json_of, plain, run
from tests.toys import random_graph, toy_network

GRAPH, WEIGHTS = random_graph(nodes=30, density=0.1), toy_network()
AUDIT = ("audit", "--graph", "graph", "--weights", "encoder.npz", "--budget", "2", "--samples", "10", "--searches", "5")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    certgcl.save_graph("graph", GRAPH)
    WEIGHTS.save("encoder.npz")


def test_a_bound_passes() -> None:
    expected = audit(WEIGHTS, GRAPH, 2, samples=10, searches=5)
    assert json_of(*AUDIT) == expected.to_dict()
    result = run(*AUDIT)
    assert (result.exit_code, result.stdout) == (0, f"{expected}\n")


def test_a_violation_is_told_from_a_failure() -> None:
    result = run(*AUDIT, "--method", "released")
    assert result.exit_code == 3
    assert run(*AUDIT, "--nodes", "29:31").exit_code == 1
    assert run(*AUDIT, "--nodes", "some").exit_code == 2
    assert result.stdout.startswith("released: ")
    assert " 0 violations" not in result.stdout


def test_options_reach_the_audit() -> None:
    found = json_of(*AUDIT, "--nodes", "3:9", "--total", "1", "--seed", "4", "--method", "crown", "--searches", "2")
    budget = certgcl.EdgeDropBudget(local=2, total=1)
    assert (
        found
        == audit(WEIGHTS, GRAPH, budget, nodes=range(3, 9), seed=4, method="crown", samples=10, searches=2).to_dict()
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    trained = run("train", "--dataset", "karate", "--regularizer", "none", "--epochs", "2", "--out", str(folder))
    assert trained.exit_code == 0, trained.stderr
    return folder


def test_a_run_is_audited_by_its_module(run_folder: Path) -> None:
    found = json_of("audit", "--run", str(run_folder), "--budget", "1", "--samples", "4", "--searches", "2")
    assert found["ran"] == "the module itself, a GCNEncoder in float32"
    assert "the weights, in float64" in run(*AUDIT).stdout


def test_a_run_whose_two_encoders_differ_is_refused(run_folder: Path) -> None:
    WEIGHTS.save(run_folder / "encoder.npz")
    refused = run("audit", "--run", str(run_folder), "--budget", "1")
    assert refused.exit_code == 1
    assert "with other weights in encoder.npz" in plain(refused.stderr)


def test_many_nodes_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command.__globals__, "MOST_NODES", 7)
    assert json_of(*AUDIT)["nodes"] == 7


def test_wrong_usage_and_help() -> None:
    assert run("audit", "--budget", "1").exit_code == 2
    assert "is not one of" in plain(run(*AUDIT, "--method", "magic").stderr)
    missing = run("audit", "--run", "graph", "--budget", "1")
    assert (missing.exit_code, "without encoder.npz" in missing.stderr) == (1, True)
    assert "certgcl audit --run runs/digits-grace-degree-fast-0 --budget 0.3" in plain(
        run("audit", "--help", env={"COLUMNS": "200"}).stdout
    )
