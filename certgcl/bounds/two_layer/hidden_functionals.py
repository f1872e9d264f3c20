"""Linear functionals ``ω · h`` of the hidden layer, brought down to the projected features by lines around σ1.

For every node j and functional ω, ``ω · h_j >= λ_j · p_j + c_j`` with ``λ_j = ω+ a_lo + ω- a_up`` (slopes of *j's*
lines, signs of ω), so that with ``C_jk = y_k · λ_j`` and ``e_j = λ_j · b1 + c_j``

    ω · h_j  >=  Σ_k Â_jk C_jk + e_j .

The lines, and so C and e, may differ with the number of edges j loses (its *case*). ``ChannelFunctionals`` and
``AnchorFunctionals`` compute C and e, and the plain interval value of ``ω · h_j``; the bound then minimises over the
drops. With ``a`` the mean and ``r`` half the difference of the two slopes, ``λ = ω a - |ω| r``: so ω and -ω share their
products.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from certgcl.bounds.two_layer.blocks import Block, Pairs


@dataclass(frozen=True, eq=False)
class AnchorTerms:
    """The terms of the anchors' own hidden vectors ``h_i`` in all their cases; M functionals each."""

    own: Tensor  # C_ii, (F, M)
    constant: Tensor  # e_i, (F, M)


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of ``h_j`` for a block of rows j in each of their T cases, with I sets of M functionals.

    I is replaced by one if all anchors share their functionals, and T by one if all cases share their lines.
    """

    own: Tensor  # C_jj, (R, I, T, M)
    leaves: Tensor  # C_jk, (R, K, I, T, M); arbitrary where padded
    constant: Tensor  # e_j, (R, I, T, M)


class RowBounds(NamedTuple):
    """The bounds of ``ω · h_j`` for the rows of a block: the interval value ``(R, I, T, M)``, and lines by each rule;
    and the same lines with P sign patterns, M P instead of M, of which the minimum is taken."""

    interval: Tensor
    lines: list[RowTerms]
    patterned: list[RowTerms]


class HiddenFunctionals(Protocol):
    """M functionals at every anchor, under several slope rules.

    Every rule gives a lower bound of every single ``ω · h_j``, so the best rule may be taken for each of them.
    """

    rules: int
    number: int  # M
    shared: bool  # whether all anchors have the same functionals in all their cases

    def width(self, size: int, cases: int) -> int:
        """Elements needed for each slot of a block, see :data:`certgcl.bounds.two_layer.blocks.Width`."""
        ...

    def columns(self, block: Block, pairs: Pairs, case: int) -> Sequence[slice]:
        """The anchors around the rows of a block that have the case, in parts that fit into memory."""
        ...

    def anchor_terms(self, rule: int) -> AnchorTerms: ...

    def anchor_intervals(self) -> Tensor:
        """The least ``ω · h_i`` by intervals, ``(F, M)``."""
        ...

    def pair_terms(self, pair: Tensor, case: int, rule: int) -> Tensor:
        """``C_ij`` of some pairs, with the anchors in the given case, ``(..., M)``."""
        ...

    def at(self, number: int) -> "RowFunctionals":
        """Select a block, by its number in the partition."""
        ...


class RowFunctionals(Protocol):
    """The functionals at the rows of one block."""

    def bounds(self, columns: slice, case: int) -> RowBounds:
        """For the functionals that the anchors in these columns have in the given case."""
        ...
