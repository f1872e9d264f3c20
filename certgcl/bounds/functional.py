"""Linear functionals ``ω · h`` of the hidden layer, brought down to the projected features by lines around σ1.

For every node j and functional ω, ``ω · h_j >= λ_j · p_j + c_j`` with ``λ_j = ω+ a_lo + ω- a_up`` (slopes of *j's*
lines, signs of ω), so that with ``C_jk = y_k · λ_j`` and ``e_j = λ_j · b1 + c_j``

    ω · h_j  >=  Σ_k Â_jk C_jk + e_j .

The lines, and so C and e, may differ with the number of edges j loses (its *case*). This module computes C and e, and
the plain interval value of ``ω · h_j`` beside them; what is then minimised over the drops is the bound's business.
With ``a`` the mean and ``r`` half the difference of the two slopes, ``λ = ω a - |ω| r``: so ω and -ω share products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds import blocks
from certgcl.bounds.blocks import Block, Pairs
from certgcl.bounds.gather import Table, joined
from certgcl.bounds.layer1 import Layer1, Range
from certgcl.bounds.plan import DropPlan
from certgcl.bounds.products import range_and_line_products
from certgcl.bounds.recompute import recomputed


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


class RowBounds(NamedTuple):
    """What bounds ``ω · h_j`` for the rows of a block: the interval value ``(R, I, T, M)``, and lines by each rule."""

    interval: Tensor
    lines: list[RowTerms]


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

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        """The anchors around the rows of a block that have the case, in parts that fit in memory."""
        ...

    def anchor_terms(self, rule: int) -> AnchorTerms: ...

    def anchor_intervals(self) -> Tensor:
        """The least ``ω · h_i`` by intervals, ``(F, M)``."""
        ...

    def pair_terms(self, pair: Tensor, case: int, rule: int) -> Tensor:
        """``C_ij`` of some pairs, with the anchors in the given case, ``(..., M)``."""
        ...

    def at(self, number: int) -> "RowFunctionals":
        """Turn to a block, by its number in the partition."""
        ...


class RowFunctionals(Protocol):
    """The functionals at the rows of one block."""

    def bounds(self, columns: slice, case: int) -> RowBounds:
        """For the functionals that the anchors in these columns have in the given case."""
        ...


class ChannelFunctionals:
    """The columns of a matrix ``(d1, m)`` and their negatives, the same for every anchor and case.

    So C of a pair (i, j) is what j is to the row of i, and all of C is computed once, row by row.
    """

    shared = True

    def __init__(self, matrix: Tensor, plan: DropPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.matrix, self.negative_magnitude = matrix, -matrix.abs()
        self.signs = matrix.new_tensor([[1.0], [-1.0]])
        self.plan, self.place, self.lined = plan, layer1.place, layer1.lined(rules)
        self.rules, self.number = len(rules), 2 * matrix.shape[1]
        self.partition = plan.rows(self.width)
        self.places = self.partition.by_case if plan.by_count else self.partition.one_each
        elements = self.partition.elements
        rows, self.row_parts = joined((recomputed(partial(self._rows, block), elements)
                                       for block in self.partition.blocks), self.places.rows)
        leaves, self.leaf_parts = zip(*(joined((recomputed(partial(self._leaves, block, rule), elements)
                                                for block in self.partition.blocks), self.places.slots)
                                        for rule in range(self.rules)), strict=True)
        self.of_leaves = [Table(table) for table in leaves]
        # Of the anchors in all their cases: the interval, then C_ii and e_i by each rule.
        row = self.places.row[plan.hood.outer.own[plan.flat.anchor]]
        self.of_anchors = Table(rows).take(row + plan.flat.case if plan.by_count else row).split(self.number, dim=1)

    def _both_signs(self, values: Range) -> Tensor:
        """The least ``v @ [matrix, -matrix]``."""
        return self._signed(values.middle @ self.matrix, values.radius @ self.negative_magnitude)

    def _signed(self, middle: Tensor, spread: Tensor) -> Tensor:
        return torch.addcmul(spread[..., None, :], middle[..., None, :], self.signs).flatten(-2)

    def _rows(self, block: Block) -> Tensor:
        """The interval value of every row in all its cases, then ``C_jj`` and ``e_j`` by each rule; side by side."""
        hidden, lines = self.lined.around(self.place[block.rows, : block.cases.most])
        own = self.lined.targets(block.own)[:, None]
        parts = [self._both_signs(hidden)]
        for slope, constant in lines:
            parts += [self._both_signs(Range(slope.middle * own, slope.radius * own)), self._both_signs(constant)]
        return torch.cat(parts, dim=2).flatten(0, 1)

    def _leaves(self, block: Block, rule: int) -> Tensor:
        """``C_jk`` for all neighbours of every row in all its cases."""
        _, lines = self.lined.around(self.place[block.rows, : block.cases.most])
        slope, leaves = lines[rule].slope, self.lined.targets(block.target)
        if 2 * block.size < self.number:  # the slopes go with the fewer vectors
            middle, radius = (part[:, None] * leaves[:, :, None] for part in slope)
            return self._both_signs(Range(middle, radius)).flatten(0, 2)
        middle = leaves[:, None] @ (slope.middle[..., None] * self.matrix)
        spread = leaves[:, None] @ (slope.radius[..., None] * self.negative_magnitude)
        return self._signed(middle, spread).transpose(1, 2).flatten(0, 2)

    def width(self, size: int, cases: int) -> int:
        return cases * max(self.number, self.matrix.shape[0])

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        return [slice(0, pairs.columns[case])]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        return AnchorTerms(*self.of_anchors[1 + 2 * rule : 3 + 2 * rule])

    def anchor_intervals(self) -> Tensor:
        return self.of_anchors[0]

    def pair_terms(self, pair: Tensor, case: int, rule: int) -> Tensor:
        place = self.places.slot[self.plan.hood.leaf_of_pair[pair]]
        return self.of_leaves[rule].take(place + self.plan.case_of_pair(pair, case) if self.plan.by_count else place)

    def at(self, number: int) -> "_ChannelsAtRows":
        return _ChannelsAtRows(self, number)


class _ChannelsAtRows:
    def __init__(self, functionals: ChannelFunctionals, number: int) -> None:
        self.functionals, self.number = functionals, number

    def bounds(self, columns: slice, case: int) -> RowBounds:
        every, block = self.functionals, self.functionals.partition.blocks[self.number]
        cases = block.cases.most if every.plan.by_count else 1
        rows = every.row_parts[self.number].unflatten(0, (len(block.rows), cases))[:, None]
        interval, *terms = rows.split(every.number, dim=-1)
        leaves = [parts[self.number].view(*block.slots.shape, 1, cases, every.number) for parts in every.leaf_parts]
        return RowBounds(interval, [RowTerms(terms[2 * rule], leaves[rule], terms[2 * rule + 1])
                                    for rule in range(every.rules)])


class AnchorFunctionals:
    """Functionals of each anchor's own in each of its cases: ``omega`` is ``(F, M, d1)``."""

    shared = False

    def __init__(self, omega: Tensor, plan: DropPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.plan, self.place, self.lined = plan, layer1.place, layer1.lined(rules)
        self.rules, self.number, self.channels = len(rules), *omega.shape[1:]
        self.omega = Table(omega)
        self.partition = plan.rows(self.width)
        anchors = plan.anchors(self.channels)
        self.places = anchors.by_case
        own: list[Tensor] = []
        pairs, _ = joined(self._of_anchors(own), self.places.slots)
        self.of_pairs = [Table(table) for table in pairs.split(self.number, dim=1)]
        self.of_anchors = torch.cat(own)[self.places.row[plan.flat.anchor] + plan.flat.case].split(self.number, dim=1)

    def _of_anchors(self, own: list[Tensor]) -> Iterator[Tensor]:
        """``C_ij`` by every rule for all neighbours of the anchors; beside them, the terms of the anchors' own rows."""
        partition = self.plan.anchors(self.channels)
        for block in partition.blocks:
            pairs, rows = recomputed(partial(self._own_terms, block), partition.elements)
            own.append(rows)
            yield pairs

    def _own_terms(self, block: Block) -> tuple[Tensor, Tensor]:
        hood, cases = self.plan.hood, block.cases.most
        row = hood.outer.own[block.rows]
        omega = self.omega.take(self.plan.flat.place[block.rows, :cases])  # (R, G, M, d1)
        place = self.place[row, :cases]
        targets = self.lined.targets(hood.inner.own[torch.cat([block.target, row[:, None]], dim=1)])  # (R, K + 1, d1)
        if place.shape[1] > 1:  # every case has lines of its own, as every row
            omega, place = omega.flatten(0, 1)[:, None], place.flatten()[:, None]
            targets = targets.repeat_interleave(cases, dim=0)
        hidden, lines = self.lined.around(place)
        values, terms = range_and_line_products(
            omega.flatten(1, 2), _beside([hidden, *(line.constant for line in lines)]),
            _beside([line.slope for line in lines]), targets)
        shape = len(block.rows), cases, self.number
        terms = terms.transpose(1, 2).reshape(*shape, block.size + 1, self.rules)  # (R, G, M, K + 1, rules)
        pairs, own = terms.permute(0, 3, 1, 4, 2).split([block.size, 1], dim=1)  # (R, K, G, rules, M)
        values = values.reshape(*shape, 1 + self.rules).mT  # (R, G, 1 + rules, M)
        interval, constants = values.split([1, self.rules], dim=2)
        rows = torch.cat([interval, torch.stack([own[:, 0], constants], dim=3).flatten(2, 3)], dim=2)
        return pairs.flatten(3).flatten(0, 2), rows.flatten(2).flatten(0, 1)

    def _elements(self, anchors: int, size: int, cases: int) -> int:
        """Elements of a row when so many anchors around it are treated at once."""
        return anchors * cases * self.number * (size + 1 + self.channels)

    def width(self, size: int, cases: int) -> int:
        most = max(1, int(self.plan.hood.anchors_around.max()))
        return 1 + self._elements(min(size, most), size, cases) // size

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        number = pairs.columns[case]
        each = len(block.rows) * self._elements(1, 0 if block.hub else block.size, block.cases.most)
        step = max(1, min(number, blocks.MAX_ELEMENTS // each))
        return [slice(start, min(start + step, number)) for start in range(0, number, step)]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        return AnchorTerms(*self.of_anchors[1 + 2 * rule : 3 + 2 * rule])

    def anchor_intervals(self) -> Tensor:
        return self.of_anchors[0]

    def pair_terms(self, pair: Tensor, case: int, rule: int) -> Tensor:
        return self.of_pairs[rule].take(self.places.slot[pair] + self.plan.case_of_pair(pair, case))

    def at(self, number: int) -> "_AnchorsAtRows":
        return _AnchorsAtRows(self, self.partition.blocks[number], self.partition.pairs[number])


class _AnchorsAtRows:
    """The functionals of all anchors around the rows of a block, whose ranges and lines serve all of them."""

    def __init__(self, functionals: AnchorFunctionals, block: Block, pairs: Pairs) -> None:
        self.functionals, self.block, self.pairs = functionals, block, pairs
        hidden, lines = functionals.lined.around(functionals.place[block.rows, : block.cases.most])
        lines = [] if block.hub else lines  # there the interval alone: lines would cost the square of its degree
        place = torch.cat([block.target, block.own[:, None]], dim=1)
        self.targets = functionals.lined.targets(place[:, :0] if block.hub else place)
        self.rules, self.cases = len(lines), hidden.middle.shape[1]
        self.ranges = _beside([hidden, *(line.constant for line in lines)])
        self.slope = _beside([line.slope for line in lines]) if lines else Range(*(part[:, :0] for part in hidden))

    def bounds(self, columns: slice, case: int) -> RowBounds:
        every = self.functionals
        omega = every.omega.take(every.plan.flat.place[self.pairs.anchor[:, columns], case])  # (R, I, M, d1)
        values, terms = range_and_line_products(omega.flatten(1, 2), self.ranges, self.slope, self.targets)
        interval, *constants = values.unflatten(1, omega.shape[1:3]).transpose(2, 3).split(self.cases, dim=2)
        lines = []
        for rule, constant in enumerate(constants):
            here = terms[..., rule * self.cases : (rule + 1) * self.cases]
            leaves, own = here.unflatten(2, omega.shape[1:3]).transpose(3, 4).split([self.block.size, 1], dim=1)
            lines.append(RowTerms(own[:, 0], leaves, constant))
        return RowBounds(interval, lines)


def _beside(ranges: Sequence[Range]) -> Range:
    """Ranges ``(R, T, d1)`` one after the other along T."""
    return Range(*(torch.cat(parts, dim=1) for parts in zip(*ranges, strict=True)))
