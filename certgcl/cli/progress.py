"""A progress bar on stderr for runs that take longer than a moment."""

import time
from datetime import timedelta
from threading import Timer
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from certgcl.sharding import ShardProgress

_APPEARS_AFTER = 2.0  # seconds
_LINE_EVERY = 30.0  # seconds, where there is no terminal to draw a bar on


class ShardBar:
    """Shards done, nodes done and time left; call it with each ``ShardProgress``."""

    def __init__(self, shown: bool = True) -> None:
        console = Console(stderr=True)
        self._console, self._terminal = console, console.is_terminal
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"),
                             console=console, transient=True)
        self._task = self._bar.add_task("certifying", total=None, words="reading")
        self._timer = Timer(_APPEARS_AFTER, self._bar.start)
        self._timer.daemon = True
        self._shown = shown
        self._start = self._last_line = time.monotonic()

    def __enter__(self) -> "ShardBar":
        if self._shown and self._terminal:
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        if self._bar.live.is_started:
            self._bar.stop()

    def __call__(self, progress: ShardProgress) -> None:
        now = time.monotonic()
        if progress.shards_done == 0:
            self._start = now
        words = describe(progress, now - self._start)
        self._bar.update(self._task, total=progress.nodes, completed=progress.nodes_done, words=words)
        if self._shown and not self._terminal and now - self._last_line > _LINE_EVERY:
            self._last_line = now
            self._console.print(words, highlight=False, soft_wrap=True)


def describe(progress: ShardProgress, seconds: float) -> str:
    words = f"{progress.shards_done:,}/{progress.shards:,} shards, {progress.nodes_done:,}/{progress.nodes:,} nodes"
    left = progress.nodes - progress.nodes_done
    if left and progress.nodes_computed:
        words += f", {timedelta(seconds=round(seconds * left / progress.nodes_computed))} left"
    return words
