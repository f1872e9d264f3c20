"""Compiling is said once, to who listens, and its time is counted once."""

import io
import logging
from typing import Any

import pytest

from certgcl.runtime.compilation import WORDS, Compilation
from certgcl.runtime.progress_bar import Bar


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.compilation = Compilation(lambda: self.now)

    def compile(self, seconds: float) -> None:
        self.compilation.started()
        self.now += seconds
        self.compilation.finished()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_the_time_in_which_anything_is_compiled_counts_once(hands: Hands) -> None:
    hands.compilation.started()
    hands.now += 2
    hands.compile(3)  # for the one above
    assert hands.compilation.seconds == 5
    hands.now += 1
    hands.compilation.finished()
    hands.now += 50
    assert hands.compilation.seconds == 6


def test_what_takes_a_moment_is_not_spoken_of(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    hands.compile(0.4)
    hands.compile(0.4)
    assert hands.compilation._said is False


def test_a_terminal_is_told_once(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with caplog.at_level(logging.INFO, "certgcl"):
        for _ in range(4):
            hands.compile(2.0)
    assert screen.getvalue() == f"certgcl: {WORDS}\n"
    assert [record.message for record in caplog.records] == [WORDS]


def test_a_file_is_not_written_to(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    hands.compile(2.0)
    hands.compile(2.0)
    assert file.getvalue() == ""


def test_a_bar_says_it_while_it_is_open(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("certgcl.runtime.progress_bar.COMPILATION", hands.compilation)
    with Bar("certifying"):
        hands.compile(2.0)
        hands.compile(2.0)
    assert capfd.readouterr().err == f"{WORDS}\n"
    assert hands.compilation._shows == []


def test_numba_says_when_it_compiles() -> None:
    numba = pytest.importorskip("numba")
    from certgcl.bounds.compiled.kernels import numerics  # noqa: F401  (which listens)
    from certgcl.runtime.compilation import COMPILATION

    before = COMPILATION.seconds
    function: Any = numba.njit(lambda x: x + 1)
    assert function(1) == 2
    after = COMPILATION.seconds
    assert after > before
    assert function(2) == 3
    assert COMPILATION.seconds == after
