from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import certgcl
from tests.cli.running import json_of, plain, run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Two seeds of two methods on the karate club, and one run on a graph of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for regularizer in ("none", "degree-fast"):
        found[regularizer] = [str(folder / f"{regularizer}-{seed}") for seed in (0, 1)]
        for seed, out in enumerate(found[regularizer]):
            json_of(
                "train",
                "--dataset",
                "karate",
                "--epochs",
                "3",
                "--regularizer",
                regularizer,
                "--seed",
                str(seed),
                "--out",
                out,
            )
    return found


def test_a_run_is_evaluated_by_the_protocol_of_its_graph(runs: dict[str, list[str]]) -> None:
    one = runs["none"][0]
    data, method = certgcl.load_dataset("karate"), certgcl.GRACE.load(Path(one, "method.pt"))
    expected = certgcl.evaluate(method.transform(data), data.y)
    assert run("evaluate", one).stdout == f"{expected}\n"
    assert json_of("evaluate", one) == expected.to_dict()
    seven = json_of("evaluate", one, "--seeds", "7,8")
    assert seven == certgcl.evaluate(method.transform(data), data.y, seeds=[7, 8]).to_dict()


def test_runs_are_compared_with_others(runs: dict[str, list[str]]) -> None:
    certified, plain_runs = runs["degree-fast"], runs["none"]
    against = [word for one in plain_runs for word in ("--against", one)] + ["--seeds", "2"]
    found = json_of("evaluate", *certified, *against)
    each = [json_of("evaluate", one, "--seeds", "2") for one in (*certified, *plain_runs)]
    assert found["micro"] == each[0]["micro"] + each[1]["micro"]
    assert found["against"]["micro"] == each[2]["micro"] + each[3]["micro"]
    test = certgcl.compare(found["micro"], found["against"]["micro"])
    assert found["test"]["n"] == 4
    assert found["test"]["difference"] == pytest.approx(test.difference)
    assert run("evaluate", *certified, *against).stdout.splitlines()[2] == str(test)
    same = json_of("evaluate", certified[0], "--against", certified[0], "--seeds", "2")
    assert (same["test"]["difference"], same["test"]["p"]) == (0.0, 1.0)


def test_embeddings_of_any_origin(tmp_path: Path) -> None:
    z, y = torch.randn(60, 4), torch.arange(60) % 3
    np.save(tmp_path / "z.npy", z.numpy())
    np.save(tmp_path / "y.npy", y.numpy())
    arrays = ("--embeddings", str(tmp_path / "z.npy"), "--labels", str(tmp_path / "y.npy"))
    assert json_of("evaluate", *arrays, "--seeds", "2") == certgcl.evaluate(z, y, seeds=2).to_dict()
    public = run("evaluate", *arrays, "--protocol", "public")
    assert (public.exit_code, "EvaluationError" in public.stderr) == (1, True)
    (tmp_path / "text.npy").write_text("no array")
    wrong = run("evaluate", "--embeddings", str(tmp_path / "text.npy"), "--labels", str(tmp_path / "y.npy"))
    assert (wrong.exit_code, "it must be an array of numbers" in wrong.stderr) == (1, True)


def test_a_graph_without_labels_or_a_run_that_is_not_one(tmp_path: Path) -> None:
    data, out = certgcl.load_dataset("karate"), str(tmp_path / "run")
    torch.save(Data(x=data.x, edge_index=data.edge_index), tmp_path / "graph.pt")
    json_of("train", "--graph", str(tmp_path / "graph.pt"), "--epochs", "1", "--out", out)
    unlabelled = run("evaluate", out)
    assert (unlabelled.exit_code, "on a graph without labels" in unlabelled.stderr) == (1, True)
    empty = run("evaluate", str(tmp_path))
    assert (empty.exit_code, "without source.json" in empty.stderr) == (1, True)
    Path(out, "source.json").write_text("[1]")
    damaged = run("evaluate", out)
    assert (damaged.exit_code, "CheckpointError" in damaged.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pass runs, or --embeddings with --labels"),
        (("--embeddings", __file__), "--labels"),
        ((".", "--embeddings", __file__), "pass runs, or"),
        ((".", "--labels", __file__), "--labels"),
        ((".", "--protocol", "best"), "'best' is not one of public"),
        ((".", "--seeds", "a"), "neither a number of seeds"),
        (("no-such-run",), "does not exist"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    result = run("evaluate", *arguments)
    assert result.exit_code == 2
    assert message in plain(result.stderr)


def test_help_has_examples() -> None:
    assert "certgcl evaluate --embeddings z.npy --labels y.npy" in plain(run("evaluate", "--help").stdout)
