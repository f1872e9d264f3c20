"""Runs one piece after the other in this process."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from certgcl.executors.executor import Answers, Done, Executor, Piece, Task


@dataclass(frozen=True)
class ThisProcess(Executor):
    """Runs pieces one by one in this process, with all of its threads; an error of a piece is raised at once."""

    name: ClassVar[str] = "here"

    @property
    def workers(self) -> int:
        return 1

    @property
    def memory(self) -> int | None:
        return None

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        for piece in pieces:
            yield Done(piece.key, task(shared, piece.content))
