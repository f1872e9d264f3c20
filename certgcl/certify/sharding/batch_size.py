"""How many shards are computed at a time: few, so that a kill loses little, and many where that saves work."""

from dataclasses import dataclass, field

PATIENCE = 30.0  # seconds of work that may be lost at any rate,
LONGEST = 600.0  # and where shards that are computed together are much faster
PAYS = 0.75  # the share of a shard's time that is left then, at the most


@dataclass
class Pace:
    """Twice as many shards at a time as before while they take less than half a minute, and on to ten minutes as long
    as each doubling pays: shards that are computed together do the work on neighbours that they share once, and on a
    graph with hubs that is most of it."""

    at_once: int = 1
    _each: float = field(default=float("inf"), init=False)  # seconds a shard, in the last batch
    _settled: bool = field(default=False, init=False)

    def after(self, shards: int, seconds: float) -> None:
        """Learn from a batch."""
        before, self._each = self._each, seconds / shards
        if seconds < PATIENCE:
            self.at_once *= 2
        elif seconds > LONGEST:
            self.at_once = max(1, self.at_once // 2)
        elif not self._settled:
            pays = self._each < PAYS * before
            self._settled = not pays
            if not pays:
                self.at_once = max(1, self.at_once // 2)
            elif seconds < LONGEST / 2:
                self.at_once *= 2
