"""Numbers that change over the epochs of a training run."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from certgcl.arguments import real, whole

FURTHEST = 1e300  # from zero, so that differences stay finite
WARM_UP = 0.1  # share of the epochs

Schedule: TypeAlias = Literal["constant", "cosine"]


@dataclass(frozen=True)
class Ramp:
    """``first`` up to epoch ``start``, then linearly to ``last`` over ``length`` epochs, then ``last``.

    ``Ramp(0.4, start=50)`` is a warm-up of 50 epochs without the term; ``Ramp(0.4, length=100)`` grows from the start.
    """

    last: float
    start: int = 0
    length: int = 0
    first: float = 0.0

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            object.__setattr__(
                self,
                name,
                real(
                    getattr(self, name),
                    name,
                    lambda value: abs(value) <= FURTHEST,
                    "a ramp leads from one finite number to another",
                    "Pass two numbers",
                ),
            )
        for name in ("start", "length"):
            object.__setattr__(
                self, name, whole(getattr(self, name), name, 0, "epochs of a ramp are counted from 0", "Pass an int")
            )

    def at(self, epoch: int) -> float:
        epoch = check_epoch(epoch)
        done = 1.0 if epoch >= self.start + self.length else max(0, epoch - self.start) / max(1, self.length)
        return self.first + done * (self.last - self.first)


def check_epoch(epoch: int) -> int:
    return whole(epoch, "epoch", 0, "epochs are counted from 0", "Pass an int")


def value_at(schedule: float | Ramp, epoch: int) -> float:
    """A ramp's value, or the number itself."""
    return schedule.at(epoch) if isinstance(schedule, Ramp) else float(schedule)


def share_of_rate(schedule: Schedule, epoch: int, epochs: int) -> float:
    """The factor of the learning rate in an epoch of a training run.

    ``constant``: 1. ``cosine``: it rises linearly to 1 over the first tenth of the epochs, then falls along half a
    cosine, ``(1 + cos π t) / 2``, to 0 where the training ends.
    """
    if schedule == "constant":
        return 1.0
    risen = math.ceil(WARM_UP * epochs)
    if epoch < risen:
        return (epoch + 1) / risen
    return (1 + math.cos(math.pi * min(1.0, (epoch - risen) / max(1, epochs - risen)))) / 2
