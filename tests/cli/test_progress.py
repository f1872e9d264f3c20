import time

import pytest

from certgcl.certify.sharding import ShardProgress
from certgcl.cli import progress as bars
from certgcl.cli.progress import ShardBar, TrainingBar, describe_epoch
from certgcl.learning.training import Progress
from certgcl.runtime import progress_bar

HALF = Progress(600, 1200, {"loss": 3.14159, "infonce": 12.5, "compactness": -0.25, "kappa": 0.4}, 60.0, 61.4)
DONE = Progress(1200, 1200, {"loss": 3.0}, 120.0, 0.0)


def test_an_epoch_is_told_by_its_metrics_and_the_time_left() -> None:
    assert describe_epoch(HALF) == (
        "600/1,200 epochs, loss 3.142, infonce 12.5, compactness -0.25, kappa 0.4, 0:01:01 left"
    )
    assert describe_epoch(DONE) == "1,200/1,200 epochs, loss 3"


def test_a_short_training_shows_no_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with TrainingBar() as bar:
        bar(HALF)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(progress_bar, "_APPEARS_AFTER", 0.0)
    for shown in (True, False):
        with TrainingBar(shown) as bar:
            bar(HALF)
            time.sleep(0.2)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("training" in err and "600/1,200 epochs, loss 3.142" in err) == shown


def test_a_log_gets_a_line_now_and_then(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with TrainingBar() as bar:
        bar(HALF)
        monkeypatch.setattr(progress_bar, "_LINE_EVERY", -1.0)
        bar(DONE)
    assert capfd.readouterr() == ("", "1,200/1,200 epochs, loss 3\n")


class Clock:
    """A compilation whose time is set by hand."""

    seconds = 0.0


def test_the_minute_of_compiling_is_not_expected_of_later_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, shown = Clock(), []
    monkeypatch.setattr(bars, "COMPILATION", clock)
    bar = TrainingBar()
    monkeypatch.setattr(bar, "show", lambda done, whole, words: shown.append(words))
    clock.seconds = 60.0
    bar(Progress(1, 101, {}, 61.0, 6100.0))
    assert shown == ["1/101 epochs, 0:01:40 left"]


def test_nor_of_later_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, shown, now = Clock(), [], [0.0]
    monkeypatch.setattr(bars, "COMPILATION", clock)
    monkeypatch.setattr(bars.time, "monotonic", lambda: now[0])
    bar = ShardBar()
    monkeypatch.setattr(bar, "show", lambda done, whole, words: shown.append(words))
    bar(ShardProgress(0, 11, 0, 110, 0))
    clock.seconds, now[0] = 60.0, 61.0
    bar(ShardProgress(1, 11, 10, 110, 10))
    assert shown[-1].endswith("0:00:10 left")
