"""All answers at once, for callers that need every one of them."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from certgcl.errors import WorkerError
from certgcl.executors.executor import Executor, Piece, Task

MOST_ERRORS = 3  # in one message


def all_answers(
    executor: Executor,
    task: Task,
    shared: Any,
    contents: Sequence[Any],
    *,
    progress: Callable[[int, int], object] = lambda done, whole: None,
) -> list[Any]:
    """The results in the order of the contents, which errors name by their ``str``.

    Args:
        progress: called at the start and after every answer with the numbers of finished and of all pieces.

    Raises:
        WorkerError: some failed. It names them when all others are done.
    """
    found: dict[int, Any] = {}
    failed: dict[int, Exception] = {}
    progress(0, len(contents))
    with closing(executor.stream(task, shared, (Piece(*each) for each in enumerate(contents)))) as answers:
        for done in answers:
            if done.error is None:
                found[done.key] = done.result
            else:
                failed[done.key] = done.error
            progress(len(found) + len(failed), len(contents))
    if failed:
        shown = "; ".join(
            f"{contents[key]}: {type(failed[key]).__name__}: {failed[key]}" for key in sorted(failed)[:MOST_ERRORS]
        )
        raise WorkerError(
            f"{len(failed)} of {len(contents)} pieces of work that failed ({shown})",
            "every piece needs an answer",
            "Fix the cause and run the same command again: finished work is kept",
        ) from failed[min(failed)]
    return [found[place] for place in range(len(contents))]
