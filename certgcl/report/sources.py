"""What a report is about: a certificate, a run, or both, and whether its parts belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.certify.certificate import Certificate
from certgcl.certify.evidence import foreign_parts
from certgcl.certify.other_budgets import bounds_under, deciding
from certgcl.changes.changes import Changes
from certgcl.changes.edge_drops import DropsLike, EdgeDropBudget
from certgcl.errors import ReportError
from certgcl.graphs.graph import Graph
from certgcl.learning.training import History
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import read_network

_SAME = "Pass the graph and the encoder that it was made with, or certify again"


@dataclass(frozen=True, eq=False)
class ReportSource:
    """Everything that is available. Parts that are None are named in ``absent``, each with a sentence that says why.

    Args:
        name: of the run folder, or of the file of a certificate.
        graph_name: a dataset, or a file without its ending.
        data: the graph, with labels and masks if it has any.
        protocol: the evaluation that fits the graph.
        config: the contents of ``config.json`` of a run.
        commands: command lines that make the run and the certificate again.
        lines: of Python, for a certificate that no command produces.
        notes: of a certificate and its shards: versions, fingerprint.
        hints: budgets that the certificate may have been requested with, the likeliest first.
    """

    name: str
    certificate: Certificate | None = None
    graph_name: str = ""
    data: Data | None = None
    weights: GraphNetwork | None = None
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
        """One class per node, if there are such labels."""
        if self.data is None or self.data.y is None:
            return None
        y: Tensor = self.data.y
        return y if y.shape == (self.data.num_nodes,) and not y.is_floating_point() else None

    @cached_property
    def names(self) -> list[str] | None:
        """The names of all nodes, if the graph or the certificate has them."""
        sources = self.graph, self.certificate
        names = next((each.names for each in sources if each is not None and each.names is not None), None)
        return None if names is None else [str(name) for name in names.all]

    @cached_property
    def encoder(self) -> GraphNetwork | None:
        """The weights in float64, checked against the graph; None if weights or graph are missing."""
        if self.weights is None or self.graph is None:
            return None
        return read_network(self.weights, self.graph).to(torch.float64)

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
        return self.certificate is not None and self.certificate.evidence.direction_source in ("graph", "both views")

    @property
    def bounds_can_be_raised(self) -> bool:
        """Whether bounds with the second view fixed, in one direction a node, are bounds of what was certified. If
        edges may be added, budgets of drops alone do not tell which of two allows more."""
        certificate = self.certificate
        return (
            certificate is not None
            and certificate.certified
            and certificate.additions is None
            and certificate.directions.dim() == 2
            and (certificate.evidence.direction_source != "both views")
        )

    def bounds(
        self, budget: DropsLike | Changes, method: str, nodes: Tensor, about: Certificate | None = None
    ) -> Certificate:
        """Other bounds, in the directions of the certificate, or of ``about``; see :func:`bounds_under`."""
        assert self.encoder is not None
        assert self.graph is not None
        return bounds_under(budget, about or self.certificate, self.encoder, self.graph, method, nodes)

    @property
    def budget(self) -> EdgeDropBudget:
        """The budget of the certificate."""
        assert self.certificate is not None
        return EdgeDropBudget(self.certificate.local_budget, self.certificate.total_budget)

    def check(self) -> None:
        """Raise an error for a graph or an encoder whose digests differ from those in the certificate."""
        if self.certificate is None:
            return
        different = foreign_parts(self.certificate.evidence, self.graph, self.weights)
        if different:
            raise ReportError(
                f"a certificate that was made with other {' and '.join(different)}",
                "certificate, encoder and graph must belong together",
                _SAME,
            )
