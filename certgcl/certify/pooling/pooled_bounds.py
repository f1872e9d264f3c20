"""Bounds of pooled embeddings from those of single nodes, with one change for all nodes of a graph."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from certgcl.bounds import BoundMethod, ChangeProblem
from certgcl.bounds.memory import default_limit, parts_that_fit
from certgcl.certify.pooling.change_sets import MOST_SHARED, GraphChangeSets
from certgcl.certify.pooling.changed_features import by_merged_paths
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.items import Items
from certgcl.certify.pooling.multipliers import Array
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.shared_changes import SharedChanges
from certgcl.models.pooled_network import PooledNetwork

MOST_SINGLE_ROWS = 1 << 24  # nodes that are embedded at most to try each item of all graphs by itself
MOST_PAIR_ROWS = 1 << 21  # and to try all pairs of items
EVERY_LEVEL = 4  # totals up to this one are bounded one by one; beyond, each is twice the last
Bounds = tuple[Tensor, Tensor]
"""Lower bounds, and how far adding up can have raised them, ``(G, C)``."""


def change_sets(network: PooledNetwork, changes: SetChanges) -> list[GraphChangeSets]:
    return [GraphChangeSets(network, *each) for each in zip(changes.graphs.graphs, changes.each, strict=True)]


@dataclass(frozen=True, eq=False)
class GraphBounds:
    """The least ``w · z_g`` of several graphs.

    Args:
        network: in the dtype of the computation.
        bound: of single nodes.
        sizes: at least ``|z_i|`` of every node and all that is summed on the way to it, ``(N, d)``.
        time_limit: of a linear program.
    """

    network: PooledNetwork
    changes: SetChanges
    bound: BoundMethod
    sizes: Tensor
    time_limit: float | None

    @property
    def graphs(self) -> GraphSet:
        return self.changes.graphs

    @cached_property
    def _largest(self) -> int:
        return int(self.changes.most_edges.max())

    @cached_property
    def _sets(self) -> list[GraphChangeSets]:
        return change_sets(self.network, self.changes)

    def lower(self, directions: Tensor) -> Bounds:
        """For directions ``(G, C, d)``."""
        pooled, shift = self._pulled_back(directions)
        lower, lifted = self._of_sums(pooled)
        if self.network.pool == "mean":
            count = self.graphs.sizes.double()[:, None]
            lower, lifted = lower / count, lifted / count
        return lower + shift, lifted

    def _pulled_back(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """``W w`` and ``b · w`` of the head: directions of what is pooled, and constants, ``(G, C)``."""
        head = self.network.head
        if head is None:
            return directions, directions.new_zeros(directions.shape[:2]).double()
        wide = directions.double()
        return (wide @ head.weight.double().T).to(directions.dtype), wide @ head.bias.double()

    def _of_nodes(self, total: int, directions: Tensor, rows: Callable[[Tensor], Tensor]) -> Tensor:
        """The least ``w · z_i`` of every node with at most ``total`` changed edges in each graph, ``(N, C)``, float64.

        Args:
            directions: from which ``rows`` takes those of some nodes, ``(A, C, d)``.
        """
        union, network = self.graphs.union, self.network.network
        changes, everyone = self.changes.limited_to(total), torch.arange(union.num_nodes, device=union.col.device)
        limit, number = default_limit(union.col.device), rows(everyone[:1]).shape[1]
        problem = ChangeProblem(union, changes, everyone, limit)
        found = torch.empty(len(everyone), number, dtype=torch.float64, device=everyone.device)
        for part in parts_that_fit(self.bound, network, problem, number, limit):
            anchors = ChangeProblem(union, changes, part, limit, only_anchors=True)
            found[part] = self.bound.solve(network, anchors, rows(part)).lower.double()
        return found

    # -- sums --------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> Tensor:
        """The number of *rows* of each graph, whose sum is its pooled value, ``(G,)``: its nodes or, for maxima, the
        channels, each with the value ``w_m max_i z_im``."""
        sizes = self.graphs.sizes
        return torch.full_like(sizes, self.network.network.width) if self.network.pool == "max" else sizes

    def _of_sums(self, directions: Tensor) -> Bounds:
        """Bounds of sums of rows: the best of the available ones."""
        shared = self._largest > 0 and self._shareable
        found = self._by_shared_items(directions) if shared else [self._by_rows(directions)]
        if self.changes.features is not None and not self._largest and self.network.pool != "max":
            found.append(by_merged_paths(self.network.network, self.changes, self.bound, directions, self.sizes))
        lower, lifted = (torch.stack(parts) for parts in zip(*found, strict=True))
        best = (lower - lifted).argmax(dim=0, keepdim=True)
        return lower.gather(0, best)[0], lifted.gather(0, best)[0]

    @property
    def _shareable(self) -> bool:
        """Whether there are few enough rows and items to compute the loss of each row by each item."""
        width = self.network.network.width if self.network.pool == "max" else 0
        return all(each.shared and width * len(each) <= MOST_SHARED for each in self._sets)

    def _by_rows(self, directions: Tensor) -> Bounds:
        """The sum of the rows' own bounds."""
        values = self._bounded(self._largest, directions)
        total = directions.new_zeros(len(self.graphs), values.shape[1], dtype=torch.float64)
        batch = torch.repeat_interleave(self._rows)
        sizes = total.index_add(0, batch, values.abs())
        error = torch.finfo(torch.float64).eps * (self._rows.double()[:, None] + 16) * sizes
        return total.index_add(0, batch, values), error

    def _bounded(self, total: int, directions: Tensor) -> Tensor:
        """Bounds of all rows with at most ``total`` changed edges in each graph, ``(R, C)``.

        Those of channels follow from ``max_i z_i >= max_i low_i`` and ``max_i z_i <= max_i high_i``.
        """
        if self.network.pool != "max":
            return self._of_nodes(total, directions, lambda part: directions[self.graphs.batch[part]])
        units = torch.eye(directions.shape[2], dtype=directions.dtype, device=directions.device)
        both = torch.cat([units, -units])
        ranges = self._of_nodes(total, both, lambda part: both.expand(len(part), -1, -1))
        low, negative_high = ranges.chunk(2, dim=1)
        low, high = self.graphs.largest(low)[:, None], self.graphs.largest(-negative_high)[:, None]
        wide = directions.double()
        return (wide.clamp(min=0) * low + wide.clamp(max=0) * high).transpose(1, 2).flatten(0, 1)

    def _clean(self, directions: Tensor) -> Tensor:
        """All rows without any change, ``(R, C)``."""
        z = self.network.network.embed(self.graphs.union)
        if self.network.pool == "max":
            pooled = self.graphs.largest(z).double()[..., None]
            return (directions.double().transpose(1, 2) * pooled).flatten(0, 1)
        return torch.einsum("ncd,nd->nc", directions[self.graphs.batch], z).double()

    def _with_items(self, each: GraphChangeSets, sets: list[tuple[int, ...]], directions: Tensor) -> Tensor:
        """The rows of one graph with each of some sets of items, ``(sets, rows, C)``."""
        values = each.of_channels if self.network.pool == "max" else each.of_nodes
        return values(sets, directions).double()

    def _fields(self, items: Items, near: bool) -> sp.csr_matrix:
        """The items that each row depends on, ``(R, E)``; for a channel these are all items of its graph."""
        if self.network.pool != "max":
            return items.near(self.network.network) if near else items.fields(self.network.network)
        blocks = [np.ones((rows, number)) for rows, number in zip(self._rows.tolist(), items.number, strict=True)]
        return sp.csr_matrix(sp.block_diag(blocks, format="csr"))

    def _by_shared_items(self, directions: Tensor) -> list[Bounds]:
        """Bounds in which each item is counted only once in a graph.

        Where edges are added, in two ways: by the number of items that can affect a node at all, and by whether any of
        them is near it in the graph as given; if so, its value is at least that under the largest change.
        """
        levels = _levels(self._largest)
        several = self.changes.additions is not None and self._largest > 1 and self.network.pool != "max"
        items = Items(self.changes, self._sets)
        first = np.array([0, *(level + 1 for level in levels[:-1])])
        limits = items.limits()
        batch = torch.repeat_interleave(self._rows).cpu().numpy()
        most = self.changes.most_edges.cpu().numpy()
        shared = SharedChanges(self._fields(items, near=not several), batch, items.graph, limits, most, first)
        values, losses = self._known(shared, levels, directions)
        if not (np.isfinite(values).all() and all(alone is None or np.isfinite(alone).all() for alone in losses)):
            unknown = directions.new_full(directions.shape[:2], torch.nan).double()
            return [(unknown, unknown)]
        found = [[shared.lower(values[:, place], alone, self.time_limit) for place, alone in enumerate(losses)]]
        if several:
            by_first = SharedChanges(self._fields(items, near=True), batch, items.graph, limits, most, first[:2])
            ends = values[:, :, [0, -1]]
            found.append([by_first.lower(ends[:, place], None, self.time_limit) for place in range(len(losses))])
        return [
            tuple(torch.from_numpy(np.stack(each, axis=1)).to(directions.device) for each in zip(*way, strict=True))  # type: ignore[misc]
            for way in found
        ]

    def _known(self, shared: SharedChanges, levels: list[int], directions: Tensor) -> tuple[Array, list[Array | None]]:
        """What is known about single rows: lower bounds of their values with as many items as each level stands for,
        ``(R, C, L)``, and the loss by each single item, for each direction."""
        known: list[Tensor] = []
        losses: list[Array | None] = [None] * directions.shape[1]
        if self.changes.features is None:
            clean = self._clean(directions)
            losses = self._losses(shared, directions, clean)
            known = [clean] * min(1 if losses[0] is None else 2, len(levels))  # one item takes a known loss
            if 1 < len(known) < len(levels):
                known += self._least_of_pairs(shared, directions, clean)
        values = [*known, *(self._bounded(total, directions) for total in levels[len(known) :])]
        return torch.stack(values, dim=2).cpu().numpy(), losses

    def _losses(self, shared: SharedChanges, directions: Tensor, clean: Tensor) -> list[Array | None]:
        """How much each item alone lowers each row in whose field it is, for each direction; None if there are too many
        to try."""
        sets = self._sets
        if sum(each.single_rows for each in sets) > MOST_SINGLE_ROWS:
            return [None] * directions.shape[1]
        # One graph after the other, and in each graph item by item, with all rows of the graph each time.
        taken = [clean.new_zeros(0, clean.shape[1])]
        for each, wanted, before in zip(sets, directions, clean.split(self._rows.tolist()), strict=True):
            if len(each):
                taken.append((before - self._with_items(each, each.singles(), wanted)).flatten(0, 1))
        rows, items = self._rows.cpu().numpy(), np.array([len(each) for each in sets])
        graph, item = shared.batch[shared.node], shared.fields.indices
        block, first_item, first_row = (np.cumsum(each) - each for each in (items * rows, items, rows))
        place = block[graph] + (item - first_item[graph]) * rows[graph] + shared.node - first_row[graph]
        return list(torch.cat(taken).cpu().numpy()[place].T)

    def _least_of_pairs(self, shared: SharedChanges, directions: Tensor, clean: Tensor) -> list[Tensor]:
        """The least value of each row with two items of its field, ``(R, C)``, in a list that is empty if there are too
        many pairs to try.

        Exact, and so at most ``v_i(S)`` for every S with two items of the field: these two are admissible by
        themselves, as every part of an admissible set is, and the value depends on nothing else of S.
        """
        sets, found, row, item = self._sets, [], 0, 0
        if sum(each.pair_rows for each in sets) > MOST_PAIR_ROWS:
            return []
        for each, wanted, before in zip(sets, directions, clean.split(self._rows.tolist()), strict=True):
            pairs, n, e = each.two(), len(before), len(each)
            if pairs:
                field = torch.from_numpy(shared.fields[row : row + n, item : item + e].toarray() > 0).to(before.device)
                one, other = torch.tensor(pairs, device=before.device).T
                inside = (field[:, one] & field[:, other]).T[..., None]
                before = torch.where(inside, self._with_items(each, pairs, wanted), before).amin(dim=0)
            found.append(before)
            row, item = row + n, item + e
        return [torch.cat(found)]


def _levels(largest: int) -> list[int]:
    """The numbers of items for which nodes are bounded, 0 first and the largest last."""
    levels = list(range(min(largest, EVERY_LEVEL) + 1))
    while levels[-1] < largest:
        levels.append(min(2 * levels[-1], largest))
    return levels
