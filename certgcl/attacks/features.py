"""Search for harmful features, by gradients, on the few nodes that one embedding depends on.

It shares no code with the bounds that it tests. Every value comes from a forward pass on admissible
features.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import prod

import torch
from torch import Tensor

from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.changes.subsets import number_of_subsets
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import PooledNetwork

ROUNDS = 12  # steps of a search, each along the gradient at the result of the last one
VIEWS_AT_ONCE = 1 << 21  # entries of features that are run together


@dataclass(frozen=True, eq=False)
class FeatureField:
    """The nodes that one embedding depends on, with their edges and features.

    Args:
        nodes: the anchor first, ``(n,)``.
        degree: in the whole graph.
        row, col: the edges that carry messages, by places.
        x: ``(n, F)``, dense, float64.
    """

    network: GraphNetwork
    nodes: Tensor
    degree: Tensor
    row: Tensor
    col: Tensor
    x: Tensor
    off: Tensor
    on: Tensor
    radius: Tensor
    allowed: AdmissibleFeatures

    @classmethod
    def of(cls, network: GraphNetwork, graph: Graph, allowed: AdmissibleFeatures, anchor: int) -> "FeatureField":
        """For a network in float64."""
        distance = torch.full_like(graph.degree, network.hops + 1)
        distance[anchor] = 0
        for hop in range(1, network.hops + 1):
            near = distance[graph.row] == hop - 1
            distance[graph.col[near]] = distance[graph.col[near]].clamp(max=hop)
        nodes = (distance <= network.hops).nonzero()[:, 0]
        nodes = nodes[torch.argsort(distance[nodes], stable=True)]
        place = torch.full_like(graph.degree, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        slots = (distance[graph.row] < network.hops).nonzero()[:, 0]
        entries = graph.features.entries(nodes)
        x = torch.zeros(len(nodes), graph.num_features, dtype=torch.float64, device=nodes.device)
        x[entries.owner, entries.column] = entries.value
        return cls(
            network,
            nodes,
            graph.degree[nodes].double(),
            place[graph.row[slots]],
            place[graph.col[slots]],
            x,
            allowed.off[nodes],
            allowed.on[nodes],
            allowed.radius[nodes],
            allowed,
        )

    def embeddings(self, x: Tensor) -> Tensor:
        """Of the anchor with features ``(S, n, F)``, ``(S, width)``."""
        return self.of_nodes(x)[:, 0]

    def of_nodes(self, x: Tensor) -> Tensor:
        """Of all nodes of the field, of which only the anchor's need be its embedding, ``(S, n, width)``."""
        outputs = [x]
        for layer in self.network.layers:
            p = layer.bias.expand(len(x), len(self.nodes), -1)
            for term in layer.terms:
                v = term.project(outputs[term.source])
                if not term.aggregation.mixes:
                    p = p + v
                    continue
                own, out, into = (
                    scale(self.degree)[:, None]
                    for scale in (term.aggregation.own, term.aggregation.out, term.aggregation.into)
                )
                p = p + own * v + out * torch.zeros_like(v).index_add(1, self.row, (into * v)[:, self.col])
            outputs.append(layer.activate(p))
        return torch.cat([outputs[number] for number in self.network.readout], dim=2)

    def values(self, x: Tensor, direction: Tensor) -> Tensor:
        """``w · z``, ``(S,)``."""
        return self.embeddings(x) @ direction

    def changed(self, x: Tensor) -> ChangedEntries:
        return ChangedEntries.between(self.nodes, self.x, x)

    # -- search ------------------------------------------------------------------------------------

    def search(self, direction: Tensor) -> tuple[float, Tensor]:
        """The least value found, and the features that reach it, ``(n, F)``."""
        best, found = float(self.values(self.x[None], direction)[0]), self.x
        here = self.x
        for _ in range(ROUNDS):
            with torch.enable_grad():
                given = here.detach().clone().requires_grad_()
                (gradient,) = torch.autograd.grad(self.values(given[None], direction)[0], given)
            after = self._worst(gradient)
            value = float(self.values(after[None], direction)[0])
            if value < best:
                best, found = value, after
            if torch.equal(after, here):
                break
            here = after
        return best, found

    def _worst(self, gradient: Tensor) -> Tensor:
        """The admissible features with the least ``gradient · x̃``."""
        if self.allowed.kind == "box":
            return self.x - self.radius[:, None] * gradient.sign()
        falls = gradient * self.x
        if self.allowed.columns:
            whole = falls.sum(dim=0)
            chosen = whole.topk(min(self.allowed.columns, len(whole))).indices
            return self.x.index_fill(1, chosen[whole[chosen] > 0], 0.0)
        after, limit = self.x.clone(), self.allowed.total
        off, on = (
            _ranked(torch.where(self.x != 0, falls, 0.0), self.off),
            _ranked(torch.where(self.x == 0, -gradient, 0.0), self.on),
        )
        both = torch.cat([off.flatten(), on.flatten()])
        chosen = both.topk(min(limit, len(both))).indices
        chosen = chosen[both[chosen] > 0]
        size = off.numel()
        flat = after.flatten()
        flat[chosen[chosen < size]] = 0.0
        flat[chosen[chosen >= size] - size] = 1.0
        return flat.view_as(after)

    # -- all of them -------------------------------------------------------------------------------

    def number(self) -> int | None:
        """An upper bound of the number of admissible features; None for a box, which has infinitely many."""
        if self.allowed.kind == "box":
            return None
        if self.allowed.columns:
            filled = int((self.x != 0).any(dim=0).sum())
            return number_of_subsets(filled, self.allowed.columns)
        ones = (self.x != 0).sum(dim=1)
        each = zip(ones.tolist(), self.off.tolist(), self.on.tolist(), strict=True)
        choices = [(number_of_subsets(one, off), number_of_subsets(self.x.shape[1] - one, on)) for one, off, on in each]
        unlimited = prod(off * on for off, on in choices)
        entries = sum(one if off else 0 for one, off in zip(ones.tolist(), self.off.tolist(), strict=True)) + sum(
            self.x.shape[1] - one if on else 0 for one, on in zip(ones.tolist(), self.on.tolist(), strict=True)
        )
        return min(unlimited, number_of_subsets(entries, self.allowed.total))

    def least(self, direction: Tensor) -> tuple[float, Tensor]:
        """The minimum over all of them, by trying each, and the features that reach it."""
        best, found, at_once = float("inf"), self.x, max(1, VIEWS_AT_ONCE // max(1, self.x.numel()))
        views = self._all()
        while waiting := list(islice(views, at_once)):
            values = self.values(torch.stack(waiting), direction)
            place = int(values.argmin())
            if float(values[place]) < best:
                best, found = float(values[place]), waiting[place]
        return best, found

    def _all(self) -> Iterator[Tensor]:
        if self.allowed.columns:
            filled = (self.x != 0).any(dim=0).nonzero()[:, 0].tolist()
            for columns in _subsets(filled, self.allowed.columns):
                yield self.x.index_fill(1, self.nodes.new_tensor(columns), 0.0)
        else:
            yield from self._from(0, self.x, self.allowed.total)

    def _from(self, node: int, x: Tensor, left: int) -> Iterator[Tensor]:
        """All choices at a node and the later ones, with a number of entries left."""
        if node == len(self.nodes):
            yield x
            return
        ones, zeros = ((self.x[node] != 0) == there for there in (True, False))
        for off in _subsets(ones.nonzero()[:, 0].tolist(), min(left, int(self.off[node]))):
            for on in _subsets(zeros.nonzero()[:, 0].tolist(), min(left - len(off), int(self.on[node]))):
                after = x
                if off or on:
                    after = x.clone()
                    after[node, list(off)], after[node, list(on)] = 0.0, 1.0
                yield from self._from(node + 1, after, left - len(off) - len(on))


@dataclass(frozen=True, eq=False)
class GraphFeatures(FeatureField):
    """All nodes of a graph, whose embeddings are pooled."""

    pooled: PooledNetwork

    @classmethod
    def of_graph(cls, pooled: PooledNetwork, graph: Graph, allowed: AdmissibleFeatures) -> "GraphFeatures":
        wide, everyone = pooled.to(torch.float64), torch.arange(graph.num_nodes, device=graph.col.device)
        return cls(
            wide.network,
            everyone,
            graph.degree.double(),
            graph.row,
            graph.col,
            graph.x.to(torch.float64),
            allowed.off,
            allowed.on,
            allowed.radius,
            allowed,
            wide,
        )

    def embeddings(self, x: Tensor) -> Tensor:
        """Of the graph with features ``(S, n, F)``, ``(S, width)``."""
        copies = torch.arange(len(x), device=x.device).repeat_interleave(x.shape[1])
        return self.pooled.after(self.of_nodes(x).flatten(0, 1), copies)

    def values(self, x: Tensor, direction: Tensor) -> Tensor:
        return super().values(x, direction.double())


def _subsets(entries: list[int], most: int) -> Iterator[tuple[int, ...]]:
    """All subsets, the empty one first."""
    return chain.from_iterable(combinations(entries, size) for size in range(min(most, len(entries)) + 1))


def _ranked(falls: Tensor, most: Tensor) -> Tensor:
    """The largest of each row, as many as it may have; zero elsewhere."""
    order = falls.argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(falls.shape[1], device=falls.device).expand_as(order))
    return torch.where(rank < most[:, None], falls.clamp(min=0), 0.0)


def without(graph: Graph, edges: Tensor) -> Graph:
    """A graph without some edges, ``(2, k)``, each listed once."""
    n, (row, col) = graph.num_nodes, graph.edge_index
    gone = torch.isin(row * n + col, torch.cat([edges[0] * n + edges[1], edges[1] * n + edges[0]]))
    pointer = torch.cat([gone.new_zeros(1, dtype=torch.long), (~gone).cumsum(0)])
    return graph.with_edges(pointer[graph.rowptr], col[~gone])
