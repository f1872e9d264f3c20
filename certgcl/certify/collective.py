"""How many nodes survive the same change: a joint statement from certificates for several totals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import real, shown
from certgcl.certify.certificate import Certificate
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.collective_changes import COUNTED, Levels, collective_problem
from certgcl.certify.evidence import differences, edges_part, features_part, weights_part
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import CertificateError
from certgcl.formatting import percent, spread
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.reading import ModelLike, read_network
from certgcl.runtime.out_of_memory import told_when_out_of_memory

_QUESTION = ("weights", "edges", "features", "directions")
_ONE_QUESTION = "certificates of one collective statement differ in their totals alone"
_REMEDY = "Certify all with the same budgets but for total=r with r = 0, 1, …, and nothing else changed"


@dataclass(frozen=True, eq=False)
class CollectiveCertificate:
    """``lower`` of some nodes stay positive *at once*, whichever one admissible change is made.

    A certificate for single nodes allows each of them its own worst change. One change of at most ``total_budget``
    edges cannot be the worst for all, because it has no effect far away from its edges.

    Args:
        nodes: the anchors, ``(A,)``.
        lower: at least this many of them are positive after any one admissible change.
        alone: how many are proved to be positive one by one, with the same budget. Never above ``lower``.
        largest_total: for every anchor the most changes in all, edges and features, with which it is proved to be
            positive; -1 for none, ``(A,)``.
        local_budget: the tightened ``q`` of every node of the graph, ``(N,)``.
        total_budget: ``Q``, that of the certificate with the largest one.
        also: the features and new edges that may change besides, in words.
    """

    nodes: Tensor
    lower: int
    alone: int
    largest_total: Tensor
    local_budget: Tensor
    total_budget: int
    also: str = ""

    @property
    def share(self) -> float:
        """``lower`` as a share of the anchors."""
        return self.lower / len(self.nodes)

    def __str__(self) -> str:
        number = len(self.nodes)
        return "\n".join(
            [
                f"collective certificate of {number} of {len(self.local_budget)} nodes",
                f"  budget    local {spread(self.local_budget)}, total {self.total_budget} edges"
                f"{'; ' * bool(self.also)}{self.also}; one {'change' if self.also else 'set'} for all",
                f"  positive  {self.lower} of {number} ({percent(self.share)}) proved to stay above zero at once",
                f"            {self.alone} of {number} ({percent(self.alone / number)}) one by one",
            ]
        )

    __repr__ = __str__


@told_when_out_of_memory()
def collective_certificate(
    certificates: Sequence[Certificate], model: ModelLike, graph: GraphLike, *, time_limit: float | None = None
) -> CollectiveCertificate:
    """At least how many nodes stay positive at once under any *one* admissible change.

    A node that is proved to be positive with r edges in all can only be lost by r + 1 edges in its receptive field.
    How many nodes one change (within the local budgets) can lose at most is bounded by a linear program over the
    receptive fields, whose dual proves it in integer arithmetic. Changed features with a total count in the same way;
    an added edge can cost the nodes near its ends. A node with several directions is positive where all are.

    Args:
        certificates: of :func:`node_compactness` or :func:`linear_bounds` for the same nodes, local budgets and
            directions, with different totals: the largest totals count, and leaving some out only makes the result less
            tight.
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
    last = max(parts, key=lambda part: Levels.of(part).changes)
    here = {"weights": weights_part(network), "edges": edges_part(graph), "features": features_part(graph)}
    different = differences({name: last.evidence.parts[name] for name in here}, here)
    if different:
        raise CertificateError(
            f"certificates that differ from model and graph in {', '.join(different)}",
            "both must be those that were certified",
            "Pass the same model and graph",
        )
    changes, most = _changes(last, graph), Levels.of(last)
    levels = _largest_levels(parts, last.nodes)
    proved, whole = levels[:, 0] >= 0, (levels >= levels.new_tensor(most)).all(dim=1)
    fragile = proved & ~whole
    problem = collective_problem(network, graph, changes, most, last.nodes[fragile], levels[fragile].cpu().numpy())
    return CollectiveCertificate(
        last.nodes.clone(),
        int(proved.sum()) - problem.most_lost(limit),
        int(whole.sum()),
        torch.where(proved, levels[:, 2] + levels[:, 3], -1),
        last.local_budget.clone(),
        last.total_budget,
        _words(last),
    )


def _changes(last: Certificate, graph: Graph) -> AdmissibleChanges:
    """What the certificate with the largest totals allows, tightened again on this graph."""
    drops = EdgeDropBudget(last.requested_budget, last.total_budget).on(graph)
    features = None if last.features is None else last.features.budget().on(graph)
    additions = None if last.additions is None else last.additions.on(graph, drops)
    if not (
        torch.equal(drops.local.cpu(), last.local_budget.cpu())
        and (features is None or features.same(last.features))
        and (additions is None or additions.same(last.additions))
    ):
        raise CertificateError(
            "certificates whose budgets are not those of this graph",
            "tightening the requested budgets on this graph must give the same budgets",
            _REMEDY,
        )
    return AdmissibleChanges(drops, features, additions)


def _words(last: Certificate) -> str:
    """What else may change, in short."""
    parts = (last.features, last.additions)
    return "; ".join(part.words() for part in parts if part is not None)


def _largest_levels(parts: tuple[Certificate, ...], nodes: Tensor) -> Tensor:
    """Of the levels with which a node is proved to be positive, those that allow the most changes; -1 for none,
    ``(A, 4)``."""
    largest = torch.full((len(nodes), 4), -1, dtype=torch.long, device=nodes.device)
    place = torch.argsort(nodes)
    for part in sorted(parts, key=lambda part: Levels.of(part).changes):
        positive = part.positive.flatten(1).all(dim=1) if part.positive.dim() > 1 else part.positive
        in_order = torch.empty_like(positive)
        in_order[place] = positive[torch.argsort(part.nodes)]
        largest[in_order] = largest.new_tensor(Levels.of(part))
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
    last = max(certificates, key=lambda part: Levels.of(part).changes)
    for part in certificates:
        if not (Levels.of(part).within(Levels.of(last)) and _same_features(part, last) and _same_additions(part, last)):
            raise CertificateError(
                f"certificates of {_words(part) or 'drops alone'} and {_words(last) or 'drops alone'}",
                _ONE_QUESTION,
                _REMEDY,
            )
    return tuple(certificates)


def _same_features(part: Certificate, last: Certificate) -> bool:
    """Whether a part allows all features that the last one does, up to its own total."""
    one, other = part.features, last.features
    if one is None or other is None:
        return other is None or other.kind in COUNTED  # without features: a total of 0
    if one.kind != other.kind or one.columns != other.columns or not torch.equal(one.radius, other.radius):
        return False
    if one.kind not in COUNTED:
        return True
    return all(
        bool((mine >= theirs.clamp(max=one.total)).all()) for mine, theirs in ((one.off, other.off), (one.on, other.on))
    )


def _same_additions(part: Certificate, last: Certificate) -> bool:
    """Whether a part allows all new edges that the last one does, up to its own totals."""
    one, other = part.additions, last.additions
    if one is None or other is None:
        return True  # without new edges: a total of 0
    alike = one.candidates is None or (
        other.candidates is not None
        and all(torch.equal(mine, theirs) for mine, theirs in zip(one.candidates, other.candidates, strict=True))
    )
    both = other.both.minimum(part.local_budget + one.local).clamp(max=one.both_total)
    return alike and bool((one.local >= other.local.clamp(max=one.total)).all()) and bool((one.both >= both).all())
