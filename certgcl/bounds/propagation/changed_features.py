"""The least value of a functional of a node's features over all admissible features.

Features enter a network as ``W' x``, so a functional λ of that is ``μ · x`` with ``μ = W λ``. Over the admissible x̃,

    min μ · x̃  =  μ · x  -  (the off largest [μ_f x_f]+)  -  (the on largest [-μ_f]+ with x_f = 0)  -  radius |μ|_1 ,

because each change lowers the product by at most the value of its own entry, and masks and bits change different
entries. The amount subtracted is the *fall* of the functional. If μ is too expensive to compute, ``W' x̃`` is a range:
every channel c falls and rises by the falls of ``± W e_c``, and over this range a functional falls by no less than its
own fall.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.graphs.features import FeatureEntries
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix, csr_transposed

Part = tuple[Tensor, Tensor]
"""A weight ``(F, d)``, or the diagonal of one, and functionals ``(Q, d)`` of what it makes of the features."""


class Falls(NamedTuple):
    """How far functionals can fall.

    Args:
        single: the decrease by each masked or flipped feature: the largest ones that the budgets of a node allow, zero
            beyond that, ``(Q, T, …)``.
        box: the decrease by the box, ``(Q, …)``.
    """

    single: Tensor
    box: Tensor

    def sum(self) -> Tensor:
        """The fall under the budgets of single nodes only."""
        return self.single.sum(dim=1) + self.box


class ChangedFeatures:
    """The admissible features of some nodes."""

    def __init__(self, entries: FeatureEntries, width: int, off: Tensor, on: Tensor, radius: Tensor) -> None:
        self.entries, self.features = entries, width
        self.off, self.on, self.radius = off, on, radius
        self.filled = self.entries.start.diff()
        self.most_off, self.most_on, self.most_filled = (
            int(part.max()) if len(part) else 0 for part in (self.off, self.on, self.filled)
        )
        self.boxed = bool(self.radius.any())
        self._whole: dict[torch.dtype, list[tuple[int, ConstantMatrix]]] = {}

    @classmethod
    def at(cls, graph: Graph, features: AdmissibleFeatures, nodes: Tensor) -> "ChangedFeatures":
        return cls(
            graph.features.entries(nodes),
            graph.num_features,
            features.off[nodes],
            features.on[nodes],
            features.radius[nodes],
        )

    @property
    def zeros_matter(self) -> bool:
        """Whether features that are zero can change."""
        return self.most_on > 0 or self.boxed

    def cost(self, weight: Tensor) -> int:
        """The cost of the fall of one functional, in multiplications, at the node with the most features."""
        each = self.features if self.zeros_matter else self.most_filled
        return each * (weight.shape[1] if weight.dim() == 2 else 1) + self.most_filled

    # -- any functionals ---------------------------------------------------------------------------

    def falls(self, parts: Sequence[Part], place: Tensor) -> Falls:
        """The falls of ``Σ λ · W' x`` over the parts, each at the node given by ``place``, ``(Q,)``."""
        each = 2 * self.features * self.zeros_matter + 4 * (self.most_filled + 1)
        found = [
            self._falls([(weight, vectors[some]) for weight, vectors in parts], place[some])
            for some in torch.arange(len(place), device=place.device).split(max(1, limits.MAX_ELEMENTS // each))
        ]
        return Falls(torch.cat([part.single for part in found]), torch.cat([part.box for part in found]))

    def _falls(self, parts: Sequence[Part], place: Tensor) -> Falls:
        like = parts[0][1]
        filled = self.filled[place]
        entry = consecutive(self.entries.start[place], filled)
        owner = torch.repeat_interleave(torch.arange(len(place), device=place.device), filled)
        column, value = self.entries.column[entry], self.entries.value[entry].to(like)
        single, box = [like.new_zeros(len(place), 0)], like.new_zeros(len(place))
        if self.zeros_matter:
            mu = _sum(vectors @ weight.T if weight.dim() == 2 else vectors * weight for weight, vectors in parts)
            here = mu[owner, column]
            if self.boxed:
                box = self.radius[place].to(like) * mu.abs().sum(dim=1)
            if self.most_on:
                rises = (-mu).clamp(min=0).index_put((owner, column), mu.new_zeros(()))
                single.append(_largest(rises, self.most_on, self.on[place]))
        else:
            here = _coefficients(parts, owner, column)
        if self.most_off:
            rank = torch.arange(len(owner), device=owner.device) - torch.repeat_interleave(
                filled.cumsum(0) - filled, filled
            )
            table = like.new_zeros(len(place), self.most_filled).index_put((owner, rank), (here * value).clamp(min=0))
            free = bool((self.off[place] >= filled).all())  # nothing to choose: every feature may be masked
            single.append(table[:, : self.most_off] if free else _largest(table, self.most_off, self.off[place]))
        return Falls(torch.cat(single, dim=1), box)

    def shares(self, parts: Sequence[Part], place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The contribution of every nonzero feature to ``Σ λ · W' x``: its node, its column, and ``μ_f x_f``."""
        filled = self.filled[place]
        entry = consecutive(self.entries.start[place], filled)
        owner = torch.repeat_interleave(torch.arange(len(place), device=place.device), filled)
        column = self.entries.column[entry]
        return owner, column, _coefficients(parts, owner, column) * self.entries.value[entry].to(parts[0][1])

    # -- channels ----------------------------------------------------------------------------------

    def range(self, weight: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Of ``W' x̃`` channel by channel, ``(nodes, d)``, from the values ``W' x``."""
        falls = [part.sum() for _, part in self.channel_falls(weight, summed=True)]
        down, up = (torch.cat(parts, dim=1) for parts in zip(*(part.chunk(2, dim=1) for part in falls), strict=True))
        return values - down, values + up

    def channel_falls(self, weight: Tensor, summed: bool = False) -> Iterator[tuple[Tensor, Falls]]:
        """Some channels at a time: their numbers, and how far they and then their negatives can fall at each node,
        ``(nodes, T, 2 c)``; with all single falls summed, if that is enough."""
        channels = weight.shape[-1]
        each = 2 * (
            len(self.off)
            + 2 * len(self.entries.value) * (self.most_off > 0)
            + len(self.off) * (self.most_filled + self.most_on) * (self.most_on > 0)
        )
        at_once = max(1, min(channels, limits.MAX_VALUES // max(1, each)))
        for some in torch.arange(channels, device=weight.device).split(at_once):
            if weight.dim() == 2:
                columns = weight[:, some]
            else:
                columns = weight.new_zeros(len(weight), len(some)).index_put(
                    (some, torch.arange(len(some), device=some.device)), weight[some]
                )
            yield some, self._channel_falls(torch.cat([columns, -columns], dim=1), summed)

    def _channel_falls(self, mu: Tensor, summed: bool) -> Falls:
        """The falls of functionals ``(F, M)`` that all nodes share, ``(nodes, T, M)``."""
        nodes, number = len(self.off), mu.shape[1]
        single = [mu.new_zeros(nodes, 0, number)]
        owner, column = self.entries.owner, self.entries.column
        if self.most_off:
            single.append(self._masked_falls(mu, summed))
        if self.most_on:
            # The first zeros of a node are among the first of the whole column.
            rises, row = (-mu).clamp(min=0).topk(min(self.features, self.most_on + self.most_filled), dim=0)
            there = torch.zeros(nodes, self.features, dtype=torch.bool, device=mu.device)
            there[owner, column] = True
            raised = _largest(torch.where(there[:, row], 0, rises), self.most_on, self.on)
            single.append(raised.sum(dim=1, keepdim=True) if summed else raised)
        box = self.radius.to(mu)[:, None] * mu.abs().sum(dim=0)
        return Falls(torch.cat(single, dim=1), box)

    def _masked_falls(self, mu: Tensor, summed: bool) -> Tensor:
        """The decrease by masks, ``(nodes, T, M)``. Nodes with about the same number of features are processed
        together, since few have the most; where all of them may be lost, no selection is needed, but a product:
        ``Σ_f [μ_f x_f]+ = [μ]+ · [x]+ + [-μ]+ · [-x]+``."""
        size = torch.ones_like(self.filled)
        while bool((size < self.filled).any()):
            size = torch.where(size < self.filled, 2 * size, size)
        places, parts = [], []
        if summed:
            size = size.index_fill(0, self._free, 0)
            places.append(self._free)
            parts.append(self._whole_falls(mu)[:, None])
        for longest in size[size > 0].unique().tolist():
            nodes = (size == longest).nonzero()[:, 0]
            place = torch.arange(longest, device=nodes.device)
            there = place < self.filled[nodes, None]
            entry = torch.where(there, self.entries.start[nodes, None] + place, 0)
            value = torch.where(there, self.entries.value.to(mu)[entry] if len(self.entries.value) else 0, 0)
            column = self.entries.column[entry] if len(self.entries.column) else entry
            largest = _largest((mu[column] * value[..., None]).clamp(min=0), self.most_off, self.off[nodes])
            if summed:
                largest = largest.sum(dim=1, keepdim=True)
            places.append(nodes)
            parts.append(functional.pad(largest, (0, 0, 0, (1 if summed else self.most_off) - largest.shape[1])))
        return torch.cat(parts)[torch.argsort(torch.cat(places))]

    @cached_property
    def _free(self) -> Tensor:
        """The nodes that may lose all features."""
        return (self.off >= self.filled).nonzero()[:, 0]

    def _whole_falls(self, mu: Tensor) -> Tensor:
        """The decrease at these nodes, ``(free, M)``."""
        if mu.dtype not in self._whole:
            self._whole[mu.dtype] = list(self._of_signs(mu.dtype))
        found = mu.new_zeros(len(self._free), mu.shape[1])
        for sign, sizes in self._whole[mu.dtype]:
            found = found + sizes @ (sign * mu).clamp(min=0)
        return found

    def _of_signs(self, dtype: torch.dtype) -> Iterator[tuple[int, ConstantMatrix]]:
        """The features of these nodes that are above zero, and those below, by their sizes; if there are any."""
        count = self.filled[self._free]
        entry = consecutive(self.entries.start[self._free], count)
        value = self.entries.value[entry].to(dtype)
        for sign in (1, -1):
            size = (sign * value).clamp(min=0)
            if bool(size.any()):
                shape = len(count), self.features
                yield sign, ConstantMatrix(csr_matrix(starts(count), self.entries.column[entry], size, shape))


def _largest(values: Tensor, most: int, count: Tensor) -> Tensor:
    """The largest of each row, as many as it counts, and zeros: ``(Q, n, …)`` to ``(Q, most, …)``."""
    found = values.topk(min(most, values.shape[1]), dim=1).values
    rank = torch.arange(found.shape[1], device=found.device).view(1, -1, *(1,) * (found.dim() - 2))
    return torch.where(rank < count.view(-1, *(1,) * (found.dim() - 1)), found, 0)


def _coefficients(parts: Sequence[Part], owner: Tensor, column: Tensor) -> Tensor:
    """``μ_f`` of some functionals, each at one column."""

    def of(weight: Tensor, vectors: Tensor) -> Tensor:
        if weight.dim() == 2:
            return _SomeProducts.apply(vectors, weight, owner, column)  # type: ignore[no-untyped-call]
        return vectors[owner, column] * weight[column]

    return _sum(of(weight, vectors) for weight, vectors in parts)


class _SomeProducts(torch.autograd.Function):
    """``v_q · W_f`` for some pairs of q and f, as the entries of a sparse matrix: gathered rows would be as wide as
    both tables for each pair.

    Args:
        owner, column: q, ascending, and f of every pair.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, owner: Tensor, column: Tensor) -> Tensor:
        start = starts(torch.bincount(owner, minlength=len(vectors)))
        ctx.save_for_backward(vectors, weight, start, column)
        pairs = csr_matrix(start, column, vectors.new_zeros(len(column)), (len(vectors), len(weight)))
        found: Tensor = torch.sparse.sampled_addmm(pairs, vectors, weight.T, beta=0.0).values()
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        vectors, weight, start, column = ctx.saved_tensors
        pairs = csr_matrix(start, column, gradients[0].contiguous(), (len(vectors), len(weight)))
        return pairs @ weight, csr_transposed(pairs) @ vectors, None, None


def _sum(parts: Iterator[Tensor]) -> Tensor:
    total = next(parts)
    for part in parts:
        total = total + part
    return total
