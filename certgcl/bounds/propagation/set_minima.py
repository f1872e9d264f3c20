"""Functionals of near layers at a node's neighbours, and of layers above them: minima over sets of edges, without
lines.

The value of a near layer at a neighbour k is a function of the set S of edges that k loses (see
:mod:`~certgcl.bounds.propagation.drop_sets`). So while the edge (i, k) is kept and k can lose ``reach`` others,

    β · h_k  >=  φ_k  =  min { β · h_k(S) : (i, k) ∉ S,  |S| <= reach } .

A layer is *next* to near ones if it is a sum of terms of features and near layers. If node i loses the set S,

    λ · p_i  >=  λ · ( local terms + b )(S)  +  out(n_i) Σ_{k ∉ S} φ_k ,

so that the minimum over the sets of a state is a bound in that state; under a total φ falls with every edge that k
loses (:mod:`~certgcl.bounds.propagation.falling_terms`). In neither is an activation left to be bounded; what the bound
ignores is that sets of different nodes may be incompatible. Nodes with too many sets keep their lines.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.drop_sets import DropSets, near_layers
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.recompute import once
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models.layer import Term
from certgcl.models.network import GraphNetwork

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


def next_layers(network: GraphNetwork) -> set[int]:
    """The numbers of the layers next to near ones, which one aggregation brings to a node."""
    near = near_layers(network) | {0}
    return {
        number
        for number, layer in enumerate(network.layers, 1)
        if number not in near
        and all(term.source in near for term in layer.terms)
        and [term.source > 0 and plain(term) for term in layer.terms if term.aggregation.mixes] == [True]
    }


def plain(term: Term) -> bool:
    """Whether a term mixes neighbours whatever their states, and without the node itself."""
    scales = term.aggregation
    return scales.mixes and not scales.counts_at_neighbours and not bool(scales.own(torch.ones(1)).any())


@dataclass(frozen=True, eq=False)
class SetMinima:
    """The rows of a ball that can lose few sets of edges, and the values of near layers there for each set."""

    ranges: "NetworkRanges"
    ball: Ball
    _values: dict[int, list[Tensor]] = field(default_factory=dict)
    _own: dict[int, list[Tensor]] = field(default_factory=dict)

    @cached_property
    def blocks(self) -> list[DropSets]:
        network = self.ranges.network
        return DropSets.of(self.ball, max(network.width_of(number) for number in range(1, len(network.layers) + 1)))

    @cached_property
    def block(self) -> Tensor:
        """The block that every row is in, -1 for rows with many sets, ``(R,)``; and its position there."""
        return self._where[0]

    @property
    def place(self) -> Tensor:
        return self._where[1]

    @cached_property
    def few(self) -> Tensor:
        """Which rows are in blocks, ``(R,)``."""
        return self.block >= 0

    @cached_property
    def rank(self) -> Tensor:
        """The rank of every slot among its row's droppable edges; their number if it is not droppable, ``(S,)``."""
        droppable = self.ball.droppable.long()
        before = torch.cumsum(droppable, 0) - droppable
        first = torch.cat([before, before.new_zeros(1)])[self.ball.rowptr[:-1]]
        free = torch.zeros_like(self.ball.degree).index_add_(0, self.ball.row, droppable)
        return torch.where(self.ball.droppable, before - first[self.ball.row], free[self.ball.row])

    @cached_property
    def _where(self) -> tuple[Tensor, Tensor]:
        block, place = torch.full_like(self.ball.degree, -1), torch.zeros_like(self.ball.degree)
        for number, sets in enumerate(self.blocks):
            block[sets.rows] = number
            place[sets.rows] = torch.arange(len(sets.rows), device=place.device)
        return block, place

    def outputs(self, number: int) -> list[Tensor]:
        """Of a near layer for every set, ``(n, s, d)`` in each block."""
        return once(self._values, number, lambda: [sets.outputs(self.ranges, number) for sets in self.blocks])

    # -- neighbours --------------------------------------------------------------------------------

    def of_edges(
        self, slot: Tensor, asked: Tensor, source: int, functionals: Functionals, most: int | None
    ) -> FallingTerms:
        """φ, ``(V, M)``, for functionals that all nodes share.

        Args:
            slot: the node's own slot in the row of its neighbour, which has few sets, ``(V,)``.
            asked: how many edges the neighbour can lose while this one is kept, ``(V,)``.
            source: a near layer, and functionals of its outputs.
            most: edges that any neighbour can lose, under a total that is a limit.
        """
        vectors = functionals.explicit()[0].flatten(0, 1)
        vectors = vectors[: len(vectors) // 2] if functionals.paired else vectors
        row = self.ball.row[slot]
        kinds, kind_of = torch.unique(
            torch.stack([self.block[row], self.rank[slot], asked], dim=1), dim=0, return_inverse=True
        )
        order, count = torch.argsort(kind_of, stable=True), torch.bincount(kind_of, minlength=len(kinds))
        products: dict[int, Tensor] = {}
        nothing = vectors.new_zeros(0, functionals.number)
        parts = [FallingTerms.of(lambda _: nothing, most)]
        for (block, rank, reach), visits in zip(kinds.tolist(), order.split(count.tolist()), strict=True):
            if block not in products:  # kinds are in the order of their blocks
                products = {block: self.outputs(source)[block] @ vectors.T}
            open_to = (~self._gone(block)[rank] & (self.blocks[block].lost <= reach)).nonzero()[:, 0]
            lost = self.blocks[block].lost[open_to]  # in ascending order
            for some in visits.split(max(1, limits.CACHED_VALUES // (len(open_to) * len(vectors)))):
                here = products[block][self.place[row[some], None], open_to]
                parts.append(FallingTerms.of(partial(_over_sets, here, lost, functionals.paired), most))
        return FallingTerms.joined(parts).at(torch.argsort(order))

    def of_visits(
        self, slot: Tensor, reach: Tensor, values: list[Tensor], vectors: Tensor, owner: Tensor, most: int | None
    ) -> FallingTerms:
        """The same for functionals of the nodes' own.

        Args:
            values: of every set, ``(n, s, d)`` in each block.
            vectors: functionals of them, ``(E, M, d)``,
            owner: of which each visit has one, ``(V,)``.
        """
        nothing, row = vectors.new_zeros(0, vectors.shape[1]), self.ball.row[slot]
        parts = [FallingTerms.of(lambda _: nothing, most)]
        order = torch.argsort(self.block[row], stable=True)
        blocks, count = torch.unique_consecutive(self.block[row[order]], return_counts=True)
        for block, visits in zip(blocks.tolist(), order.split(count.tolist()), strict=True):
            sets, here = self.blocks[block], values[block]
            each = len(sets.lost) * max(vectors.shape[1], here.shape[2])
            for some in visits.split(max(1, limits.CACHED_VALUES // each)):
                products = here[self.place[row[some]]] @ vectors[owner[some]].transpose(1, 2)
                beyond = self._gone(block)[self.rank[slot[some]]] | (sets.lost > reach[some, None])
                products = products.masked_fill(beyond[..., None], torch.inf)
                parts.append(FallingTerms.of(partial(_over_sets, products, sets.lost, False), most))
        return FallingTerms.joined(parts).at(torch.argsort(order))

    def _gone(self, block: int) -> Tensor:
        """Which sets contain each of the droppable edges of a row, with a last row, all false, for edges that cannot be
        dropped, ``(f + 1, s)``."""
        sets = self.blocks[block]
        return torch.cat([sets.gone, sets.gone.new_zeros(len(sets.lost), 1)], dim=1).T

    def mix(self, number: int) -> Term:
        """How a layer next to near ones takes them from its neighbours."""
        return next(term for term in self.ranges.network.layers[number - 1].terms if term.aggregation.mixes)

    # -- the node itself ---------------------------------------------------------------------------

    def own_parts(self, number: int) -> list[Tensor]:
        """The local terms and the bias of a layer next to near ones for every set, ``(n, s, d)`` in each block."""
        return once(self._own, number, lambda: [self._own_part(number, place) for place in range(len(self.blocks))])

    def _own_part(self, number: int, place: int) -> Tensor:
        layer, sets = self.ranges.network.layers[number - 1], self.blocks[place]
        total = layer.bias
        for term in layer.terms:
            if term.aggregation.mixes:
                continue
            if term.source == 0:
                nodes = self.ranges.widest.place[self.ball.nodes[sets.rows]]
                total = total + self.ranges.projected(term)[nodes][:, None]
            else:
                total = total + term.project(self.outputs(term.source)[place])
        return total.expand(len(sets.rows), len(sets.lost), -1)

    def of_nodes(self, cells: Cells, sets: TermSets, number: int, vectors: Tensor, phi: FallingTerms) -> Tensor:
        """The least ``λ · p`` of a layer next to near ones in cells of rows of few sets, ``(E, M)``.

        Args:
            sets: the rows of the cells,
            phi: φ at each of their slots, ``(slots, M)``.
            vectors: λ, ``(E or 1, M, d)``.
        """
        ways, width = sets.ways(phi), phi.least.shape[1]
        whole = [vectors.new_zeros(len(cells.place), width).index_add(0, sets.owner, way.terms) for way in ways]
        own, scales = self.own_parts(number), self.mix(number).aggregation
        states, row = cells.ball.cells, self.ball.place[cells.node]
        first, last = states.first[cells.place], states.last[cells.place]
        kind = torch.stack([self.block[row], first, last], dim=1)
        kinds, kind_of = torch.unique(kind, dim=0, return_inverse=True)
        order, count = torch.argsort(kind_of, stable=True), torch.bincount(kind_of, minlength=len(kinds))
        parts, places, shared = [vectors.new_zeros(0, width)], [row[:0]], len(vectors) == 1
        products: dict[int, Tensor] = {}
        for (place, fewest, most), entries in zip(kinds.tolist(), order.split(count.tolist()), strict=True):
            block = self.blocks[place]
            if shared and place not in products:  # kinds are in the order of their blocks
                products = {place: own[place] @ vectors[0].T}
            chosen = ((block.lost >= fewest) & (block.lost <= most)).nonzero()[:, 0]
            for some in entries.split(max(1, limits.CACHED_VALUES // (len(chosen) * width))):
                at = self.place[row[some]]
                table = products[place] if shared else own[place]
                values = table[at[:, None], chosen]
                values = values if shared else values @ vectors[some].transpose(1, 2)
                free = sets.start[some, None] + block.slots[at] - self.ball.rowptr[row[some], None]
                gone, lost = block.gone[chosen].to(vectors.dtype), block.lost[chosen]
                kept = []
                for (terms, price), every in zip(ways, whole, strict=True):
                    kept.append(every[some, None] - gone @ terms[free])
                    if price is not None:
                        kept[-1] = (
                            kept[-1] - cells.ball.units(cells.row[some, None], lost)[..., None] * price[some, None]
                        )
                left = (self.ball.degree[row[some], None] - lost).to(vectors.dtype)
                parts.append((values + scales.out(left)[..., None] * best(kept)).amin(dim=1))
                places.append(some)
        return torch.cat(parts).index_select(0, torch.argsort(torch.cat(places)))


def _over_sets(values: Tensor, lost: Tensor, paired: bool, most: int | None) -> Tensor:
    """The least value of the sets of at most so many edges, ``(n, M)``.

    Args:
        values: ``(n, s, M)``.
        lost: how many edges each has, in ascending order, ``(s,)``.
        paired: whether the negatives of the values follow.
    """
    values = values if most is None else values[:, : int((lost <= most).sum())]
    least = values.amin(dim=1)
    return torch.cat([least, -values.amax(dim=1)], dim=1) if paired else least


class Asked(NamedTuple):
    """The terms of some cells whose neighbours can lose few sets of edges.

    Args:
        term: their places, ``(V,)``.
        slot: the slot of the node itself in the row of its neighbour.
        reach: how many edges the neighbour can lose while this one is kept.
    """

    term: Tensor
    slot: Tensor
    reach: Tensor

    @classmethod
    def of(cls, by_sets: SetMinima, cells: Cells, sets: TermSets) -> "Asked":
        ball, anchors = by_sets.ball, cells.ball
        row = ball.place[anchors.neighbour[sets.slot]]
        term = by_sets.few[row].nonzero()[:, 0]
        slot, owner = sets.slot[term], sets.owner[term]
        others = anchors.total[cells.row] - anchors.cells.first[cells.place]
        return cls(term, ball.rowptr[row[term]] + anchors.parent_rank[slot], anchors.reach[slot].minimum(others[owner]))


class EdgeMinima:
    """φ for functionals that all nodes share, once for every edge and reach that occurs in any cell of a ball."""

    def __init__(self, by_sets: SetMinima, ball: Ball, mix: Mix) -> None:
        self.by_sets, self.most = by_sets, int(by_sets.ball.budget.max()) + 1
        everywhere = Cells(ball, torch.arange(len(ball.cells.row), device=ball.nodes.device))
        asked = Asked.of(by_sets, everywhere, TermSets.of_cells(ball, None, everywhere.place))
        self.key = torch.unique(asked.slot * self.most + asked.reach)
        slot = torch.div(self.key, self.most, rounding_mode="floor")
        reach = self.key - slot * self.most
        self.values = by_sets.of_edges(slot, reach, mix.term.source, mix.functionals, ball.most_lost)

    def at(self, cells: Cells, sets: TermSets) -> tuple[Tensor, FallingTerms]:
        """The terms, and φ there, ``(terms, M)``."""
        asked = Asked.of(self.by_sets, cells, sets)
        place = torch.searchsorted(self.key, asked.slot * self.most + asked.reach)
        return asked.term, self.values.at(place)
