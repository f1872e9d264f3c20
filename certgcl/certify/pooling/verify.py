"""Checks a certificate of whole graphs against the model and the graphs that it claims to be about."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import numbers
from certgcl.certify.evidence import Fact, features_part, given_part
from certgcl.certify.pooling.certificate import GraphCertificate
from certgcl.certify.pooling.checks import check_graph_certificate
from certgcl.certify.pooling.evidence import budgets_part, edges_of_graphs, model_part
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike
from certgcl.certify.pooling.question import read_graphs_model
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.slack import pooled_directions
from certgcl.certify.verify import Check, Verification, same_part
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BudgetError, CertificateError, DirectionError
from certgcl.graphs.graph import Graph
from certgcl.models.pooled_network import Pool, PooledNetwork
from certgcl.models.reading import ModelLike


@torch.no_grad()
def verify_graphs(
    certificate: GraphCertificate, model: ModelLike, graphs: GraphsLike, pool: Pool | None, directions: Any
) -> Verification:
    """The checks of :meth:`certgcl.GraphCertificate.verify`. Values are recomputed in float64, and compared up to
    ``rounding``."""
    several = GraphSet.of(graphs)
    read = read_graphs_model(model, several, pool)
    several, certificate = several.to(torch.device("cpu")), _on_cpu(certificate)
    try:
        check_graph_certificate(certificate)
    except CertificateError as error:
        return Verification((Check("fields", False, f"{error.found}: {error.rule}"),))
    evidence = certificate.evidence
    checks = [
        Check("fields", True, f"{len(certificate)} graphs, values that fit each other"),
        same_part("weights", evidence.weights, model_part(read)),
        same_part("edges", evidence.edges, edges_of_graphs(several)),
        same_part("features", evidence.features, features_part(several.union)),
    ]
    network = PooledNetwork(
        read.network.to(torch.float64, torch.device("cpu")),
        read.pool,
        None if read.head is None else read.head.to(torch.float64),
    )
    against = _GraphChecks(certificate, network, several, _given(directions, certificate))
    return Verification(
        (
            *checks,
            *against.checks(),
            Check(
                "bounds",
                None,
                "lower, rounding and run_error are not proved again, nor is how the model was read "
                f"({certificate.reading})",
            ),
        )
    )


def _given(directions: Any, certificate: GraphCertificate) -> Fact | None:
    if directions is None:
        return None
    found = numbers(
        directions, "directions", "they must be numbers", "Pass those that were certified", error=DirectionError
    )
    return given_part(found.detach().cpu().to(certificate.directions.dtype))


def _on_cpu(certificate: GraphCertificate) -> GraphCertificate:
    moved: dict[str, Any] = {
        field.name: value.detach().cpu()
        for field in fields(certificate)
        if isinstance(value := getattr(certificate, field.name), Tensor)
    }
    cpu = torch.device("cpu")
    moved["witnesses"] = tuple(tuple(edges.cpu() for edges in each) for each in certificate.witnesses)
    if certificate.added is not None:
        moved["added"] = tuple(tuple(edges.cpu() for edges in each) for each in certificate.added)
    if certificate.changed is not None:
        moved["changed"] = tuple(tuple(entries.to(cpu) for entries in each) for each in certificate.changed)
    for name in ("features", "additions"):
        if getattr(certificate, name) is not None:
            moved[name] = tuple(part.to(cpu) for part in getattr(certificate, name))
    return replace(certificate, **moved)


@dataclass(frozen=True, eq=False)
class _GraphChecks:
    """The checks of values.

    Args:
        network: of the given model, in float64.
        given: the directions that were passed, if any.
    """

    certificate: GraphCertificate
    network: PooledNetwork
    graphs: GraphSet
    given: Fact | None

    def checks(self) -> Iterator[Check]:
        certificate, width, misfit = self.certificate, self.network.width, ""
        if not torch.equal(certificate.sizes, self.graphs.sizes):
            misfit = f"the certificate is of {len(certificate)} graphs with other numbers of nodes"
        elif certificate.directions.shape[-1] != width:
            misfit = f"the certificate is of a model with {certificate.directions.shape[-1]} outputs, not {width}"
        steps: dict[str, Callable[[], Check]] = {
            "budgets": self._budgets,
            "directions": self._directions,
            "clean values": self._clean,
            "witnesses": self._witnesses,
        }
        for name, step in steps.items():
            yield Check(name, False, misfit) if misfit else step()

    def _budgets(self) -> Check:
        """The requested budgets, tightened again on these graphs."""
        name, certificate = "budgets", self.certificate
        try:
            changes = self._tightened_again()
        except BudgetError as error:
            return Check(name, False, f"{error.found}: {error.rule}")
        if not (
            torch.equal(changes.drops.local, certificate.local_budget)
            and torch.equal(changes.totals, certificate.total_budget)
            and torch.equal(changes.most_dropped, certificate.most_dropped)
            and _same(changes.each_addition, certificate.additions)
            and _same(changes.each_feature, certificate.features)
        ):
            return Check(name, False, "tightening what was requested gives other budgets on these graphs")
        found = budgets_part(changes)
        if found.identity != certificate.evidence.budget.identity:
            return Check(name, False, "others than those certified")
        return Check(name, True, f"{found.shown}, tightened again from what was requested")

    def _tightened_again(self) -> SetChanges:
        certificate, each = self.certificate, []
        requested = certificate.requested_budget.split(certificate.sizes.tolist())
        for number, graph in enumerate(self.graphs.graphs):
            drops = EdgeDropBudget(requested[number], int(certificate.total_budget[number])).on(graph)
            features = None if certificate.features is None else certificate.features[number].budget().on(graph)
            added = None if certificate.additions is None else certificate.additions[number].on(graph, drops)
            each.append(AdmissibleChanges(drops, features, added))
        return SetChanges(self.graphs, tuple(each))

    def _directions(self) -> Check:
        name, evidence = "directions", self.certificate.evidence
        if evidence.direction_source == "given":
            if self.given is None:
                return Check(name, None, "given by the user: the values below are about those in the certificate")
            as_certified = self.given.identity == evidence.directions.identity
            return Check(name, as_certified, self.given.shown if as_certified else "others than those certified")
        there = self.certificate.directions
        if there.dim() != 2 or len(self.graphs) < 2:
            return Check(name, False, "not those of compactness, which has one for each of two graphs or more")
        gap = (pooled_directions(self.network, self.graphs, self.graphs.union).values - there).abs()
        allowed = torch.finfo(there.dtype).eps ** 0.5  # unit vectors to half of their digits
        if not bool((gap <= allowed).all()):
            return Check(name, False, f"not those of {evidence.directions.shown}")
        return Check(name, True, f"{evidence.directions.shown}, computed again to {float(gap.max()):.1g}")

    def _clean(self) -> Check:
        z = self.network.embed(self.graphs.union.to(dtype=torch.float64), self.graphs.batch)
        return self._compared("clean values", self._values(z[:, None]), self.certificate.nominal)

    def _witnesses(self) -> Check:
        name, certificate = "witnesses", self.certificate
        embeddings = []
        for direction in range(len(certificate.witnesses[0])):
            views = []
            for number, graph in enumerate(self.graphs.graphs):
                view = self._view(graph, number, direction)
                if isinstance(view, str):
                    return Check(name, False, f"{view} at graph {number}")
                views.append(view)
            union = GraphSet.joined(views).union
            embeddings.append(self.network.embed(union, self.graphs.batch))
        return self._compared(name, self._values(torch.stack(embeddings, dim=1)), certificate.upper)

    def _view(self, graph: Graph, number: int, direction: int) -> Graph | str:
        """A graph with the change of a witness, in float64; or what is wrong with the witness."""
        certificate = self.certificate
        view = _without(graph.to(dtype=torch.float64), certificate.witness(number, direction))
        if view is None:
            return "an edge that is not there"
        if certificate.additions is not None:
            new, allowed = certificate.added_edges(number, direction), certificate.additions[number]
            if bool(graph.has_edge(*new).any()) or not allowed.lists(new):
                return "a new edge that is not a candidate"
            view = Graph.from_edges(view.x, torch.cat([view.edge_index, new, new.flip(0)], dim=1))
        if certificate.features is not None:
            changed = certificate.changed_features(number, direction)
            fault = changed.fault(graph, certificate.features[number])
            if fault is not None:
                return fault
            view = view.with_features(changed.applied(view))
        return view

    def _values(self, z: Tensor) -> Tensor:
        """``w · z`` of embeddings ``(G, C, d)``, or one for all directions ``(G, 1, d)``, in the shape of ``lower``."""
        directions = self.certificate.directions.double()
        wide = directions[:, None] if directions.dim() == 2 else directions
        return (wide * z).sum(dim=-1).reshape(self.certificate.lower.shape)

    def _compared(self, name: str, values: Tensor, expected: Tensor) -> Check:
        gap = (values - expected).abs()
        wrong = ~(gap <= self.certificate.rounding)
        if bool(wrong.any()):
            there, here = float(expected[wrong][0]), float(values[wrong][0])
            return Check(
                name,
                False,
                f"{there:.6g} in the certificate, {here:.6g} computed again, at graph {int(wrong.nonzero()[0, 0])}",
            )
        return Check(name, True, f"{values.numel()} computed again, to {float(gap.max()):.1g}")


def _without(graph: Graph, edges: Tensor) -> Graph | None:
    """The graph without some edges; None where it does not have them."""
    if not edges.numel():
        return graph
    n, slots = graph.num_nodes, graph.row * graph.num_nodes + graph.col
    both = torch.cat([edges[0] * n + edges[1], edges[1] * n + edges[0]])
    kept = ~torch.isin(slots, both)
    if int((~kept).sum()) != len(both):
        return None
    return Graph.from_edges(graph.x, torch.stack([graph.row[kept], graph.col[kept]]))


def _same(one: Sequence[Any] | None, other: Sequence[Any] | None) -> bool:
    """Whether the budgets allow the same in all graphs."""
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(each.same(part) for each, part in zip(one, other, strict=True))
