"""The steps of the degree-exact bound by kernels; :mod:`certgcl.bounds.degree` has the formulas."""

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.compiled.functions import channel_products, pair_values, products_at_entries, row_minima
from certgcl.bounds.compiled.layout import RowChunk
from certgcl.bounds.degree import NeighbourTerms
from certgcl.bounds.extremes import most
from certgcl.bounds.gather import Table, joined
from certgcl.bounds.layer1 import Layer1
from certgcl.bounds.plan import DropPlan
from certgcl.bounds.recompute import recomputed
from certgcl.encoder import GCNWeights

MAX_NUMBERS = 1 << 24  # in the table of a chunk of rows
ROWS = 1 << 12  # whose lines are computed at a time, where that is not done for all at once


def layer1(weights: GCNWeights, projected: Tensor, plan: DropPlan) -> Layer1:
    """As :func:`certgcl.bounds.degree.layer1_by_degree`."""
    bounds = row_minima(plan.layout.layer1, projected, projected)
    lower, negative_upper = bounds.view(-1, 2, projected.shape[1]).unbind(dim=1)
    return Layer1(weights, projected, weights.b1 + lower, weights.b1 - negative_upper, plan.flat_lines.place)


def layer2(layer1: Layer1, plan: DropPlan) -> tuple[Tensor, Tensor]:
    """As :func:`certgcl.bounds.degree.layer2_by_degree`."""
    low, high = layer1.products()
    values, layout, b2 = torch.cat([low, -high], dim=1), plan.layout, layer1.weights.b2
    if layer1.place.shape[1] == 1:
        bound, = row_minima(layout.layer2, values, values)
    else:
        terms, cell = NeighbourTerms.over_cases(Table(values), layer1.place, plan)
        bound, = row_minima(layout.layer2_from(cell), terms, values)
    lower, negative_upper = bound.chunk(2, dim=1)
    return b2 + lower, b2 - negative_upper


class CompiledMinimum:
    """As :class:`certgcl.bounds.degree.DegreeMinimum`."""

    def __init__(self, plan: DropPlan) -> None:
        self.plan, self.layout = plan, plan.layout

    def of_channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        layout, lines = self.layout, len(layer1.lower)
        parts = [recomputed(partial(self._channels, matrix, layer1, rules, rows), 0 if layer1.whole else 1 << 60)
                 for rows in _ranges(len(layout.around), len(layout.around) if layer1.whole else ROWS)]
        interval, constant, own, leaves = (joined(iter(part), size)[0] for part, size in zip(
            zip(*parts, strict=True), (lines, lines, lines, len(layout.line_slots[1])), strict=True))
        without, following = row_minima(layout.channels_at_rows, leaves, own, following=True)
        phi = pair_values(*layout.channel_visits, len(rules), without, following, constant, interval, leaves, leaves)
        value, = row_minima(layout.channels_at_anchors, phi, constant, own)
        return most(value.unflatten(1, (len(rules), -1)), dim=1)

    def _channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule], rows: range) -> tuple[Tensor, ...]:
        """Of the lines of some inner rows: the intervals, e_j and C_jj; and C_jk of their slots."""
        number, inner, flat = len(rules), self.plan.hood.inner, self.plan.flat_lines
        here = slice(int(flat.start[rows.start]), int(flat.start[rows.stop]))
        lines = layer1.lines(rules, here)
        middles, radii = lines[:, : 1 + number], lines[:, 1 + number : 2 + 2 * number]
        slopes = lines[:, 2 + 2 * number :].unflatten(1, (2, number))  # (lines, 2, rules, d1)
        own = layer1.projected[inner.own[flat.row[here]]][:, None]
        middle = torch.cat([middles, slopes[:, 0] * own], dim=1) @ matrix
        radius = torch.cat([radii, slopes[:, 1] * own], dim=1) @ matrix.abs()
        values = torch.cat([middle - radius, -middle - radius], dim=2)
        interval, constant, own = (part.flatten(1) for part in values.split([1, number, number], dim=1))
        _, line, target = self.layout.line_slots
        slots = self.layout.line_slots_of(rows)
        leaves = torch.cat([channel_products(line[slots] - here.start, target[slots], slopes[:, :, rule],
                                             layer1.projected, matrix) for rule in range(number)], dim=1)
        return interval, constant, own, leaves

    def of_anchors(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        layout, number = self.layout, len(rules)
        found = [self._own_terms(omega, layer1, rules, anchors) for anchors in
                 _ranges(len(self.plan.hood.outer.nodes), len(self.plan.hood.outer.nodes) if layer1.whole else ROWS)]
        pairs, own, constant = (torch.cat(part) for part in zip(*found, strict=True))
        chunks = layout.chunks(MAX_NUMBERS // (number * omega.shape[1]))
        elements = 0 if len(chunks) == 1 else 1 << 60
        phi, _ = joined((recomputed(partial(self._phi, omega, layer1, rules, pairs, chunk), elements)
                         for chunk in chunks), len(layout.slot))
        value, = row_minima(layout.anchors_at_anchors, phi, constant, own)
        return most(value.unflatten(1, (number, -1)), dim=1)

    def _own_terms(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule],
                   anchors: range) -> tuple[Tensor, ...]:
        """``C_ij``, ``C_ii`` and ``e_i`` of some anchors."""
        layout, flat = self.layout, self.plan.flat
        here = slice(int(flat.start[anchors.start]), int(flat.start[anchors.stop]))
        cells = int(layout.own_place[anchors.stop] - layout.own_place[anchors.start])
        lines = layer1.lines(rules, layout.own_line[here])
        pairs, own, constant, _ = products_at_entries(layout.own_entries(anchors), cells, omega, lines,
                                                      layer1.projected)
        return pairs, own, constant

    def _phi(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule], pairs: Tensor, chunk: RowChunk) -> Tensor:
        """φ of the visits of some rows."""
        leaves, own, constant, interval = products_at_entries(
            chunk.entries, chunk.lemma.size, omega, layer1.lines(rules, chunk.lines), layer1.projected)
        without, following = row_minima(chunk.lemma, leaves, own, following=True)
        return pair_values(chunk.visits, chunk.neighbours, len(rules), without, following, constant, interval, leaves,
                           pairs)


def _ranges(number: int, step: int) -> Iterator[range]:
    for start in range(0, number, max(1, step)):
        yield range(start, min(start + step, number))
