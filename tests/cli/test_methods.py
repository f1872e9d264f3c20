"""Every method from end to end through the command line."""

from pathlib import Path

import pytest

from certgcl.learning.methods import METHODS
from tests.cli.running import json_of


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_trained_evaluated_certified_and_audited(method: str, tmp_path: Path) -> None:
    out = str(tmp_path / method)
    trained = json_of(
        "train", "--dataset", "sbm", "--method", method, "--epochs", "20", "--anchors", "32", "--out", out
    )
    assert trained["epochs"] == 20
    evaluated = json_of("evaluate", out, "--seeds", "2")
    assert evaluated["micro"] == trained["evaluation"]["micro"][:2]
    assert evaluated["micro_mean"] > 0.5  # four blocks
    question = ("--run", out, "--budget", "0.3", "--method", "degree-fast", "--nodes", "0:100")
    assert json_of("certify", *question)["certificate"]["nodes"] == 100
    audited = json_of("audit", *question, "--samples", "20", "--searches", "4")
    assert (audited["violations"], audited["nodes"], audited["views_searched"]) == (0, 100, 4)
