"""The anchors of a search shared out to processes, each with one thread.

They are started afresh, not forked, so that threads and devices of this process do not matter; and by a command of
their own, so that scripts need no guard around their main part.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import IO, Any

import torch

from certgcl.bounds.exact.anchors import AnchorSearch, Brackets


def in_processes(searches: list[AnchorSearch], progress: Callable[[int, int], object] | None = None) -> list[Brackets]:
    """The brackets of several searches that run at the same time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    messages: Queue[tuple[int, Any]] = Queue()
    processes = [subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=environment) for _ in searches]
    try:
        for number, (process, search) in enumerate(zip(processes, searches, strict=True)):
            Thread(target=_converse, args=(process, search, number, messages), daemon=True).start()
        return _results(messages, len(searches), sum(len(search.anchors) for search in searches), progress)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _converse(process: "subprocess.Popen[bytes]", search: AnchorSearch, number: int,
              messages: "Queue[tuple[int, Any]]") -> None:
    """Give a process its search, and pass on what it says."""
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(search, process.stdin)
        process.stdin.close()
        while True:
            messages.put((number, pickle.load(process.stdout)))
    except (EOFError, OSError, pickle.UnpicklingError) as error:
        messages.put((number, RuntimeError(f"a worker ended with exit code {process.wait()} ({error})")))


def _results(messages: "Queue[tuple[int, Any]]", number: int, anchors: int,
             progress: Callable[[int, int], object] | None) -> list[Brackets]:
    """Wait for all; the first failure ends it."""
    finished, results = [0] * number, dict[int, Brackets]()
    while len(results) < number:
        sender, message = messages.get()
        if isinstance(message, Brackets):
            results[sender] = message
        elif isinstance(message, int):
            finished[sender] = message
            if progress is not None:
                progress(sum(finished), anchors)
        elif sender not in results:
            raise message
    return [results[sender] for sender in range(number)]


def _work(given: IO[bytes], answer: IO[bytes]) -> None:
    """What a worker does: one search, with a message for every anchor that is finished."""

    def say(message: Any) -> None:
        pickle.dump(message, answer)
        answer.flush()

    torch.set_num_threads(1)
    search: AnchorSearch = pickle.load(given)
    say(search.run(lambda finished, _: say(finished)))


if __name__ == "__main__":
    sys.stdout, stream = sys.stderr, sys.stdout.buffer
    _work(sys.stdin.buffer, stream)
