"""The row lemma: the least sums over the kept neighbours.

    min_{first <= t <= last}  out(t) ( Σ_k g_k - top_t ) ,      top_t the sum of the t largest droppable g_k

is a lower bound of ``out(n) Σ_{kept k} v_k`` for every ``v_k >= g_k``: with t edges lost exactly t droppable neighbours
are gone, and removing t of them lowers the sum by at most ``top_t``. Under a total the same holds at a price for every
edge that neighbours lose (:mod:`certgcl.bounds.propagation.falling_terms`), and the better bound counts. Added edges
are separate terms: see :mod:`certgcl.bounds.propagation.added_edges`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms, best_price
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.two_layer.row_plan import starts

if TYPE_CHECKING:
    from certgcl.bounds.compiled.lemma_arrays import Lemma


class Way(NamedTuple):
    """One way to bound the neighbours' terms: numbers for the row lemma, and at which price for every edge that they
    lose, ``(T, M)``; None for nothing."""

    terms: Tensor
    price: Tensor | None = None


@dataclass(frozen=True, eq=False)
class TermSets:
    """Sets of terms, one after the other: each has a term for every slot of its row. An *item* stands for the minimum
    of a set over some counts; the items of a set are consecutive.

    Args:
        level: of every set, ``(T,)``, and so its row.
        items: how many every set has, ``(T,)``.
        first, last: the counts of every item, ``(I,)``.
        place: where the result of every item goes, ``(I,)``.
        out: the scale of the sum, by count; see :meth:`Ball.by_count`. None for sets whose minima are not needed.
    """

    ball: Ball
    level: Tensor
    items: Tensor
    first: Tensor
    last: Tensor
    place: Tensor
    out: Scale | None

    @classmethod
    def of_cells(cls, ball: Ball, out: Scale | None, cells: Tensor | None = None) -> "TermSets":
        """One set and one item for every cell, or for some."""
        states = ball.cells
        chosen = torch.arange(len(states.row), device=states.row.device) if cells is None else cells
        return cls(
            ball,
            states.level[chosen],
            torch.ones_like(chosen),
            states.first[chosen],
            states.last[chosen],
            torch.arange(len(chosen), device=chosen.device),
            out,
        )

    @classmethod
    def of_levels(cls, ball: Ball, out: Scale) -> "TermSets":
        """One set for every level of each row, with an item for each of its cells."""
        states = ball.cells
        number = torch.zeros_like(ball.levels.row).index_add_(0, states.level, torch.ones_like(states.level))
        return cls(
            ball,
            torch.arange(len(number), device=number.device),
            number,
            states.first,
            states.last,
            torch.arange(len(states.row), device=number.device),
            out,
        )

    @classmethod
    def of_cases(cls, ball: Ball, out: Scale) -> "TermSets":
        """One set for every cell, with an item for each case in it."""
        number = torch.zeros_like(ball.cells.row).index_add_(0, ball.cell_of_case, torch.ones_like(ball.cases.row))
        return cls(
            ball,
            ball.cells.level,
            number,
            ball.cases.first,
            ball.cases.last,
            torch.arange(len(ball.cases.row), device=number.device),
            out,
        )

    @cached_property
    def row(self) -> Tensor:
        """Of every set."""
        return self.ball.levels.row[self.level]

    @cached_property
    def degree(self) -> Tensor:
        return self.ball.degree[self.row]

    @cached_property
    def start(self) -> Tensor:
        """The positions where the terms of every set begin, and the total."""
        return starts(self.degree)

    @cached_property
    def slot(self) -> Tensor:
        """The slot of the ball at every term."""
        return consecutive(self.ball.rowptr[self.row], self.degree)

    @cached_property
    def owner(self) -> Tensor:
        """The set of every term."""
        return torch.repeat_interleave(torch.arange(len(self.level), device=self.level.device), self.degree)

    @cached_property
    def item_owner(self) -> Tensor:
        """The set of every item."""
        return torch.repeat_interleave(torch.arange(len(self.level), device=self.level.device), self.items)

    def ways(self, terms: FallingTerms) -> list[Way]:
        """The terms at their least; and under a total, those at the best price where the first item of their set loses
        the fewest edges."""
        if terms.fall is None:
            return [Way(terms.least)]
        units = self.ball.units(self.row, self.first[starts(self.items)[:-1]])
        parts, places = [terms.least.new_zeros(0, terms.least.shape[1])], [self.row[:0]]
        for sets, index in self._by_degree():
            here = terms.each(lambda part, index=index: part[index])  # type: ignore[misc]
            parts.append(best_price(here, units[sets]) if index.shape[1] else here.least.sum(dim=1))
            places.append(sets)
        price = torch.cat(parts).index_select(0, torch.argsort(torch.cat(places)))
        return [Way(terms.least), Way(terms.at_price(price[self.owner]), price)]

    def best_minima(self, terms: FallingTerms, added: Tensor | None = None) -> Tensor:
        """The least values of all items, the best way of each, ``(items, M)``."""
        return best(self.minima(way.terms, added=added, price=way.price)[0] for way in self.ways(terms))

    def with_one_kept(self, terms: FallingTerms, added: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The numbers for the row lemma, its minima, and those with one more term dropped; the ways side by side, as
        rules of their own."""
        ways = self.ways(terms)
        minima = [self.minima(way.terms, following=True, added=added, price=way.price) for way in ways]
        without, following = minima[0] if len(ways) == 1 else torch.cat(minima, dim=2)
        return ways[0].terms if len(ways) == 1 else torch.cat([way.terms for way in ways], dim=1), without, following

    def minima(
        self, terms: Tensor, *, following: bool = False, added: Tensor | None = None, price: Tensor | None = None
    ) -> Tensor:
        """The least values of all items, ``(1, items, M)``; with ``following`` also those with one more term dropped,
        ``(2, items, M)``.

        Args:
            added: the least contribution of added edges, ``(items, M)``.
            price: of every edge that neighbours lose, ``(T, M)``.
        """
        assert self.out is not None
        least = reduce(
            torch.minimum,
            (
                self._minima(terms, number, out, following)
                for number, out in enumerate((self.out.low, self.out.high))
                if out is not None
            ),
        )
        least = least if price is None else least - self._paid[:, None] * price[self.item_owner]
        return least if added is None else least + added

    @cached_property
    def _paid(self) -> Tensor:
        """The most that every item pays at a price of one: ``max out(t) U_t`` over its counts t, ``(items,)``."""
        assert self.out is not None
        item, place, lost = self._counts(torch.arange(len(self.first), device=self.first.device))
        out = self.out.low if self.out.high is None else self.out.high
        paid = out[place] * self.ball.units(self.row[self.item_owner[item]], lost)
        return paid.new_zeros(len(self.first)).scatter_reduce(0, item, paid, "amax")

    def _counts(self, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For every count of some items, in their order: which of them it is of, its place in a table by count, and
        the count."""
        number = self.last[items] - self.first[items] + 1
        item = torch.repeat_interleave(torch.arange(len(items), device=items.device), number)
        count = consecutive(self.first[items], number)
        return item, self.ball.count_start[self.level[self.item_owner[items]]][item] + count, count

    def _by_degree(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The sets of as many terms, and the places of these, ``(sets, degree)``."""
        for degree in torch.unique(self.degree).tolist():
            sets = (self.degree == degree).nonzero()[:, 0]
            yield sets, self.start[sets, None] + torch.arange(degree, device=sets.device)

    def _minima(self, terms: Tensor, number: int, out: Tensor, following: bool) -> Tensor:
        if compiled.usable(terms.device):
            from certgcl.bounds.compiled.minima import row_minima

            return row_minima(self._lemmas[number], terms, terms.new_empty(0, terms.shape[1]), following=following)
        return self._by_torch(terms, out, 1 + following)

    @cached_property
    def _lemmas(self) -> "list[Lemma]":
        """With each end of the scales."""
        from certgcl.bounds.compiled.kernels.row_lemma import Rows, TermArrays
        from certgcl.bounds.compiled.lemma_arrays import Lemma, array

        assert self.out is not None
        nothing = np.zeros(0, dtype=self.out.low.detach().numpy().dtype)
        terms = TermArrays(
            array(self.start.new_empty(0) if not len(self.slot) else torch.arange(len(self.slot))),
            array(torch.zeros_like(self.level)),
            nothing,
            nothing,
            array(torch.zeros_like(self.place)),
            array(self.place),
            1,
        )
        rows = [
            Rows(
                *map(
                    array,
                    (
                        self.start,
                        self.ball.droppable[self.slot],
                        self.degree,
                        starts(self.items),
                        self.first,
                        self.last,
                        torch.ones_like(self.level),
                        self.ball.count_start[self.level],
                        out,
                        out,
                        out,
                    ),
                )
            )
            for out in (self.out.low, self.out.high)
            if out is not None
        ]
        return [Lemma(each, (terms,), len(self.place), len(self.slot)) for each in rows]

    def _by_torch(self, terms: Tensor, out: Tensor, shifts: int) -> Tensor:
        """By sets of the same degree, whose terms are sorted together."""
        found, places = [], []
        first_item, item_set = starts(self.items), self.item_owner
        inside = torch.empty_like(self.level)
        for sets, index in self._by_degree():
            inside[sets] = torch.arange(len(sets), device=sets.device)
            here, degree = terms[index], index.shape[1]  # (sets, degree, M)
            droppable = self.ball.droppable[self.slot[index]][..., None]
            total = here.sum(dim=1)
            ordered = torch.where(droppable, here, -torch.inf).sort(dim=1, descending=True).values
            lost = torch.where(ordered == -torch.inf, 0, ordered).cumsum(dim=1)
            lost = (
                torch.cat([torch.zeros_like(lost[:, :1]), lost], dim=1) if degree else torch.zeros_like(total[:, None])
            )
            items = consecutive(first_item[sets], self.items[sets])
            owner = inside[item_set[items]]
            entry, place, count = self._counts(items)
            scale = out[place, None]
            values = torch.stack(
                [
                    scale * (total[owner[entry]] - lost[owner[entry], (count + shift).clamp(max=degree)])
                    for shift in range(shifts)
                ]
            )
            least = values.new_full((shifts, len(items), terms.shape[1]), torch.inf)
            found.append(least.scatter_reduce(1, entry[None, :, None].expand_as(values), values, "amin"))
            places.append(self.place[items])
        result = terms.new_empty(shifts, len(self.place), terms.shape[1])
        if not found:
            return result
        return torch.cat(found, dim=1).index_select(1, torch.argsort(torch.cat(places)))
