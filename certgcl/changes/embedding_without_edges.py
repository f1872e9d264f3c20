"""The embedding of one node on a graph without some edges and with others, computed only from the nodes that it depends
on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from certgcl.changes.changed_entries import ChangedEntries
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph
from certgcl.models.layer import Term
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork

_MOST_EDGES = 1 << 20  # of all copies of a neighbourhood that are evaluated together


@dataclass(frozen=True, eq=False)
class DropEvaluation:
    """``z_i(S)`` for one node and one drop at a time, at the cost of the nodes within the network's reach.

    It shares no code with the searches for drops, so that it can check them.

    Args:
        projected: ``X W`` of every term that takes the features, ``(N, channels)`` each.
    """

    network: GraphNetwork
    graph: Graph
    projected: dict[Term, Tensor]

    @classmethod
    def of(cls, network: GraphNetwork, graph: Graph) -> "DropEvaluation":
        return cls(
            network,
            graph,
            {
                term: features_times(graph, term.weight)
                for layer in network.layers
                for term in layer.terms
                if term.source == 0
            },
        )

    def embedding(
        self, node: int, dropped: Tensor, changed: ChangedEntries | None = None, added: Tensor | None = None
    ) -> Tensor:
        """``z`` of a node without the edges ``dropped`` and with those ``added``, ``(2, k)``, each listed once, and
        with changed features; ``(width,)``.

        Raises:
            GraphError: a dropped edge that the graph does not have, or an added one that it has.
        """
        here = self if changed is None else self.with_features(changed)
        return here.embeddings(node, [(dropped, dropped[:, :0] if added is None else added)])[0]

    def embeddings(self, node: int, changes: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """The same for several pairs of dropped and added edges, ``(len(changes), width)``. They are evaluated on
        copies of the neighbourhood in one graph, which for small graphs takes hardly longer than a single copy.

        Layers are computed at all nodes that are within reach after one of the changes, those at the rim without some
        of their neighbours. That is sound because after a layer that reaches r hops, values are right except within r
        hops of the rim, and the embedding does not depend on those.

        Raises:
            GraphError: as of :meth:`embedding`.
        """
        graph, n = self.graph, self.graph.num_nodes
        both = [(self._in_both_directions(dropped), self._in_both_directions(added)) for dropped, added in changes]
        for gone, new in both:
            self._check(gone, new)
        lost = [gone[0] * n + gone[1] for gone, _ in both]
        always = lost[0]
        for others in lost[1:]:
            always = always[torch.isin(always, others)]
        fresh = torch.cat([new for _, new in both], dim=1)
        near = graph.col.new_tensor([node])
        for _ in range(self.network.hops):
            near = torch.cat([near, self._edges(near, always, fresh)[1]]).unique()
        place = torch.full_like(graph.degree, -1).index_copy(0, near, torch.arange(len(near), device=near.device))
        kept = torch.stack(self._edges(near, always, fresh[:, :0]))
        kept = kept[:, place[kept[1]] >= 0]
        copies = []
        for (gone, new), keys in zip(both, lost, strict=True):
            edges = torch.cat([kept[:, ~torch.isin(kept[0] * n + kept[1], keys)], new], dim=1)
            left = graph.degree.index_add(0, gone[0], -torch.ones_like(gone[0]))
            left = left.index_add(0, new[0], torch.ones_like(new[0]))
            rows = place[edges]
            copies.append((left[near], rows[:, (rows >= 0).all(dim=0)]))
        most = max(1, _MOST_EDGES // max(1, kept.shape[1]))
        parts = [copies[first : first + most] for first in range(0, len(copies), most)]
        return torch.cat([self._at_copies(near, place[node], part) for part in parts])

    def _at_copies(self, nodes: Tensor, place: Tensor, copies: list[tuple[Tensor, Tensor]]) -> Tensor:
        """The embeddings at one place of several graphs on the same nodes, each given by degrees and edges."""
        shifted = [edges + number * len(nodes) for number, (_, edges) in enumerate(copies)]
        row, col = torch.cat(shifted, dim=1)
        outputs = self._outputs(nodes.repeat(len(copies)), torch.cat([degree for degree, _ in copies]), row, col)
        at = place + len(nodes) * torch.arange(len(copies), device=nodes.device)
        return torch.cat([outputs[number - 1][at] for number in self.network.readout], dim=1)

    def _in_both_directions(self, edges: Tensor) -> Tensor:
        return torch.cat([edges, edges.flip(0)], dim=1).to(self.graph.col.device)

    def _check(self, gone: Tensor, new: Tensor) -> None:
        """Raise an error for dropped edges that do not exist, and for added edges that do."""
        graph, n = self.graph, self.graph.num_nodes
        at_ends = self._slots(gone[0].unique())
        absent = ~torch.isin(gone[0] * n + gone[1], graph.row[at_ends] * n + graph.col[at_ends])
        if bool(absent.any()):
            one, other = gone[:, absent][:, 0].tolist()
            raise GraphError(
                f"a dropped edge ({one}, {other}) that the graph does not have",
                "only edges of the graph can be dropped",
                "Pass the graph they come from",
            )
        there = graph.has_edge(new[0], new[1]) | (new[0] == new[1])
        if bool(there.any()):
            one, other = new[:, there][:, 0].tolist()
            raise GraphError(
                f"an added edge ({one}, {other}) that the graph has",
                "only pairs of nodes that are not edges can be added",
                "Pass the graph they come from",
            )

    def with_features(self, changed: ChangedEntries) -> "DropEvaluation":
        """The same with some entries of the features as given."""
        step = changed.values - changed.before(self.graph)
        return replace(
            self,
            projected={term: _moved(term, table, changed, step.to(table)) for term, table in self.projected.items()},
        )

    def _outputs(self, nodes: Tensor, degree: Tensor, row: Tensor, col: Tensor) -> list[Tensor]:
        """The outputs of all layers at some nodes, with their numbers of neighbours and these edges among them."""
        count, outputs = degree.to(self.network.dtype)[:, None], list[Tensor]()
        for layer in self.network.layers:
            p = layer.bias.expand(len(nodes), -1)
            for term in layer.terms:
                v = self.projected[term][nodes] if term.source == 0 else term.project(outputs[term.source - 1])
                own, out, into = (
                    scale(count) for scale in (term.aggregation.own, term.aggregation.out, term.aggregation.into)
                )
                p = p + own * v + out * torch.zeros_like(v).index_add(0, row, (into * v)[col])
            outputs.append(layer.activate(p))
        return outputs

    def _edges(self, nodes: Tensor, gone: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
        """Ends of the edges at some nodes that are not gone, and of new ones."""
        slots, graph = self._slots(nodes), self.graph
        slots = slots[~torch.isin(graph.row[slots] * graph.num_nodes + graph.col[slots], gone)]
        new = new[:, torch.isin(new[0], nodes)]
        return torch.cat([graph.row[slots], new[0]]), torch.cat([graph.col[slots], new[1]])

    def _slots(self, nodes: Tensor) -> Tensor:
        """The slots of some nodes, one node after the other."""
        start, count = self.graph.rowptr[nodes], self.graph.degree[nodes]
        first = torch.repeat_interleave(start - count.cumsum(0) + count, count)
        return first + torch.arange(len(first), device=first.device)


def _moved(term: Term, table: Tensor, changed: ChangedEntries, step: Tensor) -> Tensor:
    """``X W`` after changes of single entries of X."""
    if term.weight.dim() == 1:
        return table.index_put((changed.nodes, changed.columns), step * term.weight[changed.columns], accumulate=True)
    return table.index_add(0, changed.nodes, step[:, None] * term.weight[changed.columns])
