"""Pieces of work in this process, and in processes of this machine."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from certgcl.errors import InputError, WorkerError
from certgcl.executors import Done, Executor, LocalProcesses, Piece, RayCluster, ThisProcess, get_executor
from tests.executors import tasks

TWO = LocalProcesses(2)


def answers(executor: Executor, task: Callable[[Any, Any], Any], shared: Any, number: int = 6) -> dict[int, Done]:
    found = list(executor.stream(task, shared, (Piece(key, key) for key in range(number))))
    assert len({done.key for done in found}) == len(found) == number
    return {done.key: done for done in found}


@pytest.mark.parametrize("executor", [ThisProcess(), TWO], ids=lambda executor: executor.name)
def test_every_piece_has_its_answer(executor: Executor) -> None:
    found = answers(executor, tasks.total, torch.ones(1 << 19))
    assert {key: done.value() for key, done in found.items()} == {key: 2.0**19 + key for key in range(6)}


def test_workers_have_one_thread() -> None:
    assert {done.value() for done in answers(TWO, tasks.threads, None).values()} == {1}


def test_one_process_has_one_piece_at_a_time() -> None:
    found = sorted(done.value() for done in answers(LocalProcesses(1), tasks.begin_and_end, None, 4).values())
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(found))


def test_a_worker_that_reads_a_large_graph_goes_on_to_the_next_piece() -> None:
    shared = torch.ones(100_000_000)  # joblib would end a worker that gains 300 MB
    assert len({done.value() for done in answers(TWO, tasks.reads_all, shared, 6).values()}) <= 2


def test_an_error_is_the_answer_to_its_piece_alone() -> None:
    found = answers(TWO, tasks.fails_at_three, None)
    assert [key for key, done in found.items() if done.error is not None] == [3]
    with pytest.raises(WorkerError, match="a worker with KeyError: 'three'"):
        found[3].value()


def test_in_this_process_an_error_is_raised_as_it_is() -> None:
    with pytest.raises(KeyError, match="three"):
        answers(ThisProcess(), tasks.fails_at_three, None)


def test_what_a_dead_worker_had_is_done_again(tmp_path: Path) -> None:
    assert {done.value() for done in answers(TWO, tasks.dies_once, tmp_path).values()} == set(range(6))


def test_a_piece_that_takes_its_worker_along_is_named_and_the_others_are_done() -> None:
    found = answers(LocalProcesses(2, retries=0), tasks.dies_at_three, None, number=5)
    assert {key for key, done in found.items() if done.error is None} == {0, 1, 2, 4}
    with pytest.raises(WorkerError, match=r"a worker that ended before it had an answer \(alone in its process"):
        found[3].value()


def test_no_more_than_a_few_pieces_are_taken_at_a_time() -> None:
    taken: list[int] = []

    def pieces() -> Any:
        for key in range(50):
            taken.append(key)
            yield Piece(key, key)

    with closing(TWO.stream(tasks.slow, None, pieces())) as found:
        next(found)
        assert len(taken) < 20


def test_ctrl_c_ends_what_is_under_way(tmp_path: Path) -> None:
    """Raised where the answers are waited for; workers that are busy are ended."""

    def interrupt() -> None:
        while not (tmp_path / "ended-0").exists():
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread, found, begun = threading.Thread(target=interrupt), [], time.monotonic()
    thread.start()
    stream = TWO.stream(tasks.notes_and_waits, tmp_path, (Piece(key, key) for key in range(4)))
    with pytest.raises(KeyboardInterrupt), closing(stream):
        found.extend(done.key for done in stream)
    thread.join()
    assert found == [0]
    assert time.monotonic() - begun < 40
    assert not (tmp_path / "ended-1").exists()


@pytest.mark.parametrize(
    ("executor", "kind"),
    [
        (None, ThisProcess),
        ("here", ThisProcess),
        (TWO, LocalProcesses),
        ("processes", LocalProcesses),
        ("ray", RayCluster),
    ],
)
def test_executors_have_names(executor: Any, kind: type[Executor]) -> None:
    assert isinstance(get_executor(executor), kind)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": "dask"}, "executor='dask': it is one of here, processes, ray"),
        ({"executor": 2}, "executor=2: it is one of here, processes, ray"),
        ({"executor": "here", "workers": 2}, "workers=2 with executor='here'"),
        ({"executor": "ray", "workers": 2}, "workers=2 with executor='ray'"),
        ({"executor": "processes", "address": "auto"}, "address='auto' with executor='processes'"),
        ({"executor": TWO, "workers": 2}, "workers=2 with executor=LocalProcesses"),
    ],
)
def test_settings_of_another_executor_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_executor(**arguments)


@pytest.mark.parametrize("settings", [{"processes": 0}, {"processes": 1.5}, {"retries": -1}, {"retries": None}])
def test_processes_and_retries_are_counted(settings: Any) -> None:
    with pytest.raises(InputError, match="it is a number of"):
        LocalProcesses(**settings)


@pytest.mark.parametrize("settings", [{"address": ""}, {"address": 6379}, {"cpus": 0}, {"retries": "3"}])
def test_the_settings_of_ray_are_checked(settings: Any) -> None:
    with pytest.raises(InputError):
        RayCluster(**settings)


def test_processes_are_those_of_torch_by_default_and_share_the_memory() -> None:
    assert LocalProcesses().workers == torch.get_num_threads()
    assert 0 < LocalProcesses(4).memory < LocalProcesses(1).memory
