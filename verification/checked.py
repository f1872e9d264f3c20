"""Cases of the audit put to the checker: certificates as the library writes them, and what is proved of them."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod
from certgcl.models import GraphNetwork
from certgcl.models.storage import meta_of
from verification.audit import weights
from verification.case import Case
from verification.checker.__main__ import check
from verification.checker.changes import Changes
from verification.checker.claim import Claim
from verification.checker.lines import Choices
from verification.checker.statement import Graph, Network
from verification.checker.theorem import Bound
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_case import NetworkCase


def plain_network(network: GraphNetwork) -> Network:
    return Network.of(meta_of(network), {name: tensor.detach().numpy() for name, tensor in network.named_tensors()})


def plain_graph(graph: certgcl.Graph) -> Graph:
    return Graph.of(graph.x.numpy(), graph.edge_index.numpy())


def as_claim(certificate: certgcl.Certificate) -> Claim:
    """Through its file."""
    with tempfile.TemporaryDirectory() as folder:
        return Claim.load(certificate.save(Path(folder, "certificate.npz")))


class Checked:
    """A case of either kind, for the library and for the checker."""

    def __init__(self, case: Case | NetworkCase) -> None:
        self.case = case
        if isinstance(case, Case):
            self.network, self.graph = weights(case), certgcl.Graph.from_networkx(case.graph, case.x)
            self.directions = case.directions
        else:
            self.network, self.graph = library_network(case), library_graph(case)
            self.directions = torch.from_numpy(case.directions)
        self.plain, self.plain_graph = plain_network(self.network), plain_graph(self.graph)

    @property
    def budget(self) -> certgcl.EdgeDropBudget:
        return certgcl.EdgeDropBudget(self.case.local, self.case.total)

    def certificate(self, method: str | BoundMethod) -> certgcl.Certificate:
        known = NETWORK_METHODS.get(method, method) if isinstance(method, str) else method
        return certgcl.linear_bounds(self.network, self.graph, self.budget, self.directions, method=known, proof=True)

    def compactness(self, method: str | BoundMethod) -> certgcl.Certificate:
        return certgcl.node_compactness(self.network, self.graph, self.budget, method=method, proof=True)

    def failed(self, claim: Claim | certgcl.Certificate, branches: int = 64) -> dict[int, str]:
        """The nodes of which the checker does not prove what is claimed."""
        claim = claim if isinstance(claim, Claim) else as_claim(claim)
        found: dict[int, str] = check(claim, self.plain, self.plain_graph, branches=branches)["failed"]
        return found


def proved(case: Case | NetworkCase, choices: Choices) -> Tensor:
    """The checker's own bounds at all nodes, one direction each, ``(n,)``."""
    checked = Checked(case)
    drops = Changes(checked.plain_graph, np.array(case.node_budgets()), case.graph_budget())
    bound = Bound(checked.plain, drops, range(case.nodes), choices)
    directions = checked.directions.numpy()
    return torch.tensor([bound.lower(node, directions[[node]])[0] for node in range(case.nodes)])


def raised(claim: Claim, node: int, least: float) -> Claim:
    """The same with another value claimed of one node, beyond rounding."""
    lower = claim.lower.copy()
    lower[node] = least + claim.rounding[node]
    lower[node] = np.nextafter(np.maximum(lower[node], np.nextafter(lower[node], np.inf)), np.inf)
    return Claim(**{**vars(claim), "lower": lower})
