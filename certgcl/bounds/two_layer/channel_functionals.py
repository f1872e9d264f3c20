"""Functionals that all anchors share: the columns of a matrix."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.two_layer.blocks import Block, Pairs
from certgcl.bounds.two_layer.hidden_functionals import AnchorTerms, RowBounds, RowTerms
from certgcl.bounds.two_layer.layer1 import Layer1, Range
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import Table, joined
from certgcl.models.activations import SlopeRule


class ChannelFunctionals:
    """The columns of a matrix ``(d1, m)`` and their negatives, the same for every anchor and case.

    So C of a pair (i, j) is that of j in the row of i, and all of C is computed once, row by row.
    """

    shared = True

    def __init__(self, matrix: Tensor, plan: RowPlan, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.matrix, self.negative_magnitude = matrix, -matrix.abs()
        self.signs = matrix.new_tensor([[1.0], [-1.0]])
        self.plan, self.place, self.lined = plan, layer1.place, layer1.lined(rules)
        self.rules, self.number = len(rules), 2 * matrix.shape[1]
        self.partition = plan.rows(self.width)
        self.places = self.partition.by_case if plan.by_count else self.partition.one_each
        elements = self.partition.elements(self.width)
        rows, self.row_parts = joined(
            (recomputed(partial(self._rows, block), elements) for block in self.partition.blocks), self.places.rows
        )
        leaves, self.leaf_parts = zip(
            *(
                joined(
                    (recomputed(partial(self._leaves, block, rule), elements) for block in self.partition.blocks),
                    self.places.slots,
                )
                for rule in range(self.rules)
            ),
            strict=True,
        )
        self.of_leaves = [Table(table) for table in leaves]
        # For the anchors in all their cases: the interval and e_i by each rule, then C_ii.
        row = self.places.row[plan.hood.outer.own[plan.flat.row]]
        self.of_anchors = Table(rows).take(row + plan.flat.case if plan.by_count else row).split(self.number, dim=1)

    def _both_signs(self, values: Range) -> Tensor:
        """The least ``v @ [matrix, -matrix]``."""
        return self._signed(values.middle @ self.matrix, values.radius @ self.negative_magnitude)

    def _signed(self, middle: Tensor, spread: Tensor) -> Tensor:
        return torch.addcmul(spread[..., None, :], middle[..., None, :], self.signs).flatten(-2)

    def _rows(self, block: Block) -> Tensor:
        """The interval value of every row in all its cases and ``e_j`` by each rule, then ``C_jj``; side by side."""
        lined = self.lined.around(self.place[block.rows, : block.cases.most])
        slope, spread = lined.slopes
        own = self.lined.targets(block.own)[:, None]
        values = torch.cat([self._both_signs(lined.ranges), self._both_signs(Range(slope * own, spread * own))], dim=1)
        return values.unflatten(1, (1 + 2 * self.rules, -1)).transpose(1, 2).flatten(2).flatten(0, 1)

    def _leaves(self, block: Block, rule: int) -> Tensor:
        """``C_jk`` for all neighbours of every row in all its cases."""
        slopes = self.lined.around(self.place[block.rows, : block.cases.most]).slopes
        slope, spread = (part.chunk(self.rules, dim=1)[rule] for part in slopes)
        leaves = self.lined.targets(block.target)
        if 2 * block.size < self.number:  # slopes are applied to the smaller set of vectors
            middle, radius = (part[:, None] * leaves[:, :, None] for part in (slope, spread))
            return self._both_signs(Range(middle, radius)).flatten(0, 2)
        middle = leaves[:, None] @ (slope[..., None] * self.matrix)
        spread = leaves[:, None] @ (spread[..., None] * self.negative_magnitude)
        return self._signed(middle, spread).transpose(1, 2).flatten(0, 2)

    def width(self, size: int, cases: int) -> int:
        return cases * max(self.number, self.matrix.shape[0])

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        return [slice(0, pairs.columns[case])]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        return AnchorTerms(self.of_anchors[1 + self.rules + rule], self.of_anchors[1 + rule])

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
        return RowBounds(
            interval,
            [RowTerms(terms[every.rules + rule], leaves[rule], terms[rule]) for rule in range(every.rules)],
            [],
        )
