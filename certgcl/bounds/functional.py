"""Linear functionals ``ω · h`` of the hidden layer, brought down to the projected features by lines around σ1.

For every node j and functional ω, ``ω · h_j >= λ_j · p_j + c_j`` with ``λ_j = ω+ a_lo + ω- a_up`` (slopes of *j's*
lines, signs of ω), so that with ``C_jk = y_k · λ_j`` and ``e_j = λ_j · b1 + c_j``

    ω · h_j  >=  Σ_k Â_jk C_jk + e_j .

The lines, and so C and e, may differ with the number of edges j loses (its *case*). This module computes C and e, and
the plain interval value of ``ω · h_j`` beside them; what is then minimised over the drops is the bound's business.
With ``a`` the mean and ``r`` half the difference of the two slopes, ``λ = ω a - |ω| r``: so ω and -ω share products.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds import blocks
from certgcl.bounds.blocks import Block, Pairs, take
from certgcl.bounds.layer1 import Layer1, Range
from certgcl.bounds.plan import DropPlan


@dataclass(frozen=True, eq=False)
class AnchorTerms:
    """The terms of the anchors' own hidden vectors ``h_i`` in all their cases; M functionals each."""

    own: Tensor  # C_ii, (F, M)
    constant: Tensor  # e_i, (F, M)


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of ``h_j`` for a block of rows j in each of their T cases, with I sets of M functionals.

    There is one in the place of I where all anchors share their functionals, and in that of T where all cases share
    their lines.
    """

    own: Tensor  # C_jj, (R, I, T, M)
    leaves: Tensor  # C_jk, (R, K, I, T, M); arbitrary where padded
    constant: Tensor  # e_j, (R, I, T, M)


class Functionals(Protocol):
    """M functionals at every anchor, under several slope rules.

    Every rule gives a lower bound of every single ``ω · h_j``, so the best rule may be taken for each of them.
    """

    rules: int
    number: int  # M
    shared: bool  # whether all anchors have the same functionals in all their cases

    def width(self, size: int, cases: int) -> int:
        """Elements needed for each slot of a block, see :data:`certgcl.bounds.blocks.Width`."""
        ...

    def enter(self, block: Block) -> None:
        """Turn to a block: to be called before its terms are asked for."""
        ...

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        """The anchors around the rows of a block that have the case, in parts that fit in memory."""
        ...

    def anchor_terms(self, rule: int) -> AnchorTerms: ...

    def anchor_intervals(self) -> Tensor:
        """The least ``ω · h_i`` by intervals, ``(F, M)``."""
        ...

    def pair_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> Tensor:
        """``C_ij`` of the anchors in these columns, in their given case, ``(R, I, M)``."""
        ...

    def row_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> RowTerms:
        """The terms of a block for the functionals that the anchors in these columns have in the given case."""
        ...

    def row_intervals(self, block: Block, pairs: Pairs, columns: slice, case: int) -> Tensor:
        """The least ``ω · h_j`` by intervals, for the same functionals, ``(R, I, T, M)``."""
        ...


class _Linearised:
    """Layer 1 under some slope rules."""

    def __init__(self, plan: DropPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.plan, hood = plan, plan.hood
        self.place = layer1.place
        self.projected = layer1.projected
        self.hidden = layer1.hidden()
        self.lines = [layer1.lines(rule) for rule in rules]
        self.rules = len(rules)
        self.max_anchors = max(1, int(hood.anchors_around.max()))  # around one row
        self._here = self.projected  # of the block: y_k of its neighbours and, last, of its rows, (R, K + 1, d1)

        # Of the anchors: the places of their own lines in every case, and y_i.
        rows = hood.outer.own[plan.flat.anchor]
        self.own_place = self.place[rows, plan.flat.case.clamp(max=self.place.shape[1] - 1)]  # (F,)
        self.own_projected = hood.inner.own[rows]

    def _places(self, block: Block) -> Tensor:
        """The places of the lines of a block's rows in their T cases, or of the one for all, ``(R, T)``."""
        return self.place[block.rows, : block.cases.most]

    def _anchor_case(self, pairs: Pairs, columns: slice, case: int) -> Tensor:
        """The given case of the anchors in these columns, in the flat list of all."""
        return self.plan.flat.place[pairs.anchor[:, columns], case]

    def enter(self, block: Block) -> None:
        self._here = take(self.projected, torch.cat([block.target, block.own[:, None]], dim=1))


class ChannelFunctionals(_Linearised):
    """The columns of a matrix ``(d1, m)`` and their negatives, the same for every anchor and case."""

    shared = True

    def __init__(self, matrix: Tensor, plan: DropPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        super().__init__(plan, layer1, rules)
        self.matrix, self.negative_magnitude = matrix, -matrix.abs()
        self.signs = matrix.new_tensor([[1.0], [-1.0]])
        self.number = 2 * matrix.shape[1]
        self.interval = self._both_signs(self.hidden)  # (F, M)
        self.constant = [self._both_signs(constant) for _, constant in self.lines]
        self._of_all_cases: dict[int, Tensor] = {}  # C_ij of the block under each rule, where cases share lines

    def enter(self, block: Block) -> None:
        super().enter(block)
        self._of_all_cases.clear()

    def _both_signs(self, values: Range) -> Tensor:
        """The least ``v @ [matrix, -matrix]``."""
        middle, spread = values.middle @ self.matrix, values.radius @ self.negative_magnitude
        return torch.addcmul(spread[..., None, :], middle[..., None, :], self.signs).flatten(-2)

    def _scaled(self, place: Tensor, projected: Tensor, rule: int) -> Tensor:
        """``C`` for lines and targets that broadcast against each other."""
        slope, _ = self.lines[rule]
        return self._both_signs(Range(take(slope.middle, place) * projected, take(slope.radius, place) * projected))

    def width(self, size: int, cases: int) -> int:
        return cases * max(self.number, self.matrix.shape[0])

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        return [slice(0, pairs.columns[case])]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        return AnchorTerms(self._scaled(self.own_place, take(self.projected, self.own_projected), rule),
                           take(self.constant[rule], self.own_place))

    def anchor_intervals(self) -> Tensor:
        return take(self.interval, self.own_place)

    def pair_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> Tensor:
        if self.place.shape[1] > 1:
            place = self.own_place[self._anchor_case(pairs, columns, case)]
            return self._scaled(place, self._here[:, -1:], rule)
        if rule not in self._of_all_cases:
            place = self.own_place[self.plan.flat.place[pairs.anchor, 0]]
            self._of_all_cases[rule] = self._scaled(place, self._here[:, -1:], rule)
        return self._of_all_cases[rule][:, columns]

    def row_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> RowTerms:
        place = self._places(block)
        terms = self._scaled(place[:, None], self._here[:, :, None], rule)[:, :, None]
        leaves, own = terms.split([block.size, 1], dim=1)
        return RowTerms(own[:, 0], leaves, take(self.constant[rule], place)[:, None])

    def row_intervals(self, block: Block, pairs: Pairs, columns: slice, case: int) -> Tensor:
        return take(self.interval, self._places(block))[:, None]


class AnchorFunctionals(_Linearised):
    """Functionals of each anchor's own in each of its cases: ``omega`` is ``(F, M, d1)``."""

    shared = False

    def __init__(self, omega: Tensor, plan: DropPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        super().__init__(plan, layer1, rules)
        self.omega = omega
        self.number = omega.shape[1]
        self.own_slopes = [self._slopes(omega, *(part[:, None] for part in self._range(slope, self.own_place)))
                           for slope, _ in self.lines]  # λ of the anchors' own lines, (F, M, d1)

    @staticmethod
    def _slopes(omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
        return torch.addcmul(omega * middle, omega.abs(), radius, value=-1)

    def _values(self, omega: Tensor, bounds: Range) -> Tensor:
        """The least ``ω · v``, ``(X, I, T, M)`` for ``omega`` of shape ``(X, I, M, d1)`` and bounds ``(X, T, d1)``."""
        flat = omega.flatten(1, 2)
        values = flat @ bounds.middle.mT - flat.abs() @ bounds.radius.mT  # (X, I M, T)
        return values.unflatten(1, omega.shape[1:3]).transpose(2, 3)

    def _range(self, values: Range, place: Tensor) -> Range:
        return Range(take(values.middle, place), take(values.radius, place))

    def _elements(self, anchors: int, size: int, cases: int) -> int:
        """Elements of a row when so many anchors around it are treated at once."""
        return anchors * cases * self.number * (size + 1 + self.projected.shape[1])

    def width(self, size: int, cases: int) -> int:
        return 1 + self._elements(min(size, self.max_anchors), size, cases) // size

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        number = pairs.columns[case]
        each = len(block.rows) * self._elements(1, 0 if block.hub else block.size, block.cases.most)
        step = max(1, min(number, blocks.MAX_ELEMENTS // each))
        return [slice(start, min(start + step, number)) for start in range(0, number, step)]

    def _own_values(self, bounds: Range) -> Tensor:
        """The least ``ω · v`` for the anchors' own rows of the bounds, ``(F, M)``."""
        middle, radius = self._range(bounds, self.own_place)
        return (self.omega @ middle[..., None] - self.omega.abs() @ radius[..., None])[..., 0]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        own = self.own_slopes[rule] @ take(self.projected, self.own_projected)[..., None]
        return AnchorTerms(own[..., 0], self._own_values(self.lines[rule][1]))

    def anchor_intervals(self) -> Tensor:
        return self._own_values(self.hidden)

    def pair_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> Tensor:
        slopes = take(self.own_slopes[rule], self._anchor_case(pairs, columns, case))  # (R, I, M, d1)
        return (slopes.flatten(1, 2) @ self._here[:, -1, :, None])[..., 0].unflatten(1, slopes.shape[1:3])

    def row_terms(self, block: Block, pairs: Pairs, columns: slice, case: int, rule: int) -> RowTerms:
        omega = take(self.omega, self._anchor_case(pairs, columns, case))  # (R, I, M, d1)
        slope, constant = (self._range(values, self._places(block)) for values in self.lines[rule])
        slopes = self._slopes(omega[:, :, None], slope.middle[:, None, :, None], slope.radius[:, None, :, None])
        terms = self._here @ slopes.flatten(1, 3).mT  # (R, K + 1, I T M)
        leaves, own = terms.unflatten(2, slopes.shape[1:4]).split([block.size, 1], dim=1)
        return RowTerms(own[:, 0], leaves, self._values(omega, constant))

    def row_intervals(self, block: Block, pairs: Pairs, columns: slice, case: int) -> Tensor:
        omega = take(self.omega, self._anchor_case(pairs, columns, case))
        return self._values(omega, self._range(self.hidden, self._places(block)))
