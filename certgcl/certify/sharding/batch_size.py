"""How many shards are computed together: few, so that little is lost if the process is killed; many if that saves
work."""

from dataclasses import dataclass, field

PATIENCE = 30.0  # seconds of work that may be lost in any case,
LONGEST = 600.0  # and if computing shards together is much faster
PAYS = 0.75  # the share of a shard's time that is left then, at most


@dataclass
class BatchSize:
    """Doubles the number of shards as long as they take less than half a minute, and up to ten minutes as long as each
    doubling pays off: shards that are computed together do the work on shared neighbours once, and on a graph with hubs
    that is most of it."""

    at_once: int = 1
    _each: float = field(default=float("inf"), init=False)  # seconds a shard, in the last batch
    _settled: bool = field(default=False, init=False)

    def after(self, shards: int, seconds: float) -> None:
        """Record the time of a batch."""
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
