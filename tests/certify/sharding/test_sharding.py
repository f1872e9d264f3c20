import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BoundMethod, BranchAndBound, ChangeProblem, Degree
from certgcl.bounds.exact import Brackets
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.sharding import ShardProgress, batch_size, certify_shards, merge_shards
from certgcl.certify.sharding.manifest import Manifest, ShardPlan
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import MethodError, ShardError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from tests.certify.certificates import rewritten
from tests.toys import random_graph, random_tensor, toy_network, without

GRAPH, WEIGHTS = random_graph(nodes=40, density=0.1), toy_network()


def shard_files(folder: Path) -> dict[str, int]:
    """The time each shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.glob("shard-*"))}


def agree(found: Certificate, expected: Certificate) -> None:
    """Equal but for rounding: sums run in another order when fewer rows stand side by side in a block.

    ``rounding`` itself may be smaller in a shard, whose rows may be shorter than the longest of the graph.
    """
    for name in ("nodes", "nominal", "directions", "local_budget"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert (found.method, found.certified, found.total_budget) == (
        expected.method,
        expected.certified,
        expected.total_budget,
    )
    torch.testing.assert_close(found.lower, expected.lower, rtol=1e-12, atol=1e-13)
    assert (found.rounding <= expected.rounding * (1 + 1e-12)).all()
    assert (found.rounding > 0).all()


# -- the same as in one pass -----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", ["near", "given"])
def test_shards_together_are_the_certificate_of_one_pass(tmp_path: Path, method: str, order: Any) -> None:
    run = certify_shards(WEIGHTS, GRAPH, 2, tmp_path, method=method, shards=7, order=order)
    assert (run.computed, run.kept, run.missing) == ([*range(7)], [], [])
    assert list(shard_files(tmp_path)) == [f"shard-{k:05d}-of-00007.npz" for k in range(7)]
    merged = merge_shards(tmp_path)
    agree(merged, certgcl.node_compactness(WEIGHTS, GRAPH, 2, method=method))
    agree(Certificate.load(tmp_path / "certificate.npz"), merged)


def test_every_shard_is_a_certificate_of_its_own(tmp_path: Path) -> None:
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=3, order="given")
    one = Certificate.load(tmp_path / "shard-00001-of-00003.npz")
    assert one.nodes.tolist() == list(range(13, 26))
    agree(one, certgcl.node_compactness(WEIGHTS, GRAPH, 2, nodes=range(13, 26)))


def test_all_settings_reach_the_bounds(tmp_path: Path, graph: Graph) -> None:
    encoder = GCNEncoder(5, 4, 3, "prelu").eval()
    view, budget = without(graph, ((0, 1),)), EdgeDropBudget(local=[1, 2, 2, 1, 1, 1], total=3)
    settings: Any = {"nodes": [4, 0, 2], "dtype": torch.float32, "method": Degree(resolution=1), "view": view}
    certify_shards(encoder, graph, budget, tmp_path, shards=2, **settings)
    merged, expected = merge_shards(tmp_path), certgcl.node_compactness(encoder, graph, budget, **settings)
    assert merged.nodes.tolist() == [4, 0, 2]
    assert merged.lower.dtype == torch.float32
    torch.testing.assert_close(merged.lower, expected.lower)
    assert torch.equal(merged.directions, expected.directions)


def test_a_search_in_shards_keeps_its_brackets(tmp_path: Path) -> None:
    graph = random_graph(nodes=9, density=0.4)
    certify_shards(WEIGHTS, graph, 1, tmp_path, method="exact", shards=3)
    merged, expected = merge_shards(tmp_path), certgcl.node_compactness(WEIGHTS, graph, 1, method="exact")
    agree(merged, expected)
    torch.testing.assert_close(merged.upper, expected.upper)
    assert merged.exact.all()
    assert all(torch.equal(merged.witness(node), expected.witness(node)) for node in range(9))
    workers = BranchAndBound(workers=1, progress=print)  # which make no difference to the result
    assert certify_shards(WEIGHTS, graph, 1, tmp_path, method=workers).computed == []


def test_shards_share_the_time_of_a_search_by_their_nodes(tmp_path: Path) -> None:
    seen: list[tuple[int, float | None]] = []

    class Timed(BranchAndBound):
        def brackets(self, network: certgcl.GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Brackets:
            seen.append((len(problem.anchors), self.time_limit))
            return super().brackets(network, problem, directions)

    graph = random_graph(nodes=9, density=0.4)
    certify_shards(WEIGHTS, graph, 1, tmp_path, method=Timed(time_limit=90.0), shards=2)
    assert seen == [(4, pytest.approx(40.0)), (5, pytest.approx(50.0))]
    with pytest.raises(ShardError, match=r"differs in method \(.*time_limit=90\.0.*time_limit=1\.0"):
        certify_shards(WEIGHTS, graph, 1, tmp_path, method=Timed(time_limit=1.0))


def test_without_time_shards_hold_the_bound_and_the_clean_value(tmp_path: Path) -> None:
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, method=BranchAndBound(time_limit=0.0), shards=3)
    merged = merge_shards(tmp_path)
    torch.testing.assert_close(merged.lower, certgcl.node_compactness(WEIGHTS, GRAPH, 2).lower)
    torch.testing.assert_close(merged.upper, merged.nominal)


def test_directions_of_ones_own(tmp_path: Path) -> None:
    directions = random_tensor(40, 2, 3, seed=1)
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, directions=directions, shards=4)
    agree(merge_shards(tmp_path), certgcl.linear_bounds(WEIGHTS, GRAPH, 2, directions))


def test_what_all_shards_share_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = CompactnessDirections.of
    monkeypatch.setattr(CompactnessDirections, "of", lambda *args: calls.append(1) or run(*args))
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=5)
    assert len(calls) == 1
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=5)
    assert len(calls) == 1  # and not at all when nothing is left to do


# -- going on --------------------------------------------------------------------------------------


def test_finished_shards_are_kept(tmp_path: Path) -> None:
    first = certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=5, only=[3, 1])
    assert (first.computed, first.missing) == ([3, 1], [0, 2, 4])
    before = shard_files(tmp_path)
    second = certify_shards(WEIGHTS, GRAPH, 2, tmp_path)  # as many shards as the folder was made for
    assert (second.computed, second.kept, second.missing) == ([0, 2, 4], [1, 3], [])
    assert shard_files(tmp_path).items() >= before.items()


def test_the_answer_to_a_question_does_not_depend_on_how_it_is_asked(tmp_path: Path) -> None:
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=5)
    budget = EdgeDropBudget(local=[2] * 40, total=GRAPH.num_edges)
    source = (GRAPH.x, GRAPH.edge_index.flip(1))
    assert certify_shards(WEIGHTS, source, budget, tmp_path, method=Degree(), nodes=range(40)).computed == []


KILLED = """
import os, signal, sys
from pathlib import Path
import certgcl
move = os.replace
def killed(source, target):
    if Path(target).name.startswith("shard-00002"):
        os.kill(os.getpid(), signal.SIGKILL)
    move(source, target)
os.replace = killed
graph, weights, out = sys.argv[1:]
certgcl.certify_shards(certgcl.GraphNetwork.load(weights), certgcl.load_graph(graph), 2, out, shards=6)
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 with the third shard written, but not in its place."""
    graph, weights = certgcl.save_graph(tmp_path / "graph", GRAPH), WEIGHTS.save(tmp_path / "weights.npz")
    environment = {**os.environ, "PYTHONPATH": str(Path(certgcl.__file__).parents[1])}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, graph, weights, tmp_path / "out"], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    before = shard_files(tmp_path / "out")
    assert list(before) == ["shard-00000-of-00006.npz", "shard-00001-of-00006.npz"]
    assert len(list((tmp_path / "out").glob(".*.tmp"))) == 1
    with pytest.raises(ShardError, match=r"4 missing \(2, 3, 4, 5\) of 6 shards.*finished shards are kept"):
        merge_shards(tmp_path / "out")
    run = certify_shards(WEIGHTS, GRAPH, 2, tmp_path / "out", shards=6)
    assert (run.computed, run.kept) == ([2, 3, 4, 5], [0, 1])
    assert shard_files(tmp_path / "out").items() >= before.items()
    assert not list((tmp_path / "out").glob(".*.tmp"))
    agree(merge_shards(tmp_path / "out"), certgcl.node_compactness(WEIGHTS, GRAPH, 2))


def test_an_interrupted_run_leaves_whole_shards(tmp_path: Path) -> None:
    def interrupt(progress: ShardProgress) -> None:
        if progress.shards_done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=5, progress=interrupt)
    assert certify_shards(WEIGHTS, GRAPH, 2, tmp_path).kept == [0, 1]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes are certified at a time."""
    certify, sizes = Question.certify, []

    def counted(self: Question, anchors: Tensor, *settings: Any) -> Certificate:
        sizes.append(len(anchors))
        return certify(self, anchors, *settings)

    monkeypatch.setattr(Question, "certify", counted)
    return sizes


@pytest.mark.parametrize(("patience", "sizes"), [(3600.0, [4, 8, 16, 12]), (0.0, 10 * [4])], ids=["fast", "slow"])
def test_shards_are_done_several_at_a_time_while_they_are_fast(
    patience: float, sizes: list[int], tmp_path: Path, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("PATIENCE", "LONGEST"):
        monkeypatch.setattr(batch_size, limit, patience)
    assert certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=10).computed == list(range(10))
    assert asked == sizes
    agree(merge_shards(tmp_path), certgcl.node_compactness(WEIGHTS, GRAPH, 2))


def test_finished_shards_do_not_count_as_fast_ones(tmp_path: Path, asked: list[int]) -> None:
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=10, only=range(6))
    asked.clear()
    assert certify_shards(WEIGHTS, GRAPH, 2, tmp_path).kept == list(range(6))
    assert asked == [4, 8, 4]


def test_progress_counts_shards_and_nodes(tmp_path: Path) -> None:
    seen: list[ShardProgress] = []
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=4, only=[1])
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=4, progress=seen.append)
    assert [(state.shards_done, state.nodes_done, state.nodes_computed) for state in seen] == [
        (0, 0, 0),
        (1, 10, 10),
        (2, 20, 10),
        (3, 30, 20),
        (4, 40, 30),
    ]
    assert {(state.shards, state.nodes) for state in seen} == {(4, 40)}


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
