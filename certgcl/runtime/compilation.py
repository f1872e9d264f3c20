"""The compilation of kernels: announced once, shown by the progress bar, and excluded from its estimates."""

import sys
import time
from collections.abc import Callable

from certgcl.runtime.logs import LOG

WORDS = "compiling kernels for this machine, up to a minute, once"
_WORTH_SAYING = 1.0  # seconds of compiling, after which more compiling is expected


class Compilation:
    """The time that compiling has taken in this process, and where it is announced.

    A compilation may start others, and threads may compile at the same time; what counts is the time during which at
    least one is running.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._running, self._began, self._taken = clock, 0, 0.0, 0.0
        self._said = False
        self._shows: list[Callable[[str], None]] = []

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return self._taken + (self._clock() - self._began if self._running else 0.0)

    def started(self) -> None:
        if not self._running:
            self._began = self._clock()
        self._running += 1
        if not self._said and self.seconds > _WORTH_SAYING:
            self._said = True
            self._say()

    def finished(self) -> None:
        self._running -= 1
        if not self._running:
            self._taken += self._clock() - self._began

    def show_by(self, show: Callable[[str], None]) -> None:
        """Show the announcement on this bar instead of printing it."""
        self._shows.append(show)

    def show_no_more_by(self, show: Callable[[str], None]) -> None:
        self._shows.remove(show)

    def _say(self) -> None:
        LOG.info(WORDS)
        if self._shows:
            self._shows[-1](WORDS)
        elif sys.stderr is not None and sys.stderr.isatty():
            print(f"certgcl: {WORDS}", file=sys.stderr)


COMPILATION = Compilation()
"""Of this process."""
