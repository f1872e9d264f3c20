"""Many branches at once: copies of receptive fields, each with its own decisions, as one graph of separate parts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.attacks import SearchSpace
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact.networks.rows import FieldRows
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.models.layer import Layer, Term
from certgcl.models.network import GraphNetwork
from certgcl.runtime.tensor_cache import PRIVATE

UNION_SLOTS = 1 << 16  # of the copies that are processed together


@dataclass(frozen=True, eq=False)
class Copies(AdmissibleDrops):
    """Drops in parts of a graph, each of which has its own total.

    Args:
        left: the total of the part that every node is in, ``(N,)``.
    """

    left: Tensor

    def total_at(self, nodes: Tensor) -> Tensor:
        return self.left[nodes]


@dataclass(frozen=True, eq=False)
class Branch:
    """Decisions on the edges of one field, ``(B, E)``, and the direction there."""

    rows: FieldRows
    state: Tensor
    direction: Tensor

    @property
    def size(self) -> int:
        return len(self.state) * max(1, len(self.rows.row))

    def split(self, number: int) -> "list[Branch]":
        return [replace(self, state=part) for part in self.state.split(number)]


class Branches:
    """Bounds and values on copies of the fields of a search space.

    The features of a copy are the first layers' products ``X W``, so that wide features are multiplied once and not for
    every copy; layers whose output is not used are left out.
    """

    def __init__(self, space: SearchSpace, bound: Degree) -> None:
        self.space, self.bound = space, bound

    @cached_property
    def network(self) -> GraphNetwork:
        network, tables, reach = self.space.network, self.space.tables, self.space.reach.outputs
        widths = [table.shape[1] for table in tables.values()]
        columns = dict(zip(tables, torch.eye(sum(widths), dtype=network.dtype).split(widths, dim=1), strict=True))
        numbers: dict[int, int] = {0: 0}
        layers: list[Layer] = []
        for number, layer in enumerate(network.layers, 1):
            if reach[number] < 0:
                continue
            terms = tuple(
                Term(
                    numbers[term.source],
                    term.weight if term.source else _selection(columns[number, place]),
                    term.aggregation,
                )
                for place, term in enumerate(layer.terms)
            )
            layers.append(replace(layer, terms=terms))
            numbers[number] = len(layers)
        return replace(network, layers=tuple(layers), readout=tuple(numbers[number] for number in network.readout))

    @cached_property
    def features(self) -> Tensor:
        return torch.cat([*self.space.tables.values()], dim=1)

    def bounds(self, branches: Sequence[Branch]) -> list[Tensor]:
        """Lower bounds of ``w · z`` over all drops that agree with the decisions, ``(B,)`` of each."""
        graph, drops, anchors, directions = self._union(branches)
        problem = ChangeProblem(graph, AdmissibleChanges(drops), anchors, only_anchors=True)
        found = self.bound(self.network, problem, directions[:, None])[:, 0]
        return [*found.split([len(branch.state) for branch in branches])]

    def values(self, branch: Branch) -> Tensor:
        """``w · z`` without the dropped edges, ``(B,)``."""
        parts = []
        for part in branch.split(max(1, UNION_SLOTS // max(1, len(branch.rows.row)))):
            graph, _, anchors, directions = self._union([part])
            parts.append((self.network.embed(graph)[anchors] * directions).sum(dim=1))
        return torch.cat(parts)

    def _union(self, branches: Sequence[Branch]) -> tuple[Graph, AdmissibleDrops, Tensor, Tensor]:
        """One graph of all copies, what may be dropped there, the anchors and their directions."""
        rows, cols, droppable, nodes, local, left, anchors, first = [], [], [], [], [], [], [], 0
        for branch in branches:
            field, number, size = branch.rows, len(branch.state), len(branch.rows.nodes)
            settled = field.settled(branch.state)
            never = torch.zeros(number, 1, dtype=torch.bool)
            gone = torch.cat([settled.state == DROPPED, never], dim=1)[:, field.edge]
            free = torch.cat([settled.state == FREE, never], dim=1)
            copy, slot = (~gone).nonzero().T
            start = first + copy * size
            rows.append(field.row[slot] + start)
            cols.append(field.col[slot] + start)
            droppable.append(free[copy, field.edge[slot]])
            nodes.append(field.nodes.repeat(number))
            local.append(settled.left.flatten())
            left.append(settled.total.repeat_interleave(size))
            anchors.append(first + field.anchor + size * torch.arange(number))
            first += number * size
        row, loses = torch.cat(rows), torch.cat(droppable)
        graph = Graph.trusted(
            self.features[torch.cat(nodes)], starts(torch.bincount(row, minlength=first)), torch.cat(cols)
        )
        budget, rest = torch.cat(local), torch.cat(left)
        drops = Copies(budget, budget, int(rest.max()), loses, torch.bincount(row[loses], minlength=first), rest)
        for made in (graph, drops):
            vars(made)[PRIVATE] = True  # nobody else holds them, so no copies and no checks
        directions = torch.cat([branch.direction.expand(len(branch.state), -1) for branch in branches])
        return graph, drops, torch.cat(anchors), directions


def _selection(columns: Tensor) -> Tensor:
    """A matrix that selects columns; its diagonal if it selects all."""
    return torch.ones_like(columns[0]) if columns.shape[0] == columns.shape[1] else columns.contiguous()
