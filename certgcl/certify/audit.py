"""Tests bounds on your own model and graph: no admissible view that is tried may fall below them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import callback, whole
from certgcl.arguments import seed as checked_seed
from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.edge_search import EdgeSearch
from certgcl.attacks.features import FeatureField, without
from certgcl.bounds import BoundMethod
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import node_compactness
from certgcl.changes.changes import AdmissibleChanges, BudgetLike, Changes
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.changes.random_additions import random_additions
from certgcl.changes.random_features import random_features
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.learning.methods.views import EdgeDropper
from certgcl.models.as_run import Runner
from certgcl.models.reading import ModelLike, Reading, read_network
from certgcl.runtime.arithmetic import undisturbed
from certgcl.runtime.out_of_memory import told_when_out_of_memory
from certgcl.runtime.randomness import generator_on

SECONDS_OF_ANCHOR = 10.0  # seconds at most, for a search over added edges
DROP_PROBABILITY = 0.9  # of the sampled views, which then are as far from the graph as the budget allows


@dataclass(frozen=True, eq=False)
class AuditReport:
    """The results of an audit.

    Args:
        certificate: the bounds that were put to the test.
        lowest: the least value that any view gave, for each anchor of the certificate, ``(A,)``.
        sampled: how many random views there were.
        searched: the anchors for which drops were searched, as positions in ``certificate.nodes``.
        ran: what was run on every view, in words.
    """

    certificate: Certificate
    lowest: Tensor
    sampled: int
    searched: Tensor
    ran: str

    @property
    def gap(self) -> Tensor:
        """How far the least value is above the bound, ``(A,)``: the bound is no looser than this.

        Zero where the value is below the bound, but by no more than rounding explains.
        """
        gap = self.lowest - self.certificate.lower
        return torch.where(self.slack >= 0, gap.clamp(min=0), gap)

    @property
    def allowance(self) -> Tensor:
        """The difference that rounding explains, in the bound and in the run of the model, ``(A,)``."""
        return self.certificate.rounding + self.certificate.run_error

    @property
    def slack(self) -> Tensor:
        """How far the least value is above what rounding explains, ``(A,)``: below zero is a violation."""
        return self.lowest - self.certificate.lower + self.allowance

    @property
    def violations(self) -> Tensor:
        """The nodes with a value below their bound by more than rounding explains; none, if the bound is one."""
        return self.certificate.nodes[~(self.slack >= 0)]

    def to_dict(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        searched = self.gap[self.searched]
        return {
            "method": self.certificate.method,
            "certified": self.certificate.certified,
            "ran": self.ran,
            "nodes": len(self.lowest),
            "views_sampled": self.sampled,
            "views_searched": len(searched),
            "violations": len(self.violations),
            "violated_nodes": self.violations.tolist(),
            "smallest_slack": float(self.slack.min()),
            "largest_allowance": float(self.allowance.max()),
            "mean_gap": float(self.gap.mean()),
            "mean_gap_searched": float(searched.mean()) if len(searched) else None,
            "mean_drop_searched": float((self.certificate.nominal - self.lowest)[self.searched].clamp(min=0).mean())
            if len(searched)
            else None,
        }

    def __str__(self) -> str:
        found = self.to_dict()
        lines = [
            f"{found['method']}: {found['violations']} violations at {found['nodes']} nodes in "
            f"{found['views_sampled']} sampled and {found['views_searched']} searched views",
            f"  run on each     {self.ran}",
            f"  smallest slack  {found['smallest_slack']:.4g}  (lowest value found - bound + what rounding explains, "
            f"{found['largest_allowance']:.2g} at most)",
            f"  mean gap        {found['mean_gap']:.4g}  (lowest value found - bound)",
        ]
        if len(self.searched):
            lines.append(
                f"  where searched  {found['mean_gap_searched']:.4g}  (the lowest value found there is "
                f"{found['mean_drop_searched']:.4g} below the clean one)"
            )
        return "\n".join(lines)


@undisturbed()
@told_when_out_of_memory()
def audit(
    model: ModelLike,
    graph: GraphLike,
    budgets: BudgetLike,
    *,
    method: str | BoundMethod = "degree",
    nodes: Tensor | Sequence[int] | None = None,
    samples: int = 200,
    searches: int = 16,
    seed: int = 0,
    reading: Reading = "traced",
    progress: Callable[[int, int], object] | None = None,
) -> AuditReport:
    """Certify nodes, then look for views that break the certificate.

    Every other sampled view drops as many edges as the budgets allow everywhere, the others exactly the budget of one
    anchor around it; new edges come on top as far as budgets allow, at every third view without any drops, and features
    change as much as they may. Searched views drop the edges that lower the value of one anchor most
    (:class:`certgcl.attacks.Search`), according to the weights that were read from the model. The model itself, in its
    own precision, is run on each view as a whole and on the graph as it is, and all anchors are checked in it: so a
    model that was misread is noticed too. If ``model`` consists of weights only, those are run. The absence of
    violations proves nothing; one is a counterexample.

    Args:
        samples: how many random views.
        searches: how many anchors, drawn at random, drops are searched for; those whose receptive field is too large
            are skipped.
        progress: called with the number of views done and of all.

    Other arguments as in :func:`certgcl.node_compactness`.

    Example::

        report = audit(encoder, data, 2)
        assert not len(report.violations)
    """
    for name, count in (("samples", samples), ("searches", searches)):
        whole(count, name, 0, "it counts views", "Give an integer, 0 or more")
    seed = checked_seed(seed)
    callback(progress, "progress")
    graph = Graph.of(graph).private()
    budget = Changes.of(budgets)
    read = read_network(model, graph, reading, budgets=budget)
    changes = budget.on(graph)
    runner, space = Runner.of(model, read, graph), SearchSpace(read.to(torch.float64), graph, changes.drops)
    certificate = node_compactness(read, graph, budget, method=method, nodes=nodes)
    views = _Views(space, changes, certificate, generator_on(graph.col.device, seed))
    lowest, searched = _values(runner, graph, certificate), []
    for done, (view, position) in enumerate(views.drawn(samples, searches), start=1):
        lowest = lowest.minimum(_values(runner, view, certificate))
        searched += [] if position is None else [position]
        if progress is not None:
            progress(done, samples + searches)
    positions = torch.tensor(searched, dtype=torch.long, device=graph.col.device)
    return AuditReport(certificate, lowest, samples, positions, str(runner))


def _values(runner: Runner, view: Graph, certificate: Certificate) -> Tensor:
    """``w · z`` of every anchor on a view, ``(A,)``."""
    return (runner.embed(view)[certificate.nodes] * certificate.directions).sum(dim=1)


@dataclass(frozen=True, eq=False)
class _Views:
    """The views of an audit."""

    space: SearchSpace
    changes: AdmissibleChanges
    certificate: Certificate
    generator: torch.Generator

    @property
    def graph(self) -> Graph:
        return self.space.graph

    @property
    def drops(self) -> AdmissibleDrops:
        return self.space.drops

    def drawn(self, samples: int, searches: int) -> Iterator[tuple[Graph, int | None]]:
        """Sampled views, then searched ones with the position of the anchor they are for."""
        everywhere = EdgeDropper(self.graph, DROP_PROBABILITY, self.drops)
        for number in range(samples):
            view = everywhere.sample(self.generator) if number % 2 == 0 else self._around_one_anchor()
            if self.changes.additions is not None:
                kept = self.graph if number % 3 == 2 else view
                view = random_additions(self.graph, kept, self.changes.additions, self.generator)
            if self.changes.features is not None:
                view = view.with_features(random_features(self.graph, self.changes.features, self.generator))
            yield view, None
        found = 0
        for position in self._shuffled(len(self.certificate.nodes)).tolist():
            if found == searches:
                return
            searched = self._searched(position)
            if searched is not None:
                found += 1
                yield searched, position

    def _shuffled(self, count: int) -> Tensor:
        return torch.randperm(count, device=self.graph.col.device, generator=self.generator)

    def _around_one_anchor(self) -> Graph:
        """A view in which a random anchor loses exactly as many edges as it may, and nothing else is dropped."""
        nodes = self.certificate.nodes
        anchor = int(nodes[torch.randint(len(nodes), (), device=nodes.device, generator=self.generator)])
        slots = ((self.graph.row == anchor) & self.drops.droppable).nonzero()[:, 0]
        chosen = slots[self._shuffled(len(slots))[: int(self.drops.local[anchor])]]
        return without(self.graph, self.graph.edge_index[:, chosen])

    def _searched(self, position: int) -> Graph | None:
        direction, anchor = self.certificate.directions[position], int(self.certificate.nodes[position])
        if self.changes.additions is not None:
            search = EdgeSearch(self.space.network, self.graph, self.changes)
            end = time.monotonic() + SECONDS_OF_ANCHOR
            view = search.changed(*search.greedy(anchor, direction.double(), end))
        else:
            field = self.space.field(anchor)
            if field is None:
                return None
            (dropped,) = Search(restarts=0)(self.space, [field], direction[None])
            view = without(self.graph, self.space.edges(field, dropped))
        features = self.changes.features
        if features is None:
            return view
        around = FeatureField.of(self.space.network, view, features, anchor)
        return view.with_features(around.changed(around.search(direction.double())[1]).applied(self.graph))
