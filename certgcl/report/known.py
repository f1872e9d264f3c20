"""Everything that is known about every node when the page is written: from the certificate, and from the page itself.

Every table and figure of a page is drawn from this, so that a node is the same in all of them.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.edge_search import EdgeSearch, edges_of
from certgcl.certify.certificate import Certificate
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.report.content import BREAKS, OPEN, PROVED, UNPROVED, Edge, EdgeEffect
from certgcl.report.curves import Curves
from certgcl.report.few_edges import few_edges
from certgcl.report.sources import ReportSource

SECONDS = 30.0  # seconds for a search over added edges, at all nodes together
CLOSER = 6  # nodes with the least bounds, for which branch and bound is run


@dataclass(frozen=True, eq=False)
class Known:
    """A certificate with one direction per node, improved by what the page computes.

    Args:
        certificate: without a search, ``upper`` is the clean value and the witness is empty.
        searched: the nodes that were searched, ``(A,)``.
        effects: the few edges that matter, by node.
    """

    certificate: Certificate
    searched: Tensor
    effects: Mapping[int, list[EdgeEffect]]

    @classmethod
    def of(cls, worst: Certificate) -> "Known":
        """The contents of a certificate, without further computation."""
        wide: dict[str, Any] = {
            name: getattr(worst, name).double() for name in ("lower", "nominal", "rounding", "run_error", "directions")
        }
        wide["upper"] = None if worst.upper is None else worst.upper.double()
        return cls(replace(worst, **wide), torch.full((len(worst.nodes),), worst.witnesses is not None), {})

    @property
    def signs(self) -> list[str]:
        """The sign of each node as far as it is known, in a word."""
        known = zip(self.certificate.positive.tolist(), self.certificate.negative.tolist(), strict=True)
        if not self.certificate.certified:
            return [UNPROVED] * len(self.certificate.nodes)
        return [PROVED if positive else BREAKS if negative else OPEN for positive, negative in known]

    def at(self, positions: Tensor) -> "Known":
        return Known(self.certificate.at(positions), self.searched[positions], self.effects)

    def upper(self, position: int) -> float | None:
        found = self.certificate.upper
        return None if found is None or not bool(self.searched[position]) else float(found[position])

    def raised(self, nodes: Tensor, lower: Tensor, rounding: Tensor) -> "Known":
        """Includes other bounds of the same values at some nodes, where they are higher.

        Both are bounds of the same minimum, so their maximum is one; its rounding is at most that of both together.
        """
        own = self.certificate
        places = positions(own, nodes)
        error = own.rounding[places] + rounding
        higher = (lower - error > own.lower[places] - own.rounding[places]) & (lower > own.lower[places])
        higher &= ~own.exact[places]
        merged: dict[str, Any] = {name: getattr(own, name).clone() for name in ("lower", "rounding")}
        merged["lower"][places[higher]], merged["rounding"][places[higher]] = lower[higher], error[higher]
        if own.upper is not None:  # rounding may cross them by its own size
            merged["lower"] = merged["lower"].minimum(own.upper.maximum(own.lower))
        return replace(self, certificate=replace(own, **merged))

    def lowered(
        self,
        witnesses: Mapping[int, Tensor],
        values: Mapping[int, float],
        changed: Mapping[int, ChangedEntries] | None = None,
        added: Mapping[int, Tensor] | None = None,
    ) -> "Known":
        """Includes drops, changed features and new edges that reach a value, by position, where it is below what is
        known by more than rounding; those positions count as searched."""
        own, searched = self.certificate, self.searched.clone()
        upper = (own.nominal if own.upper is None else own.upper).clone()
        found = list(own.witnesses or (own.nodes.new_empty((2, 0)),) * len(own.nodes))
        none = ChangedEntries.none(own.nodes.device)
        features = None if own.features is None else list(own.changed or (none,) * len(own.nodes))
        nothing = own.nodes.new_empty((2, 0))
        new = None if own.additions is None else list(own.added or (nothing,) * len(own.nodes))
        for place, witness in witnesses.items():
            searched[place] = True
            if values[place] < float(upper[place] - own.rounding[place]):
                upper[place], found[place] = values[place], witness
                if features is not None:
                    features[place] = none if changed is None else changed[place]
                if new is not None:
                    new[place] = nothing if added is None else added[place]
        return replace(
            self,
            searched=searched,
            certificate=replace(
                own,
                upper=upper,
                witnesses=tuple(found),
                changed=None if features is None else tuple(features),
                added=None if new is None else tuple(new),
            ),
        )


def all_known(source: ReportSource, curves: Curves | None) -> Known | None:
    """Everything that can be found: by the bounds of the curve, branch and bound at the least bounds, and a search at
    the nodes of the curve; only the contents of the certificate if nothing can be computed. None without a
    certificate."""
    worst = source.worst
    if worst is None:
        return None
    known = Known.of(worst)
    if curves is None or source.encoder is None or source.graph is None:
        return known
    if source.bounds_can_be_raised:
        for lower, rounding in curves.covering(source.budget.on(source.graph)):
            known = known.raised(curves.nodes, lower, rounding)
    if worst.witnesses is None:
        known = _searched(source, _closer(source, known), curves.nodes)
    return _with_few_edges(source, known, curves.nodes)


def positions(certificate: Certificate, nodes: Tensor) -> Tensor:
    """The positions of some nodes in a certificate."""
    ordered, order = certificate.nodes.sort()
    return order[torch.searchsorted(ordered, nodes)]


def _closer(source: ReportSource, known: Known) -> Known:
    """A short branch and bound at the least bounds."""
    own = known.certificate
    nodes = own.nodes[own.lower.argsort(stable=True)[:CLOSER]]
    found = source.bounds(own.changes, "optimized", nodes, own)
    assert found.upper is not None
    assert found.witnesses is not None
    places = positions(own, nodes).tolist()
    known = known.lowered(
        dict(zip(places, found.witnesses, strict=True)),
        dict(zip(places, found.upper.tolist(), strict=True)),
        None if found.changed is None else dict(zip(places, found.changed, strict=True)),
        None if found.added is None else dict(zip(places, found.added, strict=True)),
    )
    return known.raised(nodes, found.lower, found.rounding) if source.bounds_can_be_raised else known


@torch.no_grad()
def _searched(source: ReportSource, known: Known, nodes: Tensor) -> Known:
    """A search for drops at some nodes, and for new edges where some may be added."""
    assert source.encoder is not None
    assert source.graph is not None
    own, graph = known.certificate, source.graph
    if own.additions is not None:
        return _searched_with_new_edges(source.encoder, graph, known, nodes)
    space = SearchSpace(source.encoder, graph, source.budget.on(graph))
    places = [place for place in positions(own, nodes).tolist() if not bool(known.searched[place])]
    around = {place: field for place in places if (field := space.field(int(own.nodes[place]))) is not None}
    if not around:
        return known
    dropped = Search()(space, list(around.values()), own.directions[list(around)])
    evaluation = DropEvaluation.of(source.encoder, graph)
    witnesses = {place: space.edges(around[place], edges) for place, edges in zip(around, dropped, strict=True)}
    return known.lowered(
        witnesses,
        {
            place: float(evaluation.embedding(int(own.nodes[place]), witness) @ own.directions[place])
            for place, witness in witnesses.items()
        },
    )


def _searched_with_new_edges(network: GraphNetwork, graph: Graph, known: Known, nodes: Tensor) -> Known:
    """Searches while there is time, the most fragile nodes first."""
    own, end = known.certificate, time.monotonic() + SECONDS
    search, evaluation = EdgeSearch(network, graph, own.changes.on(graph)), DropEvaluation.of(network, graph)
    dropped: dict[int, Tensor] = {}
    added: dict[int, Tensor] = {}
    values: dict[int, float] = {}
    places = positions(own, nodes)
    for place in places[own.lower[places].argsort(stable=True)].tolist():
        if bool(known.searched[place]) or time.monotonic() >= end:
            continue
        node, direction = int(own.nodes[place]), own.directions[place]
        dropped[place], added[place] = (edges_of(pairs, graph).T for pairs in search.greedy(node, direction, end))
        values[place] = float(evaluation.embedding(node, dropped[place], None, added[place]) @ direction)
    return known.lowered(dropped, values, None, added)


@torch.no_grad()
def _with_few_edges(source: ReportSource, known: Known, nodes: Tensor) -> Known:
    """The few edges that matter at some nodes; if they have more effect than the whole witness, they replace it."""
    assert source.encoder is not None
    assert source.graph is not None
    own, evaluation = known.certificate, DropEvaluation.of(source.encoder, source.graph)
    assert own.witnesses is not None
    places = {place: int(own.nodes[place]) for place in positions(own, nodes).tolist() if bool(known.searched[place])}
    effects = {
        node: few_edges(
            evaluation,
            node,
            own.directions[place],
            float(own.nominal[place]),
            own.witnesses[place],
            own.added_edges(node),
        )
        for place, node in places.items()
    }
    found = {place: effects[node] for place, node in places.items() if effects[node]}
    dropped, added = (
        {place: _edges([effect.edge for effect in few if effect.added == new]) for place, few in found.items()}
        for new in (False, True)
    )
    known = known.lowered(dropped, {place: few[-1].value for place, few in found.items()}, None, added)
    return replace(known, effects=effects)


def _edges(pairs: list[Edge]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
