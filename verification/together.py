"""Edges and features that change at once, by enumeration: every admissible graph with all admissible features."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import networkx as nx
import numpy as np
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

import certgcl
from certgcl.bounds import BoundMethod
from verification.changed_audit import library_changes as library_edges
from verification.edge_changes import ChangedCase, admissible_changes, changed_cases
from verification.feature_audit import library_changes as library_features
from verification.feature_audit import with_bits
from verification.feature_case import FeatureCase, PlainFeatures
from verification.feature_oracle import admissible_features, feature_magnitude
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_case import Array
from verification.network_oracle import embeddings

STAY = PlainFeatures("box")  # of radius 0
MOST_POOLED = 2000
MOST_TOGETHER = 6000  # views of a case, so that all can be run


@dataclass(frozen=True, eq=False)
class TogetherCase:
    """A network whose edges change as ``edges`` says, and its features as ``features`` says."""

    edges: ChangedCase
    features: PlainFeatures

    @property
    def nodes(self) -> int:
        return self.edges.case.nodes

    @property
    def of_features(self) -> FeatureCase:
        return FeatureCase(self.edges.case, self.features)

    def __repr__(self) -> str:
        return f"TogetherCase({self.features}, {self.edges!r})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # how Hypothesis shows a failing case
        printer.text(repr(self))

    @property
    def budgets(self) -> certgcl.Changes:
        edges = library_edges(self.edges)
        features = None if self.features == STAY else library_features(self.of_features).features
        if edges.flips is not None:
            return certgcl.Changes(flips=edges.flips, features=features)
        return certgcl.Changes(edges.drops, features, edges.additions)


def together_truth(case: TogetherCase) -> tuple[Tensor, Tensor]:
    """The minimum over all admissible views, and the clean value; each ``(n,)``."""
    values = torch.from_numpy(together_values(case))
    return values.amin(dim=0), values[0]


def together_values(case: TogetherCase) -> Array:
    """``w_i · z_i`` on every admissible view, the clean one first; ``(views, n)``."""
    network, matrices = case.edges.case, []
    for drops, added in admissible_changes(case.edges):
        matrix = np.zeros((network.nodes, network.nodes))
        for u, v in (set(network.edges) - set(drops)) | set(added):
            matrix[u, v] = matrix[v, u] = 1.0
        matrices.append(matrix)
    graphs, features = np.stack(matrices), np.stack(list(admissible_features(case.of_features)))
    z = embeddings(network, np.tile(graphs, (len(features), 1, 1)), np.repeat(features, len(graphs), axis=0))
    return np.asarray((z * network.directions).sum(axis=-1))


def together_tolerance(case: TogetherCase) -> Tensor:
    """How far rounding alone can raise a computed bound above a computed minimum, ``(n,)``."""
    graph = nx.Graph(case.edges.case.graph)
    graph.add_edges_from(case.edges.free)
    whole = FeatureCase(replace(case.edges.case, graph=graph), case.features)
    return torch.from_numpy(1e-13 * feature_magnitude(whole) + 1e-300)


def certify_together(
    case: TogetherCase, method: str | BoundMethod, dtype: torch.dtype = torch.float64, nodes: list[int] | None = None
) -> certgcl.Certificate:
    """The library's answer to a case, through its public call."""
    network = case.edges.case
    return certgcl.linear_bounds(
        library_network(network),
        library_graph(network),
        case.budgets,
        torch.from_numpy(network.directions),
        method=NETWORK_METHODS[method] if isinstance(method, str) else method,
        dtype=dtype,
        nodes=nodes,
    )


@st.composite
def together_cases(draw: st.DrawFn) -> TogetherCase:
    """Few edges and few features that change, in any of their ways."""
    return _affordable(draw(changed_cases(max_depth=2)), draw(_features()))


@st.composite
def pooled_cases(draw: st.DrawFn) -> TogetherCase:
    """The same, where one of the two may stay as well, and edges may be added or dropped alone."""
    edges, features = draw(changed_cases(max_depth=2)), draw(st.one_of(st.just(STAY), _features()))
    which = draw(st.sampled_from(("as drawn", "no edges", "added alone", "dropped alone")))
    if which in ("no edges", "added alone"):
        edges = replace(edges, case=edges.case.with_budget(0, 0), flips=False)
    if which in ("no edges", "dropped alone"):
        edges = replace(edges, local=0, total=0, flips=False)
    return _affordable(edges, features, MOST_POOLED)


def _features() -> st.SearchStrategy[PlainFeatures]:
    counts = st.integers(1, 4)
    total = st.one_of(st.none(), st.integers(0, 2))
    return st.one_of(
        st.builds(PlainFeatures, st.just("masked"), off=counts, total=total),
        st.builds(PlainFeatures, st.just("bits"), off=counts, on=counts, total=total),
        st.builds(PlainFeatures, st.just("box"), radius=st.sampled_from([0.1, 1.0])),
        st.builds(PlainFeatures, st.just("columns"), columns=counts),
    )


def _affordable(edges: ChangedCase, features: PlainFeatures, most: int = MOST_TOGETHER) -> TogetherCase:
    """Few enough views to run them all."""
    if features.kind == "bits":
        edges = replace(edges, case=with_bits(edges.case))
    case = TogetherCase(edges, features)
    graphs = sum(1 for _ in admissible_changes(edges))
    assume(sum(1 for _ in islice(admissible_features(case.of_features), most + 1)) * graphs <= most)
    return case
