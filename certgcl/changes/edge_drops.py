"""How many edges a view may drop: at every node, and in all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, Union

import numpy as np
import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, choice, dense, flag, numbers, shown
from certgcl.changes.coverage import binomial_quantile, jointly_covering_level, poisson_binomial_quantiles
from certgcl.errors import BudgetError
from certgcl.formatting import html_table, spread
from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import Halo
from certgcl.graphs.validation import check_edge_index
from certgcl.runtime.tensor_cache import PRIVATE

DropsLike: TypeAlias = Union["EdgeDropBudget", int, float, Sequence[int], Tensor]
"""Anything that describes a budget of edge drops."""

Rule = Literal["expected", "coverage"]


@dataclass(frozen=True, eq=False)
class AdmissibleDrops:
    """The drop sets a budget allows on one graph: ``|S ∩ E(i)| <= q_i`` for every node and ``|S| <= Q``.

    Args:
        local: ``q_i``, tightened, ``(N,)``.
        requested: ``q_i`` as requested, at most the degree, ``(N,)``; the paper's own formulas use these.
        total: ``Q``, at most ``|E|``.
        droppable: per slot, whether its edge is in any admissible set at all, ``(2 |E|,)``.
        droppable_degree: the number of droppable edges at every node, ``(N,)``.
    """

    local: Tensor
    requested: Tensor
    total: int
    droppable: Tensor
    droppable_degree: Tensor

    @property
    def limited(self) -> bool:
        """Whether the total is a limit at all: less than the number of droppable edges."""
        return self.total < int(self.droppable_degree.sum()) // 2

    def total_at(self, nodes: Tensor) -> Tensor:
        """``Q`` of the part of the graph that each of some nodes is in: here there is only one."""
        return torch.full_like(nodes, self.total)

    def private(self) -> "AdmissibleDrops":
        """A copy that nobody else holds; this object itself, if it is one."""
        if PRIVATE in vars(self):
            return self
        copy = replace(
            self,
            local=self.local.clone(),
            requested=self.requested.clone(),
            droppable=self.droppable.clone(),
            droppable_degree=self.droppable_degree.clone(),
        )
        vars(copy)[PRIVATE] = True
        return copy

    def to(self, device: torch.device) -> "AdmissibleDrops":
        return replace(
            self,
            **{
                name: getattr(self, name).to(device) for name in ("local", "requested", "droppable", "droppable_degree")
            },
        )

    def same(self, other: "AdmissibleDrops") -> bool:
        """Whether both allow the same, on the same graph."""
        return self is other or (
            self.total == other.total
            and all(
                torch.equal(getattr(self, name), getattr(other, name)) for name in ("local", "requested", "droppable")
            )
        )


class EdgeDropBudget:
    """The edges a view may drop: at most ``local`` at every node and ``total`` in the whole graph.

    Args:
        local: one integer for all nodes, or one per node; ``None`` for no limit.
        total: one integer; ``None`` for no limit.

    Example::

        EdgeDropBudget(local=2)                       # two edges at any node
        EdgeDropBudget(total=5)                       # five edges anywhere
        EdgeDropBudget.from_drop_rate(0.4)            # the paper's rule: round(0.4 d), at most d - 1
        EdgeDropBudget.from_drop_rate(0.4, coverage=0.99)   # at each node, 99 % of sampled views are within
    """

    def __init__(self, local: int | Sequence[int] | Tensor | None = None, total: int | None = None) -> None:
        self._local: Tensor | DropRate | DropProbabilities | None = None if local is None else counts(local, "local")
        whole = None if total is None else counts(total, "total")
        if whole is not None and whole.dim() != 0:
            raise BudgetError(
                f"total={shown(total)}", "it is one integer for the whole graph", "Use local= for a budget per node"
            )
        self._total = None if whole is None else int(whole)

    @property
    def total(self) -> int | None:
        """The most edges in the whole graph. Budgets are immutable."""
        return self._total

    @classmethod
    def from_drop_rate(
        cls,
        rate: float,
        rule: Rule | None = None,
        coverage: float | None = None,
        jointly: bool = False,
        total: int | None = None,
    ) -> "EdgeDropBudget":
        """A budget for views that drop every edge independently with probability ``rate``.

        ``"expected"`` (the default) is the paper's rule ``q_i = min(d_i - 1, round(rate d_i))``: the mean number of
        drops, which a sampled view exceeds at many nodes. ``"coverage"`` is the smallest ``q_i`` such that a sampled
        view respects it with probability ``coverage`` (default 0.99): at each node separately, or with ``jointly=True``
        at all nodes at once (see :func:`certgcl.changes.coverage.jointly_covering_level`). A certificate is about views
        that respect the budgets of all nodes, so only ``jointly=True`` gives it that probability; a ``total`` is a
        limit on top of it, outside the coverage. ``"coverage"`` is the default if ``coverage`` or ``jointly`` is given.
        """
        return cls._by_rule(DropRate(rate, *_rule(rule, coverage, jointly), jointly), total)

    @classmethod
    def from_drop_probabilities(
        cls,
        edge_index: Tensor,
        probability: Tensor,
        rule: Rule | None = None,
        coverage: float | None = None,
        jointly: bool = False,
        total: int | None = None,
    ) -> "EdgeDropBudget":
        """The same for views that drop edge e with its own probability, as GCA's do.

        Args:
            edge_index: both directions of every edge of the graph, in any order, ``(2, 2 |E|)``.
            probability: one value per column; the two directions of an edge must agree.
        """
        return cls._by_rule(DropProbabilities(edge_index, probability, *_rule(rule, coverage, jointly), jointly), total)

    @classmethod
    def of(cls, budget: DropsLike) -> "EdgeDropBudget":
        """A budget from itself, ``local`` as an int or one per node, or a float (a drop rate, the paper's rule)."""
        if isinstance(budget, EdgeDropBudget):
            return budget
        if isinstance(budget, (float, np.floating)):
            return cls.from_drop_rate(float(budget))
        return cls(local=budget)

    @classmethod
    def _by_rule(cls, rule: "DropRate | DropProbabilities", total: int | None) -> "EdgeDropBudget":
        budget = cls(total=total)
        budget._local = rule
        return budget

    def on(self, graph: Graph) -> AdmissibleDrops:
        """The admissible drops on ``graph``, with every budget lowered to what can actually be used.

        An edge is droppable when both ends have ``q >= 1`` and ``Q >= 1``; then ``q_i <- min(q_i, Q, droppable edges
        at i)``, until nothing changes. No admissible set is lost, and bounds get tighter.
        """
        graph = Graph.of(graph)
        total = graph.num_edges if self.total is None else min(self.total, graph.num_edges)
        requested = self._requested(graph).minimum(graph.degree)
        local = requested.clamp(max=total)
        while True:
            droppable = (local[graph.row] > 0) & (local[graph.col] > 0)
            usable = torch.zeros_like(local).index_add_(0, graph.row, droppable.long())
            tightened = local.minimum(usable)
            if torch.equal(tightened, local):
                return AdmissibleDrops(local, requested, total, droppable, usable)
            local = tightened

    def at(self, nodes: Tensor, degree: Tensor) -> Tensor:
        """``q`` as requested, at some nodes with these degrees: for graphs of which only the degrees are in memory."""
        local = self._local
        if local is None:
            return degree
        if isinstance(local, Tensor):
            return (local.expand(len(nodes)) if local.dim() == 0 else local[nodes]).minimum(degree)
        if isinstance(local, DropRate) and not local.jointly:
            return local.of_degrees(degree).minimum(degree)
        raise BudgetError(
            f"{self!r} on a graph that is not in memory",
            "it depends on all edges at once",
            "Pass the budgets themselves: EdgeDropBudget(local=[...])",
        )

    def on_halo(self, halo: Halo) -> AdmissibleDrops:
        """The admissible drops of the whole graph, restricted to the edges of a halo: no node may lose more there than
        in the whole graph, so a bound over these drops holds for those of the whole graph."""
        return EdgeDropBudget(self.at(halo.nodes, halo.degree), self.total).on(halo.graph)

    def _requested(self, graph: Graph) -> Tensor:
        if self._local is None or isinstance(self._local, Tensor):
            return local_budgets(self._local, graph, graph.degree)
        return self._local.on(graph)

    def __repr__(self) -> str:
        local = self._local
        if isinstance(local, Tensor):
            shown: Any = int(local) if local.dim() == 0 else f"<{local.numel()} values>"
        else:
            shown = local
        return f"EdgeDropBudget(local={shown}, total={self.total})"

    def _repr_html_(self) -> str:
        return html_table("EdgeDropBudget", budget_rows(self._local, self.total))


def budget_rows(local: Any, total: int | None) -> list[tuple[str, str]]:
    """A budget of edges in words: at each node, and in all."""
    if local is None:
        at_each = "any number of edges"
    elif isinstance(local, Tensor):
        at_each = f"at most {spread(local.reshape(-1))} edges" if local.numel() else "none"
    else:
        at_each = str(local)
    return [("at each node", at_each), ("in all", "any number of edges" if total is None else f"at most {total} edges")]


@dataclass(frozen=True)
class DropRate:
    """Local budgets for views that drop each edge with the same probability."""

    rate: float
    rule: Rule
    coverage: float
    jointly: bool

    def __post_init__(self) -> None:
        if not _is_share(self.rate):
            raise BudgetError(
                f"drop rate {shown(self.rate)}",
                "a rate lies strictly between 0 and 1",
                "Use EdgeDropBudget(local=...) for counts",
            )

    def on(self, graph: Graph) -> Tensor:
        return self.of_degrees(graph.degree)

    def of_degrees(self, degree: Tensor) -> Tensor:
        if self.rule == "expected":
            return _expected(degree.double() * self.rate, degree)
        level = jointly_covering_level(self.coverage, degree) if self.jointly else self.coverage
        return binomial_quantile(degree, self.rate, level)


@dataclass(frozen=True, eq=False, repr=False)
class DropProbabilities:
    """Local budgets for views that drop each edge with a probability of its own."""

    edge_index: Tensor
    probability: Tensor
    rule: Rule
    coverage: float
    jointly: bool

    def __post_init__(self) -> None:
        for name, value in (("edge_index", self.edge_index), ("probability", self.probability)):
            if not isinstance(value, Tensor):
                raise BudgetError(
                    f"{name} of type {type(value).__name__}",
                    "it must be a torch.Tensor",
                    "Convert with torch.as_tensor",
                )
            dense(value, name, BudgetError)
        if not self.probability.dtype.is_floating_point:
            raise BudgetError(
                f"probabilities of dtype {self.probability.dtype}",
                "they are floating-point numbers",
                "Convert with probability.float()",
            )
        if self.edge_index.dim() != 2 or self.probability.shape != self.edge_index.shape[1:]:
            raise BudgetError(
                f"probabilities of shape {tuple(self.probability.shape)} for an edge_index of shape "
                f"{tuple(self.edge_index.shape)}",
                "there must be one per column of edge_index",
                "Repeat the value for both directions",
            )
        given = self.probability.double()
        outside = given[~((given >= 0) & (given <= 1))]
        if outside.numel():
            raise BudgetError(f"drop probability {float(outside[0]):g}", "probabilities lie in [0, 1]", "Clamp them")
        for name in ("edge_index", "probability"):
            object.__setattr__(self, name, getattr(self, name).detach().clone())  # the caller's own may change

    def on(self, graph: Graph) -> Tensor:
        probability = self._per_slot(graph)
        degree = graph.degree
        if self.rule == "expected":
            mean = torch.zeros(graph.num_nodes, dtype=torch.float64, device=degree.device)
            return _expected(mean.index_add_(0, graph.row, probability), degree)
        level = jointly_covering_level(self.coverage, degree) if self.jointly else self.coverage
        return poisson_binomial_quantiles(graph.rowptr, probability, level)

    def _per_slot(self, graph: Graph) -> Tensor:
        n = graph.num_nodes
        edge_index = check_edge_index(self.edge_index, n).to(graph.col.device)
        key, order = torch.sort(edge_index[0] * n + edge_index[1])
        if not torch.equal(key, graph.row * n + graph.col):
            raise BudgetError(
                f"probabilities for {key.numel()} directed edges that are not the {graph.col.numel()} of the graph",
                "edge_index must list exactly the graph's edges",
                "Pass the graph's own edge_index",
            )
        probability = self.probability.to(graph.col.device, torch.float64)[order]
        unequal = (probability != probability[graph.reverse]).nonzero()[:, 0]
        if unequal.numel():
            slot = int(unequal[0])
            one, other = float(probability[slot]), float(probability[graph.reverse[slot]])
            raise BudgetError(
                f"edge ({int(graph.row[slot])}, {int(graph.col[slot])}) with probability {one:g} and its "
                f"reverse with {other:g}",
                "an undirected edge is dropped as a whole",
                "Average the two directions",
            )
        return probability

    def __repr__(self) -> str:
        return f"DropProbabilities(rule={self.rule!r}, coverage={self.coverage}, jointly={self.jointly})"


def _expected(mean: Tensor, degree: Tensor) -> Tensor:
    return mean.round().long().minimum(degree - 1).clamp(min=0)


def _is_share(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(0 < value < 1)


def _rule(rule: Rule | None, coverage: float | None, jointly: bool) -> tuple[Rule, float]:
    if rule is not None:
        choice(rule, "rule", ("expected", "coverage"), BudgetError)
    flag(jointly, "jointly", BudgetError)
    chosen: Rule = rule or ("expected" if coverage is None and not jointly else "coverage")
    if chosen == "expected" and (coverage is not None or jointly):
        found = "jointly=True" if coverage is None else f"coverage={shown(coverage)}"
        raise BudgetError(
            f"{found} with rule='expected'",
            "the expected number of drops covers no stated share of the views",
            "Use rule='coverage'",
        )
    level = 0.99 if coverage is None else coverage
    if not _is_share(level):
        raise BudgetError(f"coverage={shown(coverage)}", "a coverage lies strictly between 0 and 1", "Try 0.99")
    return chosen, level


def local_budgets(local: Tensor | None, graph: Graph, unlimited: Tensor) -> Tensor:
    """Budgets of all nodes, ``(N,)``, from one integer or one per node; the degree if there is no limit."""
    if local is None:
        return unlimited
    if local.dim() == 1 and local.numel() != graph.num_nodes:
        raise BudgetError(
            f"{local.numel()} local budgets for {graph.num_nodes} nodes",
            "there must be one per node",
            "Pass one integer for all, or one per node",
        )
    return local.to(unlimited.device).expand(graph.num_nodes)


def counts(value: Any, name: str) -> Tensor:
    """``value`` as non-negative integers: a scalar, or one per node."""
    rule = "a budget is a number of edges, one integer or one per node"
    way_out = "Use from_drop_rate(...) for a share of the edges"
    counts = numbers(value, name, rule, way_out, error=BudgetError)
    if not (counts.dtype.is_floating_point or counts.dtype in INTEGERS) or counts.dim() > 1:
        words = f"={shown(value)}" if counts.dim() == 0 else f" of dtype {counts.dtype} and shape {tuple(counts.shape)}"
        raise BudgetError(f"{name}{words}", rule, way_out)
    if counts.dtype.is_floating_point:
        flat = counts.double().flatten()
        worst = torch.cat([flat[flat != flat.floor()], flat])  # a fraction if there is one, else 2.0 and the like
        found = f"the value {float(worst[0]):.6}" if worst.numel() else f"dtype {counts.dtype}"
        raise BudgetError(f"{name} with {found}", "budgets must be integers", way_out)
    counts = counts.long()  # an unsigned number beyond all counts turns negative
    if counts.numel() and int(counts.min()) < 0:
        raise BudgetError(
            f"{name} with the value {int(counts.min())}",
            "budgets must not be negative",
            "Use 0 to forbid drops, None for no limit",
        )
    return counts.clone()  # the caller's own may change
