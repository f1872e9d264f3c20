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
from typing import Any

import torch

from certgcl.bounds.exact.anchors import AnchorSearch, Brackets
from certgcl.errors import WorkerError

COMMAND = f"from {__name__} import work; work()"


def in_processes(searches: list[AnchorSearch], progress: Callable[[int, int], object] | None = None) -> list[Brackets]:
    """The brackets of several searches that run at the same time."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    messages: Queue[tuple[int, Any]] = Queue()
    processes = [subprocess.Popen([sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=environment) for _ in searches]
    threads = [Thread(target=_converse, args=(process, search, number, messages), daemon=True)
               for number, (process, search) in enumerate(zip(processes, searches, strict=True))]
    try:
        for thread in threads:
            thread.start()
        return _results(messages, len(searches), sum(len(search.anchors) for search in searches), progress)
    finally:
        for process, thread in zip(processes, threads, strict=True):
            process.kill()
            process.wait()
            thread.join()


def _converse(process: "subprocess.Popen[bytes]", search: AnchorSearch, number: int,
              messages: "Queue[tuple[int, Any]]") -> None:
    """Give a process its search, and pass on what it says until it ends; nobody waits for one that has failed."""
    try:
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump(search, process.stdin)
            process.stdin.close()
            while True:
                messages.put((number, pickle.load(process.stdout)))
    except Exception as error:  # whatever it is: a search that cannot be sent, an answer that is none, the end of all
        messages.put((number, WorkerError(f"a worker that ended with exit code {process.wait()} ({error})",
                                          "each one sends the brackets of its anchors",
                                          "Look for its own message above, or search without processes: workers=1")))


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


def work() -> None:
    """What a worker does: one search, with a message for every anchor that is finished."""
    sys.stdout, answer = sys.stderr, sys.stdout.buffer  # so that nothing else gets among the messages

    def say(message: Any) -> None:
        pickle.dump(message, answer)
        answer.flush()

    torch.set_num_threads(1)
    search: AnchorSearch = pickle.load(sys.stdin.buffer)
    say(search.run(lambda finished, _: say(finished)))
