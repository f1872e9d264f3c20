"""The folder of a training run: its settings, its history and its last good state."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from certgcl.errors import CheckpointError
from certgcl.files.atomic import refusing, remove_leftovers
from certgcl.files.locks import Lock, locked
from certgcl.learning.training.checkpoint import Checkpoint, restore_random_state
from certgcl.learning.training.history import TENSORBOARD, History, HistoryWriter, board_class
from certgcl.learning.training.run_config import compare_config, plain_config, write_config

CONFIG, HISTORY, CHECKPOINT = "config.json", "history.jsonl", "checkpoint.pt"
_MEND = "Bring it back from a copy, or start again in another folder"
_ONE_RUN = "Wait until it has finished, end it, or train in another folder"


class RunInMemory:
    """A run that is kept only in memory.

    Args:
        history: the epochs that are done.
        saved: the number of epochs in the checkpoint; -1 before there is one.
    """

    def __init__(self, history: History, saved: int = -1) -> None:
        self.history, self.saved = history, saved

    def __enter__(self) -> "RunInMemory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def restore(self, load: Callable[[dict[str, Any]], None]) -> None:
        """Pass the state to resume from to ``load``, if there is one."""

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of one more epoch to the history."""
        self.history.records.append(record)

    def save(self, state: dict[str, Any]) -> None:
        """Make ``state`` the one to resume from after a kill."""
        self.saved = len(self.history)

    def __str__(self) -> str:
        return "checkpoints are kept in folder=, if one is given"


class RunFolder(RunInMemory):
    """The files of a run, written in an order that makes a kill at any moment harmless.

    First the settings, then the state before the first epoch. After that the history reaches at least as far as the
    checkpoint, and is cut back to it when the run is resumed. From :meth:`open` to the end of the ``with`` block the
    folder is locked: no other process or thread can write to it.

    Args:
        path: the folder.
        resumed: the checkpoint to resume from; None for a new run.
        board: TensorBoard's writer, see :func:`certgcl.learning.training.history.board_class`.
        lock: of the folder.
        global_generators: whether the session draws from them.
    """

    def __init__(
        self,
        path: Path,
        history: History,
        resumed: Checkpoint | None,
        board: type[Any] | None,
        lock: Lock,
        global_generators: bool,
    ) -> None:
        super().__init__(history, -1 if resumed is None else resumed.epochs_done)
        self._path, self._resumed, self._lock, self._held = path, resumed, lock, ExitStack()
        self._global_generators = global_generators
        self._writer = HistoryWriter(path / HISTORY, history, board)

    @classmethod
    def open(
        cls,
        path: Path,
        epochs: int,
        config: Mapping[str, Any],
        *,
        device: str,
        resume: bool,
        tensorboard: bool,
        global_generators: bool,
    ) -> "RunFolder":
        """A folder for a new run, or with everything needed to resume the one in it.

        Raises:
            LockedError: another process or thread is training there.
        """
        board, settings = board_class() if tensorboard else None, plain_config(config, epochs)
        check_folder(path, resume)
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            lock = held.enter_context(locked(path, "run", remedy=_ONE_RUN))
            checkpoint, history = None, History()
            if not _holds_a_run(path):
                write_config(path / CONFIG, settings, device)
            else:
                check_folder(path, resume)  # another process may have started one before we got the lock
                checkpoint, history = _read(path, epochs)
                compare_config(path / CONFIG, settings)
            remove_leftovers(path)
            run = cls(path, history, checkpoint, board, lock, global_generators)
            held.callback(run._writer.close)
            run._held = held.pop_all()  # until the run is left
        return run

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def restore(self, load: Callable[[dict[str, Any]], None]) -> None:
        if self._resumed is None:
            return
        with refusing(
            self._path / CHECKPOINT,
            CheckpointError,
            "it must fit the session that is resumed",
            "Build the session as for the original run, or start again in another folder",
        ):
            load(self._resumed.session)
            if self._global_generators:
                restore_random_state(self._resumed.random)
        self._resumed = None  # its tensors may be large

    def append(self, record: dict[str, Any]) -> None:
        self._lock.check()
        super().append(record)
        self._writer.append(record)

    def save(self, state: dict[str, Any]) -> None:
        self._lock.check()
        self._writer.sync()
        Checkpoint.of(len(self.history), state, self._writer.checksum, self._global_generators).save(
            self._path / CHECKPOINT
        )
        super().save(state)

    def __str__(self) -> str:
        kept = f"{self._path / CHECKPOINT} holds the state after {self.saved} epochs"
        return kept if self.saved >= 0 else f"nothing is in {self._path} yet"


def read_history(path: Path) -> History:
    """The history in a run folder, complete up to its checkpoint.

    Raises:
        CheckpointError: lines have changed, or are missing before the checkpoint.
    """
    if not (path / CHECKPOINT).exists():
        return History.read(path / HISTORY) if (path / HISTORY).exists() else History()
    checkpoint = Checkpoint.load(path / CHECKPOINT)  # read first: while a run is in progress, its history only grows
    _history_of(path, checkpoint)
    return History.read(path / HISTORY) if (path / HISTORY).exists() else History()


def check_folder(path: Path, resume: bool) -> None:
    """Raise an error for a folder that contains another run, and for links in it that lead elsewhere."""
    if not resume and _holds_a_run(path):
        raise CheckpointError(
            f"{path} with the files of a run",
            "a new run needs a folder of its own",
            "Pass resume=True to continue that one, or another folder",
        )
    if (path / TENSORBOARD).is_symlink():
        raise CheckpointError(
            f"{path / TENSORBOARD}, a link",
            "a run writes into its own folder alone",
            "Remove it, or choose another folder",
        )


def _holds_a_run(path: Path) -> bool:
    history = path / HISTORY
    return (path / CHECKPOINT).exists() or (history.exists() and history.stat().st_size > 0)


def _read(path: Path, epochs: int) -> tuple[Checkpoint, History]:
    """The last good state and the history up to it."""
    if not (path / CHECKPOINT).exists():
        raise CheckpointError(f"{path} without {CHECKPOINT}", "a run is resumed from its checkpoint", _MEND)
    checkpoint = Checkpoint.load(path / CHECKPOINT)
    done = checkpoint.epochs_done
    if epochs < done:
        raise CheckpointError(
            f"epochs={epochs} for the run in {path}",
            f"it has done {done} epochs already",
            f"Ask for {done} or more, or start again in another folder",
        )
    return checkpoint, _history_of(path, checkpoint)


def _history_of(path: Path, checkpoint: Checkpoint) -> History:
    """The epochs of a checkpoint, identified by its checksum of them."""
    done = checkpoint.epochs_done
    history = History.read(path / HISTORY, done) if (path / HISTORY).exists() else History()
    if len(history) < done:
        raise CheckpointError(
            f"{path / HISTORY} with {len(history)} lines", f"the checkpoint is that of {done} epochs", _MEND
        )
    if history.checksum() != checkpoint.history:
        raise CheckpointError(f"{path / HISTORY} of another run", f"{CHECKPOINT} follows on other epochs", _MEND)
    return history
