"""Cells: ways in which a neighbour of the anchor can lose edges, each bounded separately.

A cell of row j states how many edges j loses, which of them are certainly lost or kept, and how many edges each of its
neighbours k may lose in addition to (j, k). Over all drops that agree with it and keep the edge to the anchor, the row
lemma bounds ``h_j`` and linear functionals of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds.two_layer.layer1 import Range, lines_around
from certgcl.bounds.two_layer.sorted_row import largest_by_merging
from certgcl.bounds.two_layer.weights import GCNWeights

FREE, DROPPED, KEPT, ABSENT = range(4)  # what is known about an edge; the last is padding
MAX_ELEMENTS = 1 << 20  # of one intermediate tensor
SMALL = 1 << 17  # elements whose processing takes about as long as the calls around it
MERGED = 3  # largest values up to which merging them is faster than a sort of all


@dataclass(frozen=True, eq=False)
class RowCells:
    """Some cells of some rows.

    Args:
        row: ``(C,)``.
        fewest, most: the edges that the node of the row loses, ``(C,)``.
        state: of the edges to its other neighbours, ``(C, K)``.
        leaf_fewest, leaf_most: the edges that those lose in addition to this one, ``(C, K)``.
        lower, upper: bounds of the first pre-activation, ``(C, d1)``.
        channels: lower bounds of some functionals ``ω · h_j``, ``(C, M)``.
    """

    row: Tensor
    fewest: Tensor
    most: Tensor
    state: Tensor
    leaf_fewest: Tensor
    leaf_most: Tensor
    lower: Tensor
    upper: Tensor
    channels: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def at(self, places: Tensor | slice) -> "RowCells":
        return RowCells(*(getattr(self, field.name)[places] for field in fields(self)))

    @staticmethod
    def joined(parts: "list[RowCells]") -> "RowCells":
        return RowCells(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(RowCells)))

    @property
    def gone(self) -> Tensor:
        """How many edges are surely lost, ``(C,)``."""
        return (self.state == DROPPED).sum(dim=1)

    def possible(self) -> "RowCells":
        """The cells that agree with some drops, with all consequences decided."""
        no_way = (self.state == FREE) & (self.leaf_fewest > self.leaf_most)
        state = torch.where(no_way, DROPPED, self.state)
        free, gone = state == FREE, (state == DROPPED).sum(dim=1)
        fewest, most = self.fewest.maximum(gone), self.most.minimum(gone + free.sum(dim=1))
        none, all_ = (most == gone)[:, None], (fewest == gone + free.sum(dim=1))[:, None]
        state = torch.where(free & none, KEPT, torch.where(free & all_, DROPPED, state))
        fits = (fewest <= most) & ((state != KEPT) | (self.leaf_fewest <= self.leaf_most)).all(dim=1)
        return replace(self, state=state, fewest=fewest, most=most).at(fits)

    def open_places(self) -> Tensor:
        """Where something is undecided, ``(C, K)``."""
        return (self.state == FREE) | ((self.state == KEPT) & (self.leaf_fewest < self.leaf_most))

    def divisible(self) -> Tensor:
        return (self.fewest < self.most) | self.open_places().any(dim=1)

    def split(self, place: Tensor) -> "RowCells":
        """Each cell in two: by the number of lost edges where it is open, else at an open place: an edge lost or kept,
        or the upper and the lower half of the counts of a neighbour."""
        here = place[:, None]
        state = self.state.gather(1, here)
        by_count, by_edge = (self.fewest < self.most)[:, None], state == FREE
        middle, leaf_middle = (
            (low + high).div(2, rounding_mode="floor")
            for low, high in (
                (self.fewest, self.most),
                (self.leaf_fewest.gather(1, here), self.leaf_most.gather(1, here)),
            )
        )

        def changed(counts: Tensor, half: Tensor) -> Tensor:
            return counts.scatter(1, here, torch.where(by_count | by_edge, counts.gather(1, here), half))

        def decided(kind: int) -> Tensor:
            return self.state.scatter(1, here, torch.where(by_edge & ~by_count, kind, state))

        return RowCells.joined(
            [
                replace(
                    self,
                    state=decided(DROPPED),
                    leaf_most=changed(self.leaf_most, leaf_middle),
                    most=torch.where(by_count[:, 0], middle, self.most),
                ),
                replace(
                    self,
                    state=decided(KEPT),
                    leaf_fewest=changed(self.leaf_fewest, leaf_middle + 1),
                    fewest=torch.where(by_count[:, 0], middle + 1, self.fewest),
                ),
            ]
        )


@dataclass(frozen=True, eq=False)
class CellBounds:
    """The rows around an anchor that loses a known number of edges, and bounds of their cells.

    Args:
        node: the neighbours of every row except the anchor, ``(R, K)``; 0 where padded.
        size: their number, ``(R,)``.
        projected: ``X W1``, ``(m, d1)``; the anchor is node 0 and row j that of node j + 1.
        degree: ``d + 1``, ``(m,)``.
        tau: the scale of the anchor.
    """

    node: Tensor
    size: Tensor
    projected: Tensor
    degree: Tensor
    tau: float
    weights: GCNWeights

    def scale(self, cells: RowCells) -> tuple[Tensor, Tensor]:
        """The range of ``s_j``, ``(C,)``."""
        degree = self.degree[cells.row + 1]
        return (degree - cells.fewest).rsqrt(), (degree - cells.most).rsqrt()

    def bounded(self, cells: RowCells, omega: Tensor) -> RowCells:
        """The cells with their pre-activations bounded, never less tightly than before, and the functionals omega."""
        lower, upper = cells.lower.clone(), cells.upper.clone()
        for places, part, size in self._parts(cells):
            low, high = self._box(part, size)
            lower[places], upper[places] = low.maximum(part.lower), high.minimum(part.upper)
        cells = replace(cells, lower=lower, upper=upper)
        return replace(cells, channels=self.functionals(cells, omega))

    def _box(self, cells: RowCells, size: int) -> tuple[Tensor, Tensor]:
        low, high, values = self._leaves(cells, size)
        one, other = low[..., None] * values, high[..., None] * values
        scale = self._scales(cells)
        own = scale * self.projected[cells.row + 1, None] + self.tau * self.projected[0]
        lower = scale * (own + _remaining(one.minimum(other), cells, size))
        upper = scale * (own - _remaining(-one.maximum(other), cells, size))
        return self.weights.b1 + lower.amin(dim=1), self.weights.b1 + upper.amax(dim=1)

    def functionals(self, cells: RowCells, omega: Tensor) -> Tensor:
        """Lower bounds of ``ω · h_j`` for the columns of omega ``(d1, M)``; ``(C, M)``."""
        found = omega.new_empty(len(cells), omega.shape[1])
        for places, part, size in self._parts(cells):
            found[places] = self._functionals(part, size, omega)
        return found

    def _functionals(self, cells: RowCells, size: int, omega: Tensor) -> Tensor:
        """The better of lines around σ1 and its range: the formula of section 6 of the theory, with the row lemma over
        what the cell leaves undecided."""
        line = Linearised.between(self.weights, cells.lower, cells.upper)
        low, high, values = self._leaves(cells, size)
        leaves = line.products(values, omega)
        terms = (low[..., None] * leaves).minimum(high[..., None] * leaves)
        own, back = (
            line.products(values, omega)[:, None]
            for values in (self.projected[cells.row + 1], self.projected[0].expand(len(cells), -1))
        )
        scale = self._scales(cells)
        value = scale * (scale * own + self.tau * back + _remaining(terms, cells, size))
        return (value.amin(dim=1) + line.constants(omega)).maximum(line.interval(omega))

    def importance(self, cells: RowCells, omega: Tensor) -> Tensor:
        """How much a decision at each undecided position can change ``ω · h_j`` or its bound, ``(C, K)``; -1
        elsewhere."""
        found = omega.new_full(cells.state.shape, -1.0)
        for places, part, size in self._parts(cells):
            line = Linearised.between(self.weights, part.lower, part.upper)
            low, high, values = self._leaves(part, size)
            spread = torch.where(part.state[:, :size] == FREE, high, high - low)
            unstable = ((part.lower < 0) & (part.upper > 0)) * omega.abs()
            effect = line.products(values, omega[:, None])[..., 0].abs() + (values.abs() @ unstable[..., None])[..., 0]
            found[places, :size] = (spread * effect).masked_fill(~part.open_places()[:, :size], -1.0)
        return found

    def _scales(self, cells: RowCells) -> Tensor:
        """``s_j`` for every number of lost edges, ``(C, T, 1)``; beyond the last, that at it."""
        number = int((cells.most - cells.fewest).max()) + 1 if len(cells) else 1
        counts = (cells.fewest[:, None] + torch.arange(number)).minimum(cells.most[:, None])
        return (self.degree[cells.row + 1, None] - counts).rsqrt()[..., None]

    def _leaves(self, cells: RowCells, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """The range of ``s_k``, zero where the edge is gone, and ``y_k``."""
        node, state = self.node[cells.row, :size], cells.state[:, :size]
        there, degree = (state == FREE) | (state == KEPT), self.degree[node]
        low, high = (
            (degree - count[:, :size]).clamp(min=1).rsqrt() * there for count in (cells.leaf_fewest, cells.leaf_most)
        )
        return low, high, self.projected[node]

    def _parts(self, cells: RowCells) -> Iterator[tuple[Tensor | slice, RowCells, int]]:
        """The cells, all at once if there are few, otherwise those of rows of similar size together: their positions,
        the cells themselves, and their largest number of neighbours."""
        sizes, width = self.size[cells.row], self.projected.shape[1]
        most = int(sizes.max()) if len(sizes) else 0
        if len(sizes) * most * width <= SMALL:
            yield slice(None), cells, most
            return
        groups = (sizes + 1).double().log2().ceil()
        for group in groups.unique():
            places = (groups == group).nonzero()[:, 0]
            most = int(sizes[places].max())
            for part in places.split(max(1, MAX_ELEMENTS // max(1, most * width))):
                yield part, cells.at(part), most


@dataclass(frozen=True, eq=False)
class Linearised:
    """Lines around ``σ1(p)`` for p in a box, and its range: ``ω · h >= λ · p + c`` with ``λ = ω a - |ω| r``."""

    slope: Range
    intercept: Range
    hidden: Range

    @classmethod
    def between(cls, weights: GCNWeights, lower: Tensor, upper: Tensor) -> "Linearised":
        return cls(
            *lines_around(weights.activation1, weights.b1, lower, upper, "adaptive"),
            Range.between(*weights.activation1.interval(lower, upper)),
        )

    def products(self, values: Tensor, omega: Tensor) -> Tensor:
        """``λ · y``, ``(C, d1)`` or ``(C, K, d1)`` to ``(..., M)``."""
        middle, radius = (part[:, None] if values.dim() == 3 else part for part in self.slope)
        return (values * middle) @ omega - (values * radius) @ omega.abs()

    def constants(self, omega: Tensor) -> Tensor:
        """``λ · b1 + c``, ``(C, M)``."""
        return self.intercept.product(omega)[0]

    def interval(self, omega: Tensor) -> Tensor:
        """The least ``ω · h`` in the range of h, ``(C, M)``."""
        return self.hidden.product(omega)[0]


def _remaining(terms: Tensor, cells: RowCells, size: int) -> Tensor:
    """The row lemma: ``Σ_k g_k`` minus the t largest undecided ones, for every number t of edges still to be lost;
    ``(C, K, M)`` to ``(C, T, M)``."""
    return remaining(terms, cells.state[:, :size] == FREE, cells.fewest - cells.gone, cells.most - cells.gone)


def remaining(terms: Tensor, eligible: Tensor, fewest: Tensor, most: Tensor) -> Tensor:
    """``Σ_k g_k`` minus the t largest eligible terms, for t from ``fewest`` to ``most`` (and as at ``most`` beyond)."""
    total = terms.sum(dim=1, keepdim=True)
    number = int(most.max()) if len(most) else 0
    if not number:
        return total
    largest = _largest(terms.masked_fill(~eligible[..., None], -torch.inf), number)
    # Rows have as many eligible terms as they may lose; values beyond that are never used.
    dropped = torch.cat([torch.zeros_like(total), largest.masked_fill(largest == -torch.inf, 0.0).cumsum(dim=1)], dim=1)
    counts = (fewest[:, None] + torch.arange(int((most - fewest).max()) + 1)).minimum(most[:, None])
    return total - dropped.gather(1, counts[..., None].expand(-1, -1, terms.shape[2]))


def _largest(terms: Tensor, number: int) -> Tensor:
    """The largest terms of every row in descending order, ``(C, K, M)`` to ``(C, number, M)``."""
    if number <= MERGED:
        return torch.stack(largest_by_merging(terms, number), dim=1)
    ordered = np.sort(terms.transpose(1, 2).contiguous().numpy())  # several times as fast as topk
    return torch.from_numpy(ordered[..., : -number - 1 : -1].copy()).transpose(1, 2)
