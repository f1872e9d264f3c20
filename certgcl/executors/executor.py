"""The interface of all executors: pieces of work go in, answers come out as they are finished."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

Task: TypeAlias = Callable[[Any, Any], Any]
"""``task(shared, content)``: a function of a module that workers can import."""


@dataclass(frozen=True)
class Needs:
    """The resources that one piece needs, so that no scheduler overfills a machine.

    Args:
        memory: bytes; None if nothing is known.
    """

    memory: int | None = None


@dataclass(frozen=True)
class Piece:
    """One piece of work.

    Args:
        key: identifies its answer.
        content: the argument of the task.
    """

    key: Any
    content: Any
    needs: Needs = field(default_factory=Needs)


@dataclass(frozen=True)
class Done:
    """The answer to one piece, or the error in its place."""

    key: Any
    result: Any = None
    error: Exception | None = None

    def value(self) -> Any:
        """The result; if there is none, its error is raised."""
        if self.error is not None:
            raise self.error
        return self.result


Answers: TypeAlias = Generator[Done, None, None]


class Executor(ABC):
    """Runs pieces that do not depend on each other.

    A piece may run more than once if a worker dies, so tasks must be repeatable. An error raised by a task is its
    answer and is not retried; in this process it is raised at once.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many pieces can run at the same time, as of now."""

    @property
    @abstractmethod
    def memory(self) -> int | None:
        """Bytes that a piece can have while all workers are busy; None if that is decided at run time."""

    @abstractmethod
    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        """The answers, in the order in which pieces finish.

        Pieces are taken one by one, as workers become free: no more than a few wait at a time. When the iterator is
        closed, or an error or Ctrl-C is raised while it waits, unfinished pieces are cancelled.

        Args:
            task: called as ``task(shared, piece.content)``.
            shared: data that all pieces need; sent to each machine once, and read-only.
        """
