"""Whole modules against their certificates: read, bounded, and run by their own forward on every admissible view."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

import certgcl
from certgcl.errors import EncoderError
from verification.audit import LEDGER, MODULES, size
from verification.case import Case
from verification.oracle import admissible_drops
from verification.strategies import gaussian_case
from verification.zoo import Entry

Certify = Callable[[nn.Module, certgcl.Graph, certgcl.EdgeDropBudget], certgcl.Certificate]


@dataclass(frozen=True, eq=False)
class Verdict:
    """What became of a module that was not refused.

    Args:
        lowest: the least value that its own forward gave on an admissible view, for every node; not a number where it
            gave none.
        clean: its value on the first of them, the clean graph.
    """

    certificate: certgcl.Certificate
    lowest: Tensor
    clean: Tensor

    @property
    def violated(self) -> Tensor:
        """The nodes with a value below the bound by more than rounding explains, of the bound and of the run."""
        run_error: Tensor | float = getattr(self.certificate, "run_error", 0.0)
        allowed = self.certificate.lower - self.certificate.rounding - run_error
        return torch.nonzero(~(self.lowest >= allowed))[:, 0]


def certify_as_read(module: nn.Module, graph: certgcl.Graph, budget: certgcl.EdgeDropBudget) -> certgcl.Certificate:
    """What a user gets."""
    return certgcl.node_compactness(module, graph, budget)


certify_as_probed: Certify = partial(certgcl.node_compactness, reading="probed")
"""What a user gets on request for a module whose program cannot be read: measured, not proved."""


def certify_as_believed(entry: Entry) -> Certify:
    """What a user would get of a reader that takes two layers and their activations for what they seem."""
    def certify(module: nn.Module, graph: certgcl.Graph, budget: certgcl.EdgeDropBudget) -> certgcl.Certificate:
        parts: dict[str, Tensor] = {}
        for layer, slope in enumerate(entry.seems, start=1):
            conv: Any = getattr(module, f"conv{layer}")
            bias = conv.bias.detach().clone()
            parts |= {f"w{layer}": conv.lin.weight.detach().clone().T, f"b{layer}": bias,
                      f"slope{layer}": torch.full_like(bias, slope)}
        return certgcl.node_compactness(certgcl.GCNWeights(**parts), graph, budget)  # type: ignore[arg-type]

    return certify


def judged(entry: Entry, case: Case, certify: Certify = certify_as_read) -> Verdict | None:
    """A module on a case; None if it is refused."""
    module = entry.build(case).eval()
    graph = certgcl.Graph.from_networkx(case.graph, case.x.clone())
    try:
        certificate = certify(module, graph, certgcl.EdgeDropBudget(case.local, case.total))
    except EncoderError:
        return None
    values = _values(module, case, certificate.directions)
    return Verdict(certificate, values.amin(dim=0), values[0])


def recorded(entry: Entry, case: Case) -> Verdict | None:
    """The same, with a line in the ledger for what is not refused."""
    verdict = judged(entry, case)
    if verdict is not None:
        certificate = verdict.certificate
        scale = size(replace(case, directions=certificate.directions))
        LEDGER.record(MODULES, case.nodes, len(verdict.violated),
                      float((certificate.nominal - certificate.lower).sum()) / scale,
                      float((certificate.nominal - verdict.lowest).sum()) / scale)
    return verdict


def showcase(entry: Entry) -> Iterator[Case]:
    """Cases on which a liar shows, if any do: wide layers, no ties, wide and narrow budgets; at all its scales."""
    shapes = (nx.cycle_graph(5), nx.star_graph(4), nx.path_graph(4), nx.complete_graph(4), nx.path_graph(2),
              nx.convert_node_labels_to_integers(nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2))))
    for local in (None, 1):
        for graph in shapes:
            case = gaussian_case(graph, seed=0).with_budget(local)
            for scale in entry.scales:
                yield replace(case, x=scale * case.x, b1=scale * case.b1, b2=scale * case.b2)


@torch.no_grad()
def _values(module: nn.Module, case: Case, directions: Tensor) -> Tensor:
    """``w · z`` of every node by the module's own forward, in its own precision, ``(drops, n)``; clean first.

    One graph after the other, as a module may know their number, and with the features of the caller themselves.
    """
    x = case.x.to(next(module.parameters()).dtype, copy=True)
    rows = []
    for drops in admissible_drops(case):
        kept = torch.tensor([edge for edge in case.edges if edge not in drops], dtype=torch.long).reshape(-1, 2).T
        try:
            z = module(x, torch.cat([kept, kept.flip(0)], dim=1)).double()
        except Exception:  # no value is no value above the bound
            z = torch.full(directions.shape, torch.nan, dtype=torch.float64)
        rows.append((z * directions).sum(dim=1))
    return torch.stack(rows)
