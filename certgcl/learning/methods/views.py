"""Views of a graph: some edges dropped, some features masked; from a given generator, or torch's global one."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import BudgetError, InputError
from certgcl.graphs.graph import Graph

REDRAWS = 2  # how often edges at nodes over their budget are redrawn before some are put back


@dataclass(frozen=True, eq=False)
class EdgeDropper:
    """Draws views that drop every undirected edge, both directions or none, independently of the others.

    With ``inside``, only views that a certificate for this budget covers are drawn: at most ``q_i`` drops at
    node i, Q in all, and only droppable edges. Edges at a node over its budget are redrawn a few times; if that is not
    enough, drops are put back at random. So edges are no longer dropped independently, and those at nodes with tight
    budgets less often than ``probability`` says: that is the price for having every training view in the certified set.
    Nearly all independent views of a large graph exceed the budget of the paper's rule at some node.

    Args:
        graph: the graph whose views are drawn.
        probability: of a drop; one number for all edges, or one for each of ``graph.edge_index[:, graph.row <
            graph.col]``.
        inside: the set to stay in, ``budget.on(graph)``; None for no limit.
    """

    graph: Graph
    probability: float | Tensor
    inside: AdmissibleDrops | None = None

    def __post_init__(self) -> None:
        _check_probability(self.probability, self.graph.num_edges, "edges")
        inside, slots = self.inside, self.graph.col.numel()
        if inside is not None and (inside.local.numel(), inside.droppable.numel()) != (self.graph.num_nodes, slots):
            raise BudgetError(
                f"a set of drops for {inside.local.numel()} nodes and {inside.droppable.numel() // 2} "
                f"edges with a {self.graph!r}",
                "it must be one of this graph",
                "Pass budget.on(graph)",
            )
        # Copies, because everything that is drawn depends on their present values.
        object.__setattr__(self, "graph", self.graph.private())
        object.__setattr__(self, "inside", None if inside is None else inside.private())
        if isinstance(self.probability, Tensor):
            object.__setattr__(self, "probability", self.probability.clone())

    def sample(self, generator: torch.Generator | None = None) -> Graph:
        """A new view, with the features of the graph themselves."""
        dropped = self._draw(generator) if self.inside is None else self._draw_inside(self.inside, generator)
        kept = ~self._per_slot(dropped)
        return self.graph.with_edges(self._pointer(kept), self.graph.col[kept])

    # -- independent drops -------------------------------------------------------------------------

    @cached_property
    def _forward(self) -> Tensor:
        """The slots ``(i, j)`` with ``i < j``, one for every edge."""
        return (self.graph.row < self.graph.col).nonzero()[:, 0]

    @cached_property
    def _edge_of_slot(self) -> Tensor:
        edge = torch.empty_like(self.graph.col)
        edge[self._forward] = edge[self.graph.reverse[self._forward]] = torch.arange(
            self.graph.num_edges, device=edge.device
        )
        return edge

    @cached_property
    def _rate(self) -> Tensor:
        """The probability of every edge, zero where it may not drop."""
        rate = torch.as_tensor(self.probability, dtype=torch.float32, device=self.graph.col.device)
        rate = rate.expand(self.graph.num_edges)
        return rate if self.inside is None else rate * self.inside.droppable[self._forward]

    def _draw(self, generator: torch.Generator | None) -> Tensor:
        """Whether each edge is dropped, ``(|E|,)``."""
        return (
            torch.rand(self.graph.num_edges, dtype=torch.float32, device=self.graph.col.device, generator=generator)
            < self._rate
        )

    def _per_slot(self, dropped: Tensor) -> Tensor:
        return dropped.index_select(0, self._edge_of_slot)

    def _pointer(self, chosen: Tensor) -> Tensor:
        """Row pointer of the chosen slots."""
        return torch.cat([chosen.new_zeros(1, dtype=torch.long), chosen.cumsum(0)])[self.graph.rowptr]

    # -- drops inside a set ------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> Tensor:
        """The two nodes of every edge, ``(2, |E|)``."""
        return torch.stack([self.graph.row[self._forward], self.graph.col[self._forward]])

    def _draw_inside(self, inside: AdmissibleDrops, generator: torch.Generator | None) -> Tensor:
        # The budgets as requested: with droppable edges only, and at most Q of them, the tightened ones hold as well.
        # Enforcing those at the nodes would put back more edges, and a total alone would not treat all edges alike.
        dropped, local = self._draw(generator), inside.requested
        for _ in range(REDRAWS):
            over = self._drops(dropped) > local
            if not over.any():
                break
            first, second = (over.index_select(0, end) for end in self._ends)
            dropped = torch.where(first | second, self._draw(generator), dropped)
        else:
            dropped = self._put_back(dropped, local, generator)
        excess = int(dropped.sum()) - inside.total
        if excess > 0:
            candidates = dropped.nonzero()[:, 0]
            order = torch.randperm(candidates.numel(), device=candidates.device, generator=generator)
            dropped[candidates[order[:excess]]] = False
        return dropped

    def _drops(self, dropped: Tensor) -> Tensor:
        """How many edges each node loses, ``(N,)``."""
        return self._pointer(self._per_slot(dropped)).diff()

    def _put_back(self, dropped: Tensor, local: Tensor, generator: torch.Generator | None) -> Tensor:
        """Of the dropped edges at node i only the first ``q_i`` stay dropped, in one random order of all edges.

        An edge stays dropped only if both its ends agree, so afterwards no node exceeds its budget: one pass is enough.
        """
        slots = self._per_slot(dropped)
        place, pointer = slots.nonzero()[:, 0], self._pointer(slots)
        node, edge = self.graph.row.index_select(0, place), self._edge_of_slot.index_select(0, place)
        shuffled = torch.randperm(self.graph.num_edges, device=edge.device, generator=generator).index_select(0, edge)
        order = torch.argsort(node * self.graph.num_edges + shuffled)
        # Slots are in the order of their nodes, before and after: a node's ranks count from its first slot.
        rank = torch.arange(edge.numel(), device=edge.device) - pointer.index_select(0, node)
        beyond = rank >= local.index_select(0, node)
        return dropped.index_fill(0, edge[order[beyond]], False)


def feature_mask(
    probability: float | Tensor, columns: int, like: Tensor, generator: torch.Generator | None = None
) -> Tensor | None:
    """A factor 0 (with the probability given, one for all or one per column) or 1 for every feature, ``(columns,)``.

    In the dtype and on the device of ``like``; None when the probability is zero and there is nothing to mask.
    """
    _check_probability(probability, columns, "columns")
    rate = torch.as_tensor(probability, device=like.device)
    if not rate.any():
        return None
    drawn = torch.rand(columns, dtype=torch.float32, device=like.device, generator=generator)
    return (drawn >= rate).to(like.dtype)


def _check_probability(probability: float | Tensor, count: int, what: str) -> None:
    value = torch.as_tensor(probability)
    if value.dim() and value.shape != (count,):
        raise InputError(
            f"probabilities of shape {tuple(value.shape)} for {count} {what}",
            "there must be one for all, or one for each",
            "Pass one number, or a vector of this length",
        )
    outside = value[~((value >= 0) & (value <= 1))]
    if outside.numel():
        raise InputError(f"probability {float(outside.flatten()[0]):g}", "probabilities lie in [0, 1]", "Clamp them")
