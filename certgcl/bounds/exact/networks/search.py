"""Branch and bound for many anchors of a network, whose branches are bounded together."""

import time
from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from certgcl.attacks import Search
from certgcl.bounds.exact.anchors import AnchorSearch, Grown
from certgcl.bounds.exact.networks.branches import UNION_SLOTS, Branches
from certgcl.bounds.exact.networks.rows import FieldRows
from certgcl.bounds.exact.networks.tree import EdgeTree

TOGETHER = 64  # anchors, at most
LARGEST_FIELD = 1 << 17  # slots; beyond this, no branch of the anchor is bounded


class NetworkSearch(AnchorSearch):
    """Edge by edge: see :class:`certgcl.bounds.exact.networks.tree.EdgeTree`."""

    @cached_property
    def branches(self) -> Branches:
        return Branches(self.space, self.bound)

    @cached_property
    def guides(self) -> dict[int, Tensor]:
        """Drops with a low value that a search has found, by the places of the anchors."""
        return {}

    def _grown(self, places: list[int], lower: Tensor, dropped: dict[int, Tensor], limit: float) -> Iterator[Grown]:
        for fields in self._groups(places):
            self._search_drops(fields)
            trees = {
                place: EdgeTree(
                    self.branches,
                    rows,
                    self._direction(place),
                    self.guides[place],
                    float(lower[place]),
                    dropped.get(place, self.guides[place]),
                    self.tolerance,
                )
                for place, rows in fields.items()
            }
            self._grow([*trees.values()], limit)
            for place, tree in trees.items():
                yield Grown(
                    place,
                    tree.lower,
                    tree.upper,
                    tree.done,
                    tree.witness,
                    tree.rows.field.slots[tree.witness],
                    tree.bounded,
                )

    def _direction(self, place: int) -> Tensor:
        return self.directions[self.anchors[place]]

    def _groups(self, places: list[int]) -> Iterator[dict[int, FieldRows]]:
        """Fields of anchors that are searched together, as many as fit into one union."""
        group: dict[int, FieldRows] = {}
        size = 0
        for place in places:
            if time.time() >= self.end:
                return
            rows = FieldRows.around(self.space, int(self.anchors[place]))
            if rows is None or (too_large(rows) and place in self.guides):  # there is only one pass
                continue
            step = EdgeTree.step_size(rows)
            if group and (len(group) == TOGETHER or size + step > UNION_SLOTS):
                yield group
                group, size = {}, 0
            group[place] = rows
            size += step
        if group:
            yield group

    def _search_drops(self, fields: dict[int, FieldRows]) -> None:
        """Find the guides of anchors that have none."""
        new = [place for place in fields if place not in self.guides]
        if new:
            directions = torch.stack([self._direction(place) for place in new])
            end = time.monotonic() + self.end - time.time()
            found = Search(restarts=0)(self.space, [fields[place].field for place in new], directions, end)
            self.guides.update(zip(new, found, strict=True))

    def _grow(self, trees: list[EdgeTree], limit: float) -> None:
        """Grow the trees step by step, until each is done or has bounded about ``limit`` branches, or the time is
        over."""
        while time.time() < self.end:
            growing = [tree for tree in trees if not tree.done and tree.bounded < limit and not too_large(tree.rows)]
            if not growing:
                return
            cut = [(tree, tree.cut()) for tree in growing]
            cut = [(tree, branch) for tree, branch in cut if len(branch.state)]
            if cut:
                for (tree, branch), bounds in zip(
                    cut, self.branches.bounds([branch for _, branch in cut]), strict=True
                ):
                    tree.take(branch, bounds)


def too_large(rows: FieldRows) -> bool:
    """Whether an anchor keeps its first bound, and gets an upper value only from the search for drops."""
    return len(rows.row) > LARGEST_FIELD
