"""Numbers that change over the epochs of a training."""

from dataclasses import dataclass

from certgcl.errors import InputError


@dataclass(frozen=True)
class Ramp:
    """``first`` up to epoch ``start``, then in a straight line to ``last`` over ``length`` epochs, then ``last``.

    ``Ramp(0.4, start=50)`` is a warm-up of 50 epochs without the term; ``Ramp(0.4, length=100)`` grows from the start.
    """

    last: float
    start: int = 0
    length: int = 0
    first: float = 0.0

    def __post_init__(self) -> None:
        for name, epochs in (("start", self.start), ("length", self.length)):
            if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
                raise InputError(f"{name}={epochs!r} of a ramp", "epochs are counted from 0", "Pass an int")

    def at(self, epoch: int) -> float:
        done = 1.0 if epoch >= self.start + self.length else max(0, epoch - self.start) / max(1, self.length)
        return self.first + done * (self.last - self.first)


def value_at(schedule: float | Ramp, epoch: int) -> float:
    """A ramp's value, or the number itself."""
    return schedule.at(epoch) if isinstance(schedule, Ramp) else float(schedule)
