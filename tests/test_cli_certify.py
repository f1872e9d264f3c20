"""What ``certgcl certify`` does with runs and datasets; its shards and files are in ``test_cli.py``."""

from pathlib import Path

import pytest
import torch

import certgcl
from tests.cli import json_of, plain, run


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


@pytest.mark.parametrize(("arguments", "message"), [
    (("--budget", "1"), "--out"), (("--budget", "1", "--out", "out"), "--run, --weights"),
    (("--run", ".", "--budget", "1", "--dataset", "karate"), "a run has its own graph"),
    (("--run", ".", "--weights", __file__, "--budget", "1"), "one of the two"),
    (("--weights", __file__, "--budget", "1", "--out", "out"), "--dataset, --graph"), (("--run", "."), "--budget"),
])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    result = run("certify", *arguments)
    assert result.exit_code == 2
    assert message in plain(result.stderr)


def test_a_run_that_is_not_trained_says_so(tmp_path: Path) -> None:
    result = run("certify", "--run", str(tmp_path), "--budget", "1")
    assert (result.exit_code, "without encoder.npz" in result.stderr, "--resume" in result.stderr) == (1, True, True)
