"""The steps of the degree-exact bound by kernels; :mod:`certgcl.bounds.degree` has the formulas."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.compiled.channels import channel_values
from certgcl.bounds.compiled.chunks import RowChunk
from certgcl.bounds.compiled.lines import products_at_entries
from certgcl.bounds.compiled.minima import pair_values, row_minima
from certgcl.bounds.compiled.workspace import Workspace
from certgcl.bounds.degree import NeighbourTerms
from certgcl.bounds.extremes import most
from certgcl.bounds.gather import Table, joined
from certgcl.bounds.layer1 import Layer1
from certgcl.bounds.plan import DropPlan
from certgcl.bounds.recompute import MAX_STORED, recomputed
from certgcl.encoder import GCNWeights

MAX_NUMBERS = 1 << 21  # in the table of a chunk of rows, where no gradient is wanted
ALWAYS = MAX_STORED + 1  # elements enough to compute a chunk again for its gradient


def layer1(weights: GCNWeights, projected: Tensor, plan: DropPlan) -> Layer1:
    """As :func:`certgcl.bounds.degree.layer1_by_degree`."""
    lower, negative_upper = row_minima(plan.layout.layer1, projected, projected)[0].chunk(2)
    if torch.is_grad_enabled():
        lower, upper = weights.b1 + lower, weights.b1 - negative_upper
    else:
        lower, upper = lower.add_(weights.b1), negative_upper.neg_().add_(weights.b1)
    return Layer1(weights, projected, lower, upper, plan.flat_lines.place)


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
        self.layout, self.workspace = plan.layout, Workspace()

    def values_of_channel(self) -> int:
        layout = self.layout
        visits = len(layout.slot) if torch.is_grad_enabled() else 0
        return max(int(layout.leaf_start[-1]), 2 * len(layout.flat_rows.row), visits)

    def of_channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        layout = self.layout
        interval, constant, own, leaves = channel_values(layout, rules, matrix, layer1, self.workspace)
        tables = *row_minima(layout.channels_at_rows, leaves, own, following=True), constant, interval, leaves, leaves
        parts = []
        for visits, lemma in layout.channels_at_anchors(max(1, _limit() // constant.shape[1])):
            phi = pair_values(visits, layout.channel_neighbours, len(rules), *tables, workspace=self.workspace)
            parts.append(row_minima(lemma, phi, constant, own)[0])
        return most(torch.cat(parts).unflatten(1, (len(rules), -1)), dim=1)

    def of_anchors(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        layout, (_, number, width) = self.layout, omega.shape
        chunks = layout.chunks(max(1, _limit() // (len(rules) * number)))
        products = partial(products_at_entries, rules=rules, omega=omega, layer1=layer1)
        if len(chunks) == 1:  # lines serve both
            (pairs, own, constant, _), at_rows = products(layout.spans(width), [layout.own_entries, chunks[0].entries])
            phi = _phi(chunks[0], len(rules), pairs, at_rows, self.workspace)
        else:
            (pairs, own, constant, _), = products(layout.spans(width), [layout.own_entries])

            def part(chunk: RowChunk) -> Tensor:
                at_rows, = products(chunk.spans(width), [chunk.entries])
                return _phi(chunk, len(rules), pairs, at_rows, self.workspace)

            phi, _ = joined((recomputed(partial(part, chunk), ALWAYS) for chunk in chunks), len(layout.slot))
        value, = row_minima(layout.anchors_at_anchors, phi, constant, own)
        return most(value.unflatten(1, (len(rules), -1)), dim=1)


def _limit() -> int:
    """Of numbers in a table that is not held for all rows."""
    return MAX_STORED if torch.is_grad_enabled() else MAX_NUMBERS


def _phi(chunk: RowChunk, rules: int, pairs: Tensor, at_rows: tuple[Tensor, ...], workspace: Workspace) -> Tensor:
    """φ of the visits of some rows."""
    leaves, own, constant, interval = at_rows
    without, following = row_minima(chunk.lemma, leaves, own, following=True)
    return pair_values(*chunk.visits, rules, without, following, constant, interval, leaves, pairs, workspace=workspace)
