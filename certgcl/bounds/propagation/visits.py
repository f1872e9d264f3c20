"""The least contribution of a neighbour to the row of an anchor while their edge is kept.

A *visit* is an anchor i in one of its cells, and a neighbour k. Let ``ω · h_k >= e + out(n_k) Σ_q in(n_q) C_q`` in a
cell of k, with C_p the value of the parent i itself and g_p its term in the row lemma. In a case of k with counts t',
by the row lemma without the parent,

    line  =  max( lemma - out(n_k) g_p,  lemma with top_(t'+1) )  +  e  +  out(n_k) in(n_i) C_p ,
    φ     =  min_cases  into(n_k) ( max( interval,  best line ) + pair ) ,

where the second of the two holds if the edge can be dropped: either the parent is outside the t' largest terms, or the
next one takes its place. ``pair`` is the rest of the anchor's functional at k.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms


@dataclass(frozen=True, eq=False)
class Visited:
    """Rows k with their cases, and the positions of their values; a cell of a table has M values by each rule.

    Args:
        case: the first case of every row, and the total, ``(R + 1,)``.
        first: the least count of every case, ``(F,)``.
        into, out: the scales of k in every case, as a neighbour and of its own sum, ``(F,)``.
        item: the first result of the row lemma, ``(F,)``.
        own: the constants and the interval, ``(F,)``.
        step, term_step: the distance from the parent's value in one cell to that in the next, and the same for its term
            in the row lemma, ``(R,)``; zero where a row has only one.
        lined: whether there are lines, ``(R,)``.
        cell: which of its row's cells every case is in, ``(F,)``.
        gain: the least number of edges gained, ``(F,)``.
    """

    case: Tensor
    first: Tensor
    into: Scale
    out: Scale
    item: Tensor
    own: Tensor
    step: Tensor
    term_step: Tensor
    lined: Tensor
    cell: Tensor
    gain: Tensor


@dataclass(frozen=True, eq=False)
class Visits:
    """For each of V visits.

    Args:
        rows: the visited rows.
        row: k, as a row of it.
        parent: the scale of i as a neighbour of k, in its cell.
        reach: how many edges k can lose,
        gains: how many it can gain, and how many of both together; None where no edge can be added.
        droppable: whether the edge is.
        leaf: the place of ``C_p`` in the first case of k.
        term: that of ``g_p``.
    """

    rows: Visited
    row: Tensor
    parent: Scale
    reach: Tensor
    gains: tuple[Tensor, Tensor] | None
    droppable: Tensor
    leaf: Tensor
    term: Tensor

    def falling(self, limited: bool, rules: int, *tables: Tensor) -> FallingTerms:
        """φ of every visit, and under a total that is a limit how it falls; see :meth:`minima`."""

        def within(most: int | None) -> Tensor:
            visits = self if most is None else replace(self, reach=self.reach.clamp(max=most))
            return visits.minima(rules, *tables)

        most = int(self.reach.max()) if len(self.reach) else 0
        return FallingTerms.of(within, most if limited else None)

    def minima(
        self,
        rules: int,
        without: Tensor,
        following: Tensor,
        constant: Tensor,
        interval: Tensor,
        leaves: Tensor,
        terms: Tensor,
        pairs: Tensor,
    ) -> Tensor:
        """φ of every visit, ``(V, rules M)``, the best of the neighbour's rules in each.

        Args:
            without, following: of the row lemma, ``(items, rules M)``, or as many for each of several ways to bound it.
            constant: e, ``(cells, rules M)``.
            interval: ``(cells, M)``.
            leaves: ``C``, not yet scaled, ``(leaves, rules M)``.
            terms: ``g``, ``(terms, rules M)``, for each of these ways.
            pairs: ``(V, rules M)``.
        """
        ways = without.shape[1] // constant.shape[1]
        if ways > 1:  # as rules of their own
            constant, leaves, repeated = (table.repeat(1, ways) for table in (constant, leaves, pairs))
            phi = self.minima(rules * ways, without, following, constant, interval, leaves, terms, repeated)
            return phi[:, : pairs.shape[1]]
        tables = without, following, constant, interval, leaves, terms, pairs
        if compiled.usable(pairs.device) and self.gains is None:  # kernels only distinguish cases by edges lost
            from certgcl.bounds.compiled.minima import pair_values
            from certgcl.bounds.compiled.workspace import Workspace

            return pair_values(*self._compiled, rules, *tables, workspace=Workspace())
        return self._by_torch(rules, *tables)

    @cached_property
    def _compiled(self) -> tuple[Any, Any]:
        from certgcl.bounds.compiled.flat_tables import both_ends
        from certgcl.bounds.compiled.kernels import pair_minima
        from certgcl.bounds.compiled.lemma_arrays import array

        rows = self.rows
        one = array(torch.ones_like(self.parent.low))
        low, high = map(array, both_ends(self.parent))
        others = map(
            array,
            (self.reach, self.droppable, torch.zeros_like(self.row), self.leaf, self.term, torch.arange(len(self.row))),
        )
        visits = pair_minima.VisitArrays(array(self.row), low, high, one, one, one, one, *others)
        return visits, pair_minima.Neighbours(
            *map(
                array,
                (
                    rows.case,
                    rows.first,
                    *both_ends(rows.into),
                    *both_ends(rows.out),
                    rows.item,
                    rows.own,
                    rows.step,
                    rows.term_step,
                    rows.lined,
                ),
            )
        )

    def _by_torch(
        self,
        rules: int,
        without: Tensor,
        following: Tensor,
        constant: Tensor,
        interval: Tensor,
        leaves: Tensor,
        terms: Tensor,
        pairs: Tensor,
    ) -> Tensor:
        rows = self.rows
        number = rows.case.diff()[self.row]
        phi = torch.full_like(pairs, torch.inf)
        for rank in range(int(number.max()) if len(number) else 0):
            first_case = rows.case[self.row]
            place = (first_case + rank).clamp(max=len(rows.first) - 1)
            has = (number > rank) & (rows.first[place] <= self.reach)
            if self.gains is not None:
                has &= (rows.gain[place] <= self.gains[0]) & (rows.first[place] + rows.gain[place] <= self.gains[1])
            chosen = has.nonzero()[:, 0]
            if not len(chosen):
                continue
            case, row = first_case[chosen] + rank, self.row[chosen]
            value = interval[rows.own[case]].unflatten(1, (1, -1)).expand(-1, rules, -1)
            lined = rows.lined[row].nonzero()[:, 0]
            if len(lined):
                best_line = self.lines(rules, chosen[lined], case[lined], without, following, constant, leaves, terms)
                value = value.index_copy(0, lined, best([value[lined], best_line[:, None].expand(-1, rules, -1)]))
            total = rows.into.rows(case).least(value.flatten(1) + pairs[chosen])
            phi = phi.index_copy(0, chosen, torch.minimum(phi[chosen], total))
        return phi

    def lines(
        self,
        rules: int,
        visit: Tensor,
        case: Tensor,
        without: Tensor,
        following: Tensor,
        constant: Tensor,
        leaves: Tensor,
        terms: Tensor,
    ) -> Tensor:
        """The best line of some visits in one of their cases each, ``(visits, M)``."""
        rows, rank = self.rows, self.rows.cell[case]
        leaf = leaves[self.leaf[visit] + rank * rows.step[self.row[visit]]]
        out, item = rows.out.rows(case), rows.item[case]
        term = terms[self.term[visit] + rank * rows.term_step[self.row[visit]]]
        kept = without[item] - out.most(term)
        kept = torch.where(self.droppable[visit, None], best([kept, following[item]]), kept)
        lines = kept + constant[rows.own[case]] + out.times(self.parent.rows(visit)).least(leaf)
        return lines.unflatten(1, (rules, -1)).amax(dim=1)
