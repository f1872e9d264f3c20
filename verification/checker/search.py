"""Which edge to decide next: only a choice, as trees of cases prove the same whatever they decide first."""

import numpy as np

from .core.arithmetic import Array
from .core.changes import Edge
from .core.views import MOST_ROWS, Change, Views


def edge_to_decide(views: Views, directions: Array, slack: Array, least: Array) -> Edge | None:
    """The one whose change does most by itself; none if there is nothing to gain, as a single change is below what
    should be proved."""
    some: list[Change] = [*views.edges[: MOST_ROWS // len(views.field)]]
    if not some:
        return None
    changed = [[], *([change] for change in some)]
    low, high = views.values(changed, directions, slack), -views.values(changed, -directions, slack)
    allowed = [True, *(views.admissible(change) for change in changed[1:])]
    if (high[allowed].min(axis=0) < least).any():
        return None
    tight = int(np.argmin((low - least).min(axis=0)))
    return views.edges[int(np.argmax(np.abs(low[1:] - low[0])[:, tight]))]
