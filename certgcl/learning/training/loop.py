"""The training loop: every epoch is checked and recorded, the state is kept on disk, and runs resume bit by bit."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from certgcl import arguments
from certgcl.errors import InputError, TrainingError
from certgcl.learning.training.checkpoint import device_of, first_non_finite
from certgcl.learning.training.history import History, record_of
from certgcl.learning.training.interrupt import DeferredInterrupt
from certgcl.learning.training.processes import ALONE, Processes
from certgcl.learning.training.run_folder import RunFolder, RunInMemory
from certgcl.runtime.logs import LOG

_LARGEST_SHARE = 0.05  # share of the time, for checkpoints at intervals of seconds


class Session(Protocol):
    """A training run in progress: everything that changes from step to step.

    The global generators of torch, numpy and Python are kept in checkpoints and restored for it. A session that draws
    from its own generators, and has them in its state, sets ``global_generators = False``; the global ones are then
    left alone. A session that several processes train together has them as ``processes``; its metrics are then the same
    in all of them.
    """

    def step(self, epoch: int) -> dict[str, float]:
        """The optimisation step of epoch ``epoch`` (from 0); returns metrics by name, ``"loss"`` among them."""

    def state_dict(self) -> dict[str, Any]:
        """Model, optimizer and whatever else changes: finite tensors, numbers, strings, lists and dicts only."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the output of :meth:`state_dict`; the tensors are on the CPU."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training run; passed to ``progress`` after every epoch.

    Args:
        epoch: how many epochs are done, of ``epochs``.
        metrics: those of the last one.
        seconds: the time of all of them, including those before a resumption.
        seconds_left: the estimated time of the remaining ones, from the last ones.
    """

    epoch: int
    epochs: int
    metrics: Mapping[str, float]
    seconds: float
    seconds_left: float


def train(
    session: Session,
    epochs: int,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: int | float = 30.0,
    progress: Callable[[Progress], object] | None = None,
    tensorboard: bool = False,
    config: Mapping[str, Any] | None = None,
) -> History:
    """Train a session up to ``epochs`` epochs.

    In a folder the run leaves ``config.json``, ``history.jsonl`` and ``checkpoint.pt``. The checkpoint is always
    complete: after a kill, call again with ``resume=True`` and the same arguments. On the same machine with the same
    number of threads the result equals that of an uninterrupted run, bit by bit: the session's state and the global
    generators of torch, numpy and Python continue where they were (the latter only if the session draws from them).

    Ctrl-C ends the run after the epoch it comes in, with a checkpoint, by ``KeyboardInterrupt``; a second one ends it
    at once, and the previous checkpoint stays.

    Args:
        folder: where the run is kept; nowhere by default. A folder with a run in it raises an error unless ``resume``.
        resume: continue the run in the folder, if there is one. A finished run is only read.
        checkpoint_every: an ``int`` counts epochs, a ``float`` seconds (then checkpoints take a twentieth of the time
            at most). There is always one at the beginning and one at the end.
        progress: called after every epoch.
        tensorboard: write the history for TensorBoard too, to the folder's ``tensorboard``.
        config: what the run depends on, as JSON. A run is not resumed with another config; ``epochs`` may grow.

    Returns:
        The history, with the epochs before a resumption.

    Raises:
        TrainingError: the loss or the session's state is not finite; the last good checkpoint stays.
        CheckpointError: the folder holds another run, or damaged files.
    """
    arguments.callback(progress, "progress")
    resume, tensorboard = arguments.flag(resume, "resume"), arguments.flag(tensorboard, "tensorboard")
    folder = None if folder is None else arguments.path(folder, "folder")
    _check(epochs, checkpoint_every, folder, resume or tensorboard)
    processes: Processes = getattr(session, "processes", ALONE)
    run = (
        RunInMemory(History())
        if folder is None or not processes.first
        else RunFolder.open(
            folder,
            epochs,
            config or {},
            device=device_of(session.state_dict()),
            resume=resume,
            tensorboard=tensorboard,
            global_generators=getattr(session, "global_generators", True),
        )
    )
    with run, DeferredInterrupt() as interrupt:
        run.restore(session.load_state_dict)
        _begin_together(session, run, processes)
        _save(session, run)
        cadence, seconds = _Cadence(checkpoint_every), sum(run.history.column("seconds"))
        while len(run.history) < epochs and not interrupt.pending:
            metrics = _epoch(session, run)
            seconds += run.history.last["seconds"]
            LOG.debug("epoch %d of %d: %s", len(run.history), epochs, metrics)
            if cadence.due(len(run.history)):
                with cadence.timed():
                    _save(session, run)
            if progress is not None:
                left = epochs - len(run.history)
                progress(Progress(len(run.history), epochs, metrics, seconds, left * run.history.pace()))
            interrupt.pending = processes.anyone(interrupt.pending)
        _save(session, run)
    LOG.info("trained for %d epochs in %.2f s", len(run.history), seconds)
    return run.history


def _check(epochs: int, checkpoint_every: int | float, folder: str | Path | None, needs_folder: bool) -> None:
    arguments.whole(epochs, "epochs", 0, "it counts epochs", "Give an integer, 0 or more")
    arguments.real(
        checkpoint_every,
        "checkpoint_every",
        lambda every: every > 0,
        "an int counts epochs, a float seconds",
        "Give a positive number",
    )
    if needs_folder and folder is None:
        raise InputError("resume or tensorboard without a folder", "both are about files", "Pass folder=")


def _begin_together(session: Session, run: RunInMemory, processes: Processes) -> None:
    """Let all processes start from the state of the first one, which has the folder."""
    if processes.count == 1:
        return
    state, records = processes.of_first((session.state_dict(), run.history.records))
    if not processes.first:
        session.load_state_dict(state)
        run.history.records[:] = records


def _epoch(session: Session, run: RunInMemory) -> dict[str, float]:
    """One step, in the history if its loss is finite."""
    epoch, start = len(run.history), time.perf_counter()
    metrics = {name: float(value) for name, value in session.step(epoch).items()}
    seconds = time.perf_counter() - start
    if not math.isfinite(metrics["loss"]):
        raise _diverged(f"loss {metrics['loss']} in epoch {epoch}", run)
    run.append(record_of(epoch, seconds, metrics))
    return metrics


def _save(session: Session, run: RunInMemory) -> None:
    """Save the state if it is new and finite: a step with a finite loss may leave weights that are not."""
    if run.saved == len(run.history):
        return
    state = session.state_dict()
    name = first_non_finite(state)
    if name is not None:
        raise _diverged(f"NaN or infinite values in {name} after {len(run.history)} epochs", run)
    run.save(state)


def _diverged(found: str, run: RunInMemory) -> TrainingError:
    return TrainingError(
        found,
        "loss and state must stay finite",
        f"Lower the learning rate, for the same settings lead to the same epoch; {run}",
    )


class _Cadence:
    """When a checkpoint is due: after a number of epochs, or of seconds if writing the last one was quick."""

    def __init__(self, every: int | float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._last, self._cost = clock(), 0.0

    def due(self, epochs_done: int) -> bool:
        if not isinstance(self._every, (float, np.floating)):
            return epochs_done % self._every == 0
        return self._clock() - self._last >= max(self._every, self._cost / _LARGEST_SHARE)

    @contextmanager
    def timed(self) -> Iterator[None]:
        start = self._clock()
        yield
        self._last = self._clock()
        self._cost = self._last - start
