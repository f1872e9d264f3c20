import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from certgcl.errors import CheckpointError, InputError
from certgcl.learning.training.history import History, HistoryWriter, board_class, record_of

RECORDS = [record_of(epoch, 0.25, {"loss": 1 / (epoch + 3), "compactness": -0.1 * epoch}) for epoch in range(5)]


def write(path: Path, history: History, *records: dict[str, Any], board: type[Any] | None = None) -> None:
    writer = HistoryWriter(path, history, board)
    for record in records:
        writer.append(record)
    writer.sync()
    writer.close()


# -- records ---------------------------------------------------------------------------------------


def test_columns_have_a_value_for_every_epoch() -> None:
    history = History([record_of(0, 1.0, {"loss": 2.0}), record_of(1, 1.0, {"loss": 1.0, "kappa": 0.5})])
    assert history.column("loss") == [2.0, 1.0]
    assert math.isnan(history.column("kappa")[0])
    assert history.column("kappa")[1] == history.last["kappa"] == 0.5


def test_the_pace_is_that_of_the_last_hundred_epochs() -> None:
    slow, fast = [record_of(epoch, 9.0, {}) for epoch in range(50)], [record_of(epoch, 1.0, {}) for epoch in range(100)]
    assert History(slow + fast).pace() == 1.0
    assert History(slow).pace() == 9.0


def test_a_metric_that_is_not_finite_has_no_value() -> None:
    record = record_of(0, 0.1, {"loss": 1.0, "a": math.nan, "b": -math.inf})
    assert record == {"epoch": 0, "seconds": 0.1, "loss": 1.0, "a": None, "b": None}
    assert math.isnan(History([record]).column("b")[0])


# -- the file --------------------------------------------------------------------------------------


def test_a_line_is_an_epoch_and_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    writer = HistoryWriter(path, History())
    for done, record in enumerate(RECORDS, start=1):
        writer.append(record)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [{name: line[name] for name in RECORDS[0]} for line in lines] == RECORDS[:done]
        assert all(len(line["checksum"]) == 16 for line in lines)
    writer.close()
    assert History.read(str(path)) == History(RECORDS)
    assert path.read_text().startswith('{"epoch": 0, "seconds": 0.25, "loss": 0.3333333333333333, "compactness": ')


def test_lines_beyond_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write(path, History(), *RECORDS)
    write(path, History(RECORDS[:3]), RECORDS[3])
    assert History.read(path) == History(RECORDS[:4])
    assert [file.name for file in tmp_path.iterdir()] == ["history.jsonl"]


@pytest.mark.parametrize("left", range(1, 60, 7))
def test_a_line_cut_by_a_kill_does_not_count(left: int, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write(path, History(), *RECORDS)
    path.write_bytes(path.read_bytes()[:-left])
    history = History.read(path)
    assert history == History(RECORDS[:4])
    write(path, history, RECORDS[4])
    assert History.read(path) == History(RECORDS)


@pytest.mark.parametrize("damage", [b"nonsense\n", b"[1, 2]\n", b"{}\n", b'{"epoch": 7}\n', b"\xff\xfe\n", b"\n"])
def test_a_damaged_line_is_refused_unless_it_comes_after_all_that_counts(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write(path, History(), *RECORDS)
    path.write_bytes(path.read_bytes() + damage)
    with pytest.raises(CheckpointError, match=r"history.jsonl.*line k must be the record of epoch k - 1"):
        History.read(path)
    assert History.read(path, 5) == History(RECORDS)


def test_a_missing_history_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        History.read(tmp_path / "none")


# -- TensorBoard -----------------------------------------------------------------------------------


def test_tensorboard_that_is_not_installed_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match=r"TensorBoard must be installed.*pip install tensorboard"):
        board_class()


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="not installed")
    path = tmp_path / "history.jsonl"
    write(path, History(), *RECORDS, board=board_class())
    again = [RECORDS[3] | {"loss": 9.0}, RECORDS[4] | {"compactness": None}]
    write(path, History(RECORDS[:3]), *again, board=board_class())
    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) == {"seconds", "loss", "compactness"}
    assert [(event.step, event.value) for event in events.Scalars("loss")][-2:] == [
        (3, 9.0),
        (4, pytest.approx(RECORDS[4]["loss"])),
    ]
    assert [event.step for event in events.Scalars("loss")] == [0, 1, 2, 3, 4]
    assert [event.step for event in events.Scalars("compactness")] == [0, 1, 2, 3]
