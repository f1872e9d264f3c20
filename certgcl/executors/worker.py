"""What a worker does with one piece of work."""

import signal
import threading
import traceback
from typing import Any

import torch

from certgcl.errors import CertgclError, WorkerError
from certgcl.executors.executor import Done, Task
from certgcl.executors.parcel import Parcel
from certgcl.runtime.out_of_memory import out_of_memory

RULE = "a worker sends the answer to its piece of work"
ALONE = "To see more, run it with executor='here' (--executor here), in one process"


def attempt(task: Task, parcel: Parcel, key: Any, content: Any, cpus: int) -> Done:
    """The answer to a piece, with as many threads as it has CPUs; errors are returned as values, so that one piece does
    not stop the others."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the answers handles Ctrl-C
    torch.set_num_threads(cpus)
    try:
        with out_of_memory("a worker"):
            return Done(key, task(parcel.open(), content))
    except CertgclError as error:
        return Done(key, error=error)
    except Exception as error:
        traceback.print_exc()
        remedy = (
            f"Workers import nothing from the current folder: install what they need. {ALONE}"
            if isinstance(error, ImportError)
            else f"Look for its own message above. {ALONE}"
        )
        return Done(key, error=WorkerError(f"a worker with {type(error).__name__}: {error}", RULE, remedy))


def died(key: Any, why: str, times: int) -> Done:
    """The answer to a piece whose workers all ended without one."""
    again = "" if times == 1 else f", {times} times"
    return Done(
        key,
        error=WorkerError(
            f"a worker that ended before it had an answer{again} ({why})",
            RULE,
            f"If memory ran out: fewer workers, or smaller pieces (shards=, --shards). {ALONE}",
        ),
    )
