"""Terms of neighbours that fall with every edge that these lose: what a budget of edges in all leaves of them.

Let a kept neighbour k of node i lose ``x_k`` edges, and let its term be at least ``least_k``, and at least
``clean_k - x_k fall_k``. If i itself loses t of the Q edges that may go, all kept neighbours together lose at most

    U_t  =  (Q - t) + min( Q - t, droppable edges between neighbours of i )

others, as an edge has two ends, and both are neighbours of i only if it lies between them. So at any *price* ``μ >= 0``
of an edge,

    Σ_{kept k} term_k  >=  Σ_{kept k} (term_k + μ x_k) - μ U_t  >=  Σ_{kept k} g_k - μ U_t ,
    g_k  =  least_k + min(1, μ / fall_k) (clean_k - least_k)  <=  min_x ( max(least_k, clean_k - x fall_k) + μ x ) ,

and the row lemma holds for these ``g_k`` as for any others. The price of zero is the lemma without a total. No scale is
assumed to be convex, or monotone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation.extremes import best


class FallingTerms(NamedTuple):
    """Terms of neighbours, each ``(terms, M)``.

    Args:
        least: whatever edges the neighbours lose.
        clean: while they lose none,
        fall: and the most that each edge takes off; both None where the total is no limit.
    """

    least: Tensor
    clean: Tensor | None = None
    fall: Tensor | None = None

    @classmethod
    def of(cls, within: Callable[[int | None], Tensor], most: int | None) -> "FallingTerms":
        """Terms from those that hold while every neighbour loses at most some number of edges.

        ``fall`` is the largest ``(clean - term(x)) / x``; for many edges, a few groups of numbers have their least term
        divided by their least x.

        Args:
            within: by that number; None for as many as it can.
            most: that any of them can lose; None where the total is no limit.
        """
        least = within(None)
        if most is None:
            return cls(least)
        clean, fewest = within(0), 1
        falls = [torch.zeros_like(least)]
        for count in _ends_of_groups(most):
            falls.append((clean - (within(count) if count < most else least)) / fewest)
            fewest = count + 1
        return cls(least, clean, best(falls))

    @classmethod
    def joined(cls, parts: Sequence["FallingTerms"]) -> "FallingTerms":
        """One after the other."""
        return cls(*(torch.cat(list(part)) for part in zip(*(each.parts for each in parts), strict=True)))

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Those that there are."""
        return tuple(part for part in self if part is not None)

    def each(self, change: Callable[[Tensor], Tensor]) -> "FallingTerms":
        return FallingTerms(*map(change, self.parts))

    def at(self, places: Tensor) -> "FallingTerms":
        return self.each(lambda part: part.index_select(0, places))

    def first(self, columns: int) -> "FallingTerms":
        return self.each(lambda part: part[:, :columns])

    def plus(self, values: Tensor) -> "FallingTerms":
        """With numbers that do not depend on what is lost."""
        return self._replace(least=self.least + values, clean=None if self.clean is None else self.clean + values)

    def at_price(self, price: Tensor) -> Tensor:
        """``g``, at a price for every term."""
        assert self.clean is not None
        assert self.fall is not None
        larger = torch.maximum(price, self.fall)
        return self.least + price / torch.where(larger > 0, larger, 1) * (self.clean - self.least)


def best_price(terms: FallingTerms, units: Tensor) -> Tensor:
    """The price at which the sum of all terms, less what is to be paid, is largest: the fall of the last term that
    loses anything if ``units`` edges go where terms fall most; ``(n, M)``.

    Args:
        terms: of n rows of the same number of neighbours, ``(n, K, M)``.
        units: ``U``, ``(n,)``.
    """
    assert terms.clean is not None
    assert terms.fall is not None
    with torch.no_grad():
        falls = terms.fall > 0
        room = torch.where(falls, (terms.clean - terms.least) / torch.where(falls, terms.fall, 1), 0)
        order = terms.fall.argsort(dim=1, descending=True)
        whole = (room.gather(1, order).cumsum(dim=1) < units[:, None, None]).sum(dim=1, keepdim=True)
        last = whole.clamp(max=terms.fall.shape[1] - 1)
    price = terms.fall.gather(1, order.gather(1, last))
    return torch.where(whole == last, price, 0)[:, 0]


def _ends_of_groups(most: int) -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, …, the last one no smaller than ``most``."""
    count, step = 1, 1
    while count < most:
        yield count
        step *= 2 if count >= 4 * step else 1
        count += step
    yield count
