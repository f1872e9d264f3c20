"""One writer at a time: real processes that race, die and fork, and threads."""

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import certgcl
from certgcl.certify.sharding import certify_shards, merge_shards
from certgcl.errors import LockedError, ShardError
from certgcl.files import locks
from certgcl.files.locks import locked
from certgcl.learning.training import History, train
from certgcl.learning.training.run_folder import read_history
from tests.certify.sharding.test_sharding import GRAPH, WEIGHTS
from tests.learning.training.tiny_session import CONFIG, seeded, train_in

FORK = multiprocessing.get_context("fork")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.learning.training.tiny_session import train_in
train_in(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
"""


def other_process(folder: Path, epochs: int, pause: float = 0.0) -> subprocess.Popen[bytes]:
    """A process that resumes the run in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[2]), str(folder), str(epochs), str(pause)],
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def attempt(folder: Path, results: Any) -> None:
    try:
        with locked(folder, "run"):
            results.put("held")
    except LockedError as error:
        results.put(error.found)


# -- the lock --------------------------------------------------------------------------------------


def test_the_second_is_told_who_holds_it_and_the_file_goes_with_the_lock(tmp_path: Path) -> None:
    with locked(tmp_path, "run"):
        assert [path.name for path in tmp_path.iterdir()] == [".run.lock"]
        with (
            pytest.raises(LockedError, match=r"which this process \(in thread MainThread, since 20.*\) is writing"),
            locked(tmp_path, "run"),
        ):
            pass
        with locked(tmp_path, "other"):
            pass
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path, "run"):
        pass


def test_a_file_that_was_left_behind_means_nothing(tmp_path: Path) -> None:
    for content in ("", "nonsense", '{"process": 1, "thread": "t", "host": "h", "since": "s"}'):
        (tmp_path / ".run.lock").write_text(content)
        with locked(tmp_path, "run"):
            pass


def test_a_lock_ends_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path, "run"):
        raise KeyError
    with locked(tmp_path, "run"):
        pass


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path, "run"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize("needed", [True, False])
def test_a_file_system_without_locks_is_said(needed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> bool:
        raise OSError(locks.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks, "_try_lock", refuse)
    if needed:
        with pytest.raises(LockedError, match="without locks"), locked(tmp_path, "run"):
            pass
    else:
        with locked(tmp_path, "run", needed=False), locked(tmp_path, "run", needed=False):
            pass
    assert not locks._open


def test_of_many_threads_one_holds_it_at_a_time(tmp_path: Path) -> None:
    inside, most, got = [], [0], [0]

    def work() -> None:
        for _ in range(50):
            try:
                with locked(tmp_path, "run"):
                    inside.append(1)
                    most[0] = max(most[0], len(inside))
                    got[0] += 1
                    inside.pop()
            except LockedError:
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert got[0] > 8
    assert not locks._open


@needs_fork
def test_a_forked_child_neither_has_the_lock_nor_ends_it(tmp_path: Path) -> None:
    results: Any = FORK.Queue()
    with locked(tmp_path, "run") as lock:
        child = FORK.Process(target=attempt, args=(tmp_path, results))
        child.start()
        assert f"process {os.getpid()} on {socket.gethostname()} (since" in results.get(timeout=30)
        child.join()
        if os.fork() == 0:  # one that goes on inside the block, and out of it
            try:
                lock.check()
            except LockedError:
                locks._release(lock, lock.descriptor or 0)
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert (tmp_path / ".run.lock").exists()
        with pytest.raises(LockedError), locked(tmp_path, "run"):
            pass


@needs_fork
def test_a_child_that_outlives_a_killed_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    def hold_and_fork() -> None:
        with locked(tmp_path, "run"):
            if os.fork() == 0:
                (tmp_path / "child").write_text(str(os.getpid()))
                time.sleep(60)
                os._exit(0)
            time.sleep(60)

    holder = FORK.Process(target=hold_and_fork)
    holder.start()
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
    holder.kill()
    holder.join()
    try:
        with locked(tmp_path, "run"):
            pass
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


# -- runs ------------------------------------------------------------------------------------------


@needs_fork
def test_of_two_resumes_one_goes_on_and_the_run_stays_whole(tmp_path: Path) -> None:
    """Ten rounds of two processes that resume one run at the same moment."""

    def resume(epochs: int, barrier: Any, results: Any) -> None:
        barrier.wait()
        try:
            train_in(tmp_path, epochs, pause=0.02)
            results.put("trained")
        except LockedError as error:
            results.put(error.found)

    train(seeded(), 1, folder=tmp_path, config=CONFIG)
    for turn in range(10):
        barrier, results = FORK.Barrier(2), FORK.Queue()
        processes = [FORK.Process(target=resume, args=(3 + 2 * turn, barrier, results)) for _ in range(2)]
        for process in processes:
            process.start()
        found = sorted(results.get(timeout=60) for _ in processes)
        for process in processes:
            process.join()
        assert found[1] == "trained"
        assert re.search(rf"{tmp_path}, which (process \d+ on .* \(since .*\)|another process) is writing", found[0])
        assert len(read_history(tmp_path)) == 3 + 2 * turn
    assert len(train(seeded(), 22, folder=tmp_path, config=CONFIG, resume=True)) == 22


def test_a_killed_run_is_resumed_at_once(tmp_path: Path) -> None:
    process = other_process(tmp_path, 1000, pause=0.05)
    wait_for(lambda: (tmp_path / "history.jsonl").exists() and len(History.read(tmp_path / "history.jsonl")) >= 2)
    with pytest.raises(LockedError, match=rf"process {process.pid} on .*end it, or train in another folder"):
        train(seeded(), 1001, folder=tmp_path, config=CONFIG, resume=True)
    process.kill()
    process.wait()
    done = len(read_history(tmp_path))
    assert len(train(seeded(), done + 1, folder=tmp_path, config=CONFIG, resume=True)) == done + 1
    assert not list(tmp_path.glob(".*"))


def test_a_callback_cannot_train_in_the_folder_it_is_called_from(tmp_path: Path) -> None:
    def again(_: Any) -> None:
        train(seeded(), 5, folder=tmp_path, config=CONFIG, resume=True)

    with pytest.raises(LockedError, match="this process"):
        train(seeded(), 2, folder=tmp_path, config=CONFIG, progress=again)
    assert len(train(seeded(), 2, folder=tmp_path, config=CONFIG, resume=True)) == 2


def test_threads_cannot_share_a_run_either(tmp_path: Path) -> None:
    found: list[str] = []

    def resume() -> None:
        try:
            train(seeded(pause=0.02), 20, folder=tmp_path, config=CONFIG, resume=True)
            found.append("trained")
        except LockedError as error:
            found.append(error.found)

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.count("trained") == 1
    assert len(read_history(tmp_path)) == 20


@needs_fork
def test_a_forked_child_does_not_train_on(tmp_path: Path) -> None:
    def fork(progress: Any) -> None:
        nonlocal child
        child = child if child is not None else os.fork()

    child: int | None = None
    try:
        train(seeded(), 3, folder=tmp_path, config=CONFIG, progress=fork)
    except LockedError:
        os._exit(7 if child == 0 else 1)
    assert child != 0
    assert os.waitstatus_to_exitcode(os.waitpid(child or 0, 0)[1]) == 7
    assert len(read_history(tmp_path)) == 3


# -- shards and graphs -----------------------------------------------------------------------------


@needs_fork
def test_processes_share_the_shards_of_a_folder(tmp_path: Path) -> None:
    def certify(barrier: Any, results: Any) -> None:
        barrier.wait()
        try:
            results.put(certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=8).computed)
        except LockedError as error:
            results.put(error.found)

    barrier, results = FORK.Barrier(3), FORK.Queue()
    processes = [FORK.Process(target=certify, args=(barrier, results)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    computed = [shard for each in found if isinstance(each, list) for shard in each]
    assert len(computed) == len(set(computed))  # none twice
    certify_shards(WEIGHTS, GRAPH, 2, tmp_path)
    assert len(merge_shards(tmp_path).nodes) == 40
    assert not list(tmp_path.glob(".*"))


def test_a_shard_that_another_is_at_is_left_for_last_and_then_named(tmp_path: Path) -> None:
    with locked(tmp_path, "shard-00001-of-00004.npz"):
        with pytest.raises(LockedError, match=r"shard-00001-of-00004\.npz, which this process .*finished shards are"):
            certify_shards(WEIGHTS, GRAPH, 2, tmp_path, shards=4)
        assert len(list(tmp_path.glob("shard-*"))) == 3
        with pytest.raises(ShardError, match="1 missing"):
            merge_shards(tmp_path)
    assert certify_shards(WEIGHTS, GRAPH, 2, tmp_path).computed == [1]
    with locked(tmp_path, "certificate.npz"), pytest.raises(LockedError, match=r"certificate\.npz, which this"):
        merge_shards(tmp_path)


def test_a_graph_is_written_by_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path, "graph"):
        for write in (lambda: certgcl.save_graph(tmp_path, GRAPH), lambda: certgcl.seal_graph(tmp_path)):
            with pytest.raises((LockedError, certgcl.errors.GraphError)):
                write()
    assert list(tmp_path.iterdir()) == []
