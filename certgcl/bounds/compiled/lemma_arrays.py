"""One use of the row lemma in the form that kernels take: flat arrays of rows, of the positions of their values, and of
those of their results."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.row_lemma import Rows, TermArrays
from certgcl.bounds.propagation.drop_counts import DropCases
from certgcl.bounds.two_layer.neighbourhood import Hop, inverse_sqrt_degree
from certgcl.bounds.two_layer.row_plan import FlatCases, starts


def array(values: Tensor) -> Array:
    """In the form that kernels take: integers with half the bytes, unless they are too large for that."""
    numbers = values.contiguous().numpy()
    if numbers.dtype != np.int64 or (numbers.size and numbers.max() > np.iinfo(np.int32).max):
        return numbers
    return numbers.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Lemma:
    """One use of the row lemma: rows, the positions of their values, and of their results."""

    rows: Rows
    terms: tuple[TermArrays, ...]  # one, or for both signs
    cells: int  # of results
    size: int  # cells at all neighbours

    @classmethod
    def of(
        cls,
        hop: Hop,
        cases: DropCases,
        flat: FlatCases,
        place: Tensor,
        own: Tensor,
        *,
        scaled: bool = True,
        both_signs: bool = False,
        by_case: Tensor | None = None,
    ) -> "Lemma":
        """One cell at every row and slot, results case by case; those of the other sign follow all of the first.

        Args:
            place: the cells of the slots, ``(S,)``.
            own: those of the rows in each of their cases, ``(F,)``.
            scaled: whether values still have to be multiplied by the scales of the neighbours.
            by_case: the rows whose slots have a cell for each case, one after the other, ``(R,)``; none by default.
        """
        scale = (hop.low, hop.high) if scaled else (hop.low[:0],) * 2
        rows = rows_of(hop, cases, flat, torch.ones_like(hop.degree))
        step = torch.zeros_like(hop.degree) if by_case is None else by_case.long()
        results = torch.arange(len(flat.row))
        terms = [terms_of(place, step, *scale, own, results)]
        if both_signs:
            terms.append(terms[0]._replace(out=array(results + len(results)), sign=-1))
        return cls(rows, tuple(terms), len(terms) * len(flat.row), place.numel() * len(terms))


def terms_of(place: Tensor, step: Tensor, low: Tensor, high: Tensor, own: Tensor, out: Tensor) -> TermArrays:
    return TermArrays(array(place), array(step), array(low), array(high), array(own), array(out), sign=1)


def rows_of(hop: Hop, cases: DropCases, flat: FlatCases, width: Tensor) -> Rows:
    first, last = cases.first[flat.row, flat.case], cases.last[flat.row, flat.case]
    return Rows(
        *(
            array(part)
            for part in (
                hop.rowptr,
                hop.droppable,
                hop.degree,
                flat.start,
                first,
                last,
                width,
                *gcn_scales(hop, torch.arange(len(hop.degree))),
            )
        )
    )


def gcn_scales(hop: Hop, rows: Tensor) -> tuple[Tensor, ...]:
    """Where the scales of some rows begin; and s, s² and s⁴ for every number of lost edges."""
    number = hop.budget[rows] + 1
    start = starts(number)
    row = torch.repeat_interleave(rows, number)
    lost = torch.arange(len(row)) - torch.repeat_interleave(start[:-1], number)
    scale = inverse_sqrt_degree(hop.degree[row], lost, hop.low.dtype)
    return start[:-1], scale, scale.square(), scale.square().square()
