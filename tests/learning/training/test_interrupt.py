import signal
import threading
from collections.abc import Callable

import pytest

from certgcl.learning.training.interrupt import DeferredInterrupt


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupted(times: int, then: Callable[[], object], reached: list[int]) -> None:
    with DeferredInterrupt() as interrupt:
        for time in range(times):
            assert interrupt.pending == (time > 0)
            ctrl_c()
            reached.append(time)
        then()


def test_an_interrupt_waits_until_the_end() -> None:
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        interrupted(1, lambda: reached.append(9), reached)
    assert reached == [0, 9]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_does_not_wait() -> None:
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        interrupted(2, lambda: reached.append(9), reached)
    assert reached == [0]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_is_not_hidden_by_an_interrupt() -> None:
    with pytest.raises(ZeroDivisionError):
        interrupted(1, lambda: 1 / 0, [])


def test_without_an_interrupt_nothing_happens() -> None:
    before = signal.getsignal(signal.SIGINT)
    with DeferredInterrupt():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with DeferredInterrupt() as interrupt:
            ctrl_c()
        assert not interrupt.pending
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone() -> None:
    seen = []

    def work() -> None:
        with DeferredInterrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
