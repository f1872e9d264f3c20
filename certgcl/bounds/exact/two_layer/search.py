"""Branch and bound for the anchors of a two-layer GCN, one after the other."""

import time
from collections.abc import Iterator

from torch import Tensor

from certgcl.attacks import Search
from certgcl.bounds.exact.anchors import AnchorSearch, Grown
from certgcl.bounds.exact.two_layer.field import ReceptiveField
from certgcl.bounds.exact.two_layer.tree import Tree, searched
from certgcl.bounds.two_layer.weights import two_layers

TOGETHER = 64  # anchors whose starting drops are searched together


class TwoLayerSearch(AnchorSearch):
    """By the cells of the anchor's neighbours: see :mod:`certgcl.bounds.exact.two_layer.case`."""

    def _grown(self, places: list[int], lower: Tensor, dropped: dict[int, Tensor], limit: float) -> Iterator[Grown]:
        for place, receptive in self._fields(places, dropped):
            tree = Tree(
                self.space,
                receptive,
                self.directions[receptive.nodes[0]],
                float(lower[place]),
                dropped[place],
                self.tolerance,
            )
            tree.grow(limit, self.end)
            yield Grown(
                place, tree.lower, tree.upper, tree.done, tree.witness, receptive.slots[tree.witness], tree.bounded
            )

    def _fields(self, places: list[int], dropped: dict[int, Tensor]) -> Iterator[tuple[int, ReceptiveField]]:
        """Receptive fields of the anchors while there is time, once starting drops are known for them; those that are
        too large are skipped."""
        for start in range(0, len(places), TOGETHER):
            if time.time() >= self.end:
                return
            weights = two_layers(self.network, "exact")
            fields = [
                (place, ReceptiveField.around(self.graph, self.drops, weights, int(self.anchors[place])))
                for place in places[start : start + TOGETHER]
            ]
            here = [(place, receptive) for place, receptive in fields if receptive is not None]
            new = [(place, receptive) for place, receptive in here if place not in dropped]
            if new:
                directions = self.directions[self.anchors[[place for place, _ in new]]]
                searches = [searched(self.space, receptive) for _, receptive in new]
                found = Search(restarts=0)(self.space, searches, directions)
                dropped.update(zip((place for place, _ in new), found, strict=True))
            yield from here
