"""Edges a view may add, and flips: the budgets, and what they allow on one graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, Union

import torch
from torch import Tensor

from certgcl.arguments import shown
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget, budget_rows, counts, local_budgets
from certgcl.errors import BudgetError
from certgcl.formatting import html_table, spread
from certgcl.graphs.graph import Graph
from certgcl.runtime.tensor_cache import PRIVATE

CandidatesLike: TypeAlias = Literal["all", "two-hop"] | Sequence[Sequence[int]] | Tensor
AdditionsLike: TypeAlias = Union["EdgeAddBudget", int, Sequence[int], Tensor]
FlipsLike: TypeAlias = Union["EdgeFlipBudget", int, Sequence[int], Tensor]
MOST_TWO_HOP = 1 << 27  # pairs two hops apart, with repetitions, that are listed at most: 3 GB of node numbers


class Candidates(NamedTuple):
    """Pairs of nodes that may become edges, a list for every node in ascending order; both directions.

    No list is kept if all pairs are candidates: it would have nodes × nodes entries.
    """

    rowptr: Tensor  # (N + 1,)
    col: Tensor

    @property
    def row(self) -> Tensor:
        return torch.repeat_interleave(torch.arange(len(self.rowptr) - 1, device=self.col.device), self.rowptr.diff())


@dataclass(frozen=True, eq=False)
class AdmissibleAdditions:
    """The edges that may be added to one graph: ``|T ∩ E(i)| <= a_i`` for every node and ``|T| <= A``, T a set of
    candidates; and of drops and additions together at most ``f_i`` at every node and F in all.

    Args:
        local: ``a_i``, tightened, ``(N,)``.
        total: ``A``.
        candidates: the pairs that may become edges; None for all that are not edges yet.
        addable_degree: the number of candidates at every node that can be added at all, ``(N,)``.
        both: ``f_i``, at most ``q_i + a_i``, ``(N,)``.
        both_total: ``F``, at most ``Q + A``.
    """

    local: Tensor
    total: int
    candidates: Candidates | None
    addable_degree: Tensor
    both: Tensor
    both_total: int

    def words(self) -> str:
        """As one line of a summary."""
        among = "any pairs" if self.candidates is None else f"{len(self.candidates.col) // 2} pairs"
        return (
            f"added: local {spread(self.local)}, total {self.total} edges among {among}; both: local "
            f"{spread(self.both)}, total {self.both_total}"
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """Its content, for a digest."""
        listed = () if self.candidates is None else (self.candidates.rowptr, self.candidates.col)
        totals = torch.tensor([self.total, self.both_total, len(listed)], device=self.local.device)
        return self.local, self.addable_degree, self.both, totals, *listed

    def lists(self, edges: Tensor) -> bool:
        """Whether all of some pairs ``(2, k)`` are candidates; all pairs are if there is no list."""
        if self.candidates is None:
            return True
        n = len(self.local)
        known = self.candidates.row * n + self.candidates.col
        return bool(torch.isin(edges[0] * n + edges[1], known).all())

    def budgets(self, lost: Tensor, total: int, drops: EdgeDropBudget) -> dict[str, Any]:
        """The arguments that allow the same next to drops of at most ``lost`` at every node and ``total`` in all, for
        :class:`~certgcl.changes.changes.Changes`."""
        listed: CandidatesLike = (
            "all" if self.candidates is None else torch.stack([self.candidates.row, self.candidates.col])
        )
        if torch.equal(self.both, lost + self.local) and self.both_total == total + self.total:
            return {"drops": drops, "additions": EdgeAddBudget(self.local, self.total, listed)}
        return {"flips": EdgeFlipBudget(self.both, self.both_total, listed)}

    def on(self, graph: Graph, drops: AdmissibleDrops) -> "AdmissibleAdditions":
        """The same, tightened again on a graph with given drops: unchanged if it belongs to them.

        Raises:
            BudgetError: it cannot be one of this graph.
        """
        listed: CandidatesLike = "all"
        if self.candidates is not None:
            rowptr, nodes = self.candidates.rowptr, graph.num_nodes
            if (
                rowptr.shape != (nodes + 1,)
                or int(rowptr[0]) != 0
                or int(rowptr[-1]) != len(self.candidates.col)
                or (bool((rowptr.diff() < 0).any()))
            ):
                raise BudgetError(f"candidates for {len(rowptr) - 1} nodes", f"the graph has {nodes}", "Certify again")
            listed = torch.stack([self.candidates.row, self.candidates.col])
        found = EdgeAddBudget(self.local, self.total, listed).on(graph)
        most = drops.local + found.local
        return replace(
            found,
            both=self.both.minimum(most).maximum(drops.local.maximum(found.local)),
            both_total=min(self.both_total, drops.total + found.total),
        )

    def private(self) -> "AdmissibleAdditions":
        """A copy that nobody else holds; this object itself, if it is one."""
        if PRIVATE in vars(self):
            return self
        copy = self._mapped(Tensor.clone)
        vars(copy)[PRIVATE] = True
        return copy

    def to(self, device: torch.device) -> "AdmissibleAdditions":
        return self._mapped(lambda tensor: tensor.to(device))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "AdmissibleAdditions":
        listed = self.candidates
        listed = listed and Candidates(change(listed.rowptr), change(listed.col))
        return replace(
            self,
            local=change(self.local),
            candidates=listed,
            addable_degree=change(self.addable_degree),
            both=change(self.both),
        )

    def same(self, other: "AdmissibleAdditions | None") -> bool:
        """Whether both allow the same, on the same graph."""
        if other is None or (self.total, self.both_total) != (other.total, other.both_total):
            return False
        mine, theirs = self.candidates, other.candidates
        if (mine is None) != (theirs is None) or not all(
            torch.equal(one, two)
            for one, two in (
                (self.local, other.local),
                (self.addable_degree, other.addable_degree),
                (self.both, other.both),
            )
        ):
            return False
        return (
            mine is None
            or theirs is None
            or (torch.equal(mine.rowptr, theirs.rowptr) and torch.equal(mine.col, theirs.col))
        )


class _Pairs:
    """The pairs of nodes that may become edges, as a user specifies them."""

    def __init__(self, candidates: Any) -> None:
        rule = 'candidates are "all", "two-hop", or pairs of nodes, (k, 2) or (2, k) as an edge_index'
        self._given: Any = candidates
        if isinstance(candidates, str):
            if candidates not in ("all", "two-hop"):
                raise BudgetError(f"candidates={shown(candidates)}", rule, 'Use "all"')
            return
        try:
            pairs = torch.as_tensor(candidates)
        except (TypeError, ValueError, RuntimeError):
            raise BudgetError(f"candidates={shown(candidates)}", rule, "Pass a list of pairs") from None
        if pairs.numel() == 0:
            pairs = pairs.new_zeros(2, 0, dtype=torch.long)
        listed = not isinstance(candidates, Tensor)  # a list has one pair a row; a tensor is an edge_index
        if (
            pairs.dim() != 2
            or pairs.dtype not in (torch.int64, torch.int32)
            or pairs.is_meta
            or (pairs.layout != torch.strided)
            or (pairs.numel() and pairs.shape[listed] != 2)
        ):
            raise BudgetError(f"candidates={shown(candidates)}", rule, "Pass a list of pairs, or a (2, k) edge_index")
        self._given = (pairs.T if listed and pairs.numel() else pairs).long().clone()

    def on(self, graph: Graph) -> Candidates | None:
        """None for all pairs."""
        if isinstance(self._given, str) and self._given == "all":
            return None
        pairs = _two_hops(graph) if isinstance(self._given, str) else self._checked(graph)
        n = graph.num_nodes
        key = torch.unique(torch.cat([pairs[0] * n + pairs[1], pairs[1] * n + pairs[0]]))
        row, col = torch.div(key, n, rounding_mode="floor"), key % n
        fresh = (row != col) & ~graph.has_edge(row, col)
        row, col = row[fresh], col[fresh]
        number = torch.bincount(row, minlength=n)
        return Candidates(torch.cat([number.new_zeros(1), number.cumsum(0)]), col)

    def _checked(self, graph: Graph) -> Tensor:
        pairs: Tensor = self._given.to(graph.col.device)
        outside = pairs[(pairs < 0) | (pairs >= graph.num_nodes)]
        if outside.numel():
            raise BudgetError(
                f"a candidate with node {int(outside[0])}",
                f"nodes are numbers from 0 to {graph.num_nodes - 1}",
                "Use the numbers of the graph's nodes",
            )
        loop = (pairs[0] == pairs[1]).nonzero()[:, 0]
        if loop.numel():
            raise BudgetError(
                f"a candidate from node {int(pairs[0, loop[0]])} to itself",
                "an edge joins two different nodes",
                "Leave it out",
            )
        return pairs

    def __repr__(self) -> str:
        return repr(self._given) if isinstance(self._given, str) else f"<{self._given.shape[1]} pairs>"


class EdgeAddBudget:
    """The edges a view may add: at most ``local`` at every node and ``total`` in the whole graph.

    Args:
        local: one integer for all nodes, or one per node; ``None`` for no limit except the total.
        total: one integer; ``None`` for no limit.
        candidates: the pairs that may become edges: ``"all"`` that are not edges yet, those ``"two-hop"`` apart, or a
            list of pairs (a tensor: an edge_index); pairs that are edges already are ignored.

    With all pairs, bounds need every node of the graph, and take time in proportion to anchors × nodes.

    Example::

        EdgeAddBudget(local=1)                              # one new edge at any node
        EdgeAddBudget(total=2, candidates="two-hop")        # two in all, between nodes with a common neighbour
    """

    def __init__(
        self,
        local: int | Sequence[int] | Tensor | None = None,
        total: int | None = None,
        candidates: CandidatesLike = "all",
    ) -> None:
        self._local, self._total = None if local is None else counts(local, "local"), whole_budget(total)
        self._pairs = _Pairs(candidates)

    @property
    def total(self) -> int | None:
        """The most edges in the whole graph. Budgets are immutable."""
        return self._total

    @classmethod
    def of(cls, budget: AdditionsLike) -> "EdgeAddBudget":
        """A budget from itself, or ``local`` as an int or one per node."""
        return budget if isinstance(budget, EdgeAddBudget) else cls(local=budget)

    def on(self, graph: Graph) -> AdmissibleAdditions:
        """The admissible additions on ``graph``, with every budget lowered to what can actually be used, as for drops.

        A candidate is addable when both ends have ``a >= 1`` and ``A >= 1``; then ``a_i <- min(a_i, A, addable
        candidates at i)``, until nothing changes. No admissible set is lost.
        """
        graph = Graph.of(graph)
        candidates = self._pairs.on(graph)
        free = graph.num_nodes - 1 - graph.degree if candidates is None else candidates.rowptr.diff()
        total = min(int(free.sum()) // 2, LARGEST_TOTAL if self.total is None else self.total)
        local = local_budgets(self._local, graph, free).minimum(free).clamp(max=total)
        while True:
            usable = _addable(graph, candidates, local > 0)
            tightened = local.minimum(usable)
            if torch.equal(tightened, local):
                return AdmissibleAdditions(local, total, candidates, usable, local, total)
            local = tightened

    def __repr__(self) -> str:
        return f"EdgeAddBudget(local={_shown(self._local)}, total={self.total}, candidates={self._pairs!r})"

    def _repr_html_(self) -> str:
        return html_table("EdgeAddBudget", _rows(self._local, self.total, self._pairs))


class EdgeFlipBudget:
    """A shared budget of dropped and added edges: at most ``local`` of both at every node, ``total`` in all.

    Args:
        local, total: as of :class:`EdgeAddBudget`.
        candidates: the pairs that may become edges, as of :class:`EdgeAddBudget`.
    """

    def __init__(
        self,
        local: int | Sequence[int] | Tensor | None = None,
        total: int | None = None,
        candidates: CandidatesLike = "all",
    ) -> None:
        self._local, self._total = None if local is None else counts(local, "local"), whole_budget(total)
        self._pairs, self._candidates = _Pairs(candidates), candidates

    @property
    def total(self) -> int | None:
        """The most edges in the whole graph. Budgets are immutable."""
        return self._total

    @classmethod
    def of(cls, budget: FlipsLike) -> "EdgeFlipBudget":
        """A budget from itself, or ``local`` as an int or one per node."""
        return budget if isinstance(budget, EdgeFlipBudget) else cls(local=budget)

    def as_drops(self) -> EdgeDropBudget:
        """The whole budget used for drops."""
        return EdgeDropBudget(self._local, self.total)

    def on(self, graph: Graph) -> tuple[AdmissibleDrops, AdmissibleAdditions]:
        """As drops and as additions: each may use the whole budget, and both together no more than that."""
        graph = Graph.of(graph)
        drops = self.as_drops().on(graph)
        additions = EdgeAddBudget(self._local, self.total, self._candidates).on(graph)
        most = drops.local + additions.local
        both = most if self._local is None else most.minimum(self._local.to(most.device).expand(graph.num_nodes))
        both_total = drops.total + additions.total
        both_total = both_total if self.total is None else min(both_total, self.total)
        return drops, replace(additions, both=both.clamp(max=both_total), both_total=both_total)

    def __repr__(self) -> str:
        return f"EdgeFlipBudget(local={_shown(self._local)}, total={self.total}, candidates={self._pairs!r})"

    def _repr_html_(self) -> str:
        return html_table("EdgeFlipBudget", _rows(self._local, self.total, self._pairs))


def beside_drops(drops: AdmissibleDrops, additions: AdmissibleAdditions) -> AdmissibleAdditions:
    """Additions with drops, each with its own budget."""
    return replace(additions, both=drops.local + additions.local, both_total=drops.total + additions.total)


LARGEST_TOTAL = 1 << 62


def whole_budget(total: Any) -> int | None:
    found = None if total is None else counts(total, "total")
    if found is not None and found.dim() != 0:
        raise BudgetError(
            f"total={shown(total)}", "it is one integer for the whole graph", "Use local= for a budget per node"
        )
    return None if found is None else int(found)


def _addable(graph: Graph, candidates: Candidates | None, open_: Tensor) -> Tensor:
    """How many candidates with budgets at both ends every node has."""
    number = torch.zeros_like(graph.degree)
    if candidates is not None:
        row = candidates.row
        return number.index_add_(0, row, (open_[row] & open_[candidates.col]).long())
    taken = number.index_add_(0, graph.row, open_[graph.col].long())
    return (open_.sum() - 1 - taken) * open_


def _two_hops(graph: Graph) -> Tensor:
    """Pairs with a common neighbour, ``(2, k)``, some of them more than once."""
    each = graph.degree[graph.col]
    walks = int(each.sum())
    if walks > MOST_TWO_HOP:
        raise BudgetError(
            f"{walks} walks of two steps",
            f"two-hop candidates are listed up to {MOST_TWO_HOP}",
            'Use "all", which lists none, or a list of your own',
        )
    walk = torch.repeat_interleave(torch.arange(len(each), device=each.device), each)
    rank = torch.arange(len(walk), device=each.device) - torch.repeat_interleave(each.cumsum(0) - each, each)
    return torch.stack([graph.row[walk], graph.col[graph.rowptr[graph.col[walk]] + rank]])


def _rows(local: Tensor | None, total: int | None, pairs: _Pairs) -> list[tuple[str, str]]:
    """A budget in words, one line for each limit."""
    return [*budget_rows(local, total), ("new edges", f"among {pairs!r}")]


def _shown(local: Tensor | None) -> Any:
    if local is None:
        return None
    return int(local) if local.dim() == 0 else f"<{local.numel()} values>"
