"""What a report is about: a certificate, a run, or both, and whether its parts belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.budget import EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.directions import compactness_directions
from certgcl.encoder import GCNWeights
from certgcl.errors import ReportError
from certgcl.graph import Graph
from certgcl.reading import read_encoder
from certgcl.training import History

_TOLERANCE = 1e-4  # of |w| |z|: float32 embeddings are well within, those of another encoder or graph are not
_SAME = "Pass the graph and the encoder that it was made with, or certify again"


@dataclass(frozen=True, eq=False)
class Subject:
    """Everything that is at hand. Parts that are None are named in ``absent``, each with a sentence why.

    Args:
        name: of the run folder, or of the file of a certificate.
        graph_name: a dataset, or a file without its ending.
        data: the graph, with labels and masks if it has any.
        protocol: the evaluation that fits the graph.
        config: what ``config.json`` of a run holds.
        commands: command lines that make the run and the certificate again.
        lines: of Python, for a certificate that no command makes.
        notes: of a certificate and its shards: versions, fingerprint.
        hints: budgets that the certificate may have been asked for with, the likeliest first.
    """

    name: str
    certificate: Certificate | None = None
    graph_name: str = ""
    data: Data | None = None
    weights: GCNWeights | None = None
    protocol: str = "random-10-10-80"
    history: History | None = None
    config: Mapping[str, Any] | None = None
    commands: Sequence[str] = ()
    lines: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)
    hints: Sequence[int | float] = ()
    absent: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def graph(self) -> Graph | None:
        return None if self.data is None else Graph.of(self.data)

    @property
    def degree(self) -> Tensor | None:
        return None if self.graph is None else self.graph.degree

    @cached_property
    def labels(self) -> Tensor | None:
        """One class per node, where there are such labels."""
        if self.data is None or self.data.y is None:
            return None
        y: Tensor = self.data.y
        return y if y.shape == (self.data.num_nodes,) and not y.is_floating_point() else None

    @cached_property
    def encoder(self) -> GCNWeights | None:
        """The weights in float64, checked against the graph; None without either."""
        if self.weights is None or self.graph is None:
            return None
        return read_encoder(self.weights, self.graph).to(torch.float64)

    @cached_property
    def embeddings(self) -> Tensor | None:
        if self.encoder is None or self.graph is None:
            return None
        with torch.no_grad():
            return self.encoder.embed(self.graph)

    @cached_property
    def worst(self) -> Certificate | None:
        """The certificate with one direction a node: the one that decides it."""
        return None if self.certificate is None else deciding(self.certificate)

    @cached_property
    def is_compactness(self) -> bool:
        """Whether the directions are those of node compactness on the graph itself."""
        if self.certificate is None or self.embeddings is None or self.certificate.directions.dim() != 2:
            return False
        expected = compactness_directions(self.embeddings)[self.certificate.nodes]
        return torch.allclose(self.certificate.directions.double(), expected, rtol=_TOLERANCE, atol=_TOLERANCE)

    @property
    def budget(self) -> EdgeDropBudget:
        """The budget of the certificate."""
        assert self.certificate is not None
        return EdgeDropBudget(self.certificate.local_budget, self.certificate.total_budget)

    def check(self) -> None:
        """Refuse a graph or an encoder that the certificate was not made with."""
        if self.certificate is None or self.graph is None:
            return
        _check_graph(self.certificate, self.graph)
        if self.embeddings is not None:
            _check_values(self.certificate, self.embeddings)


def deciding(certificate: Certificate) -> Certificate:
    """Of several directions a node, the one whose bound is the least; directions of length zero say nothing."""
    if certificate.directions.dim() == 2:
        return certificate
    silent = (certificate.directions == 0).all(dim=2)
    above = (certificate.lower - certificate.rounding).masked_fill(silent, torch.inf)
    least = above.argmin(dim=1)
    rows = torch.arange(len(least))
    chosen: dict[str, Any] = {name: getattr(certificate, name)[rows, least]
                              for name in ("lower", "nominal", "rounding", "directions")}
    return replace(certificate, **chosen, upper=None, witnesses=None)


def _check_graph(certificate: Certificate, graph: Graph) -> None:
    nodes = len(certificate.local_budget)
    if nodes != graph.num_nodes:
        raise ReportError(f"a certificate of a graph with {nodes} nodes beside a graph with {graph.num_nodes}",
                          "both must be about the same graph", _SAME)
    over = (certificate.local_budget > graph.degree).nonzero()[:, 0]
    if len(over):
        node = int(over[0])
        raise ReportError(f"a budget of {int(certificate.local_budget[node])} edges at node {node}, which has "
                          f"{int(graph.degree[node])} in this graph", "both must be about the same graph", _SAME)
    if certificate.total_budget > graph.num_edges:
        raise ReportError(f"a budget of {certificate.total_budget} edges in all beside a graph with {graph.num_edges}",
                          "both must be about the same graph", _SAME)


def _check_values(certificate: Certificate, embeddings: Tensor) -> None:
    """The clean value is in the certificate and can be computed anew: the two must agree."""
    directions = certificate.directions.double()
    if directions.shape[-1] != embeddings.shape[1]:
        raise ReportError(f"directions of length {directions.shape[-1]} beside embeddings of {embeddings.shape[1]}",
                          "certificate and encoder must belong together", _SAME)
    z = embeddings[certificate.nodes]
    z = z if directions.dim() == 2 else z[:, None]
    allowed = _TOLERANCE * directions.norm(dim=-1) * z.norm(dim=-1) + certificate.rounding
    values = (directions * z).sum(dim=-1)
    wrong = ((values - certificate.nominal).abs() > allowed).reshape(len(z), -1).any(dim=1).nonzero()[:, 0]
    if len(wrong):
        place = int(wrong[0])
        there, here = certificate.nominal.reshape(len(z), -1)[place, 0], values.reshape(len(z), -1)[place, 0]
        raise ReportError(f"a clean value of {float(there):.4g} at node {int(certificate.nodes[place])} in the "
                          f"certificate, {float(here):.4g} by this encoder on this graph",
                          "certificate, encoder and graph must belong together", _SAME)
