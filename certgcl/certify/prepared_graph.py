"""A graph and what may change about it, with everything that bounds precompute for both."""

import torch
from torch import Tensor

from certgcl.bounds import ChangeProblem
from certgcl.changes.changes import BudgetLike, Changes
from certgcl.errors import BudgetError
from certgcl.graphs.graph import Graph, GraphLike


class PreparedGraph:
    """A graph and what may change about it: keep one to certify many encoders.

    :func:`certgcl.node_compactness` and :func:`certgcl.linear_bounds` take it instead of a graph, without budgets.
    What bounds build for graph, budget and nodes alone is then built once, if the graph is small enough to keep it.
    Edges and budgets are copied when it is made; features are those of the graph.

    Args:
        graph: anything that :meth:`certgcl.Graph.of` accepts.
        budgets: anything that :func:`certgcl.node_compactness` accepts.

    Example::

        prepared = certgcl.PreparedGraph(data, budgets=2)
        certificate = certgcl.node_compactness(encoder, prepared)
    """

    def __init__(self, graph: GraphLike, budgets: BudgetLike | None) -> None:
        if budgets is None:
            raise BudgetError(
                "budgets=None",
                "the changes to certify must be given",
                "Pass budgets=2 for two edges at each node",
            )
        self.graph = Graph.of(graph).private()
        self.budgets = Changes.of(budgets)
        self.changes = self.budgets.on(self.graph)
        self._latest: ChangeProblem | None = None

    def __repr__(self) -> str:
        return f"PreparedGraph({self.graph!r}, {self.budgets!r})"

    @classmethod
    def of(cls, graph: "GraphLike | PreparedGraph", budgets: BudgetLike | None) -> "PreparedGraph":
        """The given one, or one of a graph and budgets: exactly one of the two says what may change."""
        if isinstance(graph, PreparedGraph):
            if budgets is not None:
                raise BudgetError(
                    "budgets with a PreparedGraph",
                    "its budgets were set when it was made",
                    "Leave budgets out, or pass the graph itself",
                )
            return graph
        return cls(graph, budgets)

    def problem(self, anchors: Tensor, memory_limit: int | None = None) -> ChangeProblem:
        """What is to be bounded at some anchors, with everything built for it if the last call had the same anchors. A
        problem that is kept is small, so its limit does not matter."""
        latest = self._latest
        if latest is not None and torch.equal(latest.anchors, anchors):
            return latest
        problem = ChangeProblem(self.graph, self.changes, anchors, memory_limit)
        if problem.small:
            self._latest = problem
        return problem
