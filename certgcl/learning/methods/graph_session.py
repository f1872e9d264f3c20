"""A training run on whole graphs in progress: batches as disjoint unions, and the steps of an epoch."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph
from certgcl.learning.graph_term import graph_term
from certgcl.learning.methods.session import ContrastiveSession
from certgcl.learning.methods.views import EdgeDropper
from certgcl.learning.regularizer import metrics_of
from certgcl.models.pooled_network import pooled_rows
from certgcl.runtime.arithmetic import undisturbed

if TYPE_CHECKING:
    from certgcl.learning.methods.graphcl import GraphCL


class GraphSession(ContrastiveSession):
    """Like the sessions for nodes, but graphs are contrasted: a batch of them at a time, as one graph, their disjoint
    union."""

    method: "GraphCL"

    def __init__(self, method: "GraphCL", graphs: GraphSet) -> None:
        if len(graphs) < 2:
            raise GraphError("one graph", "a graph is contrasted with others", "Give a list of two graphs or more")
        super().__init__(method, graphs.union)
        self.graphs = graphs.to(self.graph.x.device, torch.float32)

    @property
    def inside(self) -> None:
        """Views stay inside the budgets of their own graphs, which allow drops only."""
        return None

    @undisturbed(gradients=True)
    def step(self, epoch: int) -> dict[str, float]:
        """An epoch: one optimisation step for each batch. The metrics are means over the batches."""
        self.at(epoch)
        sums: dict[str, float] = defaultdict(float)
        batches = self._batches()
        for places in batches:
            for name, value in self._step(places, epoch).items():
                sums[name] += value / len(batches)
        return dict(sums)

    def _batches(self) -> list[list[int]]:
        """All graphs in random order, in parts of about the same size; without batches, all in their own order."""
        count, batch = len(self.graphs), self.method.batch
        if batch is None or batch >= count:
            return [list(range(count))]
        order = torch.randperm(count, device=self.graph.x.device, generator=self.generator)
        return [part.tolist() for part in order.tensor_split(max(1, round(count / batch)))]

    def _step(self, places: list[int], epoch: int) -> dict[str, float]:
        whole, regularizer, pool = len(places) == len(self.graphs), self.regularizer, self.method.pool
        graphs = self.graphs if whole else self.graphs.at(places)
        network = self.network()
        problem = None
        if regularizer is not None and (regularizer.due or self.method.inside_budget):
            problem = regularizer.problem_of_graphs(self.graphs)
            problem = problem if whole else PooledProblem(graphs, problem.changes.at(graphs, places))
        if regularizer is not None and self.method.inside_budget:
            regularizer.changes().drops_alone(
                "GraphCL(inside_budget=True)"
            )  # views mask features at a rate of their own
        views = self._views(graphs, problem.changes if problem is not None and self.method.inside_budget else None)
        first, second = (
            pooled_rows(self.embedded(network, view, probability), graphs.batch, pool)
            for view, probability in zip(views, self.masks, strict=True)
        )
        loss = infonce = self.method.contrast(self, first, second, epoch)
        metrics = {"infonce": float(infonce.detach())}
        if regularizer is not None and regularizer.due and problem is not None:
            if not self.as_network:  # the bound is about the encoder in eval mode
                first, second = (pooled_rows(network.embed(view), graphs.batch, pool) for view in views)
            term = graph_term(regularizer, network, problem, (first, second), pool, self.generator)
            loss = regularizer.combine(infonce)
            metrics |= metrics_of(regularizer, term)
        self.descend(loss)
        return {"loss": float(loss.detach()), **metrics}

    def _views(self, graphs: GraphSet, inside: SetChanges | None) -> list[Graph]:
        union = graphs.union
        droppers = [
            EdgeDropper(union, rate) if inside is None else DropperOfGraphs(union, rate, inside.drops, inside)
            for rate in self.method.drop_rates
        ]
        return [dropper.sample(self.generator) for dropper in droppers]


@dataclass(frozen=True, eq=False)
class DropperOfGraphs(EdgeDropper):
    """Views of a disjoint union of graphs that also respect the total of each graph."""

    each: SetChanges | None = None

    def _draw_inside(self, inside: AdmissibleDrops, generator: torch.Generator | None) -> Tensor:
        assert self.each is not None
        dropped = super()._draw_inside(inside, generator)
        graph = self.each.graphs.batch[self._ends[0]]
        shuffled = torch.randperm(len(graph), device=graph.device, generator=generator)
        order = torch.argsort(graph * len(graph) + shuffled)  # graph by graph, each at random
        taken = dropped[order].long().cumsum(0)
        before = torch.cat([taken.new_zeros(1), taken])[torch.searchsorted(graph[order].contiguous(), graph[order])]
        beyond = dropped[order] & (taken - before > self.each.most_dropped[graph[order]])
        return dropped.index_fill(0, order[beyond], False)
