"""Processes of this machine, by joblib."""

import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import process_executor

from certgcl.arguments import whole
from certgcl.executors.executor import Answers, Executor, Piece, Task
from certgcl.executors.import_path import without_current_folder
from certgcl.executors.parcel import Parcel
from certgcl.executors.worker import attempt, died
from certgcl.runtime.free_memory import free_memory

SHARE_OF_FREE = 0.75


@dataclass(frozen=True)
class LocalProcesses(Executor):
    """Processes of this machine, each with one thread; they are spawned, not forked.

    If a worker dies, for example because the system is short of memory, all pieces without an answer are run again.
    After ``retries`` such deaths they are run one at a time, each in a process of its own, so that the piece that kills
    its worker can be named and the others get their answers.

    Args:
        processes: their number; by default the number of torch's threads.
        retries: deaths of workers that are tolerated before pieces are run one at a time.
    """

    processes: int | None = None
    retries: int = 3
    name: ClassVar[str] = "processes"

    def __post_init__(self) -> None:
        if self.processes is not None:
            object.__setattr__(
                self,
                "processes",
                whole(self.processes, "processes", 1, "it is a number of processes", "Leave it out for one per core"),
            )
        object.__setattr__(
            self, "retries", whole(self.retries, "retries", 0, "it is a number of retries", "Leave it out for 3")
        )

    @property
    def workers(self) -> int:
        return torch.get_num_threads() if self.processes is None else self.processes

    @property
    def memory(self) -> int:
        return int(SHARE_OF_FREE * free_memory().bytes) // self.workers

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        parcel, source = Parcel.of(shared), iter(pieces)
        taken: dict[Any, Piece] = {}  # handed out, without an answer yet

        def from_source() -> Iterator[Piece]:
            for piece in source:
                taken[piece.key] = piece
                yield piece

        deaths = 0
        with without_current_folder(), TemporaryDirectory(prefix="certgcl-") as folder:
            parcel = parcel.mapped(Path(folder))
            while True:
                alone = deaths > self.retries and bool(taken)
                batch = list(taken.values())[:1] if alone else _both(list(taken.values()), from_source())
                try:
                    with _cancelled_quietly(self._answers(task, parcel, batch)) as answers:
                        for done in answers:
                            del taken[done.key]
                            yield done
                except BrokenProcessPool as error:
                    deaths += 1
                    if alone:
                        [key] = [piece.key for piece in batch]
                        del taken[key]
                        yield died(key, f"alone in its process: {_first_line(error)}", 1)
                    continue
                if not alone:
                    return

    def _answers(self, task: Task, parcel: Parcel, batch: Iterable[Piece]) -> Answers:
        one = self.workers == 1
        with parallel_config(backend="loky", inner_max_num_threads=1, initializer=_keep_what_it_maps):
            pool = Parallel(
                n_jobs=2 if one else self.workers,  # with one process joblib would run everything in this one
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=1 if one else 2 * self.workers,
            )
        return pool(delayed(attempt)(task, parcel, piece.key, piece.content, 1) for piece in batch)


def _keep_what_it_maps() -> None:
    """The initialisation of every worker. Joblib replaces a worker that has gained 300 MB since its first piece, in
    case of a leak; here that would be the pages of a graph that all workers share, at seconds for each new process."""
    process_executor._MAX_MEMORY_LEAK_SIZE = sys.maxsize


@contextmanager
def _cancelled_quietly(answers: Answers) -> Iterator[Answers]:
    """Answers, not all of which may be consumed; joblib would warn about cancelled work."""
    try:
        yield answers
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*tasks.*", UserWarning)
            answers.close()


def _both(first: list[Piece], rest: Iterator[Piece]) -> Iterator[Piece]:
    yield from first
    yield from rest


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
