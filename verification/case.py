"""One case of the audit: a graph, a two-layer GCN, a budget and a direction for every node, all in plain tensors."""

from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import torch
from torch import Tensor


class Droppable:
    """A graph with nodes 0 … n-1, and which of its edges may be dropped."""

    graph: nx.Graph
    local: int | list[int] | None
    total: int | None

    @property
    def nodes(self) -> int:
        return self.graph.number_of_nodes()

    @property
    def edges(self) -> list[tuple[int, int]]:
        return sorted((min(edge), max(edge)) for edge in self.graph.edges)

    def node_budgets(self) -> list[int]:
        """The budget of every node, as given: the degree if there is no limit."""
        if self.local is None:
            return [self.graph.degree[i] for i in range(self.nodes)]
        return [self.local] * self.nodes if isinstance(self.local, int) else self.local

    def graph_budget(self) -> int:
        return self.graph.number_of_edges() if self.total is None else self.total

    def relabelled_graph(self, order: list[int]) -> tuple[nx.Graph, int | list[int] | None]:
        """The graph and the budgets of its nodes with node ``order[k]`` called k."""
        names = {node: k for k, node in enumerate(order)}
        graph = nx.Graph()
        graph.add_nodes_from(range(self.nodes))
        graph.add_edges_from((names[u], names[v]) for u, v in self.graph.edges)
        return graph, [self.local[k] for k in order] if isinstance(self.local, list) else self.local


@dataclass(frozen=True, eq=False)
class Case(Droppable):
    """``σ2(Â σ1(Â X W1 + b1) W2 + b2)`` on a graph with nodes 0 … n-1, and what may be dropped."""

    graph: nx.Graph
    x: Tensor  # (n, d0)
    w1: Tensor  # (d0, d1)
    b1: Tensor  # (d1,)
    slope1: Tensor  # (d1,)
    w2: Tensor  # (d1, d2)
    b2: Tensor  # (d2,)
    slope2: Tensor  # (d2,)
    directions: Tensor  # (n, d2)
    local: int | list[int] | None = None
    total: int | None = None

    def with_budget(self, local: int | list[int] | None, total: int | None = None) -> "Case":
        return replace(self, local=local, total=total)

    def relabelled(self, order: list[int]) -> "Case":
        """The same case with node ``order[k]`` called k."""
        graph, local = self.relabelled_graph(order)
        index = torch.tensor(order)
        return replace(self, graph=graph, x=self.x[index], directions=self.directions[index], local=local)

    def __repr__(self) -> str:
        numbers = ", ".join(
            f"{name}={getattr(self, name).tolist()}"
            for name in ("x", "w1", "b1", "slope1", "w2", "b2", "slope2", "directions")
        )
        return f"Case(nodes={self.nodes}, edges={self.edges}, local={self.local}, total={self.total}, {numbers})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # how Hypothesis prints a failing case
        printer.text(repr(self))
