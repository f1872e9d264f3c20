"""Shards together are the certificate, however a run goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BranchAndBound, ChangeProblem, Degree
from certgcl.bounds.exact import Brackets
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.certify.certificate import Certificate
from certgcl.certify.certification import Question
from certgcl.certify.sharding import ShardProgress, batch_size, certify_shards, merge_shards
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import ShardError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from tests.certify.sharding.shards import GRAPH, WEIGHTS, agree, shard_files
from tests.toys import random_graph, random_tensor, without

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
