"""What a worker does with one piece, whatever its task does."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from certgcl.errors import BoundError, OutOfMemoryError, WorkerError
from certgcl.executors import Done
from certgcl.executors.parcel import Parcel
from certgcl.executors.worker import attempt, died


def raising(error: Exception, number: int) -> None:
    raise error


def answer(task: Any, shared: Any) -> Done:
    """In a thread, where Ctrl-C stays what it is; the number of threads is put back."""
    before = torch.get_num_threads()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(attempt, task, Parcel.of(shared), "key", 0, 1).result()
    torch.set_num_threads(before)
    return done


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (KeyError("what"), WorkerError, "a worker with KeyError: 'what'"),
        (ImportError("no module"), WorkerError, "ImportError: no module.*nothing from the current folder"),
        (MemoryError("too large"), OutOfMemoryError, "a worker without enough memory"),
        (RuntimeError("can't allocate memory"), OutOfMemoryError, "a worker without enough memory"),
        (BoundError("found", "rule", "remedy"), BoundError, r"found: rule\. remedy"),
    ],
)
def test_errors_are_answers(error: Exception, kind: type[Exception], message: str) -> None:
    done = answer(raising, error)
    assert (done.key, done.result) == ("key", None)
    with pytest.raises(kind, match=message):
        done.value()


def test_unexpected_errors_are_shown_where_they_happen(capsys: pytest.CaptureFixture[str]) -> None:
    answer(raising, KeyError("what"))
    assert "KeyError: 'what'" in capsys.readouterr().err


def test_a_worker_that_died_may_have_been_short_of_memory() -> None:
    with pytest.raises(WorkerError, match=r"before it had an answer, 3 times \(killed\).*If memory ran out"):
        died(7, "killed", 3).value()
