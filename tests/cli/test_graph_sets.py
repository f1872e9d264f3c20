"""Sets of graphs on the command line: trained on, evaluated, certified and verified."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import certgcl
from tests.cli.running import json_of, run

TRAIN = (
    "train",
    "--dataset",
    "cycles-and-trees",
    "--method",
    "graphcl",
    "--epochs",
    "1",
    "--anchors",
    "8",
    "--budget",
    "1",
)
OUT = Path("runs/cycles-and-trees-graphcl-degree-fast-0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a run in it."""
    here = tmp_path_factory.mktemp("graphs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        result = run(*TRAIN, "--certify")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("GraphCL on cycles-and-trees: 1 epochs in ")
    return here


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_run_folder_has_all_that_belongs_to_a_run() -> None:
    assert {path.name for path in OUT.iterdir()} >= {
        "config.json",
        "history.jsonl",
        "checkpoint.pt",
        "source.json",
        "method.pt",
        "encoder.npz",
        "result.json",
        "certificate.npz",
    }
    graphs, method = certgcl.load_dataset("cycles-and-trees"), certgcl.GraphCL.load(OUT / "method.pt")
    found = json.loads((OUT / "result.json").read_text())
    labels = torch.cat([graph.y for graph in graphs])
    assert found["evaluation"] == certgcl.evaluate(method.transform(graphs), labels, "ten-folds").to_dict()
    certificate = certgcl.GraphCertificate.load(OUT / "certificate.npz")
    assert found["certificate"]["lower_mean"] == pytest.approx(float(certificate.lower.mean()))
    assert certificate.verify(method, graphs).ok


def test_a_run_is_evaluated_certified_and_verified() -> None:
    found = json_of("evaluate", str(OUT), "--seeds", "2")
    assert (found["protocol"], len(found["micro"])) == ("ten-folds", 2)
    result = json_of("certify", "--run", str(OUT), "--budget", "2", "--total", "1")
    path = Path(result["certificate"]["path"])
    assert path == OUT / "certificates" / "degree-2" / "certificate.npz"
    assert (result["certificate"]["graphs"], result["certificate"]["pool"]) == (200, "mean")
    verified = json_of("verify", str(path.parent), "--run", str(OUT))
    assert verified["ok"]
    certificate = certgcl.GraphCertificate.load(path)
    assert certificate.total_budget.tolist() == [1] * 200


def test_weights_on_a_set_need_the_pooling() -> None:
    words = ("--weights", str(OUT / "encoder.npz"), "--dataset", "cycles-and-trees")
    result = run("certify", *words, "--budget", "1", "--total", "1", "--out", "sum", "--pool", "sum")
    assert result.exit_code == 0, result.stderr
    assert "sum pooling" in result.stdout
    assert run("verify", "sum", *words, "--pool", "sum").exit_code == 0
    assert run("verify", "sum", *words, "--pool", "mean").exit_code == 3
    for wrong in ((), ("--pool", "median")):
        result = run("certify", *words, "--budget", "1", "--out", "other", *wrong)
        assert result.exit_code == 2
        assert not Path("other").exists()


@pytest.mark.parametrize("option", [("--nodes", "0:3"), ("--shards", "2"), ("--shard", "0/2"), ("--pool", "sum")])
def test_options_about_nodes_are_refused(option: tuple[str, str]) -> None:
    result = run("certify", "--run", str(OUT), "--budget", "1", *option)
    assert result.exit_code == 2
    assert option[0] in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--dataset", "karate", "--method", "graphcl"),
        ("train", "--dataset", "cycles-and-trees"),
        ("audit", "--run", str(OUT), "--budget", "1"),
        ("report", str(OUT)),
    ],
)
def test_commands_for_one_graph_say_so(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.stderr
    assert "set of graphs" in " ".join(result.stderr.split())


def test_a_run_with_other_graphs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def others() -> list[object]:
        graphs = certgcl.graphs.datasets.graph_sets.cycles_and_trees()
        graphs[3].x[0] = torch.from_numpy(np.ones(4, dtype=np.float32))
        return graphs

    monkeypatch.setitem(certgcl.graphs.datasets.graph_sets.DRAWN, "cycles-and-trees", others)
    result = run("evaluate", str(OUT))
    assert result.exit_code == 1
    assert "other features" in result.stderr
