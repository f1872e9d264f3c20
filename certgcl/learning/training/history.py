"""The metrics of every epoch: in memory, as JSON lines and, if requested, for TensorBoard."""

import hashlib
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from certgcl.errors import CheckpointError, InputError
from certgcl.files.atomic import refusing, write_atomically
from certgcl.files.strict_json import parse_json
from certgcl.files.untrusted import open_regular

TENSORBOARD = "tensorboard"  # a folder next to the history
_RECENT = 100  # epochs
_SEAL, _DIGITS = "checksum", 16  # the last entry of a line
_BEGINNING = "certgcl-history-2"  # precedes the checksum of the first line


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
        """One metric in all epochs; NaN if an epoch has no finite value."""
        values = (record.get(name) for record in self.records)
        return [math.nan if value is None else value for value in values]

    def pace(self) -> float:
        """Seconds per epoch, recently."""
        recent = self.records[-_RECENT:]
        return sum(record["seconds"] for record in recent) / len(recent)

    def checksum(self) -> str:
        """That of the last line, which depends on all lines."""
        link = _BEGINNING
        for record in self.records:
            link = _next_link(link, record)
        return link

    @classmethod
    def read(cls, path: str | Path, epochs: int | None = None) -> "History":
        """The complete lines of a file, or only the first ones: a last line that was cut short by a kill does not
        count.

        The checksum of every line depends on all lines before it. Only the checkpoint can tell whether lines are
        missing at the end: see :func:`certgcl.learning.training.run_folder.read_history`.

        Raises:
            CheckpointError: a line is not a record, is not that of its epoch, or has changed.
        """
        path = Path(path)
        with refusing(
            path,
            CheckpointError,
            "line k must be the record of epoch k - 1, as it was written",
            "Bring it back from a copy, or start again in another folder",
        ):
            with open_regular(path) as stream:
                *lines, _ = stream.read().split(b"\n")  # a whole line ends in a newline
            return cls(_records(lines[:epochs]))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def record_of(epoch: int, seconds: float, metrics: dict[str, float]) -> dict[str, Any]:
    """A record; JSON has no NaN and no infinity, so such a metric is None."""
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    return {"epoch": epoch, "seconds": seconds, **finite}


def _records(lines: list[bytes]) -> list[dict[str, Any]]:
    records, link = [], _BEGINNING
    for epoch, line in enumerate(lines):
        record = parse_json(line)
        if not isinstance(record, dict) or record.pop(_SEAL, None) is None:
            raise ValueError(f"line {epoch + 1} without a checksum, or of another version of certgcl")
        link = _next_link(link, record)
        if _line(record, link).encode() != line + b"\n":
            raise ValueError(f"line {epoch + 1} has changed, or one before it")
        if not all(value is None or is_number(value) for value in record.values()) or record["seconds"] is None:
            raise ValueError(f"values that are not numbers in line {epoch + 1}")
        if record["epoch"] != epoch:
            raise ValueError(f"epoch {record['epoch']} in line {epoch + 1}")
        records.append(record)
    return records


def _next_link(link: str, record: dict[str, Any]) -> str:
    """The checksum of a record that follows on a line with the checksum ``link``."""
    return hashlib.sha256(f"{link}\n{json.dumps(record)}".encode()).hexdigest()[:_DIGITS]


def _line(record: dict[str, Any], link: str) -> str:
    return json.dumps(record | {_SEAL: link}, allow_nan=False) + "\n"


class HistoryWriter:
    """Appends records to a file, where a reader sees each at once, and to TensorBoard."""

    def __init__(self, path: Path, history: History, board: type[Any] | None = None) -> None:
        """Start with the records of ``history``; lines beyond them are removed, all at once.

        Args:
            board: what :func:`board_class` returns, to write to the folder ``tensorboard`` next to the file as well.
        """
        self.checksum, lines = _BEGINNING, []
        for record in history.records:
            self.checksum = _next_link(self.checksum, record)
            lines.append(_line(record, self.checksum))
        text = "".join(lines).encode()
        if path.is_symlink() or not path.is_file() or path.read_bytes() != text:  # never append through a link
            write_atomically(path, lambda stream: stream.write(text))
        self._stream = path.open("a", encoding="utf-8", newline="\n")
        self._board = board and board(path.parent / TENSORBOARD, purge_step=len(history))

    def append(self, record: dict[str, Any]) -> None:
        self.checksum = _next_link(self.checksum, record)
        self._stream.write(_line(record, self.checksum))
        self._stream.flush()
        if self._board is not None:
            for name, value in record.items():
                if name != "epoch" and value is not None:
                    self._board.add_scalar(name, value, record["epoch"])

    def sync(self) -> None:
        """Make sure that appended lines survive a power cut."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()
        if self._board is not None:
            self._board.close()


def board_class() -> type[Any]:
    """TensorBoard's writer; torch has it, but not the package that it requires."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as reason:
        raise InputError(
            f"tensorboard=True ({reason})",
            "TensorBoard must be installed; certgcl does not require it",
            "Run `pip install tensorboard`, or do without: history.jsonl has the same numbers",
        ) from reason
    return SummaryWriter
