"""What every epoch gave: in memory, as JSON lines and, if wanted, for TensorBoard."""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certgcl.errors import CheckpointError, InputError
from certgcl.files import refusing, write_atomically

TENSORBOARD = "tensorboard"  # a folder beside the history
_RECENT = 100  # epochs


@dataclass
class History:
    """One record per epoch: ``epoch`` (from 0), ``seconds`` it took, and its metrics by name.

    Example::

        history = History.read("run/history.jsonl")
        history.last["loss"], history.column("compactness")
    """

    records: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    @property
    def last(self) -> dict[str, Any]:
        return self.records[-1]

    def column(self, name: str) -> list[float]:
        """One metric in all epochs; NaN where an epoch has none, or none that is finite."""
        values = (record.get(name) for record in self.records)
        return [math.nan if value is None else value for value in values]

    def pace(self) -> float:
        """Seconds per epoch of late."""
        recent = self.records[-_RECENT:]
        return sum(record["seconds"] for record in recent) / len(recent)

    @classmethod
    def read(cls, path: str | Path, epochs: int | None = None) -> "History":
        """The whole lines of a file, or the first of them: a last one that was cut short by a kill does not count.

        Raises:
            CheckpointError: a line is no record, or not that of its epoch.
        """
        path = Path(path)
        *lines, _ = path.read_bytes().split(b"\n")  # a whole line ends in a newline
        with refusing(path, CheckpointError, "line k must be the record of epoch k - 1",
                      "Bring it back from a copy, or start anew in another folder"):
            records = [json.loads(line) for line in lines[:epochs]]
            for epoch, record in enumerate(records):
                if record["epoch"] != epoch:
                    raise ValueError(f"epoch {record['epoch']} in line {epoch + 1}")
        return cls(records)


def record_of(epoch: int, seconds: float, metrics: dict[str, float]) -> dict[str, Any]:
    """A record; JSON has no NaN and no infinity, so that such a metric is None."""
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    return {"epoch": epoch, "seconds": seconds, **finite}


class HistoryWriter:
    """Appends records to a file, where a reader sees each at once, and to TensorBoard."""

    def __init__(self, path: Path, history: History, board: type[Any] | None = None) -> None:
        """Start with the records of ``history``; lines that are there beyond them are dropped, all at once.

        Args:
            board: what :func:`board_class` returns, to write to the folder ``tensorboard`` beside the file too.
        """
        text = "".join(map(_line, history.records)).encode()
        if (path.read_bytes() if path.exists() else b"") != text:
            write_atomically(path, lambda stream: stream.write(text))
        self._stream = path.open("a", encoding="utf-8", newline="\n")
        self._board = board and board(path.parent / TENSORBOARD, purge_step=len(history))

    def append(self, record: dict[str, Any]) -> None:
        self._stream.write(_line(record))
        self._stream.flush()
        if self._board is not None:
            for name, value in record.items():
                if name != "epoch" and value is not None:
                    self._board.add_scalar(name, value, record["epoch"])

    def sync(self) -> None:
        """See to it that a power cut does not take what was appended."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()
        if self._board is not None:
            self._board.close()


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record) + "\n"


def board_class() -> type[Any]:
    """TensorBoard's writer; torch has it, but not the package it rests on."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as reason:
        raise InputError(f"tensorboard=True ({reason})", "TensorBoard must be installed, certgcl does without it",
                         "Run `pip install tensorboard`, or do without: history.jsonl has the same numbers") from reason
    return SummaryWriter
