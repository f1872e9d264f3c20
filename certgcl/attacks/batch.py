"""Many fields as one graph of separate parts: all their values in one pass, and the effect of each edge.

Nodes of all fields are numbered together, those at a smaller distance first and, among them, field by field. So the
nodes at which a layer is needed always come first, and node b is the centre of field b.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from certgcl.attacks.field import Field, SearchSpace
from certgcl.models.aggregations import Aggregation

OUTSIDE = 1 << 30  # the distance of the padding node
SPARE = 9  # neighbours of the padding node, enough for any change


@dataclass(frozen=True, eq=False)
class Scales:
    """``own``, ``out`` and ``into`` of some nodes, for their numbers of neighbours."""

    own: Tensor
    out: Tensor
    into: Tensor

    @classmethod
    def of(cls, aggregation: Aggregation, count: Tensor) -> "Scales":
        """For real numbers of neighbours too: at whole numbers the pass gives the same result, because ``out(0)``
        multiplies an empty sum and ``into(0)`` is never used; and below 1 nothing grows without bound."""
        some = count.clamp(min=1)
        return cls(aggregation.own(count), aggregation.out(some), aggregation.into(some))

    def leaves(self) -> "Scales":
        return Scales(*(scale.detach().requires_grad_() for scale in (self.own, self.out, self.into)))


@dataclass(frozen=True, eq=False)
class FieldBatch:
    """B fields with U nodes and M messages, and places for E edges each. Node U and edge E - 1 are padding.

    Args:
        node: the number of every node in the graph, ``(U,)``.
        distance: from the node of its field, ``(U + 1,)``.
        count: its number of neighbours, ``(U + 1,)``.
        budget: ``q``, ``(U + 1,)``; 0 for padding, which is never dropped.
        ends: of the droppable edges, ``(B, E, 2)``.
        direction: ``w``, ``(B, d)``.
        row, col: the nodes that receive and send the messages, row by row, ``(M,)``.
        edge: the position in ``(B, E)`` of the edge that carries a message, ``B E`` if it cannot be dropped, ``(M,)``.
        members: the fields themselves.
    """

    space: SearchSpace
    node: Tensor
    distance: Tensor
    count: Tensor
    budget: Tensor
    ends: Tensor
    direction: Tensor
    row: Tensor
    col: Tensor
    edge: Tensor
    members: tuple[Field, ...]

    @classmethod
    def of(
        cls, space: SearchSpace, fields: Sequence[Field], directions: Tensor, places: int | None = None
    ) -> "FieldBatch":
        places = places or 1 + max(field.slots.numel() for field in fields)
        node, distance, count = (
            torch.cat([getattr(field, name) for field in fields]) for name in ("nodes", "distance", "degree")
        )
        order = torch.argsort(distance, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        ends, messages, start = [], [], 0
        for number, field in enumerate(fields):
            here = place[start : start + len(field.nodes)]
            padding = here.new_full((places - field.slots.numel(), 2), len(order))
            ends.append(torch.cat([here[field.edges].T, padding]))
            edge = torch.where(field.edge < field.slots.numel(), field.edge + number * places, len(fields) * places)
            messages.append(torch.stack([here[field.row], here[field.col], edge]))
            start += len(field.nodes)
        row, col, edge = torch.cat(messages, dim=1)
        row, by_row = row.sort(stable=True)
        col, edge = col[by_row], edge[by_row]
        node, distance, count = node[order], distance[order], count[order]

        def with_nothing(values: Tensor, nothing: int) -> Tensor:
            return torch.cat([values, values.new_tensor([nothing])])

        return cls(
            space,
            node,
            with_nothing(distance, OUTSIDE),
            with_nothing(count, SPARE),
            with_nothing(space.drops.local[node], 0),
            torch.stack(ends),
            directions,
            row,
            col,
            edge,
            tuple(fields),
        )

    def at(self, places: Tensor) -> "FieldBatch":
        """Some of the fields."""
        if len(places) == len(self.members):
            return self
        return FieldBatch.of(
            self.space, [self.members[place] for place in places.tolist()], self.direction[places], self.ends.shape[1]
        )

    def single(self) -> "FieldBatch":
        """The same in float32."""
        return replace(self, space=self.space.single, direction=self.direction.float())

    # -- contents ---------------------------------------------------------------------------------

    @property
    def fields(self) -> Tensor:
        """0 … B - 1."""
        return torch.arange(len(self.ends), device=self.ends.device)

    @property
    def nothing(self) -> int:
        """The position of the padding edge."""
        return self.ends.shape[1] - 1

    @cached_property
    def nearest(self) -> Tensor:
        """The distance of the nearer end of every edge, ``(B, E)``."""
        return self.distance[self.ends].amin(dim=2)

    @cached_property
    def rows(self) -> list[int]:
        """The number of nodes at which each layer's output is needed, features first."""
        distance = self.distance[:-1]
        return [int((distance <= most).sum()) for most in self.space.reach.outputs]

    @cached_property
    def start(self) -> Tensor:
        """The position where the messages of every node begin, ``(U + 1,)``."""
        number = torch.bincount(self.row, minlength=len(self.node))
        return torch.cat([number.new_zeros(1), number.cumsum(0)])

    @cached_property
    def aggregations(self) -> list[Aggregation]:
        return list(
            dict.fromkeys(
                term.aggregation
                for layer in self.space.network.layers
                for term in layer.terms
                if term.aggregation.mixes
            )
        )

    def lost(self, dropped: Tensor) -> Tensor:
        """The number of edges that each node loses, ``(B, E)`` to ``(U + 1,)``; fractions of edges count as
        fractions."""
        shares = dropped.flatten().repeat_interleave(2)
        shares = shares.long() if shares.dtype == torch.bool else shares
        return torch.zeros_like(self.count, dtype=shares.dtype).index_add(0, self.ends.flatten(), shares)

    # -- the pass --------------------------------------------------------------------------------------

    def state(self, dropped: Tensor) -> tuple[Tensor, dict[Aggregation, Scales]]:
        """From the dropped share of each edge, ``(B, E)``, between 0 and 1: how much of every edge is present (with one
        last entry for those that cannot be dropped), and all scales."""
        count = self.count - self.lost(dropped)
        present = torch.cat([1 - dropped.flatten(), dropped.new_ones(1)])
        return present, {kind: Scales.of(kind, count) for kind in self.aggregations}

    def outputs(self, present: Tensor, scales: dict[Aggregation, Scales]) -> list[Tensor]:
        """The outputs of all layers at the nodes where they are needed; an empty one for the features."""
        weights = {kind: scale.into[self.col] * present[self.edge] for kind, scale in scales.items()}
        found = [present[:0]]
        for number, layer in enumerate(self.space.network.layers, 1):
            rows = self.rows[number]
            p = layer.bias.expand(rows, -1)
            for place, term in enumerate(layer.terms if rows else ()):
                table = self.space.tables[number, place] if term.source == 0 else found[term.source]
                values = table[self.node[:rows]] if term.source == 0 else table[:rows]
                if term.aggregation.mixes:
                    scale, start = scales[term.aggregation], self.start[: rows + 1]
                    col = self.col[: int(start[-1])]
                    sums = weighted_sums(
                        table, self.node[col] if term.source == 0 else col, start, weights[term.aggregation][: len(col)]
                    )
                    values = scale.own[:rows, None] * values + scale.out[:rows, None] * sums
                # Summing over neighbours leaves few rows, so W is applied afterwards; to features it was applied
                # before.
                p = p + (values if term.source == 0 else term.project(values))
            found.append(layer.activate(p))
        return found

    def read_out(self, outputs: list[Tensor]) -> Tensor:
        """``w · z`` of every field, from the outputs of all layers."""
        parts = [outputs[number][: len(self.ends)] for number in self.space.network.readout]
        return (torch.cat(parts, dim=1) * self.direction).sum(dim=1)

    def values(self, dropped: Tensor) -> Tensor:
        """``w · z`` without some edges, ``(B, E)`` to ``(B,)``; with shares of edges, its relaxation."""
        return self.read_out(self.outputs(*self.state(dropped.to(self.direction.dtype))))

    def gains(self, dropped: Tensor) -> Tensor:
        """First-order change of ``w · z`` when an edge is toggled: dropped if it is present, put back if it is not.

        It uses the derivatives with respect to the edge and to the scales of its ends, and the full change of these
        scales; ``(B, E)``.
        """
        shares = dropped.to(self.direction.dtype)
        count, (present, scales) = self.count - self.lost(shares), self.state(shares)
        with torch.enable_grad():
            present, scales = present.requires_grad_(), {kind: scale.leaves() for kind, scale in scales.items()}
            variables = [present, *(part for scale in scales.values() for part in (scale.own, scale.out, scale.into))]
            value = self.read_out(self.outputs(present, scales)).sum()
            if not value.requires_grad:  # nothing is mixed
                return torch.zeros_like(shares)
            of_present, *of_scales = torch.autograd.grad(value, variables, allow_unused=True)
        sign = shares * 2 - 1
        gain = torch.zeros_like(shares) if of_present is None else sign * of_present[:-1].view_as(sign)
        change = {1.0: torch.zeros_like(count), -1.0: torch.zeros_like(count)}  # of all scales of a node, by the sign
        for step, total in change.items():
            after = [part for kind in scales for part in (vars(Scales.of(kind, (count + step).clamp(min=0))).values())]
            for before, then, slope in zip(variables[1:], after, of_scales, strict=True):
                if slope is not None:
                    total += slope * (then - before.detach())
        for end in self.ends.unbind(dim=2):
            gain = gain + torch.where(dropped, change[1.0][end], change[-1.0][end])
        return gain

    def slopes(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """The values of the relaxation and their derivatives with respect to the shares, ``(B,)`` and ``(B, E)``."""
        with torch.enable_grad():
            shares = shares.detach().requires_grad_()
            values = self.values(shares)
            if not values.requires_grad:
                return values, torch.zeros_like(shares)
            return values.detach(), torch.autograd.grad(values.sum(), shares)[0]


def weighted_sums(table: Tensor, index: Tensor, start: Tensor, weight: Tensor) -> Tensor:
    """``Σ weight_m table[index_m]`` over the messages of each row, which begin at ``start``."""
    if not len(index) or not len(table):
        return table.new_zeros(len(start) - 1, table.shape[1])
    return embedding_bag(index, table, start, mode="sum", per_sample_weights=weight, include_last_offset=True)
