"""The texts of the commands' progress bars."""

import time
from dataclasses import replace
from datetime import timedelta

from certgcl.certify.sharding import ShardProgress
from certgcl.learning import training
from certgcl.runtime.compilation import COMPILATION
from certgcl.runtime.progress_bar import Bar

__all__ = ["Bar", "ShardBar", "TrainingBar", "describe", "describe_epoch"]


class ShardBar(Bar):
    """Shards done, nodes done and time left; call it with each ``ShardProgress``.

    Within a shard, a search reports its progress by :meth:`searched`.
    """

    def __init__(self, shown: bool = True) -> None:
        super().__init__("certifying", shown)
        self._start = time.monotonic() - COMPILATION.seconds
        self._last = ShardProgress(0, 0, 0, 0, 0)

    def __call__(self, progress: ShardProgress) -> None:
        now = time.monotonic() - COMPILATION.seconds  # which happens only once
        if progress.shards_done == 0:
            self._start = now
        self._last = progress
        self.show(progress.nodes_done, progress.nodes, describe(progress, now - self._start))

    def searched(self, finished: int, nodes: int) -> None:
        self.show(
            self._last.nodes_done + finished,
            self._last.nodes,
            f"{describe(self._last, 0.0)}, {finished:,} of {nodes:,} in this shard closed",
        )


class TrainingBar(Bar):
    """Epochs done, the metrics of the last and time left; call it with each ``training.Progress``."""

    def __init__(self, shown: bool = True) -> None:
        super().__init__("training", shown)
        self._compiled_before = COMPILATION.seconds

    def __call__(self, progress: training.Progress) -> None:
        compiling = COMPILATION.seconds - self._compiled_before
        if compiling:  # later epochs do not need it
            pace = max(progress.seconds - compiling, 0.0) / progress.epoch
            progress = replace(progress, seconds_left=pace * (progress.epochs - progress.epoch))
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
