"""The edges around one anchor, the decisions on them, and their consequences."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT, CellBounds
from certgcl.bounds.exact.two_layer.field import ReceptiveField
from certgcl.changes.edge_drops import AdmissibleDrops


class NothingLeft(Exception):
    """No drops agree with the decisions, or none that could be better than the best known."""


class EdgeSite:
    """A receptive field, organised by the rows of the anchor's neighbours.

    Attributes:
        ends: of the droppable edges, ``(2, E)``.
        node: the neighbours of every row except the anchor, ``(R, K)``; 0 where padded. Row j is that of node j + 1.
        edge: the edges to them, -1 where they cannot be dropped, ``(R, K)``.
        size: their number, ``(R,)``.
        own_edge: the edges of the anchor, ``(R,)``.
        alike: edges with the same number here are equivalent; -1 for an edge without an equivalent one, ``(E,)``.
    """

    def __init__(self, field: ReceptiveField, drops: AdmissibleDrops, direction: Tensor) -> None:
        near, inner = field.adjacency.shape
        self.field, self.direction, self.weights = field, direction, field.weights
        self.budget, self.total, self.ends = drops.local[field.nodes], drops.total, field.edges
        within = (field.edges < inner).all(dim=0).nonzero()[:, 0]
        number = torch.full((inner, inner), -1)
        one, other = field.edges[:, within]
        number[one, other], number[other, one] = within, within
        rows = field.adjacency[1:].clone()
        rows[:, 0] = 0
        rows[torch.arange(near - 1), torch.arange(1, near)] = 0
        self.size = rows.sum(dim=1).long()
        places = int(self.size.max()) if near > 1 else 0
        self.node = rows.argsort(dim=1, descending=True, stable=True)[:, :places]
        padding = torch.arange(places) >= self.size[:, None]
        self.edge = number[torch.arange(1, near)[:, None], self.node].masked_fill(padding, -1)
        self.node.masked_fill_(padding, 0)
        self.own_edge = number[0, 1:near]
        self.alike = self._alike(inner)

    def _alike(self, inner: int) -> Tensor:
        """Edges that lead from one node out of the field, to ends that can lose all the edges they have here: only
        their number matters."""
        count = torch.bincount(self.ends.flatten(), minlength=len(self.budget))
        alike = torch.full_like(self.ends[0], -1)
        for inside, outside in (self.ends, self.ends.flip(0)):
            leads_out = (inside < inner) & (outside >= inner) & (self.budget >= count)[outside]
            alike = torch.where(leads_out, inside, alike)
        return alike

    def rows(self, lost: int) -> CellBounds:
        """The rows if the anchor loses a given number of edges."""
        inner, tau = self.field.adjacency.shape[1], float(self.field.degree[0] - lost) ** -0.5
        return CellBounds(self.node, self.size, self.field.projected, self.field.degree[:inner], tau, self.weights)


@dataclass(frozen=True, eq=False)
class Decisions:
    """What is known about the edges of a site, ``(E,)``, and the number of edges that each node loses, ``(n,)``."""

    site: EdgeSite
    state: Tensor
    fewest: Tensor
    most: Tensor

    @classmethod
    def none(cls, site: EdgeSite, lost: int) -> "Decisions":
        """No decisions, except for the number of edges that the anchor loses."""
        count = torch.zeros_like(site.budget)
        count[0] = lost
        most = site.budget.clone()
        most[0] = lost
        return cls(site, torch.full_like(site.ends[0], FREE), count, most).settled()

    @cached_property
    def dropped(self) -> Tensor:
        """Edges that each node surely loses, ``(n,)``."""
        return torch.bincount(self.site.ends[:, self.state == DROPPED].flatten(), minlength=len(self.fewest))

    @cached_property
    def free(self) -> Tensor:
        """Undecided edges of each node, ``(n,)``."""
        return torch.bincount(self.site.ends[:, self.state == FREE].flatten(), minlength=len(self.fewest))

    @property
    def own(self) -> Tensor:
        """What is known about the edges of the anchor, ``(R,)``."""
        return self.of(self.site.own_edge)

    def of(self, edges: Tensor) -> Tensor:
        """What is known about some edges; those that cannot be dropped have the number -1."""
        return torch.cat([self.state, self.state.new_tensor([KEPT])])[edges]

    def decided(self, edges: Tensor, kind: int) -> "Decisions":
        """The same with some edges dropped or kept, before any consequence is drawn."""
        known = self.state[edges]
        if bool(((known != FREE) & (known != kind)).any()):
            raise NothingLeft
        state = self.state.clone()
        state[edges] = kind
        return replace(self, state=state)

    def branched(self, edge: int, kind: int) -> "Decisions":
        """The same with an edge dropped or kept. If it is kept, so are all free edges equivalent to it: it stands for
        any of them."""
        alike = int(self.site.alike[edge])
        edges = torch.tensor([edge])
        if kind == KEPT and alike >= 0:
            edges = ((self.site.alike == alike) & (self.state == FREE)).nonzero()[:, 0]
        return self.decided(edges, kind).settled()

    def counted(self, nodes: Tensor, fewest: Tensor, most: Tensor) -> "Decisions":
        """The same where some nodes lose a given number of edges."""
        return replace(
            self,
            fewest=self.fewest.scatter_reduce(0, nodes, fewest, "amax"),
            most=self.most.scatter_reduce(0, nodes, most, "amin"),
        )

    def settled(self) -> "Decisions":
        """The same with all consequences: budgets that are used up, counts that need every edge."""
        spare = self.site.total - int((self.state == DROPPED).sum())
        fewest = self.fewest.maximum(self.dropped)
        most = self.most.minimum(self.dropped + self.free.clamp(max=max(0, spare)))
        if spare < 0 or bool((fewest > most).any()):
            raise NothingLeft
        one, other = self.site.ends
        full, short, free = most == self.dropped, fewest == self.dropped + self.free, self.state == FREE
        kept, gone = free & (full[one] | full[other]), free & (short[one] | short[other])
        if bool((kept & gone).any()):
            raise NothingLeft
        state = torch.where(kept, KEPT, torch.where(gone, DROPPED, self.state))
        found = replace(self, state=state, fewest=fewest, most=most)
        return found if torch.equal(state, self.state) else found.settled()
