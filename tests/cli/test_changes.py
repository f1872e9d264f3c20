"""Other changes than dropped edges, on the command line."""

from pathlib import Path

import pytest
import torch

import certgcl
from certgcl import Changes, EdgeFlipBudget, FeatureBudget
from tests.cli.running import json_of, plain, run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("trained") / "run")
    json_of("train", "--dataset", "karate", "--epochs", "3", "--out", out)
    return out


@pytest.mark.parametrize(
    ("options", "changes", "folder"),
    [
        (("--budget", "1", "--added", "1"), Changes(drops=1, additions=1), "degree-fast-1-added-1"),
        (
            ("--budget", "0", "--flipped", "1", "--total", "2"),
            Changes(flips=EdgeFlipBudget(local=1, total=2)),
            "degree-fast-0-flipped-1",
        ),
        (
            ("--budget", "1", "--masked", "2"),
            Changes(drops=1, features=FeatureBudget(masked=2)),
            "degree-fast-1-masked-2",
        ),
        (
            ("--budget", "0", "--added", "1", "--masked", "1"),
            Changes(additions=1, features=FeatureBudget(masked=1)),
            "degree-fast-0-added-1-masked-1",
        ),
        (("--budget", "0", "--columns", "3"), Changes(features=FeatureBudget(columns=3)), "degree-fast-0-columns-3"),
        (("--budget", "0", "--box", "0.1"), Changes(features=FeatureBudget(box=0.1)), "degree-fast-0-box-0.1"),
    ],
)
def test_changes_are_those_of_python(trained: str, options: tuple[str, ...], changes: Changes, folder: str) -> None:
    found = json_of("certify", "--run", trained, "--nodes", "0:4", "--method", "degree-fast", *options)
    assert Path(found["out"]).name == folder
    certificate = certgcl.Certificate.load(Path(found["out"], "certificate.npz"))
    method = certgcl.GRACE.load(Path(trained, "method.pt"))
    expected = certgcl.node_compactness(
        method, certgcl.load_dataset("karate"), changes, nodes=range(4), method="degree-fast"
    )
    torch.testing.assert_close(certificate.lower, expected.lower)


@pytest.mark.parametrize(
    "options",
    [
        ("--budget", "1", "--flipped", "1"),
        ("--budget", "0", "--masked", "1", "--box", "1"),
    ],
)
def test_changes_that_do_not_go_together_are_refused(trained: str, options: tuple[str, ...]) -> None:
    result = run("certify", "--run", trained, *options)
    assert result.exit_code == 2
    assert "--added, --flipped" in plain(result.stderr)
