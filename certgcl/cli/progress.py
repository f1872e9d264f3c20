"""A progress bar on stderr for runs that take longer than a moment."""

import time
from datetime import timedelta
from threading import Timer
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from certgcl.certify.sharding import ShardProgress
from certgcl.learning import training

_APPEARS_AFTER = 2.0  # seconds
_LINE_EVERY = 30.0  # seconds, where there is no terminal to draw a bar on


class Bar:
    """How much of a whole is done, and words on it; on a terminal a bar, elsewhere a line now and then."""

    def __init__(self, title: str, shown: bool = True, words: str = "reading") -> None:
        console = Console(stderr=True)
        self._console, self._terminal = console, console.is_terminal
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"),
                             console=console, transient=True)
        self._task = self._bar.add_task(title, total=None, words=words)
        self._timer = Timer(_APPEARS_AFTER, self._bar.start)
        self._timer.daemon = True
        self._shown = shown
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
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

    def show(self, done: int, whole: int, words: str) -> None:
        self._bar.update(self._task, total=whole, completed=done, words=words)
        now = time.monotonic()
        if self._shown and not self._terminal and now - self._last_line > _LINE_EVERY:
            self._last_line = now
            self._console.print(words, highlight=False, soft_wrap=True)


class ShardBar(Bar):
    """Shards done, nodes done and time left; call it with each ``ShardProgress``.

    Within a shard, a search says by :meth:`searched` how far it is.
    """

    def __init__(self, shown: bool = True) -> None:
        super().__init__("certifying", shown)
        self._start = time.monotonic()
        self._last = ShardProgress(0, 0, 0, 0, 0)

    def __call__(self, progress: ShardProgress) -> None:
        now = time.monotonic()
        if progress.shards_done == 0:
            self._start = now
        self._last = progress
        self.show(progress.nodes_done, progress.nodes, describe(progress, now - self._start))

    def searched(self, finished: int, nodes: int) -> None:
        self.show(self._last.nodes_done + finished, self._last.nodes,
                  f"{describe(self._last, 0.0)}, {finished:,} of {nodes:,} in this shard closed")


class TrainingBar(Bar):
    """Epochs done, the metrics of the last and time left; call it with each ``training.Progress``."""

    def __init__(self, shown: bool = True) -> None:
        super().__init__("training", shown)

    def __call__(self, progress: training.Progress) -> None:
        self.show(progress.epoch, progress.epochs, describe_epoch(progress))


def describe(progress: ShardProgress, seconds: float) -> str:
    words = f"{progress.shards_done:,}/{progress.shards:,} shards, {progress.nodes_done:,}/{progress.nodes:,} nodes"
    left = progress.nodes - progress.nodes_done
    if left and progress.nodes_computed:
        words += _time_left(seconds * left / progress.nodes_computed)
    return words


def describe_epoch(progress: training.Progress) -> str:
    words = [f"{progress.epoch:,}/{progress.epochs:,} epochs"]
    words += [f"{name} {value:.4g}" for name, value in progress.metrics.items()]
    return ", ".join(words) + (_time_left(progress.seconds_left) if progress.epoch < progress.epochs else "")


def _time_left(seconds: float) -> str:
    return f", {timedelta(seconds=round(seconds))} left"
