"""Receptive fields side by side: values of all of them at once, what each edge is worth there, and single changes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from certgcl.bounds.two_layers import GCNWeights
from certgcl.budget import AdmissibleDrops
from certgcl.search.field import ReceptiveField

SPARE = 9  # the degree of padding, which lives through all changes


@dataclass(frozen=True, eq=False)
class FieldBatch:
    """B fields, padded to r rows, m inner nodes, n nodes and E edges. Node n - 1 and edge E - 1 of each are nothing.

    Args:
        adjacency: ``A + I``, ``(B, r, m)``.
        degree: ``d + 1``, ``(B, n)``.
        ends: of the droppable edges, ``(B, E, 2)``.
        projected: ``X W1``, ``(B, m, d1)``.
        budget: ``q``, ``(B, n)``; 0 where padded, so that padding is never dropped.
        total: ``Q``.
        direction: ``w``, ``(B, d2)``.
    """

    adjacency: Tensor
    degree: Tensor
    ends: Tensor
    projected: Tensor
    budget: Tensor
    total: int
    direction: Tensor
    weights: GCNWeights

    @classmethod
    def of(cls, fields: Sequence[ReceptiveField], drops: AdmissibleDrops, directions: Tensor) -> "FieldBatch":
        rows = max(len(field.adjacency) for field in fields)
        inner = rows + max(field.adjacency.shape[1] - len(field.adjacency) for field in fields)
        nodes = 1 + inner + max(len(field.nodes) - field.adjacency.shape[1] for field in fields)
        edges = 1 + max(field.edges.shape[1] for field in fields)
        parts: list[tuple[Tensor, ...]] = []
        for field in fields:
            near, within = field.adjacency.shape
            place = torch.arange(len(field.nodes), device=field.nodes.device)
            place = place + (rows - near) * (place >= near) + (inner - within - (rows - near)) * (place >= within)
            adjacency = field.adjacency.new_zeros(rows, inner)
            adjacency[:near, place[:within]] = field.adjacency
            degree, budget = adjacency.new_full((nodes,), SPARE), field.nodes.new_zeros(nodes)
            degree[place], budget[place] = field.degree, drops.local[field.nodes]
            projected = field.projected.new_zeros(inner, field.projected.shape[1])
            projected[place[:within]] = field.projected
            ends = pad(place[field.edges].T, (0, 0, 0, edges - field.edges.shape[1]), value=nodes - 1)
            parts.append((adjacency, degree, ends, projected, budget))
        adjacency, degree, ends, projected, budget = (torch.stack(part) for part in zip(*parts, strict=True))
        return cls(adjacency, degree, ends, projected, budget, drops.total, directions, fields[0].weights)

    def at(self, places: Tensor) -> "FieldBatch":
        """Some of the fields."""
        return FieldBatch(self.adjacency[places], self.degree[places], self.ends[places], self.projected[places],
                          self.budget[places], self.total, self.direction[places], self.weights)

    @property
    def fields(self) -> Tensor:
        """0 … B - 1."""
        return torch.arange(len(self.degree), device=self.degree.device)

    def lost(self, dropped: Tensor) -> Tensor:
        """How many edges every node loses, ``(B, ..., E)`` to ``(B, ..., n)``."""
        ends = self.ends.flatten(1).view(len(dropped), *(1,) * (dropped.dim() - 2), -1)
        ends = ends.expand(*dropped.shape[:-1], -1)
        count = dropped.repeat_interleave(2, dim=-1).long()
        return torch.zeros(*dropped.shape[:-1], self.degree.shape[1], dtype=torch.long,
                           device=dropped.device).scatter_add_(-1, ends, count)

    def kept(self, dropped: Tensor) -> Tensor:
        """``A + I`` without some edges, ``(B, E)`` to ``(B, r, m)``."""
        adjacency = self.adjacency.clone()
        field, edge = dropped.nonzero().T
        one, other = self.ends[field, edge].T
        for row, col in ((one, other), (other, one)):
            inside = (row < adjacency.shape[1]) & (col < adjacency.shape[2])
            adjacency[field[inside], row[inside], col[inside]] = 0
        return adjacency

    def values(self, dropped: Tensor) -> Tensor:
        """``w · z`` without some edges, ``(B, E)`` to ``(B,)``."""
        return self._value(self.kept(dropped), (self.degree - self.lost(dropped)).rsqrt())

    def _value(self, adjacency: Tensor, scale: Tensor) -> Tensor:
        rows, inner = adjacency.shape[1:]
        sums = (adjacency * scale[:, None, :inner]) @ self.projected
        return self._output(sums, scale[:, :rows], adjacency[:, 0, :rows])

    def _output(self, sums: Tensor, scale: Tensor, own: Tensor) -> Tensor:
        """From ``Σ_k s_k y_k`` of every row ``(..., r, d1)``, its scale, and the row of the node itself."""
        weights = self.weights
        hidden = weights.activation1(torch.addcmul(weights.b1, scale[..., None], sums))
        mixed = ((scale[..., :1] * scale * own)[..., None, :] @ hidden)[..., 0, :]
        direction = self.direction.view(len(self.direction), *(1,) * (mixed.dim() - 2), -1)
        return (weights.activation2(mixed @ weights.w2 + weights.b2) * direction).sum(dim=-1)

    def gains(self, dropped: Tensor) -> Tensor:
        """About how much ``w · z`` rises when an edge changes sides: dropped if it is there, put back if it is not.

        By its derivatives, with respect to the edge's two entries of A and to the scales of its ends; ``(B, E)``.
        """
        rows, inner = self.adjacency.shape[1:]
        degree = self.degree - self.lost(dropped)
        with torch.enable_grad():
            adjacency, scale = self.kept(dropped).requires_grad_(), degree.rsqrt().requires_grad_()
            of_entry, of_scale = torch.autograd.grad(self._value(adjacency, scale).sum(), [adjacency, scale])
        sign = dropped.to(scale.dtype) * 2 - 1
        field, (one, other) = self.fields[:, None], self.ends.unbind(dim=-1)
        gain = torch.zeros_like(sign)
        for row, col in ((one, other), (other, one)):
            inside = (row < rows) & (col < inner)
            gain += sign * inside * of_entry[field, row.clamp(max=rows - 1), col.clamp(max=inner - 1)]
            before = degree.gather(1, row)
            gain += of_scale.gather(1, row) * ((before + sign).clamp(min=1).rsqrt() - before.rsqrt())
        return gain

    def values_after(self, dropped: Tensor, changes: Tensor) -> Tensor:
        """``w · z`` once each of C sets of F edges has changed sides, ``(B, C, F)`` to ``(B, C)``.

        Only the columns of their ends change in ``A s``, so the sums of the rows change by as many terms.
        """
        rows, inner = self.adjacency.shape[1:]
        field, many = self.fields[:, None, None], changes.shape[1]
        adjacency, degree = self.kept(dropped), self.degree - self.lost(dropped)
        ends = self.ends[field, changes]  # (B, C, F, 2)
        node, other = ends.flatten(2), ends.flip(-1).flatten(2)  # (B, C, 2 F)
        sign = (dropped[field, changes].to(degree.dtype) * 2 - 1).repeat_interleave(2, dim=-1)  # 1 if it is put back
        after = degree[:, None].repeat(1, many, 1).scatter_add_(-1, node, sign)
        same = node[..., None] == node[..., None, :]
        first = same.long().argmax(dim=-1) == torch.arange(node.shape[2], device=node.device)
        # The columns of A s at the ends, before and after: (B, C, r, 2 F).
        column = node.clamp(max=inner - 1)
        before = adjacency[field, :, column].transpose(2, 3)
        entries = before + (torch.arange(rows, device=node.device)[:, None] == other[:, :, None]) * sign[:, :, None] \
            @ same.to(sign.dtype)
        scale_before, scale = degree.rsqrt(), after.rsqrt()
        moved = entries * scale.gather(2, node)[:, :, None] - before * scale_before[field, node][:, :, None]
        moved = moved * (first & (node < inner))[:, :, None]
        sums = (adjacency * scale_before[:, None, :inner]) @ self.projected
        sums = sums[:, None] + moved @ self.projected[field, column]
        own = pad(adjacency[:, 0, :rows], (0, degree.shape[1] - rows))[:, None].repeat(1, many, 1)
        own = own.scatter_add_(-1, node, sign * (other == 0))[..., :rows]
        return self._output(sums, scale[..., :rows], own)
