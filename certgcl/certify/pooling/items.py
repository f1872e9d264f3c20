"""The items of several graphs: edges that may be dropped and pairs that may become edges, what limits them, and where
they matter."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from certgcl.certify.pooling.change_sets import GraphChangeSets
from certgcl.certify.pooling.multipliers import Counts
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.shared_changes import Limits
from certgcl.certify.touched_edges import touched_pairs
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True, eq=False)
class Items:
    """Those of all graphs, graph by graph, edges before pairs in each."""

    changes: SetChanges
    sets: list[GraphChangeSets]

    @cached_property
    def number(self) -> Counts:
        """Of each graph, ``(G,)``."""
        return np.array([len(each) for each in self.sets])

    @cached_property
    def graph(self) -> Counts:
        """Of each item, ``(E,)``."""
        return np.repeat(np.arange(len(self.sets)), self.number)

    @cached_property
    def pairs(self) -> Tensor:
        """The ends of each, nodes of the union, ``(2, E)``."""
        starts = self.changes.graphs.starts.tolist()
        return torch.cat([each.pairs + start for each, start in zip(self.sets, starts, strict=True)], dim=1)

    @cached_property
    def new(self) -> Counts:
        """Which of them are not edges yet, ``(E,)``."""
        return np.concatenate([np.arange(len(each)) >= len(each.slots) for each in self.sets]).astype(np.int64)

    def limits(self) -> Limits:
        """Budgets of dropped edges, of new ones and of both: of every node, and of every graph.

        For a graph as a whole, the limit is on both together if they share a budget that is smaller than the sum of the
        two.
        """
        changes, added = self.changes, self.changes.additions
        batch, graphs, ends = changes.graphs.batch.cpu().numpy(), np.arange(len(self.sets)), self.pairs.cpu().numpy()
        of_nodes = [changes.drops.local]
        of_graphs = [changes.most_dropped]
        if added is not None:
            of_nodes += [added.local, added.both]
            of_graphs += [changes.most_added, changes.most_edges]
        kinds, nodes = len(of_nodes), len(batch)
        most = torch.cat([*of_nodes, *of_graphs]).cpu().numpy()
        first = kinds * nodes
        own = self.new
        shared = np.zeros_like(own) + 2
        counted = [own * nodes + ends[0], own * nodes + ends[1], first + own * len(graphs) + self.graph]
        whole = counted[2]
        if added is not None:
            counted += [shared * nodes + ends[0], shared * nodes + ends[1], first + shared * len(graphs) + self.graph]
            sharing = changes.most_edges < changes.most_dropped + changes.most_added
            whole = np.where(sharing.cpu().numpy()[self.graph], counted[5], whole)
        item = np.tile(np.arange(len(own)), len(counted))
        table = sp.csr_matrix(
            (np.ones(len(item), dtype=np.int64), (item, np.concatenate(counted))), shape=(len(own), len(most))
        )
        return Limits(table, most, np.concatenate([np.tile(batch, kinds), np.tile(graphs, kinds)]), whole)

    def near(self, network: GraphNetwork) -> sp.csr_matrix:
        """Ones where an item has an end within R hops of a node in its graph as given, ``(N, E)``.

        A change without such an item leaves the node's value as it is: without new edges, by
        :func:`~certgcl.certify.touched_edges.touched_edges`; with new edges, because a path along which anything new
        could reach the node gets to the first new edge by old ones.
        """
        return self._touched(network, self.changes.graphs.union)

    def fields(self, network: GraphNetwork) -> sp.csr_matrix:
        """The same in the graph with all pairs as edges: a node's value depends on no other item of a change."""
        union = self.changes.graphs.union
        new = self.pairs[:, torch.from_numpy(self.new > 0).to(self.pairs.device)]
        if not new.numel():
            return self.near(network)
        wide = Graph.from_edges(union.x, torch.cat([union.edge_index, new, new.flip(0)], dim=1))
        return self._touched(network, wide)

    def _touched(self, network: GraphNetwork, graph: Graph) -> sp.csr_matrix:
        everyone = torch.arange(graph.num_nodes, device=graph.col.device)
        found = touched_pairs(network, graph, everyone, self.pairs)
        found.sort_indices()
        return found
