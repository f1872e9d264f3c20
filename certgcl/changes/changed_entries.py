"""Changed features of a graph, entry by entry, as a witness names them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.graphs.graph import Graph


@dataclass(frozen=True, eq=False)
class ChangedEntries:
    """Entries of the features, and their new values.

    Args:
        nodes, columns: of every entry, ``(m,)``, node by node.
        values: in float64, ``(m,)``.
    """

    nodes: Tensor
    columns: Tensor
    values: Tensor

    @classmethod
    def between(cls, nodes: Tensor, before: Tensor, after: Tensor) -> "ChangedEntries":
        """The entries in which two tables of some nodes' features ``(n, F)`` differ."""
        row, column = (before != after).nonzero().T
        return cls(nodes[row], column, after[row, column].double())

    @classmethod
    def none(cls, device: torch.device) -> "ChangedEntries":
        nothing = torch.zeros(0, dtype=torch.long, device=device)
        return cls(nothing, nothing, nothing.double())

    def __len__(self) -> int:
        return len(self.nodes)

    def to(self, device: torch.device) -> "ChangedEntries":
        return ChangedEntries(*(part.to(device) for part in (self.nodes, self.columns, self.values)))

    def before(self, graph: Graph) -> Tensor:
        """The values of the entries in the graph, ``(m,)``, float64."""
        nodes, place = self.nodes.unique(return_inverse=True)
        entries = graph.features.entries(nodes)
        key = entries.owner * graph.num_features + entries.column
        wanted = place * graph.num_features + self.columns
        order = torch.argsort(key)
        found = torch.searchsorted(key[order], wanted).clamp(max=max(0, len(key) - 1))
        if not len(key):
            return torch.zeros_like(self.values)
        there = key[order][found] == wanted
        return torch.where(there, entries.value[order][found], 0.0)

    def applied(self, graph: Graph) -> Tensor:
        """The features of the graph with these entries, in their form and precision."""
        x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
        after = x.index_put((self.nodes, self.columns), self.values.to(x))
        if graph.x.layout == torch.strided:
            return after
        return after.to_sparse_csr()

    def fault(self, graph: Graph, allowed: AdmissibleFeatures) -> str | None:
        """Why a budget does not allow these changes; None if it does."""
        if len(self) and (
            int(self.nodes.min()) < 0
            or int(self.nodes.max()) >= graph.num_nodes
            or int(self.columns.min()) < 0
            or int(self.columns.max()) >= graph.num_features
        ):
            return "a feature that the graph does not have"
        if len(torch.unique(self.nodes * graph.num_features + self.columns)) < len(self):
            return "a feature that is changed twice"
        before = self.before(graph)
        if allowed.kind == "box":
            room = allowed.radius[self.nodes] * (1 + 1e-12) + 1e-15 * before.abs()
            return None if bool(((self.values - before).abs() <= room).all()) else "a feature outside the box"
        off, on = (before != 0) & (self.values == 0), (before == 0) & (self.values == 1)
        if not bool((off | on).all()):
            return "a feature that becomes neither 0 nor 1"
        if allowed.columns:
            masked = len(self.columns.unique())
            return None if masked <= allowed.columns and not bool(on.any()) else f"{masked} columns masked"
        for chosen, most in ((off, allowed.off), (on, allowed.on)):
            if bool((torch.bincount(self.nodes[chosen], minlength=graph.num_nodes) > most).any()):
                return "more features of a node than its budget"
        return None if len(self) <= allowed.total else f"{len(self)} features in all"
