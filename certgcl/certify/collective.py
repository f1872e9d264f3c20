"""How many nodes survive one change at the same time: the joint statement of certificates for several totals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.arguments import real, shown
from certgcl.certify.certificate import Certificate
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.collective_bound import CollectiveProblem
from certgcl.certify.evidence import differences, edges_part, features_part, weights_part
from certgcl.certify.touched_edges import edges_of, touched_edges
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.errors import CertificateError
from certgcl.formatting import percent, spread
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.reading import ModelLike, read_network
from certgcl.runtime.out_of_memory import told_when_out_of_memory

_QUESTION = ("weights", "edges", "features", "directions")
_ONE_QUESTION = "certificates of one collective statement differ in their totals alone"
_REMEDY = "Certify all with EdgeDropBudget(local, total=r) for r = 0, 1, …, and nothing else changed"


@dataclass(frozen=True, eq=False)
class CollectiveCertificate:
    """``lower`` of some nodes stay positive *at once*, whichever one admissible set of edges is dropped.

    A certificate for single nodes allows each of them its own worst change. One change of at most ``total_budget``
    edges cannot be the worst for all, because it has no effect far away from its edges.

    Args:
        nodes: the anchors, ``(A,)``.
        lower: at least this many of them are positive after any one admissible drop.
        alone: how many are proved to be positive one by one, with the same budget. Never above ``lower``.
        largest_total: for every anchor the largest total with which it is proved to be positive; -1 for none, ``(A,)``.
        local_budget: the tightened ``q`` of every node of the graph, ``(N,)``.
        total_budget: ``Q``, that of the certificate with the largest one.
    """

    nodes: Tensor
    lower: int
    alone: int
    largest_total: Tensor
    local_budget: Tensor
    total_budget: int

    @property
    def share(self) -> float:
        """``lower`` as a share of the anchors."""
        return self.lower / len(self.nodes)

    def __str__(self) -> str:
        number = len(self.nodes)
        return "\n".join(
            [
                f"collective certificate of {number} of {len(self.local_budget)} nodes",
                f"  budget    local {spread(self.local_budget)}, total {self.total_budget} edges; one set for all",
                f"  positive  {self.lower} of {number} ({percent(self.share)}) proved to stay above zero at once",
                f"            {self.alone} of {number} ({percent(self.alone / number)}) one by one",
            ]
        )

    __repr__ = __str__


@told_when_out_of_memory()
def collective_certificate(
    certificates: Sequence[Certificate], model: ModelLike, graph: GraphLike, *, time_limit: float | None = None
) -> CollectiveCertificate:
    """A lower bound of the number of nodes that stay positive at once under any *one* drop of at most Q edges.

    A node that is proved to be positive with r edges in all can only be lost by r + 1 edges in its receptive field.
    How many nodes one set of Q edges (within the local budgets) can lose at most is bounded by a linear program over
    the receptive fields, whose dual proves it in integer arithmetic. A node with several directions is positive where
    all are.

    Args:
        certificates: of :func:`node_compactness` or :func:`linear_bounds` for the same nodes, local budgets and
            directions, with different totals; Q is the largest of them. Totals that are left out cost tightness alone.
        model: the model that they are about.
        graph: the graph that they are about.
        time_limit: of the linear program, in seconds. If it is not solved by then, nodes are counted one by one.

    Raises:
        CertificateError: the certificates are not about one question, or not about this model and graph.

    Example::

        certificates = [certgcl.node_compactness(encoder, data, certgcl.EdgeDropBudget(local=2, total=r))
                        for r in range(4)]
        print(certgcl.collective_certificate(certificates, encoder, data))
    """
    parts = _checked(certificates)
    limit = (
        None
        if time_limit is None
        else real(
            time_limit,
            "time_limit",
            lambda given: 0 < given < float("inf"),
            "it is a positive number of seconds",
            "Leave it out for none",
        )
    )
    graph = Graph.of(graph).private()
    network = read_network(model, graph)
    last = max(parts, key=lambda part: part.total_budget)
    here = {"weights": weights_part(network), "edges": edges_part(graph), "features": features_part(graph)}
    different = differences({name: last.evidence.parts[name] for name in here}, here)
    if different:
        raise CertificateError(
            f"certificates that differ from model and graph in {', '.join(different)}",
            "both must be those that were certified",
            "Pass the same model and graph",
        )
    drops = EdgeDropBudget(last.requested_budget, last.total_budget).on(graph)
    if not torch.equal(drops.local.cpu(), last.local_budget.cpu()):
        raise CertificateError(
            "certificates whose budgets are not those of this graph",
            "tightening the requested budgets on this graph must give the same budgets",
            _REMEDY,
        )
    nodes, largest = last.nodes, _largest_totals(parts, last.nodes)
    fragile = (largest >= 0) & (largest < last.total_budget)
    lost = _problem(touched_edges(network, graph, nodes[fragile]), largest[fragile], graph, drops).most_lost(limit)
    return CollectiveCertificate(
        nodes.clone(),
        int((largest >= 0).sum()) - lost,
        int((largest >= last.total_budget).sum()),
        largest,
        last.local_budget.clone(),
        last.total_budget,
    )


def _problem(fields: Any, largest: Tensor, graph: Graph, drops: AdmissibleDrops) -> CollectiveProblem:
    """The program over the nodes that can be lost and the droppable edges that matter to any of them."""
    slots = edges_of(graph)
    used = drops.droppable[slots].cpu().numpy() & (np.diff(fields.tocsc().indptr) > 0)
    ends = torch.stack([graph.row[slots], graph.col[slots]]).cpu().numpy()[:, used]
    return CollectiveProblem(fields[:, used], largest.cpu().numpy() + 1, ends, drops.local.cpu().numpy(), drops.total)


def _largest_totals(parts: tuple[Certificate, ...], nodes: Tensor) -> Tensor:
    """The largest total with which each node is proved to be positive; it is then positive with every smaller one."""
    largest = torch.full_like(nodes, -1)
    place = torch.argsort(nodes)
    for part in parts:
        positive = part.positive.flatten(1).all(dim=1) if part.positive.dim() > 1 else part.positive
        in_order = torch.empty_like(positive)
        in_order[place] = positive[torch.argsort(part.nodes)]
        largest = torch.where(in_order, largest.clamp(min=part.total_budget), largest)
    return largest


def _checked(certificates: Any) -> tuple[Certificate, ...]:
    """Certificates that are proofs and differ in their totals alone."""
    if (
        not isinstance(certificates, (list, tuple))
        or not certificates
        or not all(isinstance(part, Certificate) for part in certificates)
    ):
        raise CertificateError(
            f"certificates={shown(certificates)}", "they are a list of certificates, at least one", _REMEDY
        )
    first = certificates[0]
    for part in certificates:
        check_certificate(part)
        if not part.certified:
            raise CertificateError(
                f"a certificate by method {part.method!r}", "that method proves nothing", "Use 'degree', the default"
            )
        if part.features is not None:
            raise CertificateError(
                f"a certificate of {part.features.words()}",
                "a change shared by all nodes can only drop edges",
                "Certify without features",
            )
        if part.additions is not None:
            raise CertificateError(
                f"a certificate of edges that are {part.additions.words()}",
                "a change shared by all nodes can only drop edges",
                "Certify without additions",
            )
        if part.evidence.direction_source == "both views":
            raise CertificateError(
                "a certificate with both views free",
                "the second view changes everywhere, not only in a node's receptive field",
                "Leave out views='both'",
            )
        different = differences(*({name: each.evidence.parts[name] for name in _QUESTION} for each in (first, part)))
        for name in ("requested_budget", "nodes"):
            one, other = (
                getattr(each, name).sort().values if name == "nodes" else getattr(each, name) for each in (first, part)
            )
            different += [] if torch.equal(one.cpu(), other.cpu()) else [name]
        if different:
            raise CertificateError(f"certificates that differ in {', '.join(different)}", _ONE_QUESTION, _REMEDY)
    return tuple(certificates)
