"""The anchors of a search shared out to processes, each with one thread.

They are started afresh, not forked, so that threads and devices of this process do not matter.
"""

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from queue import Queue
from threading import Thread
from typing import Any

import torch

from certgcl.bounds.exact.anchors import AnchorSearch, Brackets
from certgcl.errors import CertgclError, WorkerError
from certgcl.runtime import processes
from certgcl.runtime.out_of_memory import out_of_memory

RULE = "each one sends the brackets of its anchors"
ALONE = "A search without processes has workers=1"
KILLED = 9  # a signal; the exit code of a process that it ends is its negative


def in_processes(searches: list[AnchorSearch], progress: Callable[[int, int], object] | None = None) -> list[Brackets]:
    """The brackets of several searches that run at the same time."""
    messages: Queue[tuple[int, Any]] = Queue()
    started: list[tuple[subprocess.Popen[bytes], Thread]] = []
    try:
        for number, search in enumerate(searches):
            process = _started()
            thread = Thread(target=_converse, args=(process, search, number, messages), daemon=True)
            started.append((process, thread))
            thread.start()
        return _results(messages, len(searches), sum(len(search.anchors) for search in searches), progress)
    finally:
        for process, thread in started:
            process.kill()
            process.wait()
            thread.join()


def _started() -> "subprocess.Popen[bytes]":
    try:
        return processes.start(__name__, work.__name__, OMP_NUM_THREADS="1")
    except OSError as error:
        raise WorkerError(f"a worker that could not be started ({error})", RULE, ALONE) from error


def _converse(process: "subprocess.Popen[bytes]", search: AnchorSearch, number: int,
              messages: "Queue[tuple[int, Any]]") -> None:
    """Give a process its search, and pass on what it says until it ends; nobody waits for one that has failed."""
    try:
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(search, process.stdin)
            except BaseException:
                process.kill()  # it would wait for the rest
                raise
            process.stdin.close()
            while True:
                messages.put((number, pickle.load(process.stdout)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        messages.put((number, WorkerError(f"a search that cannot be sent to another process ({error})",
                                          "methods are classes of modules that can be imported", ALONE)))
    except Exception as error:  # whatever it is: an answer that is none, the end of all
        messages.put((number, _ended(process.wait(), error)))


def _ended(code: int, error: Exception) -> WorkerError:
    """What became of a worker that said nothing about it."""
    if code == -KILLED:
        return WorkerError(f"a worker that ended with exit code {code} (killed, as the system does when memory runs "
                           "out)", RULE, "Give it more memory: fewer workers, or fewer nodes at a time")
    return WorkerError(f"a worker that ended with exit code {code} ({error})", RULE,
                       f"Look for its own message above. {ALONE}")


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
    try:
        with out_of_memory("a worker of a search"):
            search: AnchorSearch = pickle.load(sys.stdin.buffer)
            found = search.run(lambda finished, _: say(finished))
    except CertgclError as error:
        say(error)
    except Exception as error:
        traceback.print_exc()
        say(WorkerError(f"a worker with {type(error).__name__}: {error}", RULE,
                        f"Workers import nothing from the current folder: install what they need. {ALONE}"
                        if isinstance(error, ImportError) else f"Look for its own message above. {ALONE}"))
    else:
        say(found)
