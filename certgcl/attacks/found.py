"""What every search for harmful changes returns, and how long it may take."""

import time
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from certgcl.arguments import real
from certgcl.errors import InputError


@dataclass(frozen=True, eq=False)
class Found:
    """Attained values of ``w_i · z_i``. Not a certificate: other changes may lower them further.

    Args:
        nodes: the requested nodes, ``(A,)``.
        clean: ``w_i · z_i`` on the graph, ``(A,)``.
        values: the lowest value found, ``(A,)``: an upper bound of the worst case, and the clean value where nothing
            lower was found.
        searched: whether a node was searched, ``(A,)``.
    """

    nodes: Tensor
    clean: Tensor
    values: Tensor
    searched: Tensor
    certified: Literal[False] = field(default=False, init=False)

    def _position(self, node: int) -> int:
        place = (self.nodes == node).nonzero()[:, 0]
        if not len(place):
            raise InputError(f"node {node}", "only the nodes that were searched have a witness", "See .nodes")
        return int(place[0])

    def _lines(self, what: str, *about: str, last: tuple[str, ...] = (), missing: str = "no time") -> str:
        """A summary: ``about`` comes after the title, ``last`` after the values."""
        number, skipped = len(self.nodes), int((~self.searched).sum())
        return "\n".join(
            [
                f"{what} found at {int((self.values < self.clean).sum())} of {number} nodes (not certified)",
                *about,
                f"  clean     mean {float(self.clean.mean()):.4g}",
                f"  found     mean {float(self.values.mean()):.4g}, min {float(self.values.min()):.4g}",
                f"  negative  {int((self.values < 0).sum())} of {number}",
                *last,
                *([f"  {missing} for {skipped} nodes"] if skipped else []),
            ]
        )


def end_of(seconds: float) -> float:
    """The time at which a search of a given length must be over, in seconds of the monotonic clock."""
    return time.monotonic() + real(
        seconds,
        "seconds",
        lambda given: given >= 0,
        "it is a number of seconds, 0 or more",
        "Leave it out for a minute",
    )
