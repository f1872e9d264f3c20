"""Folders that are damaged, or about another question."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod, BranchAndBound, Degree
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.sharding import certify_shards, merge_shards
from certgcl.certify.sharding.manifest import Manifest, ShardPlan
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import MethodError, ShardError
from certgcl.graphs.graph import Graph
from tests.certify.certificates import rewritten
from tests.certify.sharding.shards import GRAPH, WEIGHTS, agree
from tests.toys import random_graph, toy_network, without

# -- what is not whole -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certify_shards(WEIGHTS, GRAPH, 2, tmp_path_factory.mktemp("finished"), shards=4).folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "folder"))


def damaged(folder: Path) -> None:
    path = folder / "shard-00002-of-00004.npz"
    raw = path.read_bytes()
    path.write_bytes(raw[:300] + bytes([raw[300] ^ 1]) + raw[301:])


def cut_short(folder: Path) -> None:
    path = folder / "shard-00002-of-00004.npz"
    path.write_bytes(path.read_bytes()[:-100])


def of_another_question(folder: Path) -> None:
    certify_shards(WEIGHTS, GRAPH, 1, folder / "other", shards=4)
    os.replace(folder / "other" / "shard-00002-of-00004.npz", folder / "shard-00002-of-00004.npz")


def under_a_wrong_name(folder: Path) -> None:
    (folder / "shard-00002-of-00004.npz").write_bytes((folder / "shard-00001-of-00004.npz").read_bytes())


def without_notes(folder: Path) -> None:
    path = folder / "shard-00002-of-00004.npz"
    Certificate.load(path).save(path)


@pytest.mark.parametrize("change", [damaged, cut_short, of_another_question, under_a_wrong_name, without_notes])
def test_a_shard_that_is_not_whole_is_refused_and_done_again(folder: Path, change: Any) -> None:
    expected = merge_shards(folder)
    change(folder)
    with pytest.raises(ShardError, match=r"1 damaged or foreign \(2\) of 4 shards"):
        merge_shards(folder)
    run = certify_shards(WEIGHTS, GRAPH, 2, folder)
    assert (run.computed, run.kept) == ([2], [0, 1, 3])
    agree(merge_shards(folder), expected)


def test_a_shard_of_other_nodes_is_refused_and_done_again(folder: Path) -> None:
    """As another release of the ordering would make it: right in all but the nodes."""
    path = folder / "shard-00002-of-00004.npz"
    shard, notes = Certificate.load_with_notes(path)
    replace(shard, nodes=(shard.nodes + 1) % 40).save(path, notes)
    with pytest.raises(ShardError, match="shards of other nodes"):
        merge_shards(folder)
    assert certify_shards(WEIGHTS, GRAPH, 2, folder).computed == [2]


@pytest.mark.parametrize(
    "change",
    [
        {"weights": toy_network(seed=1)},
        {"graph": GRAPH.with_features(GRAPH.x + 1e-12)},
        {"method": Degree(hubs=1)},
    ],
)
def test_a_shard_of_another_question_is_refused_whatever_its_notes_say(folder: Path, change: dict[str, Any]) -> None:
    """The same nodes, budgets, method and notes: only what it is about differs."""
    path = folder / "shard-00002-of-00004.npz"
    shard, notes = Certificate.load_with_notes(path)
    other = {"weights": WEIGHTS, "graph": GRAPH, "method": "degree"} | change
    foreign = certgcl.node_compactness(other["weights"], other["graph"], 2, method=other["method"], nodes=shard.nodes)
    assert (foreign.method, foreign.total_budget) == (shard.method, shard.total_budget)
    foreign.save(path, notes)
    with pytest.raises(ShardError, match=r"1 damaged or foreign \(2\) of 4 shards"):
        merge_shards(folder)
    assert certify_shards(WEIGHTS, GRAPH, 2, folder).computed == [2]


def test_a_shard_with_changed_bounds_is_refused(folder: Path) -> None:
    path = folder / "shard-00002-of-00004.npz"
    for honest in (False, True):
        rewritten(path, honest=honest, lower=Certificate.load(path).lower.numpy() + 100)
        with pytest.raises(ShardError, match=r"1 damaged or foreign \(2\) of 4 shards"):
            merge_shards(folder)
        certify_shards(WEIGHTS, GRAPH, 2, folder)


def test_all_shards_of_a_timed_search_are_about_one_question(tmp_path: Path) -> None:
    graph = random_graph(nodes=9, density=0.4)
    certify_shards(WEIGHTS, graph, 1, tmp_path, method=BranchAndBound(time_limit=90.0), shards=2)
    assert "time_limit=90.0" in merge_shards(tmp_path).evidence.method.shown


def test_many_missing_shards_are_named_in_short(tmp_path: Path) -> None:
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=20, only=[0])
    with pytest.raises(ShardError, match=r"19 missing \(1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 9 more\)"):
        merge_shards(tmp_path)


def test_a_folder_needs_its_manifest_and_nodes(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ShardError, match=r"without manifest\.json.*certgcl certify"):
        merge_shards(tmp_path_factory.mktemp("empty"))
    np.save(folder / "nodes.npy", np.arange(40)[::-1])
    with pytest.raises(ShardError, match=r"nodes\.npy \(other nodes\)"):
        merge_shards(folder)
    (folder / "nodes.npy").unlink()
    with pytest.raises(ShardError, match=r"without nodes\.npy"):
        merge_shards(folder)
    assert certify_shards(WEIGHTS, GRAPH, 2, folder).computed == []
    merge_shards(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: text[:-30],
        lambda text: text.replace("float64", "float32"),
        lambda text: text.replace("certgcl-shards-2", "certgcl-shards-1"),
        lambda text: text.replace('"parts"', '"part"'),
    ],
)
def test_a_changed_manifest_is_refused(folder: Path, change: Any) -> None:
    path = folder / "manifest.json"
    text = path.read_text()
    path.write_text(change(text))
    for call in (lambda: merge_shards(folder), lambda: certify_shards(WEIGHTS, GRAPH, 2, folder)):
        with pytest.raises(ShardError, match=r"manifest\.json \(.*Delete it and certify again"):
            call()
    path.unlink()
    assert certify_shards(WEIGHTS, GRAPH, 2, folder, shards=4).kept == [0, 1, 2, 3]
    assert path.read_text() == text


# -- another question ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "graph", "budgets", "settings", "difference"),
    [
        (toy_network(seed=1), GRAPH, 2, {}, r"differs in weights:"),
        (WEIGHTS, GRAPH.with_features(GRAPH.x + 1), 2, {}, r"differs in features:"),
        (WEIGHTS, without(GRAPH, ((0, 36),)), 2, {}, r"differs in .*edges \(40 nodes, 91 edges there, 40 nodes, 90"),
        (WEIGHTS, GRAPH, 1, {}, r"differs in budget \(local 1 … 2 .* there, local 1, total 91 edges here\):"),
        (WEIGHTS, GRAPH, EdgeDropBudget(2, total=1), {}, r"differs in budget"),
        (WEIGHTS, GRAPH, 2, {"method": "crown"}, r"differs in method \(Degree\(.*\) there, Crown\("),
        (WEIGHTS, GRAPH, 2, {"method": Degree(resolution=3)}, r"differs in method \(.*resolution=6.*resolution=3"),
        (WEIGHTS, GRAPH, 2, {"dtype": torch.float32}, r"dtype \(float64 there, float32 here\)"),
        (
            WEIGHTS,
            GRAPH,
            2,
            {"view": without(GRAPH, ((0, 36),))},
            r"differs in directions \(.*the graph itself.*90 edges",
        ),
        (WEIGHTS, GRAPH, 2, {"directions": torch.ones(40, 3)}, r"differs in directions \(.*given, of shape \(40, 3\)"),
        (WEIGHTS, GRAPH, 2, {"nodes": range(39)}, r"differs in nodes \(40 of 40 there, 39 of 40 here\)"),
        (WEIGHTS, GRAPH, 2, {"nodes": range(39, -1, -1)}, r"differs in nodes:"),
        (WEIGHTS, GRAPH, 2, {"shards": 5}, r"differs in shards \(4, .* there, 5, .* here\)"),
        (
            WEIGHTS,
            GRAPH,
            2,
            {"order": "given"},
            r"differs in shards \(4, neighbours together there, 4, in the order given",
        ),
        (WEIGHTS, GRAPH, 1, {"dtype": torch.float32, "shards": 2}, r"budget .*, dtype .*, shards .*:"),
    ],
)
def test_a_folder_of_another_question_is_refused(
    folder: Path, model: Any, graph: Graph, budgets: Any, settings: dict[str, Any], difference: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    with pytest.raises(ShardError, match=rf"{difference}.*one question.*Choose another folder"):
        certify_shards(model, graph, budgets, folder, **settings)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_results_of_another_release_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certgcl.certify.evidence.__version__", "99")
    with pytest.raises(ShardError, match=r"differs in certgcl \(.* there, 99 here\)"):
        certify_shards(WEIGHTS, GRAPH, 2, folder)


def test_of_two_questions_at_once_one_gets_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other manifest arrives between the look and the write."""
    question = Question.compactness(WEIGHTS, GRAPH, 1, method="degree", view=None, dtype=torch.float64)
    nodes = torch.arange(40)
    other = Manifest.of(question, nodes, ShardPlan.of(GRAPH, nodes, 4))
    link = os.link

    def late(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        other.claim(tmp_path, nodes)
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ShardError, match="differs in budget"):
        certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=4)
    assert certify_shards(WEIGHTS, GRAPH, 1, tmp_path).computed == [0, 1, 2, 3]


def test_a_manifest_says_what_is_certified(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {name: part["shown"] for name, part in manifest["parts"].items()} == {
        "weights": "3 -> 4 -> 3 channels, float64: 2 x symmetric, two-piece linear",
        "edges": "40 nodes, 91 edges",
        "features": "3 per node, float64",
        "directions": "compactness, the graph itself as view",
        "budget": "local 1 … 2 (mean 1.95), total 91 edges",
        "method": repr(Degree()),
        "dtype": "float64",
        "nodes": "40 of 40",
        "certgcl": certgcl.__version__,
        "precision": "float64",
        "reading": "given",
        "shards": "4, neighbours together",
    }
    assert manifest["versions"]["torch"] == torch.__version__


def test_a_method_must_say_what_it_is(tmp_path: Path) -> None:
    class Nameless(BoundMethod):
        name, certified = "nameless", True

        def __call__(self, *_: Any) -> Tensor:
            return torch.zeros(40, 1)

    with pytest.raises(MethodError, match=r"Nameless without a repr.*dataclass"):
        certify_shards(WEIGHTS, GRAPH, 2, tmp_path, method=Nameless())
