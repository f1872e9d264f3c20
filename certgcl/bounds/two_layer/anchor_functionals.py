"""Functionals of each anchor's own."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.propagation.sign_patterns import FEW_EDGES, SignPatterns, dearest
from certgcl.bounds.two_layer import blocks
from certgcl.bounds.two_layer.blocks import Block, Pairs, infinite_unless
from certgcl.bounds.two_layer.hidden_functionals import AnchorTerms, RowBounds, RowTerms
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.products import range_and_line_products
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import Table, joined
from certgcl.models.activations import SlopeRule


class AnchorFunctionals:
    """Functionals of each anchor's own in each of its cases: ``omega`` is ``(F, M, d1)``.

    Args:
        patterns: sign patterns of every row next to an anchor; one is none.
    """

    shared = False

    def __init__(
        self, omega: Tensor, plan: RowPlan, layer1: Layer1, rules: Sequence[SlopeRule], patterns: int = 1
    ) -> None:
        self.patterns, self.weights = patterns, layer1.weights
        self.ranges = [Table(layer1.lower), Table(layer1.upper)] if patterns > 1 else []
        self.plan, self.place, self.lined = plan, layer1.place, layer1.lined(rules)
        self.rules, self.number, self.channels = len(rules), *omega.shape[1:]
        self.omega = Table(omega)
        self.partition = plan.rows(self.width)
        anchors = plan.anchors(self.channels)
        self.places = anchors.by_case
        own: list[Tensor] = []
        pairs, _ = joined(self._of_anchors(own), self.places.slots)
        self.of_pairs = [Table(table) for table in pairs.split(self.number, dim=1)]
        self.of_anchors = torch.cat(own)[self.places.row[plan.flat.row] + plan.flat.case].split(self.number, dim=1)

    def _of_anchors(self, own: list[Tensor]) -> Iterator[Tensor]:
        """``C_ij`` by every rule for all neighbours of the anchors, with the terms of the anchors' own rows."""
        partition = self.plan.anchors(self.channels)
        elements = partition.elements(lambda size, cases: self.channels * cases)
        for block in partition.blocks:
            pairs, rows = recomputed(partial(self._own_terms, block), elements)
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
        values, terms = range_and_line_products(omega.flatten(1, 2), self.lined.around(place), targets)
        shape = len(block.rows), cases, self.number
        terms = terms.transpose(1, 2).reshape(*shape, block.size + 1, self.rules)  # (R, G, M, K + 1, rules)
        pairs, own = terms.permute(0, 3, 1, 4, 2).split([block.size, 1], dim=1)  # (R, K, G, rules, M)
        values = values.reshape(*shape, 1 + self.rules).mT  # (R, G, 1 + rules, M)
        interval, constants = values.split([1, self.rules], dim=2)
        rows = torch.cat([interval, torch.stack([own[:, 0], constants], dim=3).flatten(2, 3)], dim=2)
        return pairs.flatten(3).flatten(0, 2), rows.flatten(2).flatten(0, 1)

    def _elements(self, anchors: int, size: int, cases: int) -> int:
        """Elements of a row if ``anchors`` anchors around it are processed at once."""
        return anchors * cases * self.number * ((size + 1) * self.patterns + self.channels)

    def width(self, size: int, cases: int) -> int:
        most = max(1, int(self.plan.hood.anchors_around.max()))
        return 1 + self._elements(min(size, most), size, cases) // size

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        number = pairs.columns[case]
        each = len(block.rows) * self._elements(1, 0 if block.hub else block.size, block.cases.most)
        step = max(1, min(number, blocks.TOLERANCE * blocks.MAX_ELEMENTS // each))
        return [slice(start, min(start + step, number)) for start in range(0, number, step)]

    def anchor_terms(self, rule: int) -> AnchorTerms:
        return AnchorTerms(*self.of_anchors[1 + 2 * rule : 3 + 2 * rule])

    def anchor_intervals(self) -> Tensor:
        return self.of_anchors[0]

    def pair_terms(self, pair: Tensor, case: int, rule: int) -> Tensor:
        return self.of_pairs[rule].take(self.places.slot[pair] + self.plan.case_of_pair(pair, case))

    def at(self, number: int) -> "AnchorsAtRows":
        return AnchorsAtRows(self, self.partition.blocks[number], self.partition.pairs[number])


class AnchorsAtRows:
    """The functionals of all anchors around the rows of a block, whose ranges and lines serve all of them."""

    def __init__(self, functionals: AnchorFunctionals, block: Block, pairs: Pairs) -> None:
        self.functionals, self.block, self.pairs = functionals, block, pairs
        lined = functionals.lined.around(functionals.place[block.rows, : block.cases.most])
        place = torch.cat([block.target, block.own[:, None]], dim=1)
        # Hubs only have their range: lines would cost the square of their degree.
        self.lined = lined.without_lines() if block.hub else lined
        self.targets = functionals.lined.targets(place[:, :0] if block.hub else place)
        self.cases = lined.parts.shape[2]
        place = functionals.place[block.rows, : block.cases.most]
        # Rows of more edges have no patterns: their place is filled with values below everything else.
        self.few = infinite_unless(block.cases.degree <= FEW_EDGES, self.targets.dtype).neg()
        patterned = not block.hub and bool(self.few.isfinite().any())
        self.ranges = [table.take(place)[:, None] for table in functionals.ranges] if patterned else []

    def bounds(self, columns: slice, case: int) -> RowBounds:
        every = self.functionals
        omega = every.omega.take(every.plan.flat.place[self.pairs.anchor[:, columns], case])  # (R, I, M, d1)
        values, terms = range_and_line_products(omega.flatten(1, 2), self.lined, self.targets)
        interval, *constants = values.unflatten(1, omega.shape[1:3]).transpose(2, 3).split(self.cases, dim=2)
        lines = []
        for rule, constant in enumerate(constants):
            here = terms[..., rule * self.cases : (rule + 1) * self.cases]
            leaves, own = here.unflatten(2, omega.shape[1:3]).transpose(3, 4).split([self.block.size, 1], dim=1)
            lines.append(RowTerms(own[:, 0], leaves, constant))
        return RowBounds(interval, lines, self._patterned(omega, lines) if self.ranges else [])

    def _patterned(self, omega: Tensor, lines: list[RowTerms]) -> list[RowTerms]:
        """Lines with the sign patterns of the channels with the costliest relaxations, which have the same chords under
        all rules."""
        weights = self.functionals.weights
        lower, upper = self.ranges
        found = dearest(omega.flatten(1, 2)[:, :, None], lower, upper, weights.slope1, self.functionals.patterns)
        index = found.channels.flatten(1)[:, None].expand(-1, self.targets.shape[1], -1)
        values = self.targets.gather(2, index).unflatten(2, found.channels.shape[1:])  # (R, K + 1, X, T, k)
        here = SignPatterns(*(part[:, None] for part in found))
        change = here.times(values).unflatten(2, omega.shape[1:3])  # (R, K + 1, I, M, T, P)
        leaves, own = change.transpose(3, 4).split([self.block.size, 1], dim=1)
        constant = found.constant(weights.b1).unflatten(1, omega.shape[1:3]).transpose(2, 3)
        constant = constant + self.few[:, None, None, None, None]
        return [
            RowTerms(
                *(
                    (old[..., None] + change).flatten(-2)
                    for old, change in ((line.own, own[:, 0]), (line.leaves, leaves), (line.constant, constant))
                )
            )
            for line in lines
        ]
