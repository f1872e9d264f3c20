"""The steps of the degree-exact bound by kernels; :mod:`certgcl.bounds.degree` has the formulas."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.compiled.anchor_chunks import RowChunk
from certgcl.bounds.compiled.channels import channel_values
from certgcl.bounds.compiled.lines import products_at_entries
from certgcl.bounds.compiled.minima import pair_values, row_minima
from certgcl.bounds.compiled.patterned_rows import PatternedRows
from certgcl.bounds.compiled.workspace import Workspace
from certgcl.bounds.degree import NeighbourTerms
from certgcl.bounds.propagation.extremes import most
from certgcl.bounds.propagation.limits import MAX_STORED
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import Table, joined
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.models.activations import SlopeRule

MAX_NUMBERS = 1 << 21  # in the table of a chunk of rows, if no gradient is needed
ALWAYS = MAX_STORED + 1  # elements, from which on a chunk is recomputed for its gradient


def layer1(weights: GCNWeights, projected: Tensor, plan: RowPlan) -> Layer1:
    """As :func:`certgcl.bounds.degree.layer1_by_degree`."""
    (bound,) = row_minima(plan.flat_tables.layer1, projected, projected)
    return Layer1(weights, projected, *_from_both_signs(weights.b1, *bound.chunk(2)), plan.flat_lines.place)


def layer2(layer1: Layer1, plan: RowPlan) -> tuple[Tensor, Tensor]:
    """As :func:`certgcl.bounds.degree.layer2_by_degree`."""
    values, flat = layer1.signed_products(), plan.flat_tables
    if layer1.place.shape[1] == 1:
        (bound,) = row_minima(flat.layer2, values, values)
    else:
        terms, cell = NeighbourTerms.over_cases(Table(values), layer1.place, plan)
        (bound,) = row_minima(flat.layer2_from(cell), terms, values)
    return _from_both_signs(layer1.weights.b2, *bound.chunk(2, dim=1))


def _from_both_signs(bias: Tensor, lower: Tensor, negative_upper: Tensor) -> tuple[Tensor, Tensor]:
    """The bounds of ``v + b`` from the least values of v and of -v."""
    if torch.is_grad_enabled():
        return bias + lower, bias - negative_upper
    return lower.add_(bias), negative_upper.neg_().add_(bias)


class CompiledMinimum:
    """As :class:`certgcl.bounds.degree.DegreeMinimum`."""

    def __init__(self, plan: RowPlan) -> None:
        self.flat, self.workspace = plan.flat_tables, Workspace()

    def values_of_channel(self) -> int:
        flat = self.flat
        visits = int(flat.start[-1]) if torch.is_grad_enabled() else 0
        lines, rows = len(flat.plan.flat_lines.row), len(flat.flat_rows.row)
        return max(int(flat.leaf_start[-1]), visits) + 3 * lines + 2 * rows

    def of_channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        flat = self.flat
        interval, constant, own, leaves = channel_values(flat, rules, matrix, layer1, self.workspace)
        at_rows = row_minima(flat.channels_at_rows, leaves, own, following=True)
        tables = *at_rows, constant, interval, leaves, leaves, leaves
        parts = []
        for visits, lemma in flat.channels_at_anchors(max(1, _limit() // constant.shape[1])):
            phi = pair_values(visits, flat.channel_neighbours, len(rules), *tables, workspace=self.workspace)
            parts.append(row_minima(lemma, phi, constant, own)[0])
        return most(torch.cat(parts).unflatten(1, (len(rules), -1)), dim=1)

    def only(self, chosen: Tensor) -> "CompiledMinimum":
        return CompiledMinimum(self.flat.plan.only(chosen))

    def of_anchors(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule], patterns: int = 1) -> Tensor:
        flat, (_, number, width) = self.flat, omega.shape
        self.workspace.clear()  # the tables of channels are no longer needed
        chunks = flat.chunks(max(1, _limit() // (len(rules) * number * patterns)))
        products = partial(products_at_entries, rules=rules, omega=omega, layer1=layer1)

        def patterned(chunk: RowChunk) -> PatternedRows | None:
            return PatternedRows(chunk, omega, layer1, patterns) if patterns > 1 else None

        if len(chunks) == 1:  # lines serve both
            (chunk,) = chunks
            (pairs, own, constant, _), at_rows = products(flat.spans(width), [flat.own_entries, chunk.entries])
            phi = _phi(chunk, len(rules), pairs, at_rows, self.workspace, patterned(chunk))
        else:
            ((pairs, own, constant, _),) = products(flat.spans(width), [flat.own_entries])

            def part(chunk: RowChunk) -> Tensor:
                (at_rows,) = products(chunk.spans(width), [chunk.entries])
                return _phi(chunk, len(rules), pairs, at_rows, self.workspace, patterned(chunk))

            phi, _ = joined((recomputed(partial(part, chunk), ALWAYS) for chunk in chunks), int(flat.start[-1]))
        (value,) = row_minima(flat.anchors_at_anchors, phi, constant, own)
        return most(value.unflatten(1, (len(rules), -1)), dim=1)


def _limit() -> int:
    """The most numbers in a table that is not held for all rows."""
    return MAX_STORED if torch.is_grad_enabled() else MAX_NUMBERS


def _phi(
    chunk: RowChunk,
    rules: int,
    pairs: Tensor,
    at_rows: tuple[Tensor, ...],
    workspace: Workspace,
    patterned: PatternedRows | None,
) -> Tensor:
    """φ of the visits of some rows."""
    leaves, own, constant, interval = at_rows
    without, following = row_minima(chunk.lemma, leaves, own, following=True)
    visits, neighbours = chunk.visits
    if patterned is not None:
        constant, interval, neighbours = patterned.floors(rules, *at_rows)
    return pair_values(
        visits, neighbours, rules, without, following, constant, interval, leaves, leaves, pairs, workspace=workspace
    )
