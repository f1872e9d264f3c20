import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from certgcl.errors import CheckpointError
from certgcl.files.atomic import save_tensors
from certgcl.learning.training.checkpoint import (
    Checkpoint,
    check_plain,
    device_of,
    first_non_finite,
    leaves,
    random_state,
    restore_random_state,
)

STATE = {"model": nn.Linear(2, 3).state_dict(), "steps": 7, "name": "tiny", "rates": [0.1, None, True], "pair": (1, 2)}


def draws() -> list[Any]:
    """Of each global generator a number of every kind that keeps something back for the next."""
    return [
        torch.randn(3).tolist(),
        torch.rand(1, dtype=torch.float64).item(),
        np.random.standard_normal(),  # noqa: NPY002
        random.gauss(0, 1),
        random.random(),
    ]


def plain(state: dict[str, Any]) -> dict[str, Any]:
    return {name: leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for name, leaf in leaves(state)}


# -- there and back --------------------------------------------------------------------------------


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    written = Checkpoint.of(7, STATE)
    written.save(path)
    read = Checkpoint.load(path)
    assert read.epochs_done == 7
    assert plain(read.session) == plain(STATE)
    assert plain(read.random) == plain(written.random)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_checkpoint_holds_nothing_but_tensors_and_plain_values(tmp_path: Path) -> None:
    Checkpoint.of(7, STATE).save(tmp_path / "c")
    assert torch.load(tmp_path / "c", weights_only=True)["epochs_done"] == 7


@pytest.mark.parametrize("before", [0, 1])
def test_generators_go_on_where_they_were(before: int, tmp_path: Path) -> None:
    """After one draw each, numpy and Python have a second normal number ready."""
    for _ in range(before):
        draws()
    Checkpoint.of(0, {}).save(tmp_path / "c")
    expected = [draws(), draws()]
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    restore_random_state(Checkpoint.load(tmp_path / "c").random)
    assert [draws(), draws()] == expected


def test_asking_for_the_generators_draws_nothing() -> None:
    assert plain(random_state()) == plain(random_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_generators_of_cuda_devices_go_on_too() -> None:
    state = random_state()
    expected = torch.randn(3, device="cuda").tolist()
    restore_random_state(state)
    assert torch.randn(3, device="cuda").tolist() == expected


def test_a_generator_of_a_device_that_is_gone_is_left_out() -> None:
    state = random_state()
    gone = [torch.zeros(16, dtype=torch.uint8)]
    restore_random_state({**state, "cuda": [*state["cuda"], *gone]})
    assert plain(random_state()) == plain(state)


# -- what may be in it -----------------------------------------------------------------------------


def test_leaves_have_the_names_of_their_places() -> None:
    assert dict(leaves({"a": {"b": [1, (2, 3)]}, "c": 4})) == {"a.b.0": 1, "a.b.1.0": 2, "a.b.1.1": 3, "c": 4}


@pytest.mark.parametrize("value", [np.float64(1), np.zeros(2), {1, 2}, 1j, Path("x"), nn.Linear(1, 1)])
def test_what_would_not_be_read_back_is_not_written(value: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"{type(value).__name__} at mixture.0 in the session's state.*Convert"):
        Checkpoint.of(1, {"mixture": [value]}).save(tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_states_of_modules_and_optimizers_are_plain() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        optimizer = kind(model.parameters(), lr=0.1)
        model(torch.randn(4, 2)).square().mean().backward()
        optimizer.step()
        check_plain({"model": model.state_dict(), "optimizer": optimizer.state_dict()})


def test_a_tensor_that_is_not_finite_is_found_by_name() -> None:
    state = {"counts": torch.arange(3), "empty": torch.empty(0), "model": {"w": torch.ones(2), "b": torch.ones(2)}}
    assert first_non_finite(state) is None
    for value in (torch.nan, torch.inf, -torch.inf):
        state["model"]["b"][1] = value
        assert first_non_finite(state) == "model.b"


def test_the_device_is_that_of_the_tensors() -> None:
    assert device_of(STATE) == device_of({}) == "cpu"
    assert device_of({"step": torch.zeros(1), "w": [torch.zeros(1, device="meta")]}) == "meta"


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04" + b"\0" * 100])
def test_another_file_is_no_checkpoint(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"whole file in the format certgcl-checkpoint-2.*start again"):
        Checkpoint.load(tmp_path / "c")


def test_other_content_is_no_checkpoint(tmp_path: Path) -> None:
    for content in ({"format": "other"}, {"epochs_done": 1}, [1, 2], torch.zeros(3)):
        save_tensors(tmp_path / "c", content)
        with pytest.raises(CheckpointError):
            Checkpoint.load(tmp_path / "c")
    save_tensors(tmp_path / "c", nn.Linear(1, 1))
    with pytest.raises(CheckpointError, match="not tensors alone"):
        Checkpoint.load(tmp_path / "c")
    with zipfile.ZipFile(tmp_path / "c", "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(CheckpointError):
        Checkpoint.load(tmp_path / "c")


def test_a_missing_checkpoint_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Checkpoint.load(tmp_path / "none")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    Checkpoint.of(3, STATE).save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            Checkpoint.load(path)


def test_any_changed_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path, written = tmp_path / "c", Checkpoint.of(3, STATE)
    written.save(path)
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        try:
            read = Checkpoint.load(path)
        except CheckpointError:
            refused += 1
        else:
            assert (read.epochs_done, plain(read.session), plain(read.random)) == (
                3,
                plain(STATE),
                plain(written.random),
            )
    assert refused > len(whole) // 37 // 2
