"""Lower bounds of what the edges gained by a node add to its row.

With a edges gained, the row lemma has one more summand, ``bot_a``: the sum of the a smallest terms of candidates. A
candidate c is not a neighbour of i, and its term is the least

    in(n_c) ( S_c + Σ β · h_c )

over the states of c next to a new edge: it has gained an edge itself (``a_c >= 1``), and with the edge counted once
``a_i + a_c - 1 <= A``, ``t_i + t_c <= Q``, and ``t_i + a_i + t_c + a_c - 1 <= F``. Ranges give a term without further
knowledge; for an anchor's own functionals, the smallest of these terms are replaced by bounds through lines of c
(:mod:`certgcl.bounds.propagation.new_neighbours`), if these are larger. Terms of several aggregations are minimised
separately. No array has the size of nodes × nodes: rows are processed in blocks, and terms that are the same for all
rows are sorted once per column, so that every row walks down the sorted list and skips its own neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.candidates import CandidateTable, Columns, Left, Shared, candidate_lists, is_listed
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.models.aggregations import Aggregation

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


Refinement: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From entries and a candidate of each to its terms, ``(V, R M)``."""


def added_edges(
    ranges: "NetworkRanges",
    cells: Cells,
    base: Aggregation,
    mixes: Sequence[Mix],
    shared: Shared | None = None,
    affordable: bool = True,
    given: int = 0,
    refine: Refinement | None = None,
) -> Tensor | None:
    """The least that the edges gained add to the rows of some cells, ``(E, R M)``; None if no edge can be added.

    Args:
        base: the aggregation that scales what is shared.
        mixes: functionals of the neighbours, by every rule.
        affordable: whether the functionals of every entry may be multiplied with all candidates; otherwise a common
            range is used.
        given: how many of the edges gained are known, and not part of this.
        refine: better terms of the candidates for the base's mixes.
    """
    if cells.ball.additions is None:
        return None
    some = (cells.ball.cells.most_gain[cells.place] > given).nonzero()[:, 0]
    width = _width(mixes, shared)
    total = ranges.network.layers[0].bias.new_zeros(len(cells.place), width)
    if not len(some):
        return total
    here = Cells(cells.ball, cells.place[some])
    for scales in dict.fromkeys([*([] if shared is None else [base]), *(mix.term.aggregation for mix in mixes)]):
        group = [_some(mix, some) for mix in mixes if mix.term.aggregation == scales]
        better = None if refine is None or scales != base else partial(_at, refine, some)
        value = _least(ranges, here, scales, group, shared if scales == base else None, affordable, given, better)
        total = total.index_add(0, some, here.ball.cells.extent(scales.out, value.dtype).rows(here.place).least(value))
    return total


def _some(mix: Mix, entries: Tensor) -> Mix:
    """The functionals of some entries."""
    return mix if mix.functionals.shared else Mix(mix.term, mix.functionals.some(entries))


def _width(mixes: Sequence[Mix], shared: Shared | None) -> int:
    if shared is not None:
        return shared.values.shape[1]
    functionals = mixes[0].functionals
    rules = functionals.rules
    return rules * functionals.number


def _at(refine: Refinement, some: Tensor, entries: Tensor, nodes: Tensor) -> Tensor:
    """Better terms of some candidates of some entries."""
    return refine(some[entries], nodes)


def _least(
    ranges: "NetworkRanges",
    cells: Cells,
    scales: Aggregation,
    mixes: Sequence[Mix],
    shared: Shared | None,
    affordable: bool,
    given: int,
    refine: Refinement | None,
) -> Tensor:
    """``min_a bot_a`` over the numbers of edges gained in every cell, ``(E, R M)``."""
    found, places = [], []
    for left, entries in _by_what_is_left(cells):
        part = Cells(cells.ball, cells.place[entries])
        found.append(
            _of_group(
                ranges,
                part,
                scales,
                [_some(mix, entries) for mix in mixes],
                shared,
                left,
                affordable,
                given,
                None if refine is None else partial(_at, refine, entries),
            )
        )
        places.append(entries)
    return torch.cat(found)[torch.argsort(torch.cat(places))]


def _of_group(
    ranges: "NetworkRanges",
    cells: Cells,
    scales: Aggregation,
    mixes: Sequence[Mix],
    shared: Shared | None,
    left: Left,
    affordable: bool,
    given: int,
    refine: Refinement | None,
) -> Tensor:
    apart = [mix for mix in mixes if not mix.functionals.shared]
    states = cells.ball.cells
    least, most = ((gain[cells.place] - given).clamp(min=0) for gain in (states.least_gain, states.most_gain))
    if apart and affordable:
        return _by_blocks(ranges, cells, scales, mixes, shared, left, least, most, refine)
    total: Tensor | None = None
    if shared is not None or len(apart) < len(mixes):
        rest = [mix for mix in mixes if mix.functionals.shared]
        table = CandidateTable.of(ranges, cells.ball, left, scales, rest, shared)
        total = _least_sums(table.smallest(cells, int(most.max())), least, most)
    if apart:
        value = _anywhere(ranges, cells, scales, apart, left)
        value = torch.minimum(least[:, None] * value, most[:, None] * value)
        total = value if total is None else total + value
    assert total is not None
    return total


def _by_what_is_left(cells: Cells) -> Iterator[tuple[Left, Tensor]]:
    """Groups of entries whose states allow the same at the other ends of new edges; if these differ widely, the loosest
    common limits are used."""
    states, additions = cells.ball.cells, cells.ball.additions
    assert additions is not None
    gained, lost = states.least_gain[cells.place].clamp(min=1), states.first[cells.place]
    most_gained, most_lost, most_both = (
        int(each.max()) for each in (additions.local, cells.ball.drops.local, additions.both)
    )
    left = torch.stack(
        [
            (additions.total - gained + 1).clamp(max=most_gained),
            (cells.ball.total[cells.row] - lost).clamp(max=most_lost),
            (additions.both_total - lost - gained + 1).clamp(max=most_both),
        ],
        dim=1,
    )
    kinds, kind = torch.unique(left, dim=0, return_inverse=True)
    if len(kinds) > limits.MOST_KINDS:
        kinds, kind = left.amax(dim=0, keepdim=True), torch.zeros_like(kind)
    for number, each in enumerate(kinds.tolist()):
        yield Left(*each), (kind == number).nonzero()[:, 0]


# -- terms of functionals that every entry has of its own ------------------------------------------


def _by_blocks(
    ranges: "NetworkRanges",
    cells: Cells,
    scales: Aggregation,
    mixes: Sequence[Mix],
    shared: Shared | None,
    left: Left,
    least: Tensor,
    most: Tensor,
    refine: Refinement | None,
) -> Tensor:
    """Blocks of entries times all candidates, of which only the smallest are kept."""
    ball = cells.ball
    assert ball.additions is not None
    columns, number, width = Columns.of(ranges.widest, ball.additions, left), int(most.max()), _width(mixes, shared)
    inside = torch.full_like(ball.graph.degree, -1)
    inside[columns.node] = torch.arange(len(columns.node), device=inside.device)

    def work(entries: Tensor, listed: Tensor | None) -> Tensor:
        row = cells.row[entries]
        vectors = [(mix, _some(mix, entries).functionals.explicit().flatten(1, 2)) for mix in mixes]
        if listed is None:
            terms = columns.terms(ranges, scales, vectors, shared)
            terms = terms.expand(len(entries), -1, -1)
            degree = ball.degree[row]
            slots, owner = (
                consecutive(ball.rowptr[row], degree),
                torch.repeat_interleave(torch.arange(len(row), device=row.device), degree),
            )
            taken = torch.zeros(len(row), len(columns.node) + 1, dtype=torch.bool, device=row.device)
            taken[owner, inside[ball.neighbour[slots]]] = True  # the last column is for nodes that are not candidates
            taken[torch.arange(len(row), device=row.device), inside[ball.nodes[row]]] = True
            terms = terms.masked_fill(taken[:, None, :-1], torch.inf)
        else:
            place = torch.where(listed < 0, -1, inside[listed.clamp(min=0)])
            known = place.max()  # candidates of these rows have ranges in all layers; others may not
            if known < 0:
                nobody = torch.full((len(entries), number, width), torch.inf, dtype=ranges.dtype, device=row.device)
                return _least_sums(nobody, least[entries], most[entries])
            terms = columns.at(torch.where(place < 0, known, place)).terms(ranges, scales, vectors, shared)
            terms = terms.expand(len(entries), -1, -1).masked_fill((place < 0)[:, None], torch.inf)
        if refine is not None:
            chosen = _worth_a_look(terms.detach(), number)  # (B, C)
            node = columns.node[chosen] if listed is None else listed.gather(1, chosen)
            index = chosen[:, None].expand(-1, width, -1)
            known = terms.gather(2, index)
            sure = (known < torch.inf).all(dim=1)  # positions beyond a row's candidates are padding
            owner = torch.arange(len(entries), device=row.device)[:, None].expand_as(chosen)[sure]
            better = torch.full_like(known.movedim(1, 2), -torch.inf)
            better[sure] = refine(entries[owner], node[sure])
            terms = terms.scatter(2, index, best([known, better.movedim(1, 2)]))
        found = terms.topk(min(number, terms.shape[2]), dim=2, largest=False).values
        return _least_sums(found.transpose(1, 2), least[entries], most[entries])

    each = len(columns.node) * columns.cell.shape[1] * width
    if ball.additions.candidates is None:
        everything = torch.arange(len(cells.place), device=inside.device)
        blocks: list[tuple[Tensor, Tensor | None]] = [
            (entries, None) for entries in everything.split(max(1, limits.MAX_ELEMENTS // max(1, each)))
        ]
    else:
        deepest = max(mix.term.inputs if mix.term.source else mix.term.outputs for mix in mixes)
        blocks = list(candidate_lists(ball, cells.row, columns.cell.shape[1] * (width + deepest)))
    parts = [recomputed(partial(work, *block), each * len(cells.place)) for block in blocks]
    return torch.cat(parts)[torch.argsort(torch.cat([block[0] for block in blocks]))]


def _worth_a_look(terms: Tensor, number: int) -> Tensor:
    """The candidates that are among the smallest for some functional, ``(B, C)``, from terms ``(B, M, P)``: equally
    many for each row, so some rows get others in addition."""
    every = min(terms.shape[2], number + limits.MORE_CANDIDATES)
    order = terms.topk(every, dim=2, largest=False).indices
    rank = torch.full_like(terms[:, 0], every)
    place = torch.arange(every, dtype=terms.dtype, device=terms.device).expand_as(order)
    rank = rank.scatter_reduce(1, order.flatten(1), place.flatten(1), "amin")
    most = min(terms.shape[2], limits.MOST_CANDIDATES, max(1, int((rank < every).sum(dim=1).max())))
    return rank.topk(most, dim=1, largest=False).indices


def _anywhere(ranges: "NetworkRanges", cells: Cells, scales: Aggregation, mixes: Sequence[Mix], left: Left) -> Tensor:
    """The least term of any candidate, ``(E, R M)``, with each channel minimised separately."""
    assert cells.ball.additions is not None
    columns, total = Columns.of(ranges.widest, cells.ball.additions, left), None
    if cells.ball.additions.candidates is not None:
        columns = columns.at(is_listed(cells.ball, columns.node).nonzero()[:, 0])
    widest, flat = ranges.widest, columns.cell.flatten()
    into: Scale = widest.cells.extent(scales.into, ranges.dtype).take(flat)
    for mix in mixes:
        if mix.term.source == 0:
            middle, radius = (
                table[widest.place[columns.node]].repeat_interleave(columns.cell.shape[1], dim=0)
                for table in ranges.feature_range(mix.term)
            )
        else:
            source = ranges.ball_of(mix.term.source)
            place = flat if source is widest else widest.cells_in(source, flat)
            middle, radius = (table[place] for table in ranges.outputs(mix.term.source))
        low, high = middle - radius, middle + radius
        low, high = into.column.least(low).amin(dim=0), into.column.most(high).amax(dim=0)
        zero = torch.zeros(len(cells.place), dtype=torch.long, device=low.device)
        value = mix.functionals.lowest(((low + high) / 2)[None], ((high - low) / 2)[None], zero).flatten(1)
        total = value if total is None else total + value
    assert total is not None
    return total


def _least_sums(smallest: Tensor, least: Tensor, most: Tensor) -> Tensor:
    """``min_{least <= a <= most} bot_a`` from the smallest terms, ``(E, K, M)``."""
    zero = torch.zeros_like(smallest[:, :1])
    sums = torch.cat([zero, smallest.cumsum(dim=1)], dim=1)
    count = torch.arange(sums.shape[1], device=least.device)
    outside = (count < least[:, None]) | (count > most[:, None])
    return sums.masked_fill(outside[..., None], torch.inf).amin(dim=1)
