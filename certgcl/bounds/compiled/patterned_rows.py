"""Sign patterns of the rows next to anchors, on the flat tables of kernels."""

from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.compiled.anchor_chunks import RowChunk
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours
from certgcl.bounds.compiled.lemma_arrays import array
from certgcl.bounds.compiled.minima import row_minima
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best, least, most
from certgcl.bounds.propagation.sign_patterns import FEW_EDGES, SignPatterns, dearest
from certgcl.bounds.two_layer.layer1 import Layer1


class PatternedRows:
    """The rows of a chunk, each with the sign patterns of the channels with the costliest relaxations for a visit's
    functional.

    Args:
        omega: functionals of every anchor in each of its cases, ``(F, M, d1)``.
    """

    def __init__(self, chunk: RowChunk, omega: Tensor, layer1: Layer1, patterns: int) -> None:
        self.whole, self.chunk = chunk, chunk.of_few(FEW_EDGES)
        self.features, self.bias = layer1.projected, layer1.weights.b1
        self.entries, _ = self.chunk.entries
        functional, line = _index(self.entries.functional), _index(self.entries.line)
        lower, upper = (part.index_select(0, line)[:, None] for part in (layer1.lower, layer1.upper))
        self.found = dearest(omega.index_select(0, functional), lower, upper, layer1.weights.slope1, patterns)

    def floors(
        self, rules: int, leaves: Tensor, own: Tensor, constant: Tensor, interval: Tensor
    ) -> tuple[Tensor, Tensor, Neighbours]:
        """Constants, and intervals raised to the minimum over the patterns, at every result of the row lemma for rows
        with patterns, followed by those of all rows; and the rows with the positions of these values."""
        _, rows = self.whole.visits
        value = self._least_lines(rules, leaves, own, constant)
        at = self._own_of_result
        constants = torch.cat([constant.index_select(0, at), constant])
        intervals = torch.cat([best([interval.index_select(0, at), value]), interval])
        lined = self.chunk.lined[self.chunk.piece_of_case]
        place = torch.where(lined, self.chunk.out[:-1], self.chunk.own + len(at))
        return constants, intervals, rows._replace(own=array(place))

    def _least_lines(self, rules: int, leaves: Tensor, own: Tensor, constant: Tensor) -> Tensor:
        """The least over the patterns of the best line below ``ω · h_j``, ``(results, M)``; see
        :class:`certgcl.bounds.degree.DegreeMinimum`."""
        chunk, number = self.chunk, self.found.gain.shape[1]

        def with_change(values: Tensor, change: Tensor) -> Tensor:
            """``(n, rules M)`` and ``(n, M, P)`` to ``(n, rules M P)``."""
            return (values.unflatten(1, (rules, number))[..., None] + change[:, None]).flatten(1)

        entry, target, cell = self._leaf_cells
        leaves = with_change(leaves.index_select(0, cell), self._times_features(self.found.at(entry), target))
        own = with_change(own, self._times_features(self.found, self._own_target))
        constant = with_change(constant, self.found.constant(self.bias))
        without, following = row_minima(chunk.lemma, leaves, own, following=True)
        leaf = leaves.index_select(0, self._leaf_of_result)
        line = best([without - self._row_scale.most(self._kept.least(leaf)), following + self._never_dropped])
        line = line + constant.index_select(0, self._own_of_result) + self._product.least(leaf)
        return least(most(line.unflatten(1, (rules, number, -1)), dim=1), dim=-1)

    def _times_features(self, patterns: SignPatterns, target: Tensor) -> Tensor:
        place = target[:, None, None] * self.features.shape[1] + patterns.channels
        return patterns.times(self.features.flatten().index_select(0, place.flatten()).view(place.shape))

    # -- the entry, row and visit of everything ------------------------------------------

    @cached_property
    def _leaf_cells(self) -> tuple[Tensor, Tensor, Tensor]:
        """The entry and the neighbour of every leaf cell, and its position among the cells of all rows with lines."""
        chunk = self.chunk
        number = chunk.place.diff()
        piece = torch.repeat_interleave(torch.arange(len(number)), number)
        rank = torch.arange(len(piece)) - chunk.place[piece]
        slot = chunk.slot[piece] + rank // chunk.each[piece]
        entry = chunk.entry[piece] + rank % chunk.each[piece]
        return entry, _index(self.entries.target)[slot], self.whole.place[piece] + rank

    @cached_property
    def _own_target(self) -> Tensor:
        return torch.repeat_interleave(_index(self.entries.own), self.chunk.each)

    @cached_property
    def _result(self) -> tuple[Tensor, Tensor, Tensor]:
        """The row and case of every result, its visit, and its column."""
        number = self.chunk.out.diff()
        case = torch.repeat_interleave(torch.arange(len(number)), number)
        column = torch.arange(len(case)) - self.chunk.out[case]
        piece = self.chunk.piece_of_case[case]
        return case, (self.chunk.begin - self.chunk.begin[0])[piece] + column, column

    @cached_property
    def _own_of_result(self) -> Tensor:
        case, _, column = self._result
        return self.chunk.own[case] + column

    @cached_property
    def _leaf_of_result(self) -> Tensor:
        case, visit, _ = self._result
        step = self.chunk.rank_of_case[case] * self.chunk.step[self.chunk.piece_of_case[case]]
        return _index(self.chunk.visits[0].leaf)[visit] + step

    @property
    def _row_scale(self) -> Scale:
        rows, (case, _, _) = self.chunk.visits[1], self._result
        return Scale(*(torch.from_numpy(end)[case, None] for end in (rows.out_low, rows.out_high)))

    @property
    def _kept(self) -> Scale:
        """The range of the anchor's scale over all its cases, while its edge is kept."""
        visits, (_, visit, _) = self.chunk.visits[0], self._result
        return Scale(*(torch.from_numpy(end)[visit, None] for end in (visits.least, visits.most)))

    @property
    def _product(self) -> Scale:
        visits, (_, visit, _) = self.chunk.visits[0], self._result
        return self._row_scale.times(Scale(*(torch.from_numpy(end)[visit, None] for end in (visits.low, visits.high))))

    @property
    def _never_dropped(self) -> Tensor:
        """Minus infinity where the anchor's edge cannot be dropped."""
        droppable = torch.from_numpy(self.chunk.visits[0].droppable)[self._result[1], None]
        return torch.zeros_like(droppable, dtype=self.features.dtype).masked_fill(~droppable, -torch.inf)


def _index(values: Array) -> Tensor:
    return torch.from_numpy(values).long()
