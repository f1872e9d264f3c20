import json
import math
import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from certgcl.errors import CheckpointError, InputError, TrainingError
from certgcl.learning.training import Progress, train
from certgcl.learning.training.history import History
from certgcl.learning.training.loop import _Cadence
from tests.learning.training.tiny_session import CONFIG, TinySession, command, outcome_of, seed_all, seeded, train_in


def unstopped(epochs: int) -> dict[str, Any]:
    session = seeded()
    return outcome_of(session, train(session, epochs))


def resumed(folder: Path, epochs: int) -> dict[str, Any]:
    """From a session and generators that would go another way."""
    session = seeded(seed=1)
    return outcome_of(session, train(session, epochs, folder=folder, resume=True, config=CONFIG))


def epochs_on_disk(folder: Path) -> int:
    return int(torch.load(folder / "checkpoint.pt", weights_only=True)["epochs_done"])


class Crash(Exception):
    pass


class Stopping(TinySession):
    """Something happens in the middle of one epoch, when the weights are new already."""

    def __init__(self, at: int, what: Any) -> None:
        super().__init__()
        self.at, self.what = at, what

    def step(self, epoch: int) -> dict[str, float]:
        metrics = super().step(epoch)
        return metrics if epoch != self.at else metrics | (self.what(self) or {})


def stopping(at: int, what: Any) -> Stopping:
    seed_all(0)
    return Stopping(at, what)


def crash(_: TinySession) -> None:
    raise Crash


# -- going on --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 7, 12, 19])
@pytest.mark.parametrize("every", [1, 5, 1000, 30.0, 1e-9])
def test_a_resumed_run_ends_as_one_that_was_not_stopped(at: int, every: int | float, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        train(stopping(at, crash), 20, folder=tmp_path, checkpoint_every=every, config=CONFIG)
    assert resumed(tmp_path, 20) == unstopped(20)
    assert [record["epoch"] for record in History.read(tmp_path / "history.jsonl").records] == list(range(20))


def test_a_run_may_be_stopped_again_and_again(tmp_path: Path) -> None:
    for at in (3, 3, 4, 11):
        with pytest.raises(Crash):
            train(stopping(at, crash), 20, folder=tmp_path, resume=True, checkpoint_every=2, config=CONFIG)
    assert resumed(tmp_path, 20) == unstopped(20)


def test_files_and_their_rhythm_change_no_result(tmp_path: Path) -> None:
    for every in (1, 7, 0.001):
        session = seeded()
        history = train(session, 20, folder=tmp_path / str(every), checkpoint_every=every)
        assert outcome_of(session, history) == unstopped(20)


def test_a_run_may_go_on_for_longer(tmp_path: Path) -> None:
    train(seeded(), 5, folder=tmp_path, config=CONFIG)
    assert resumed(tmp_path, 20) == unstopped(20)
    assert json.loads((tmp_path / "config.json").read_text())["config"]["epochs"] == 20


def test_a_finished_run_is_only_read(tmp_path: Path) -> None:
    train(seeded(), 5, folder=tmp_path, config=CONFIG)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    assert resumed(tmp_path, 5) == unstopped(5)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("resume", [True, False])
def test_an_empty_folder_is_a_beginning(resume: bool, tmp_path: Path) -> None:
    session = seeded()
    history = train(session, 3, folder=tmp_path / "a" / "b", resume=resume)
    assert outcome_of(session, history) == unstopped(3)


def test_no_epochs_leave_the_session_as_it_is(tmp_path: Path) -> None:
    assert train(seeded(), 0, folder=tmp_path).records == []
    assert epochs_on_disk(tmp_path) == 0


# -- kills -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Any:
    """New processes from one that has imported everything."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("no forkserver on this system")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["certgcl.learning.training", "certgcl.cli"])
    ready = context.Process(target=os.getpid)
    ready.start()
    ready.join()
    return context


def wait_for_lines(folder: Path, lines: int) -> None:
    deadline = time.monotonic() + 60
    path = folder / "history.jsonl"
    while not path.exists() or path.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_kill_at_any_moment_leaves_a_checkpoint_that_loads(processes: Any, tmp_path: Path) -> None:
    moment, killed, epochs = random.Random(0), [], 100_000  # never reached
    for _ in range(12):
        process = processes.Process(target=train_in, args=(tmp_path, epochs))
        process.start()
        wait_for_lines(tmp_path, 1 + (killed[-1] if killed else 0))
        time.sleep(moment.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        killed.append(epochs_on_disk(tmp_path))
    assert sorted(killed) == killed
    assert killed[-1] > 0
    assert resumed(tmp_path, killed[-1] + 10) == unstopped(killed[-1] + 10)
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_ends_with_130_after_the_epoch_it_comes_in(processes: Any, tmp_path: Path) -> None:
    process = processes.Process(target=command, args=(tmp_path, 1000, 0.05))
    process.start()
    wait_for_lines(tmp_path, 3)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    done = epochs_on_disk(tmp_path)
    assert done == len((tmp_path / "history.jsonl").read_text().splitlines()) >= 3
    assert resumed(tmp_path, done + 5) == unstopped(done + 5)


# -- Ctrl-C ----------------------------------------------------------------------------------------


def ctrl_c(_: TinySession) -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_waits_for_the_end_of_the_epoch(tmp_path: Path) -> None:
    session, before = stopping(3, ctrl_c), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(session, 20, folder=tmp_path, config=CONFIG)
    assert signal.getsignal(signal.SIGINT) is before
    assert session.steps == epochs_on_disk(tmp_path) == 4
    assert resumed(tmp_path, 20) == unstopped(20)


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    session, before = stopping(3, lambda session: [ctrl_c(session) for _ in range(2)]), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(session, 20, folder=tmp_path, checkpoint_every=2, config=CONFIG)
    assert signal.getsignal(signal.SIGINT) is before
    assert epochs_on_disk(tmp_path) == 2
    assert resumed(tmp_path, 20) == unstopped(20)


def test_another_thread_trains_without_signals() -> None:
    done: list[History] = []
    thread = threading.Thread(target=lambda: done.append(train(seeded(), 3)))
    thread.start()
    thread.join()
    assert len(done[0]) == 3


# -- numbers that are not finite -------------------------------------------------------------------


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_state_before(loss: float, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=rf"loss {loss} in epoch 9.*checkpoint.pt holds the state after 8 epochs"):
        train(stopping(9, lambda _: {"loss": loss}), 20, folder=tmp_path, checkpoint_every=4, config=CONFIG)
    assert epochs_on_disk(tmp_path) == 8
    assert len(History.read(tmp_path / "history.jsonl")) == 9
    assert resumed(tmp_path, 20) == unstopped(20)


def spoil(session: TinySession) -> None:
    with torch.no_grad():
        next(session.model.parameters())[0, 0] = math.inf


@pytest.mark.parametrize("every", [1, 30.0])
def test_weights_that_are_not_finite_are_not_written_over_good_ones(every: int | float, tmp_path: Path) -> None:
    """The step before the last has a finite loss."""
    good = 7 if every == 1 else 0
    with pytest.raises(TrainingError, match=rf"values in model.1.weight after 8 epochs.*after {good} epochs"):
        train(stopping(7, spoil), 8, folder=tmp_path, checkpoint_every=every, config=CONFIG)
    assert epochs_on_disk(tmp_path) == good
    assert resumed(tmp_path, 20) == unstopped(20)


def test_numbers_must_be_finite_without_a_folder_too() -> None:
    with pytest.raises(TrainingError, match=r"loss nan in epoch 2.*kept in folder="):
        train(stopping(2, lambda _: {"loss": math.nan}), 5)
    with pytest.raises(TrainingError, match=r"values in model.1.weight after 5 epochs"):
        train(stopping(4, spoil), 5)


def test_a_session_that_begins_badly_leaves_the_folder_free(tmp_path: Path) -> None:
    session = seeded()
    spoil(session)
    with pytest.raises(TrainingError, match=r"model.1.weight after 0 epochs.*nothing is in"):
        train(session, 5, folder=tmp_path)
    assert len(train(seeded(), 5, folder=tmp_path)) == 5


def test_another_metric_may_be_undefined(tmp_path: Path) -> None:
    history = train(stopping(1, lambda _: {"compactness": math.nan}), 3, folder=tmp_path)
    assert [math.isnan(value) for value in history.column("compactness")] == [False, True, False]
    assert "NaN" not in (tmp_path / "history.jsonl").read_text()
    assert History.read(tmp_path / "history.jsonl") == history


# -- progress and rhythm ---------------------------------------------------------------------------


def test_progress_is_told_after_every_epoch(tmp_path: Path) -> None:
    seen: list[Progress] = []
    train(seeded(), 2, folder=tmp_path)
    history = train(seeded(), 5, folder=tmp_path, resume=True, progress=seen.append)
    assert [(step.epoch, step.epochs) for step in seen] == [(3, 5), (4, 5), (5, 5)]
    assert [step.metrics["loss"] for step in seen] == history.column("loss")[2:]
    assert seen[-1].seconds == pytest.approx(sum(history.column("seconds")))
    assert seen[0].seconds_left == pytest.approx(2 * seen[0].seconds / 3)
    assert seen[-1].seconds_left == 0


def test_an_int_counts_epochs_and_a_float_seconds() -> None:
    now = [0.0]
    by_count, by_time = _Cadence(3), _Cadence(3.0, lambda: now[0])
    assert [epoch for epoch in range(1, 10) if by_count.due(epoch)] == [3, 6, 9]
    for seconds, due in [(2.9, False), (3.0, True)]:
        now[0] = seconds
        assert by_time.due(1) == due


def test_checkpoints_by_the_clock_take_a_small_part_of_the_time() -> None:
    now = [0.0]
    cadence = _Cadence(3.0, lambda: now[0])
    with cadence.timed():
        now[0] = 10.0
    for seconds, due in [(13.0, False), (209.0, False), (210.0, True)]:
        now[0] = seconds
        assert cadence.due(1) == due


def test_a_short_run_has_a_checkpoint_at_the_beginning_and_one_at_the_end(tmp_path: Path) -> None:
    written = set()
    train(seeded(), 50, folder=tmp_path, progress=lambda _: written.add((tmp_path / "checkpoint.pt").stat().st_ino))
    assert len(written) == 1
    assert epochs_on_disk(tmp_path) == 50


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": -1}, "epochs=-1"),
        ({"epochs": 2.0}, r"epochs=2\.0"),
        ({"epochs": True}, "epochs=True"),
        ({"checkpoint_every": 0}, "checkpoint_every=0.*an int counts epochs"),
        ({"checkpoint_every": math.nan}, "checkpoint_every=nan"),
        ({"resume": True}, "Pass folder="),
        ({"tensorboard": True}, "Pass folder="),
    ],
)
def test_arguments_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(seeded(), **{"epochs": 3, **settings})


def test_a_state_that_could_not_be_read_back_is_refused_at_once(tmp_path: Path) -> None:
    session = seeded()
    session.optimizer.param_groups[0]["lr"] = torch.tensor(0.5).numpy()[()]
    with pytest.raises(CheckpointError, match=r"numpy.float32 at optimizer.param_groups.0.lr.*Convert it"):
        train(session, 3, folder=tmp_path)
    assert session.steps == 0


def test_a_checkpoint_is_that_of_a_session(tmp_path: Path) -> None:
    train(seeded(), 3, folder=tmp_path)
    wider = seeded()
    wider.model[1] = torch.nn.Linear(4, 5)
    with pytest.raises(CheckpointError, match="must fit the session"):
        train(wider, 5, folder=tmp_path, resume=True)
    assert epochs_on_disk(tmp_path) == 3
