"""Linear functionals ``ω · h`` of the hidden layer, brought down to the projected features by lines around σ1.

For every node j and functional ω, ``ω · h_j >= λ_j · p_j + c_j`` with ``λ_j = ω+ a_lo + ω- a_up`` (slopes of *j's*
lines, signs of ω), so that with ``C_jk = y_k · λ_j`` and ``e_j = λ_j · b1 + c_j``

    ω · h_j  >=  Σ_k Â_jk C_jk + e_j .

The lines, and so C and e, may differ with the number of edges j loses (its *case*). This module computes C and e, and
the plain interval value of ``ω · h_j`` beside them; what is then minimised over the drops is the bound's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.layer1 import Layer1, signed_parts, split_product
from certgcl.bounds.neighbourhood import Block, Neighbourhood, fits, take


@dataclass(frozen=True, eq=False)
class AnchorTerms:
    """The terms of some anchors' own hidden vectors ``h_i`` in one case; M functionals each."""

    own: Tensor  # C_ii, (A', M)
    constant: Tensor  # e_i, (A', M)
    interval: Tensor  # least ω · h_i by intervals, (A', M)


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of ``h_j`` for a block of rows j in each of their T cases, with I sets of M functionals."""

    block: Block
    own: Tensor  # C_jj, (R, I, T, M)
    leaves: Tensor  # C_jk, (R, K, I, T, M); arbitrary where padded
    constant: Tensor  # e_j, (R, I, T, M)
    interval: Tensor  # least ω · h_j by intervals, (R, I, T, M)
    pair: Tensor  # the pairs (i, j) of these rows, (P',)
    row: Tensor  # j's place in the block, (P',)
    functional: Tensor  # i's place along I, (P',)


class Functionals(Protocol):
    """M functionals at every anchor, possibly different ones in each of the anchor's cases, under several slope rules.

    Every rule gives a lower bound of every single ``ω · h_j``, so the best rule may be taken for each of them.
    """

    rules: int

    def case_sets(self, most: int) -> Sequence[Sequence[int]]:
        """The anchors' cases ``0 … most - 1``, those with the same functionals together."""
        ...

    def width(self, padded_degree: int) -> int:
        """Elements needed for each slot of a block and case of its row."""
        ...

    def anchor_terms(self, anchors: Tensor, case: int, rule: int) -> AnchorTerms: ...

    def pair_terms(self, pairs: Tensor, case: int, rule: int) -> Tensor:
        """``C_ij`` of the anchors of some pairs, ``(P', M)``."""
        ...

    def anchor_ranges(self, block: Block) -> Sequence[range]:
        """The anchors around each row of a block, by rank, in parts that fit in memory."""
        ...

    def row_terms(self, block: Block, ranks: range, case: int, rule: int) -> RowTerms:
        """The terms of a block for the pairs of these ranks, when the anchors are in the given case."""
        ...


class _Relaxed:
    """Layer 1 under one slope rule: lower lines serve where ω is positive, upper ones elsewhere."""

    def __init__(self, layer1: Layer1, rule: SlopeRule) -> None:
        lines, bias = layer1.lines(rule), layer1.weights.b1
        self.slopes = lines.lower_slope, lines.upper_slope
        self.constants = (lines.lower_slope * bias + lines.lower_intercept,
                          lines.upper_slope * bias + lines.upper_intercept)


class _Linearised:
    """Layer 1 under some slope rules."""

    def __init__(self, hood: Neighbourhood, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.hood = hood
        self.cases = layer1.cases
        self.projected = layer1.projected
        self.hidden = layer1.hidden_interval()
        self.relaxed = [_Relaxed(layer1, rule) for rule in rules]
        self.rules = len(rules)
        self.max_anchors = max(1, int(hood.pairs_by_row[0].diff().max()))  # around one row

    def _own(self, rows: Tensor) -> Tensor:
        """``y_j`` of inner rows."""
        return take(self.projected, self.hood.inner.own[rows])


class SharedFunctionals(_Linearised):
    """The columns of one matrix Ω ``(d1, M)``, the same for every anchor and case."""

    def __init__(self, omega: Tensor, hood: Neighbourhood, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        super().__init__(hood, layer1, rules)
        self.omega = omega
        self.interval = split_product(omega, *self.hidden)  # (cases, M)
        self.constant = [split_product(omega, *relaxed.constants) for relaxed in self.relaxed]

    def case_sets(self, most: int) -> Sequence[Sequence[int]]:
        return [range(most)]

    def width(self, padded_degree: int) -> int:
        return max(self.omega.shape)

    def _scaled(self, flat: Tensor, projected: Tensor, rule: int) -> Tensor:
        """``C`` for cases and targets that broadcast against each other."""
        lower, upper = self.relaxed[rule].slopes
        return split_product(self.omega, take(lower, flat) * projected, take(upper, flat) * projected)

    def anchor_terms(self, anchors: Tensor, case: int, rule: int) -> AnchorTerms:
        rows = self.hood.outer.own[anchors]
        flat = self.cases.flat(rows, case)
        return AnchorTerms(self._scaled(flat, self._own(rows), rule), take(self.constant[rule], flat),
                           take(self.interval, flat))

    def pair_terms(self, pairs: Tensor, case: int, rule: int) -> Tensor:
        outer = self.hood.outer
        flat = self.cases.flat(outer.own[outer.row[pairs]], case)
        return self._scaled(flat, self._own(outer.col[pairs]), rule)

    def anchor_ranges(self, block: Block) -> Sequence[range]:
        return [range(self.max_anchors)]

    def row_terms(self, block: Block, ranks: range, case: int, rule: int) -> RowTerms:
        flat = self.cases.of(block.rows).table()  # (R, T)
        own = self._scaled(flat, self._own(block.rows)[:, None], rule)
        projected = take(self.projected, block.gather(self.hood.inner.col))
        leaves = self._scaled(flat[:, None], projected[:, :, None], rule)
        pair, row, rank = self.hood.pairs_of(block.rows)
        return RowTerms(block, own[:, None], leaves[:, :, None], take(self.constant[rule], flat)[:, None],
                        take(self.interval, flat)[:, None], pair, row, torch.zeros_like(rank))


class AnchorFunctionals(_Linearised):
    """Functionals of each anchor's own: ``omega`` is ``(A, G, M, d1)``, with G its cases or 1."""

    def __init__(self, omega: Tensor, hood: Neighbourhood, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        super().__init__(hood, layer1, rules)
        self.positive, self.negative = signed_parts(omega)

    def case_sets(self, most: int) -> Sequence[Sequence[int]]:
        return [range(most)] if self.positive.shape[1] == 1 else [[case] for case in range(most)]

    def width(self, padded_degree: int) -> int:
        return self._width(min(padded_degree, self.max_anchors), padded_degree)

    def _width(self, anchors: int, padded_degree: int) -> int:
        """Elements a slot when so many anchors around each row are treated at once."""
        functionals = anchors * self.positive.shape[2]
        return functionals + self.projected.shape[1] * (1 + functionals // padded_degree)

    def anchor_ranges(self, block: Block) -> Sequence[range]:
        rows, size = block.slots.shape
        most = min(size, self.max_anchors)
        cases = self.cases.of(block.rows).most
        step = most
        while step > 1 and not fits(rows * size * cases * self._width(step, size)):
            step = (step + 1) // 2
        return [range(start, min(start + step, most)) for start in range(0, most, step)]

    def _omega(self, anchors: Tensor, case: int) -> tuple[Tensor, Tensor]:
        case = min(case, self.positive.shape[1] - 1)
        return take(self.positive[:, case], anchors), take(self.negative[:, case], anchors)

    def _value(self, anchors: Tensor, case: int, flat: Tensor, bounds: tuple[Tensor, Tensor]) -> Tensor:
        """``ω+ · lower + ω- · upper`` at the given cases, ``(P, T, M)`` for ``flat`` of shape ``(P, T)``."""
        positive, negative = self._omega(anchors, case)
        return take(bounds[0], flat) @ positive.mT + take(bounds[1], flat) @ negative.mT

    def _slopes(self, anchors: Tensor, case: int, flat: Tensor, rule: int) -> Tensor:
        """``λ``, ``(P, T, M, d1)`` for ``flat`` of shape ``(P, T)``."""
        positive, negative = self._omega(anchors, case)
        lower, upper = (take(slope, flat)[:, :, None] for slope in self.relaxed[rule].slopes)
        return positive[:, None] * lower + negative[:, None] * upper

    def anchor_terms(self, anchors: Tensor, case: int, rule: int) -> AnchorTerms:
        rows = self.hood.outer.own[anchors]
        flat = self.cases.flat(rows, case)[:, None]
        slopes = self._slopes(anchors, case, flat, rule)[:, 0]
        return AnchorTerms((slopes @ self._own(rows)[..., None])[..., 0],
                           self._value(anchors, case, flat, self.relaxed[rule].constants)[:, 0],
                           self._value(anchors, case, flat, self.hidden)[:, 0])

    def pair_terms(self, pairs: Tensor, case: int, rule: int) -> Tensor:
        outer = self.hood.outer
        anchors = outer.row[pairs]
        slopes = self._slopes(anchors, case, self.cases.flat(outer.own[anchors], case)[:, None], rule)[:, 0]
        return (slopes @ self._own(outer.col[pairs])[..., None])[..., 0]

    def row_terms(self, block: Block, ranks: range, case: int, rule: int) -> RowTerms:
        pair, row, rank = self.hood.pairs_of(block.rows)
        here = (rank >= ranks.start) & (rank < ranks.stop)
        pair, row, rank = pair[here], row[here], rank[here] - ranks.start
        anchors = self.hood.outer.row[pair]
        flat = self.cases.of(block.rows).table()  # (R, T)

        def aligned(values: Tensor) -> Tensor:  # (P', ...) -> (R, I, ...)
            return values.new_zeros((len(block.rows), len(ranks), *values.shape[1:])).index_put((row, rank), values)

        slopes = aligned(self._slopes(anchors, case, flat[row], rule))  # (R, I, T, M, d1)
        shape, slopes = slopes.shape[1:4], slopes.flatten(1, 3)
        leaves = take(self.projected, block.gather(self.hood.inner.col)) @ slopes.mT
        own = (slopes @ self._own(block.rows)[..., None])[..., 0]
        return RowTerms(block, own.unflatten(1, shape), leaves.unflatten(2, shape),
                        aligned(self._value(anchors, case, flat[row], self.relaxed[rule].constants)),
                        aligned(self._value(anchors, case, flat[row], self.hidden)), pair, row, rank)
