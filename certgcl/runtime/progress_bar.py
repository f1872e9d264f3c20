"""A progress bar on stderr for runs that take longer than a moment."""

import time
from threading import Timer
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from certgcl.runtime.compilation import COMPILATION

_APPEARS_AFTER = 2.0  # seconds
_LINE_EVERY = 30.0  # seconds between lines, without a terminal to draw a bar on


class Bar:
    """Shows how much of a whole is done, with a message; on a terminal as a bar, elsewhere as occasional lines."""

    def __init__(self, title: str, shown: bool = True, words: str = "reading") -> None:
        console = Console(stderr=True)
        self._console, self._terminal = console, console.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=None, words=words)
        self._timer = Timer(_APPEARS_AFTER, self._bar.start)
        self._timer.daemon = True
        self._shown = shown
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._shown:
            COMPILATION.show_by(self._say)
            if self._terminal:
                self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            COMPILATION.show_no_more_by(self._say)
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def _say(self, words: str) -> None:
        """A message about what happens before the first step: on the bar, or on a separate line."""
        self._bar.update(self._task, words=words)
        if not self._terminal:
            self._console.print(words, highlight=False, soft_wrap=True)

    def show(self, done: int, whole: int, words: str) -> None:
        self._bar.update(self._task, total=whole, completed=done, words=words)
        now = time.monotonic()
        if self._shown and not self._terminal and now - self._last_line > _LINE_EVERY:
            self._last_line = now
            self._console.print(words, highlight=False, soft_wrap=True)
