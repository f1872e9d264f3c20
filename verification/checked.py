"""Runs the checker on cases of the audit: certificates as the library writes them, and what is proved about them."""

import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod
from certgcl.models import GraphNetwork
from certgcl.models.storage import meta_of
from verification import changed_audit, feature_audit
from verification.audit import weights
from verification.case import Case
from verification.checker.choices import Choices
from verification.checker.claim import Claim
from verification.checker.core.fixed import Fixed
from verification.checker.core.network import Graph, Network
from verification.checker.core.proof import check
from verification.checker.core.rows import States
from verification.checker.core.theorem import Bound
from verification.checker.files import graph_of, network_of
from verification.edge_changes import ChangedCase
from verification.feature_case import FeatureCase
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_case import NetworkCase
from verification.together import TogetherCase

Views = Literal["one", "both"]
AnyCase = Case | NetworkCase | FeatureCase | ChangedCase | TogetherCase


def plain_network(network: GraphNetwork) -> Network:
    return network_of(meta_of(network), {name: tensor.detach().numpy() for name, tensor in network.named_tensors()})


def plain_graph(graph: certgcl.Graph) -> Graph:
    return graph_of(graph.x.numpy(), graph.edge_index.numpy())


def as_claim(certificate: certgcl.Certificate) -> Claim:
    """Through its file."""
    with tempfile.TemporaryDirectory() as folder:
        return Claim.load(certificate.save(Path(folder, "certificate.npz")))


class Checked:
    """A case of any kind, for the library and for the checker."""

    def __init__(self, case: AnyCase) -> None:
        self.case = case
        plain: Case | NetworkCase
        match case:
            case FeatureCase():
                plain, self.changes = case.network, feature_audit.library_changes(case)
            case ChangedCase():
                plain, self.changes = case.case, changed_audit.library_changes(case)
            case TogetherCase():
                plain, self.changes = case.edges.case, case.budgets
            case _:
                plain, self.changes = case, certgcl.Changes(certgcl.EdgeDropBudget(case.local, case.total))
        if isinstance(plain, Case):
            self.network, self.graph = weights(plain), certgcl.Graph.from_networkx(plain.graph, plain.x)
            self.directions = plain.directions
        else:
            self.network, self.graph = library_network(plain), library_graph(plain)
            self.directions = torch.from_numpy(plain.directions)
        self.nodes = plain.nodes
        self.plain, self.plain_graph = plain_network(self.network), plain_graph(self.graph)

    def certificate(self, method: str | BoundMethod) -> certgcl.Certificate:
        known = NETWORK_METHODS.get(method, method) if isinstance(method, str) else method
        return certgcl.linear_bounds(self.network, self.graph, self.changes, self.directions, method=known, proof=True)

    def compactness(self, method: str | BoundMethod, views: Views = "one") -> certgcl.Certificate:
        return certgcl.node_compactness(self.network, self.graph, self.changes, method=method, views=views, proof=True)

    def failed(self, claim: Claim | certgcl.Certificate, branches: int = 64) -> dict[int, str]:
        """The nodes at which the checker does not prove the claim."""
        claim = claim if isinstance(claim, Claim) else as_claim(claim)
        found: dict[int, str] = check(claim, self.plain, self.plain_graph, branches=branches)["failed"]
        return found


def proved(case: AnyCase, choices: Choices, merged: bool = True) -> Tensor:
    """The checker's own bounds at all nodes, one direction each, ``(n,)``; with Theorem B, where it is ``merged``."""
    checked = Checked(case)
    changes = as_claim(checked.certificate("interval")).changes(checked.plain_graph)
    alone = changes.features is not None and not States(checked.plain, changes, range(checked.nodes)).edges_change
    theorems: list[type[Bound] | type[Fixed]] = [Fixed, Bound] if alone and merged else [Bound]
    directions = checked.directions.numpy()
    with np.errstate(all="ignore"):
        bounds = [theorem(checked.plain, changes, range(checked.nodes), choices) for theorem in theorems]
        return torch.tensor(
            [max(bound.lower(node, directions[[node]])[0] for bound in bounds) for node in range(checked.nodes)]
        )


def raised(claim: Claim, node: int, least: float) -> Claim:
    """The same with another value claimed for one node, beyond rounding."""
    lower = claim.lower.copy()
    lower[node] = least + claim.rounding[node]
    lower[node] = np.nextafter(np.maximum(lower[node], np.nextafter(lower[node], np.inf)), np.inf)
    return Claim(**{**vars(claim), "lower": lower})
