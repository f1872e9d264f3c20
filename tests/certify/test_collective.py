"""Collective statements: which certificates make one, and what it says."""

from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import EdgeDropBudget
from certgcl.certify.touched_edges import edges_of, touched_edges
from certgcl.errors import CertificateError
from certgcl.graphs.graph import Graph
from certgcl.models import AGGREGATIONS, GraphNetwork, Layer, Term
from tests.toys import random_graph, toy_network

GRAPH, NETWORK = random_graph(12, 0.2, seed=3), toy_network(seed=3)


def asked(totals: range = range(4), **changed: Any) -> list[certgcl.Certificate]:
    given = {"model": NETWORK, "graph": GRAPH, **changed}
    return [
        certgcl.node_compactness(
            budgets=EdgeDropBudget(given.get("local", 2), total),
            **{name: value for name, value in given.items() if name != "local"},
        )
        for total in totals
    ]


def together(certificates: Any) -> certgcl.CollectiveCertificate:
    return certgcl.collective_certificate(certificates, NETWORK, GRAPH)


@pytest.mark.parametrize(("layer", "hops"), [("symmetric", 2), ("mean", 1), ("sum", 1)])
def test_fields_are_the_edges_near_a_node(layer: str, hops: int) -> None:
    path, mixing = nx.path_graph(9), AGGREGATIONS[layer]()
    graph = Graph.from_networkx(path, torch.ones(9, 1, dtype=torch.float64))
    one = torch.ones(1, 1, dtype=torch.float64)
    network = GraphNetwork((Layer((Term(0, one, mixing),), one[0]), Layer((Term(1, one, mixing),), one[0])))
    found = touched_edges(network, graph, torch.arange(9)).toarray()
    for node in range(9):
        near = nx.single_source_shortest_path_length(path, node, hops)
        assert found[node].tolist() == [
            int(int(graph.row[slot]) in near or int(graph.col[slot]) in near) for slot in edges_of(graph)
        ]


def test_one_certificate_counts_nodes_one_by_one() -> None:
    one = asked(range(2, 3))
    found = together(one)
    assert found.lower == found.alone == int(one[0].positive.sum())


def test_more_totals_never_say_less() -> None:
    certificates = asked()
    counts = [together([*certificates[start:]]).lower for start in (3, 2, 1, 0)]
    assert counts == sorted(counts)
    assert together(certificates).total_budget == 3
    assert "at once" in str(together(certificates))


def test_the_order_of_nodes_and_certificates_does_not_matter() -> None:
    certificates = asked()
    turned = [part.at(torch.arange(len(part.nodes)).flip(0)) for part in certificates[:2]] + certificates[2:]
    one, other = together(certificates), together(turned[::-1])
    assert one.lower == other.lower
    assert torch.equal(one.largest_total, other.largest_total)


def test_a_node_with_several_directions_is_positive_where_all_are() -> None:
    directions = torch.randn(12, 2, NETWORK.width, generator=torch.Generator().manual_seed(0))
    certificates = [certgcl.linear_bounds(NETWORK, GRAPH, EdgeDropBudget(2, total), directions) for total in range(3)]
    found = together(certificates)
    assert found.alone == int(certificates[-1].positive.all(dim=1).sum())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: asked(range(1), local=1)[0], "requested_budget"),
        (lambda: asked(range(1), nodes=[0, 1])[0], "nodes"),
        (lambda: asked(range(1), model=toy_network(seed=4))[0], "weights"),
        (lambda: asked(range(1), graph=random_graph(12, 0.2, seed=4))[0], "edges"),
        (
            lambda: certgcl.linear_bounds(NETWORK, GRAPH, EdgeDropBudget(2, 0), torch.ones(12, NETWORK.width)),
            "directions",
        ),
        (lambda: asked(range(1), method="paper")[0], "proves nothing"),
        (lambda: asked(range(1), views="both")[0], "both views"),
        (lambda: replace(asked(range(1))[0], lower=torch.full((12,), torch.nan, dtype=torch.float64)), "not finite"),
        (lambda: None, "list of certificates"),
    ],
)
def test_certificates_of_different_questions_are_refused(other: Any, words: str) -> None:
    with pytest.raises(CertificateError, match=words):
        together([*asked(range(1, 2)), other()])


def test_another_model_or_graph_is_refused() -> None:
    certificates = asked(range(2))
    with pytest.raises(CertificateError, match="weights"):
        certgcl.collective_certificate(certificates, toy_network(seed=4), GRAPH)
    with pytest.raises(CertificateError, match="edges"):
        certgcl.collective_certificate(certificates, NETWORK, random_graph(12, 0.2, seed=4))


def test_what_is_not_solved_in_time_counts_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = asked()
    monkeypatch.setattr("certgcl.certify.collective_bound.CollectiveProblem._solved", lambda *_: None)
    found = together(certificates)
    assert found.lower == found.alone


def test_the_method_of_a_certificate_makes_the_same_statement() -> None:
    *others, last = parts = asked()
    found, alone = last.collective(NETWORK, GRAPH, others), last.collective(NETWORK, GRAPH)
    expected = together(parts)
    assert (found.lower, found.alone, found.total_budget) == (expected.lower, expected.alone, 3)
    assert torch.equal(found.largest_total, expected.largest_total)
    assert alone.lower == alone.alone == found.alone <= found.lower
    with pytest.raises(CertificateError, match="others"):
        last.collective(NETWORK, GRAPH, parts[0])
