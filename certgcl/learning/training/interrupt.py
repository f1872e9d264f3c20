"""Handles Ctrl-C at a safe moment."""

import signal
from threading import current_thread, main_thread
from types import FrameType, TracebackType


class DeferredInterrupt:
    """In this context Ctrl-C only sets ``pending``, and ``KeyboardInterrupt`` is raised at the end; a second Ctrl-C
    raises it at once.

    A step that is interrupted in the middle leaves weights that belong to no epoch. Signals only reach the main thread,
    so nothing changes in other threads, nor if Ctrl-C is ignored (``nohup``) or left to the system.
    """

    def __init__(self) -> None:
        self.pending = False
        self._before = signal.getsignal(signal.SIGINT)
        self._active = current_thread() is main_thread() and callable(self._before)

    def __enter__(self) -> "DeferredInterrupt":
        if self._active:
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)
        if self.pending and kind is None:
            raise KeyboardInterrupt
