"""A run folder as a user meets it: what it says, and when it is refused. Nothing that is refused is changed."""

import json
import math
import platform
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_geometric

import certgcl
from certgcl.errors import CheckpointError, InputError
from certgcl.learning.training import train
from certgcl.learning.training.history import History
from tests.learning.training.tiny_session import CONFIG, outcome_of, seeded


def run(folder: Path, epochs: int = 5, config: dict[str, Any] | None = CONFIG, **settings: Any) -> History:
    return train(seeded(), epochs, folder=folder, config=config, **settings)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(folder: Path, message: str, **settings: Any) -> None:
    before = files(folder)
    with pytest.raises(CheckpointError, match=message):
        run(folder, **settings)
    assert files(folder) == before


def test_a_run_leaves_three_files(tmp_path: Path) -> None:
    history = run(tmp_path)
    assert set(files(tmp_path)) == {"config.json", "history.jsonl", "checkpoint.pt"}
    assert History.read(tmp_path / "history.jsonl") == history
    assert list(history.last) == ["epoch", "seconds", "loss", "compactness"]


def test_the_config_says_what_ran_where(tmp_path: Path) -> None:
    run(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    assert content["config"] == {"method": "tiny", "optimizer": {"lr": 0.01}, "rates": [0.4, 0.3], "epochs": 5}
    assert content["versions"] == {
        "certgcl": certgcl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch-geometric": torch_geometric.__version__,
        "numpy": np.__version__,
    }
    assert content["machine"] == {"threads": torch.get_num_threads(), "device": "cpu"}
    assert abs(datetime.fromisoformat(content["started"]).timestamp() - datetime.now().timestamp()) < 600


def test_a_new_run_is_not_written_over_another(tmp_path: Path) -> None:
    run(tmp_path)
    refused(tmp_path, r"with the files of a run.*Pass resume=True.*or another folder")
    (tmp_path / "checkpoint.pt").unlink()
    refused(tmp_path, "with the files of a run")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**CONFIG, "optimizer": {"lr": 0.5}}, r"differs in optimizer\.lr \(0\.01 there, 0\.5 here\):"),
        ({**CONFIG, "rates": (0.4,)}, r"rates\.1 \(0\.3 there, nothing here\):"),
        ({**CONFIG, "dataset": "Cora"}, r'dataset \(nothing there, "Cora" here\):'),
        ({"method": "gca"}, r'method \("tiny" there, "gca" here\), optimizer.lr .*, rates.0 .*, rates.1'),
        (None, "method .*nothing here"),
    ],
)
def test_another_config_is_refused_and_all_that_differs_named(config: Any, message: str, tmp_path: Path) -> None:
    run(tmp_path)
    refused(tmp_path, f"{message}.*another folder" if message.endswith(":") else message, config=config, resume=True)


def test_epochs_in_the_config_may_change_too(tmp_path: Path) -> None:
    run(tmp_path, config={**CONFIG, "epochs": 5})
    assert len(run(tmp_path, 8, config={**CONFIG, "epochs": 8}, resume=True)) == 8


def test_fewer_epochs_than_are_done_are_refused(tmp_path: Path) -> None:
    run(tmp_path)
    refused(tmp_path, "epochs=4 .*it has done 5 epochs.*Ask for 5 or more", epochs=4, resume=True)


@pytest.mark.parametrize("value", [Path("x"), math.nan, {1}, torch.zeros(2)])
def test_a_config_is_json(value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a config that is not JSON.*strings, lists and dicts"):
        run(tmp_path / "new", config={"value": value})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["checkpoint.pt", "config.json", "history.jsonl"])
def test_damaged_and_missing_files_are_refused(name: str, tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / name).write_bytes(b"damaged\n")
    refused(tmp_path, f"{name}.*start again in another folder", resume=True)
    (tmp_path / name).unlink()
    refused(tmp_path, f"{name}.*start again in another folder", resume=True)


def test_a_history_that_reaches_further_is_cut_back(tmp_path: Path) -> None:
    run(tmp_path)
    with (tmp_path / "history.jsonl").open("a") as stream:
        stream.write('{"epoch": 5, "seconds": 1, "loss": 0}\n{"epoch": 6, "sec')
    session = seeded(seed=1)
    history = train(session, 8, folder=tmp_path, resume=True, config=CONFIG)
    assert History.read(tmp_path / "history.jsonl") == history
    resumed = outcome_of(session, history)
    never_stopped = seeded()
    assert outcome_of(never_stopped, train(never_stopped, 8)) == resumed


def test_a_run_killed_before_its_first_checkpoint_just_begins(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "checkpoint.pt").unlink()
    (tmp_path / "history.jsonl").write_bytes(b"")
    assert len(run(tmp_path, config={"other": 1}, resume=True)) == 5


def test_a_folder_may_hold_other_things(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    run(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_without_tensorboard_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install tensorboard"):
        run(tmp_path / "new", tensorboard=True)
    assert not (tmp_path / "new").exists()


def test_tensorboard_is_a_folder_in_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    run(tmp_path, tensorboard=True)
    run(tmp_path, epochs=8, resume=True, tensorboard=True)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
