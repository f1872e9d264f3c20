"""Compares whole modules with the networks read from them: their own forward on every admissible view, and their
certificates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

import certgcl
from certgcl.errors import EncoderError, MethodError
from certgcl.models import GraphNetwork, gcn_network
from certgcl.models.reading import read_network
from certgcl.models.reading.checks import sizes
from verification.audit import LEDGER, MODULES
from verification.case import Case
from verification.oracle import admissible_drops
from verification.strategies import gaussian_case
from verification.zoo import Entry

Read = Callable[[nn.Module, certgcl.Graph], GraphNetwork]


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result for a module that was accepted.

    Args:
        network: the network that was read.
        astray: the nodes at which its own forward gave a different value on an admissible view, beyond rounding.
        certificate: of the network; None where no bound takes it.
        lowest: the least value that its own forward gave on an admissible view, for every node; NaN where it gave none.
        scale: a unit in which cases with weights of a thousand do not dominate those with weights of one.
    """

    network: GraphNetwork
    astray: Tensor
    certificate: certgcl.Certificate | None
    lowest: Tensor
    scale: float

    @property
    def violated(self) -> Tensor:
        """The nodes with a value below the bound by more than rounding explains, of the bound and of the run."""
        if self.certificate is None:
            return torch.empty(0, dtype=torch.long)
        allowed = self.certificate.lower - self.certificate.rounding - self.certificate.run_error
        return torch.nonzero(~(self.lowest >= allowed))[:, 0]


as_read: Read = read_network
"""What a user gets."""

as_probed: Read = partial(read_network, reading="probed")
"""What a user gets on request for a module whose program cannot be read: a measurement, not a proof."""


def as_believed(entry: Entry, case: Case) -> Read:
    """What a user would get from a reader that takes a module at face value: its honest twin, or two layers and their
    activations."""

    def read(module: nn.Module, graph: certgcl.Graph) -> GraphNetwork:
        if entry.twin is not None:
            return read_network(entry.twin(case).eval(), graph)
        convs: list[Any] = [getattr(module, f"conv{layer}") for layer in (1, 2)]
        return gcn_network(
            *(
                (conv.lin.weight.detach().clone().T, conv.bias.detach().clone(), slope)
                for conv, slope in zip(convs, entry.seems, strict=True)
            )
        )

    return read


def judged(entry: Entry, case: Case, read: Read = as_read) -> Verdict | None:
    """A module on a case; None if it is refused."""
    module = entry.build(case).eval()
    graph = certgcl.Graph.from_networkx(case.graph, case.x.clone())
    try:
        network = read(module, graph)
    except EncoderError:
        return None
    try:
        certificate = certgcl.node_compactness(network, graph, certgcl.EdgeDropBudget(case.local, case.total))
        directions = certificate.directions
    except MethodError:  # no bound takes the network
        certificate, directions = None, torch.ones(case.nodes, network.width, dtype=torch.float64)
    dtype = next(module.parameters()).dtype
    network = network.to(torch.float64)
    values, astray = [], torch.zeros(case.nodes, dtype=torch.bool)
    for view, z in _runs(module, case, network.width):
        with torch.no_grad():
            allowed = torch.finfo(dtype).eps ** 0.7 * sizes(network, view)
            astray |= (~((z - network.embed(view)).abs() <= allowed)).any(dim=1)
        values.append((z * directions).sum(dim=1))
    scale = float((sizes(network, graph.to(dtype=torch.float64)).detach() * directions.abs()).sum(dim=1).mean()) or 1.0
    return Verdict(network, torch.nonzero(astray)[:, 0], certificate, torch.stack(values).amin(dim=0), scale)


def recorded(entry: Entry, case: Case) -> Verdict | None:
    """The same, with a line in the ledger for each certificate."""
    verdict = judged(entry, case)
    if verdict is not None and verdict.certificate is not None:
        nominal, lower = verdict.certificate.nominal, verdict.certificate.lower
        LEDGER.record(
            MODULES,
            case.nodes,
            len(verdict.violated),
            float((nominal - lower).sum()) / verdict.scale,
            float((nominal - verdict.lowest).sum()) / verdict.scale,
        )
    return verdict


def showcase(entry: Entry) -> Iterator[Case]:
    """Cases that expose a liar, if any do: wide layers, no ties, wide and narrow budgets; at all its scales."""
    shapes = (
        nx.cycle_graph(5),
        nx.star_graph(4),
        nx.path_graph(4),
        nx.complete_graph(4),
        nx.path_graph(2),
        nx.convert_node_labels_to_integers(nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2))),
    )
    for local in (None, 1):
        for graph in shapes:
            case = gaussian_case(graph, seed=0).with_budget(local)
            for scale in entry.scales:
                yield replace(case, x=scale * case.x, b1=scale * case.b1, b2=scale * case.b2)


@torch.no_grad()
def _runs(module: nn.Module, case: Case, width: int) -> Iterator[tuple[certgcl.Graph, Tensor]]:
    """Every admissible view and what the module's own forward gives on it, in its own precision; clean first. NaN where
    it gives no embeddings of the width.

    One graph after the other, as a module may know their number, and with the features of the caller themselves.
    """
    x = case.x.to(next(module.parameters()).dtype, copy=True)
    for drops in admissible_drops(case):
        kept = torch.tensor([edge for edge in case.edges if edge not in drops], dtype=torch.long).reshape(-1, 2).T
        edges = torch.cat([kept, kept.flip(0)], dim=1)
        view = certgcl.Graph.from_edges(case.x.to(torch.float64), edges.clone())
        try:
            z = module(x, edges).double().reshape(case.nodes, width)
        except Exception:  # a missing value is not above the bound
            z = torch.full((case.nodes, width), torch.nan, dtype=torch.float64)
        yield view, z
