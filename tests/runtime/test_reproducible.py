"""Reproducible shards: whichever process writes a file, and whatever it did before, the file is the same."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import certgcl
from certgcl.bounds import BranchAndBound, compiled
from certgcl.certify.certification import Question
from certgcl.certify.sharding import certify_shards, merge_shards
from certgcl.errors import InputError, MethodError, OutOfMemoryError, ShardError, WorkerError
from certgcl.runtime import reproducible
from certgcl.runtime.arithmetic import one_thread
from certgcl.runtime.reproducible import arithmetic
from tests.cli.running import json_of
from tests.toys import random_graph, toy_network

SHARDS, METHOD = 6, "degree-cheap"


@pytest.fixture(scope="module")
def data() -> Any:
    return certgcl.load_dataset("digits")


@pytest.fixture(scope="module")
def encoder(data: Any) -> certgcl.GCNEncoder:
    torch.manual_seed(0)
    return certgcl.GCNEncoder(data.num_features, 24, 12).eval()


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def expected(encoder: Any, data: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """All shards and what they are merged to, by one process in one go."""
    folder = tmp_path_factory.mktemp("one")
    certify_shards(encoder, data, 0.3, folder, method=METHOD, shards=SHARDS, reproducible=True)
    merge_shards(folder)
    return files(folder)


def test_without_it_what_is_computed_together_shows_in_the_last_bits(encoder: Any, data: Any, tmp_path: Path) -> None:
    """The reason for it, and what the other tests would see."""
    settings: Any = {"method": METHOD, "shards": SHARDS}
    certify_shards(encoder, data, 0.3, tmp_path / "batches", **settings)
    for shard in range(SHARDS):
        certify_shards(encoder, data, 0.3, tmp_path / "alone", only=[shard], **settings)
    assert files(tmp_path / "batches") != files(tmp_path / "alone")
    torch.testing.assert_close(
        merge_shards(tmp_path / "batches").lower, merge_shards(tmp_path / "alone").lower, rtol=1e-12, atol=1e-13
    )


def test_two_workers_with_other_histories_threads_and_limits_write_the_same(
    encoder: Any, data: Any, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    graph = certgcl.Graph.of(data)
    certgcl.node_compactness(encoder, graph, 0.3, method=METHOD, nodes=range(100), memory_limit=1 << 29)
    torch.set_num_threads(2)
    first = certify_shards(
        encoder,
        graph,
        0.3,
        tmp_path,
        method=METHOD,
        shards=SHARDS,
        worker=(1, 2),
        reproducible=True,
        memory_limit=1 << 30,
    )
    torch.set_num_threads(1)
    second = certify_shards(encoder, data, 0.3, tmp_path, method=METHOD, worker=(0, 2), memory_limit=1 << 40)
    assert (first.computed, second.computed) == ([1, 3, 5], [0, 2, 4])
    merge_shards(tmp_path)
    assert files(tmp_path) == expected


def test_layouts_of_weights_and_features_do_not_matter(
    encoder: Any, data: Any, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    other = encoder.network().mapped(lambda tensor: tensor.T.contiguous().T if tensor.dim() == 2 else tensor)
    unaligned = torch.empty(data.x.numel() + 1)[1:].view(data.x.shape).copy_(data.x)
    for number, x in enumerate((unaligned, data.x.T.contiguous().T)):
        certify_shards(
            other,
            (x, data.edge_index),
            0.3,
            tmp_path / str(number),
            method=METHOD,
            shards=SHARDS,
            only=[2],
            reproducible=True,
        )
        name = f"shard-00002-of-{SHARDS:05d}.npz"
        assert (tmp_path / str(number) / name).read_bytes() == expected[name]


KILLED = """
import os, signal, sys
from pathlib import Path
import certgcl, torch
torch.set_num_threads(2)
move = os.replace
def killed(source, target):
    if Path(target).name.startswith("shard-00002"):
        os.kill(os.getpid(), signal.SIGKILL)
    move(source, target)
os.replace = killed
graph, weights, out = sys.argv[1:]
certgcl.certify_shards(certgcl.GraphNetwork.load(weights), certgcl.load_graph(graph), 0.3, out, shards=6,
                       method="degree-cheap", reproducible=True)
"""


def test_a_killed_run_that_another_process_ends_writes_the_same(
    encoder: Any, data: Any, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """By way of files, as several machines have it; the second process is the command line."""
    graph, weights = certgcl.save_graph(tmp_path / "graph", data), encoder.network().save(tmp_path / "weights.npz")
    environment = {**os.environ, "PYTHONPATH": str(Path(certgcl.__file__).parents[1])}
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, graph, weights, out], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    result = json_of(
        "certify",
        "--graph",
        str(graph),
        "--weights",
        str(weights),
        "--budget",
        "0.3",
        "--method",
        METHOD,
        "--out",
        str(out),
        "--memory-limit",
        "2",
    )
    assert (result["kept"], result["computed"]) == ([0, 1], [2, 3, 4, 5])
    assert files(out) == expected


AFTER_OTHERS = """
import sys
import certgcl
graph, weights, out = sys.argv[1:]
network, graph = certgcl.GraphNetwork.load(weights), certgcl.load_graph(graph)
for method in ("degree", "crown", "interval", "degree-fast"):
    certgcl.node_compactness(network, graph, 1, method=method, nodes=range(50))
certgcl.certify_shards(network, graph, 0.3, out, shards=6, only=[2], method="degree-cheap", reproducible=True)
"""


@pytest.mark.parametrize("kernels", ["always", "never"])
def test_what_a_process_computed_before_does_not_matter(
    kernels: str, encoder: Any, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERTGCL_KERNELS", kernels)
    graph, weights = certgcl.save_graph(tmp_path / "graph", data), encoder.network().save(tmp_path / "weights.npz")
    certify_shards(encoder, data, 0.3, tmp_path / "here", method=METHOD, shards=SHARDS, only=[2], reproducible=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(certgcl.__file__).parents[1])}
    subprocess.run(
        [sys.executable, "-c", AFTER_OTHERS, graph, weights, tmp_path / "there"], env=environment, check=True
    )
    assert files(tmp_path / "here") == files(tmp_path / "there")


def test_the_command_has_a_flag_for_it(tmp_path: Path) -> None:
    graph = certgcl.save_graph(tmp_path / "graph", random_graph())
    weights = toy_network().save(tmp_path / "weights.npz")
    words = ["certify", "--graph", str(graph), "--weights", str(weights), "--budget", "1", "--shards", "3"]
    json_of(*words, "--reproducible", "--out", str(tmp_path / "one"))
    json_of(*words, "--reproducible", "--out", str(tmp_path / "two"))
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert '"arithmetic"' in (tmp_path / "one" / "manifest.json").read_text()


@pytest.mark.parametrize("method", ["degree", "crown", "paper", BranchAndBound(branch_limit=8)], ids=str)
@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
def test_every_method_is_reproducible(method: Any, kernels: bool, tmp_path: Path) -> None:
    graph, weights = random_graph(nodes=40, density=0.1), toy_network()

    def shards(folder: str, only: Any = None) -> dict[str, bytes]:
        certify_shards(weights, graph, 2, tmp_path / folder, method=method, shards=4, only=only, reproducible=True)
        return files(tmp_path / folder)

    if kernels:
        whole, part = shards("whole"), shards("part", [3])
    else:
        with compiled.switched_off():
            whole, part = shards("whole"), shards("part", [3])
    assert part.items() <= whole.items()


def test_parts_do_not_depend_on_the_limit_which_is_kept_to_or_refused(
    encoder: Any, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certgcl.certify.certification.PART", (1 << 28) + (1 << 22))
    question = Question.compactness(encoder, data, 0.3, method=METHOD, view=None, dtype=torch.float64)
    question = question.made_reproducible()
    nodes, sizes = torch.randperm(data.num_nodes)[:300], []
    certify = Question._certify

    def counted(self: Question, problem: Any, *rest: Any) -> certgcl.Certificate:
        sizes.append(len(problem.anchors))
        return certify(self, problem, *rest)

    monkeypatch.setattr(Question, "_certify", counted)
    one, other = question.certify(nodes), question.certify(nodes, 1 << 29)
    assert len(sizes) > 2
    assert sizes[: len(sizes) // 2] == sizes[len(sizes) // 2 :]
    assert torch.equal(one.nodes, nodes)
    assert torch.equal(one.lower, other.lower)
    with pytest.raises(OutOfMemoryError, match=r"nodes that take about .* GB.*memory_limit=1000 .*more shards="):
        question.certify(nodes, 1000)


def test_shards_of_another_arithmetic_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, weights = random_graph(), toy_network()
    certify_shards(weights, graph, 1, tmp_path, shards=2, only=[0], reproducible=True)
    with pytest.raises(ShardError, match=r"differs in arithmetic \(one thread, .* there, nothing here\)"):
        certify_shards(weights, graph, 1, tmp_path, reproducible=False)
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    with pytest.raises(ShardError, match=r"differs in arithmetic \(.* there, .*MKL_CBWR=AVX2.* here\)"):
        certify_shards(weights, graph, 1, tmp_path)
    monkeypatch.delenv("MKL_CBWR")
    assert certify_shards(weights, graph, 1, tmp_path).computed == [1]
    other = tmp_path / "other"
    certify_shards(weights, graph, 1, other, shards=2, only=[0])
    with pytest.raises(ShardError, match=r"differs in arithmetic \(nothing there, one thread"):
        certify_shards(weights, graph, 1, other, reproducible=True)


def test_a_worker_of_another_arithmetic_refuses_a_reproducible_question(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question.compactness(toy_network(), random_graph(), 1, method="degree", view=None, dtype=torch.float64)
    usual, sent = pickle.dumps(question), pickle.dumps(question.made_reproducible())
    assert pickle.loads(sent).reproducible
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    assert not pickle.loads(usual).reproducible
    with pytest.raises(WorkerError, match=r"other last digits \(.*MKL_CBWR=AVX2.* there, one thread"):
        pickle.loads(sent)


def test_what_cannot_be_reproduced_is_refused(tmp_path: Path) -> None:
    graph, timed = random_graph(), BranchAndBound(time_limit=5)
    with pytest.raises(MethodError, match=r"reproducible=True with time_limit=5.*branch_limit="):
        certify_shards(toy_network(), graph, 1, tmp_path, method=timed, reproducible=True)
    question = Question.compactness(toy_network(), graph, 1, method="degree", view=None, dtype=torch.float64)
    object.__setattr__(question.graph, "col", graph.col.to("meta"))
    with pytest.raises(InputError, match=r"a graph on meta.*graph\.to\('cpu'\)"):
        question.made_reproducible()


def test_an_arithmetic_names_processor_and_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert f"torch {torch.__version__}" in arithmetic()
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name : Slow\nstepping : 1\n\nmodel name : Fast\n")
    monkeypatch.setattr(reproducible, "_CPU", tmp_path / "cpuinfo")
    assert "Slow / 1" in arithmetic()
    assert "Fast" not in arithmetic()
    before = arithmetic()
    with compiled.switched_off():
        assert "no kernels" in arithmetic()
    monkeypatch.setattr(reproducible, "_CPU", tmp_path / "none")
    assert arithmetic() != before


def test_threads_are_back_afterwards() -> None:
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 2
