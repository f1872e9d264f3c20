"""The interface of all executors: pieces of work go in, answers come out as they are finished."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

Task: TypeAlias = Callable[[Any, Any], Any]
"""``task(shared, content)``: a function of a module that workers can import."""


@dataclass(frozen=True)
class Needs:
    """What one piece takes of a machine, so that no scheduler overfills it.

    Args:
        memory: bytes; None where nothing is known.
    """

    memory: int | None = None


@dataclass(frozen=True)
class Piece:
    """One piece of work.

    Args:
        key: by which its answer is known.
        content: what the task is called with.
    """

    key: Any
    content: Any
    needs: Needs = field(default_factory=Needs)


@dataclass(frozen=True)
class Done:
    """The answer to one piece, or why there is none."""

    key: Any
    result: Any = None
    error: Exception | None = None

    def value(self) -> Any:
        """The result; where there is none, its error is raised."""
        if self.error is not None:
            raise self.error
        return self.result


Answers: TypeAlias = Generator[Done, None, None]


class Executor(ABC):
    """Runs pieces that do not depend on each other.

    A piece may be run more than once, when a worker dies, so that a task must be one that can be repeated. An error
    that a task raises is its answer and is not tried again; in this process it is raised at once.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many pieces run at a time, as things are now."""

    @property
    @abstractmethod
    def memory(self) -> int | None:
        """Bytes that a piece can have while all workers are busy; None where that is decided as it runs."""

    @abstractmethod
    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        """The answers, in whatever order pieces finish.

        Pieces are taken one by one, as workers become free: no more than a few wait at a time. When the iterator is
        closed, or an error or Ctrl-C is raised while it waits, what is under way is cancelled.

        Args:
            task: called as ``task(shared, piece.content)``.
            shared: what all pieces need; sent to a machine once, and not to be written to.
        """
