"""Pieces of work on a real cluster of Ray: one of two nodes on this machine, for all tests of this file."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

import certgcl
from certgcl.errors import InputError, ShardError, WorkerError
from certgcl.executors import Done, Needs, Piece, RayCluster
from certgcl.executors.ray_cluster import WAITING
from tests.executors import tasks
from tests.toys import random_graph, toy_network

ray = pytest.importorskip("ray")
GB = 1 << 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Ray, as its user starts it; two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 1 << 28, "memory": GB})
    nodes.add_node(num_cpus=1, object_store_memory=1 << 28, memory=GB)
    ray.init(address=nodes.address, log_to_driver=False)
    yield RayCluster()
    ray.shutdown()
    nodes.shutdown()


def answers(cluster: RayCluster, task: Callable[[Any, Any], Any], shared: Any, number: int = 5) -> dict[int, Done]:
    found = list(cluster.stream(task, shared, (Piece(key, key) for key in range(number))))
    assert len({done.key for done in found}) == len(found) == number
    return {done.key: done for done in found}


def test_every_piece_has_its_answer_and_one_thread(cluster: RayCluster) -> None:
    assert cluster.workers == 2
    assert cluster.memory == GB
    found = answers(cluster, tasks.total, torch.ones(1 << 19))
    assert {key: done.value() for key, done in found.items()} == {key: 2.0**19 + key for key in range(5)}
    assert {done.value() for done in answers(cluster, tasks.threads, None).values()} == {1}


def test_an_error_or_a_death_is_the_answer_to_its_piece_alone(cluster: RayCluster, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="a worker with KeyError: 'three'"):
        answers(cluster, tasks.fails_at_three, None)[3].value()
    found = answers(RayCluster(retries=1), tasks.dies_at_three, None)
    assert {key for key, done in found.items() if done.error is None} == {0, 1, 2, 4}
    with pytest.raises(WorkerError, match=r"a worker that ended before it had an answer, 2 times"):
        found[3].value()
    assert {done.value() for done in answers(cluster, tasks.dies_once, tmp_path).values()} == set(range(5))


def test_memory_beyond_that_of_every_machine_is_not_waited_for(cluster: RayCluster) -> None:
    [done] = cluster.stream(tasks.total, torch.ones(1), [Piece(0, 0, Needs(1 << 50))])
    assert done.value() == 1.0


def test_ctrl_c_ends_what_is_under_way_and_no_more_was_taken(cluster: RayCluster, tmp_path: Path) -> None:
    def interrupt() -> None:
        while not (tmp_path / "ended-0").exists():
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    taken: list[int] = []

    def pieces() -> Iterator[Piece]:
        for key in range(50):
            taken.append(key)
            yield Piece(key, key)

    thread, found = threading.Thread(target=interrupt), []
    thread.start()
    stream = cluster.stream(tasks.notes_and_waits, tmp_path, pieces())
    with pytest.raises(KeyboardInterrupt), closing(stream):
        found.extend(done.key for done in stream)
    thread.join()
    assert found == [0]
    assert len(taken) <= WAITING * 2 + 1
    assert not list(tmp_path.glob("ended-[1-9]"))


# -- certificates ----------------------------------------------------------------------------------

GRAPH, WEIGHTS = random_graph(nodes=60, density=0.1), toy_network()
# Without kernels: what they load first decides their last digits.
SETTINGS: dict[str, Any] = {"shards": 6, "reproducible": True, "method": "interval"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path_factory.mktemp("alone"), **SETTINGS)
    certgcl.merge_shards(run.folder)
    return run.folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.npz")}


def test_a_certificate_of_a_cluster_is_that_of_one_process_bit_for_bit(
    cluster: RayCluster, alone: Path, tmp_path: Path
) -> None:
    run = certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, executor=cluster, **SETTINGS)
    assert sorted(run.computed) == list(range(6))
    certgcl.merge_shards(tmp_path)
    assert files(tmp_path) == files(alone)


def test_a_worker_that_is_killed_makes_no_difference(cluster: RayCluster, alone: Path, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(progress: Any) -> None:
        """The workers of both nodes, which this process has started."""
        if progress.shards_done == 2:
            for process in psutil.Process().children(recursive=True):
                if any(name in " ".join(process.cmdline()) for name in ("ray::certgcl", "ray::IDLE")):
                    process.kill()
                    killed.append(process.pid)

    certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, executor=cluster, progress=kill, **SETTINGS)
    assert killed
    certgcl.merge_shards(tmp_path)
    assert files(tmp_path) == files(alone)


def test_an_interrupted_run_is_gone_on_with_by_another_executor(
    cluster: RayCluster, alone: Path, tmp_path: Path
) -> None:
    def interrupt(progress: Any) -> None:
        if progress.shards_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, executor=cluster, progress=interrupt, **SETTINGS)
    run = certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, method="interval")
    assert (len(run.kept), len(run.computed)) == (3, 3)
    certgcl.merge_shards(tmp_path)
    assert files(tmp_path) == files(alone)


def test_a_shard_that_fails_for_good_is_named_and_all_others_are_kept(cluster: RayCluster, tmp_path: Path) -> None:
    nodes = torch.arange(30)
    with pytest.raises(ShardError, match=r"1 of 3 shards that failed \(1\).*shard 1: BoundError: node 15"):
        certgcl.certify_shards(
            WEIGHTS,
            GRAPH,
            1,
            tmp_path,
            executor=cluster,
            nodes=nodes,
            shards=3,
            order="given",
            method=tasks.FailsAtNode(node=15),
        )
    assert len(list(tmp_path.glob("shard-*"))) == 2


def test_a_search_on_a_cluster_is_that_of_one_process(cluster: RayCluster) -> None:
    from certgcl.bounds import BranchAndBound

    graph = random_graph(nodes=12, density=0.4)
    found, expected = (
        certgcl.node_compactness(WEIGHTS, graph, 1, method=BranchAndBound(workers=2, executor=place))
        for place in (cluster, "here")
    )
    assert torch.equal(found.lower, expected.lower)
    assert found.exact.all()


def test_no_cluster_at_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: Any) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refused)
    with pytest.raises(
        InputError, match=r"address='10.0.0.1:6379' \(nobody answers\): a Ray cluster must be running there"
    ):
        _ = RayCluster("10.0.0.1:6379").workers
