"""Checks a certificate against the model and the graph that it claims to be about."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import numbers
from certgcl.certify.certificate import Certificate
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.directions import check_directions, compactness_directions
from certgcl.certify.evidence import (
    Fact,
    budget_part,
    difference,
    edges_part,
    features_part,
    given_part,
    view_part,
    weights_part,
)
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import BudgetError, CertgclError, CertificateError, InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike, read_network

_SAME = "the same to the last bit"


@dataclass(frozen=True)
class Check:
    """One check.

    Args:
        ok: whether it is right; None for what was not checked.
        detail: what was compared, or what is wrong.
    """

    name: str
    ok: bool | None
    detail: str


@dataclass(frozen=True)
class Verification:
    """The results of :meth:`certgcl.Certificate.verify`, check by check."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. What was not checked is named in ``checks``."""
        return all(check.ok is not False for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The same, as JSON can hold it."""
        return {
            "ok": self.ok,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks],
        }

    def __str__(self) -> str:
        wrong = sum(check.ok is False for check in self.checks)
        passed, width = sum(check.ok is True for check in self.checks), max(len(check.name) for check in self.checks)
        words = {True: "ok", False: "WRONG", None: "-"}
        head = f"verified: {passed} checks passed" if self.ok else f"NOT verified: {wrong} checks failed"
        return "\n".join(
            [head, *(f"  {words[check.ok]:<5}  {check.name:<{width}}  {check.detail}" for check in self.checks)]
        )


@torch.no_grad()
def verify(
    certificate: Certificate,
    model: ModelLike,
    graph: GraphLike,
    *,
    nodes: Tensor | Sequence[Any] | None = None,
    view: GraphLike | None = None,
    directions: Tensor | None = None,
) -> Verification:
    """The checks of :meth:`certgcl.Certificate.verify`.

    Values are recomputed in float64, with separate code for the witnesses, and compared up to ``rounding``.
    """
    graph = Graph.of(graph)
    network = read_network(model, graph)
    other = None if view is None else graph.view(view).to("cpu")
    graph, certificate = graph.to("cpu"), _on_cpu(certificate)
    sound = _sound(certificate)
    if not sound.ok:
        return Verification((sound,))
    same = [
        same_part("weights", certificate.evidence.weights, weights_part(network)),
        same_part("edges", certificate.evidence.edges, edges_part(graph)),
        same_part("features", certificate.evidence.features, features_part(graph)),
    ]
    network = network.to(torch.float64, torch.device("cpu"))
    given = (
        None
        if directions is None
        else given_part(check_directions(directions, graph, network).to(certificate.directions.dtype))
    )
    against = _NodeChecks(certificate, _chosen(certificate, graph.numbers_of(nodes)), network, graph, other, given)
    return Verification(
        (
            sound,
            *same,
            *against.checks(),
            Check(
                "bounds",
                None,
                "lower, rounding, run_error and the budget curve are not proved again, nor is how the model was read "
                f"({certificate.reading})",
            ),
        )
    )


def _sound(certificate: Certificate) -> Check:
    try:
        check_certificate(certificate)
    except CertificateError as error:
        return Check("fields", False, f"{error.found}: {error.rule}")
    return Check("fields", True, f"{len(certificate.nodes)} nodes, values that fit each other")


def same_part(name: str, there: Fact, here: Fact) -> Check:
    if there.identity == here.identity:
        return Check(name, True, f"{here.shown}, {_SAME}")
    words = difference(name, there, here)
    return Check(name, False, f"others than those certified{words.removeprefix(name)}")


def _chosen(certificate: Certificate, nodes: Tensor | Sequence[int] | None) -> Certificate:
    """The certificate at some of its nodes."""
    if nodes is None:
        return certificate
    wanted = numbers(nodes, "nodes", "they are node numbers", "Leave out for all").cpu()
    if wanted.dim() != 1 or not len(wanted) or wanted.dtype not in (torch.int64, torch.int32):
        raise InputError(
            f"nodes of dtype {wanted.dtype} and shape {tuple(wanted.shape)}",
            "they are a non-empty list of node numbers",
            "Leave out for all",
        )
    outside = wanted[~torch.isin(wanted, certificate.nodes)]
    if len(outside):
        raise InputError(
            f"node {int(outside[0])}", "only nodes of the certificate can be verified", "Leave out for all"
        )
    ordered, order = certificate.nodes.sort()
    return certificate.at(order[torch.searchsorted(ordered, wanted.unique().long())])


def _on_cpu(certificate: Certificate) -> Certificate:
    moved: dict[str, Any] = {
        field.name: value.detach().cpu()
        for field in fields(certificate)
        if isinstance(value := getattr(certificate, field.name), Tensor)
    }
    if certificate.witnesses is not None:
        moved["witnesses"] = tuple(witness.cpu() for witness in certificate.witnesses)
    if certificate.changed is not None:
        moved["changed"] = tuple(entries.to(torch.device("cpu")) for entries in certificate.changed)
    if certificate.added is not None:
        moved["added"] = tuple(edges.cpu() for edges in certificate.added)
    if certificate.features is not None:
        moved["features"] = certificate.features.to(torch.device("cpu"))
    if certificate.additions is not None:
        moved["additions"] = certificate.additions.to(torch.device("cpu"))
    return replace(certificate, **moved)


@dataclass(frozen=True, eq=False)
class _NodeChecks:
    """The checks of values.

    Args:
        certificate: the whole.
        chosen: the same at the chosen nodes.
        network: of the given model, in float64.
        given: the directions that were passed, if any.
    """

    certificate: Certificate
    chosen: Certificate
    network: GraphNetwork
    graph: Graph
    view: Graph | None
    given: Fact | None

    def checks(self) -> Iterator[Check]:
        certificate, graph = self.certificate, self.graph
        misfit = ""
        if len(certificate.local_budget) != graph.num_nodes:
            misfit = f"the certificate is of a graph with {len(certificate.local_budget)} nodes, not {graph.num_nodes}"
        elif certificate.directions.shape[-1] != self.network.width:
            misfit = (
                f"the certificate is of a model with {certificate.directions.shape[-1]} outputs, not "
                f"{self.network.width}"
            )
        steps: dict[str, Callable[[], Check]] = {
            "budgets": self._budgets,
            "directions": self._directions,
            "clean values": self._clean,
            "norms": self._norms,
            "witnesses": self._witnesses,
        }
        for name, step in steps.items():
            yield Check(name, False, misfit) if misfit else step()

    def _budgets(self) -> Check:
        """The requested budget, tightened again on this graph."""
        name, certificate = "budgets", self.certificate
        try:
            changes = self._tightened_again()
        except BudgetError as error:
            return Check(name, False, f"{error.found}: {error.rule}")
        drops = changes.drops
        if certificate.additions is not None and not certificate.additions.same(changes.additions):
            return Check(name, False, "tightening the additions gives others on this graph")
        if not torch.equal(drops.local, certificate.local_budget) or drops.total != certificate.total_budget:
            return Check(name, False, "tightening the requested budgets gives other ones on this graph")
        if budget_part(changes).identity != certificate.evidence.budget.identity:
            return Check(name, False, "others than those certified")
        return Check(name, True, f"{budget_part(changes).shown}, tightened again from the request")

    def _tightened_again(self) -> AdmissibleChanges:
        certificate = self.certificate
        if certificate.additions is None:
            return certificate.changes.on(self.graph)
        drops = EdgeDropBudget(certificate.requested_budget, certificate.total_budget).on(self.graph)
        features = None if certificate.features is None else certificate.features.budget().on(self.graph)
        return AdmissibleChanges(drops, features, certificate.additions.on(self.graph, drops))

    def _directions(self) -> Check:
        name, evidence, source = "directions", self.certificate.evidence, self.certificate.evidence.direction_source
        if source == "given":
            if self.given is None:
                return Check(name, None, "given by the user: the values below are about those in the certificate")
            same = self.given.identity == evidence.directions.identity
            return Check(name, same, self.given.shown if same else "others than those certified")
        if source == "view" and (self.view is None or view_part(self.view).identity != evidence.directions.identity):
            found = "no view" if self.view is None else "another view"
            return Check(name, False, f"{found} was passed for directions of {evidence.directions.shown}")
        z = self.network.embed(self.graph if source != "view" or self.view is None else self.view)
        gap = (compactness_directions(z)[self.chosen.nodes] - self.chosen.directions).abs()
        allowed = torch.finfo(self.chosen.directions.dtype).eps ** 0.5  # unit vectors to half of their digits
        wrong = ~(gap <= allowed).all(dim=-1)
        if self.chosen.directions.dim() != 2 or bool(wrong.any()):
            return Check(name, False, f"not those of {evidence.directions.shown} at {_nodes(self.chosen, wrong)}")
        return Check(name, True, f"{evidence.directions.shown}, computed again to {float(gap.max()):.1g}")

    def _clean(self) -> Check:
        z = self.network.embed(self.graph)[self.chosen.nodes]
        values = (self.chosen.directions * (z if self.chosen.directions.dim() == 2 else z[:, None])).sum(dim=-1)
        return self._compared("clean values", values, self.chosen.nominal)

    def _norms(self) -> Check:
        name, norms = "norms", self.chosen.norms
        if norms is None:
            return Check(name, None, "none: the file is of an older version")
        values = torch.linalg.vector_norm(self.network.embed(self.graph)[self.chosen.nodes], dim=1)
        gap = (values - norms.double()).abs()
        wrong = ~(gap <= torch.finfo(norms.dtype).eps ** 0.5 * values.max())  # to half of their digits
        if bool(wrong.any()):
            return Check(name, False, f"not those of the embeddings at {_nodes(self.chosen, wrong)}")
        return Check(name, True, f"{len(values)} computed again, to {float(gap.max()):.1g}")

    def _witnesses(self) -> Check:
        name, chosen = "witnesses", self.chosen
        if chosen.upper is None or chosen.witnesses is None:
            return Check(name, None, "none: this method searches for none")
        evaluation, values = DropEvaluation.of(self.network, self.graph), []
        for place, (node, witness, direction) in enumerate(
            zip(chosen.nodes.tolist(), chosen.witnesses, chosen.directions, strict=True)
        ):
            fault = self._fault(place)
            if fault is not None:
                return Check(name, False, f"at node {node}: {fault}")
            try:
                z = evaluation.embedding(node, witness, self._changed(place), self._added(place))
                values.append(z @ direction.double())
            except CertgclError as error:
                return Check(name, False, f"at node {node}: {error.found}")
        return self._compared(name, torch.stack(values), chosen.upper)

    def _changed(self, place: int) -> ChangedEntries | None:
        return None if self.chosen.changed is None else self.chosen.changed[place]

    def _added(self, place: int) -> Tensor | None:
        return None if self.chosen.added is None else self.chosen.added[place]

    def _fault(self, place: int) -> str | None:
        """In what way the features and the new edges of a witness exceed their budgets."""
        changed, allowed = self._changed(place), self.chosen.features
        added, additions = self._added(place), self.chosen.additions
        if added is not None and additions is not None and not additions.lists(added):
            return "a new edge that is not a candidate"
        return None if changed is None or allowed is None else changed.fault(self.graph, allowed)

    def _compared(self, name: str, values: Tensor, expected: Tensor) -> Check:
        gap = (values - expected.double()).abs()
        wrong = ~(gap <= self.chosen.rounding.double())
        if bool(wrong.any()):
            there, here = float(expected[wrong][0]), float(values[wrong][0])
            return Check(
                name,
                False,
                f"{there:.6g} in the certificate, {here:.6g} computed again, at {_nodes(self.chosen, wrong)}",
            )
        return Check(name, True, f"{len(values)} computed again, to {float(gap.max()):.1g}")


def _nodes(certificate: Certificate, wrong: Tensor) -> str:
    """The nodes where something is wrong, in short."""
    nodes = certificate.nodes[wrong.flatten(1).any(dim=1) if wrong.dim() > 1 else wrong]
    return f"node {int(nodes[0])}" + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")
