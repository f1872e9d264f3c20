import math

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import csr_matrix
from certgcl.learning.methods.centrality import (
    FLOOR,
    Centrality,
    edge_drop_probabilities,
    feature_mask_probabilities,
    node_centrality,
)
from tests.toys import edges_of, random_graph, toy_graph

KINDS: list[Centrality] = ["degree", "eigenvector", "pagerank"]
STAR, PATH = toy_graph(nx.star_graph(4)), toy_graph(nx.path_graph(4))


def near(value: Tensor, expected: list[float], tolerance: float = 1e-10) -> bool:
    return torch.allclose(value, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=tolerance)


# -- nodes -----------------------------------------------------------------------------------------


def test_centralities_of_a_star_by_hand() -> None:
    assert node_centrality(STAR, "degree").tolist() == [4, 1, 1, 1, 1]
    # A v = 2 v with v = (2, 1, 1, 1, 1); a star is bipartite.
    assert near(node_centrality(STAR, "eigenvector"), [x / math.sqrt(8) for x in (2, 1, 1, 1, 1)])
    # hub = 0.03 + 0.85 · 4 leaf, leaf = 0.03 + 0.85 hub / 4
    hub = (0.03 + 3.4 * 0.03) / (1 - 0.85**2)
    assert near(node_centrality(STAR, "pagerank"), [hub] + [0.03 + 0.85 * hub / 4] * 4)


def test_centralities_of_a_path_by_hand() -> None:
    assert node_centrality(PATH, "degree").tolist() == [1, 2, 2, 1]
    wave = [math.sin(math.pi * k / 5) for k in (1, 2, 3, 4)]
    assert near(node_centrality(PATH, "eigenvector"), [x / math.hypot(*wave) for x in wave])
    # inner = 0.0375 + 0.85 (outer + inner / 2), outer = 0.0375 + 0.85 inner / 2
    inner = 0.0375 * 1.85 / (1 - 0.425 - 0.85 * 0.425)
    outer = 0.0375 + 0.425 * inner
    assert near(node_centrality(PATH, "pagerank"), [outer, inner, inner, outer])


@pytest.mark.parametrize("seed", range(5))
def test_pagerank_is_that_of_networkx_also_with_nodes_alone(seed: int) -> None:
    source = nx.disjoint_union(nx.gnp_random_graph(30, 0.08, seed=seed), nx.empty_graph(3))
    rank = node_centrality(toy_graph(source), "pagerank")
    assert near(rank, list(nx.pagerank(source, tol=1e-13, max_iter=1000).values()), 1e-9)
    assert float(rank.sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "source",
    [
        nx.karate_club_graph(),
        nx.complete_bipartite_graph(3, 5),
        nx.star_graph(30),
        nx.path_graph(20),
        nx.connected_watts_strogatz_graph(40, 4, 0.3, seed=0),
    ],
)
def test_eigenvector_centrality_is_that_of_networkx_on_connected_graphs(source: nx.Graph) -> None:
    for _, _, data in source.edges(data=True):
        data.clear()  # the weights of the karate club
    expected = list(nx.eigenvector_centrality(source, max_iter=100_000, tol=1e-13).values())
    assert near(node_centrality(toy_graph(source), "eigenvector"), expected, 1e-8)


def test_eigenvector_centrality_is_zero_outside_the_leading_component() -> None:
    pair = toy_graph(nx.disjoint_union(nx.complete_graph(4), nx.path_graph(2)))
    assert near(node_centrality(pair, "eigenvector"), [0.5] * 4 + [0.0] * 2)


def test_components_with_the_same_eigenvalue_share_it() -> None:
    twins = toy_graph(nx.disjoint_union(nx.cycle_graph(4), nx.cycle_graph(5)))
    assert near(node_centrality(twins, "eigenvector"), [1 / 3] * 9)


@pytest.mark.parametrize("kind", KINDS)
def test_centrality_follows_the_nodes_and_is_the_same_every_time(kind: Centrality) -> None:
    source = nx.gnp_random_graph(20, 0.2, seed=1)
    order = torch.randperm(20)
    graph = toy_graph(source)
    moved = nx.empty_graph(20)
    moved.add_edges_from((int(order[i]), int(order[j])) for i, j in source.edges)
    assert torch.allclose(node_centrality(toy_graph(moved), kind)[order], node_centrality(graph, kind), atol=1e-11)
    assert torch.equal(node_centrality(graph, kind), node_centrality(graph, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_without_edges_has_a_constant_centrality(kind: Centrality) -> None:
    centrality = node_centrality(toy_graph(nx.empty_graph(4)), kind)
    assert centrality.dtype == torch.float64
    assert near(centrality, [{"degree": 0.0, "eigenvector": 0.5, "pagerank": 0.25}[kind]] * 4)


# -- edges -----------------------------------------------------------------------------------------


def mapped(score: list[float], rate: float, limit: float = 0.7) -> list[float]:
    """GCA's map, in plain Python."""
    mean = sum(score) / len(score)
    weight = [(max(score) - s) / (max(score) - mean) for s in score]
    return [min(rate * w / (sum(weight) / len(weight)), limit) for w in weight]


def test_edges_of_a_path_by_hand() -> None:
    # Scores log √2, log 2, log √2: the middle edge is never dropped, the others 3/2 as often.
    assert near(edge_drop_probabilities(PATH, 0.4, "degree"), [0.6, 0.0, 0.6])
    assert near(edge_drop_probabilities(PATH, 0.4, "degree", limit=0.5), [0.5, 0.0, 0.5])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_every_undirected_edge_has_the_probability_of_its_ends(kind: Centrality, seed: int) -> None:
    graph = random_graph(nodes=15, density=0.25, seed=seed)
    c = node_centrality(graph, kind).clamp(min=FLOOR).tolist()
    score = [(math.log(c[i]) + math.log(c[j])) / 2 for i, j in edges_of(graph)]
    assert near(edge_drop_probabilities(graph, 0.3, kind), mapped(score, 0.3))


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_probability_is_the_rate_where_the_limit_is_out_of_reach(kind: Centrality) -> None:
    graph = random_graph(nodes=40, density=0.2, seed=0)
    probability = edge_drop_probabilities(graph, 0.2, kind, limit=1.0)
    assert float(probability.mean()) == pytest.approx(0.2)
    assert float(probability.min()) == pytest.approx(0, abs=1e-12)
    assert float(feature_mask_probabilities(graph, 0.2, kind, limit=1.0).mean()) == pytest.approx(0.2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [nx.cycle_graph(7), nx.complete_graph(5), nx.star_graph(6), nx.path_graph(2)])
def test_equal_scores_give_the_rate(kind: Centrality, source: nx.Graph) -> None:
    graph = toy_graph(source)
    assert near(edge_drop_probabilities(graph, 0.4, kind), [0.4] * graph.num_edges)


@pytest.mark.parametrize("kind", KINDS)
def test_no_edges_have_no_probabilities(kind: Centrality) -> None:
    assert edge_drop_probabilities(toy_graph(nx.empty_graph(3)), 0.4, kind).shape == (0,)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 12), st.floats(0, 1), st.integers(0, 10**6), st.sampled_from(KINDS), st.floats(0, 1), st.floats(0, 1)
)
def test_probabilities_are_probabilities_within_the_limit(
    nodes: int, density: float, seed: int, kind: Centrality, rate: float, limit: float
) -> None:
    graph = random_graph(nodes=nodes, density=density, seed=seed, sparse=seed % 2 == 0)
    for probability in (
        edge_drop_probabilities(graph, rate, kind, limit),
        feature_mask_probabilities(graph, rate, kind, limit),
    ):
        assert ((probability >= 0) & (probability <= limit)).all()
        assert not probability.numel() or float(probability.mean()) <= rate + 1e-9


# -- features --------------------------------------------------------------------------------------


def with_x(graph: Graph, x: list[list[float]], sparse: bool) -> Graph:
    values = torch.tensor(x)
    return graph.with_features(values.to_sparse_csr() if sparse else values)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_by_hand(sparse: bool) -> None:
    # On the star: column 0 at the hub, 1 at two leaves, 2 everywhere.
    x = [[0.5, 0.0, 1.0], [0.0, -2.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    expected = mapped([math.log(4), math.log(2), math.log(8)], 0.3)
    assert near(feature_mask_probabilities(with_x(STAR, x, sparse), 0.3, "degree"), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_features_are_weighed_by_the_nodes_that_have_them(kind: Centrality, seed: int) -> None:
    dense = random_graph(nodes=15, density=0.2, seed=seed, features=6)
    dense = dense.with_features(dense.x.clamp(min=0))
    c = node_centrality(dense, kind).clamp(min=FLOOR)
    score = [math.log(float(c[column != 0].sum())) for column in dense.x.T]
    expected = mapped(score, 0.3)
    assert near(feature_mask_probabilities(dense, 0.3, kind), expected)
    assert near(feature_mask_probabilities(dense.with_features(dense.x.to_sparse_csr()), 0.3, kind), expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_feature_nobody_has_is_the_least_important_and_moves_no_other(kind: Centrality, sparse: bool) -> None:
    x = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
    probability = feature_mask_probabilities(with_x(STAR, x, sparse), 0.3, kind)
    others = feature_mask_probabilities(with_x(STAR, [[*row[:1], *row[2:]] for row in x], sparse), 0.3, kind)
    assert near(probability[[0, 2, 3]], others.tolist())
    assert float(probability[1]) == float(probability.max())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_features_that_are_all_zero_are_masked_at_the_rate(kind: Centrality, sparse: bool) -> None:
    assert near(feature_mask_probabilities(with_x(STAR, [[0.0, 0.0]] * 5, sparse), 0.3, kind), [0.3, 0.3])


def test_zeros_that_a_sparse_matrix_stores_are_zeros() -> None:
    stored = csr_matrix(
        torch.tensor([0, 2, 3, 4, 4, 4]), torch.tensor([0, 1, 1, 2]), torch.tensor([1.0, 0.0, 1.0, 1.0]), (5, 3)
    )
    dense = STAR.with_features(stored.to_dense())
    assert torch.equal(
        feature_mask_probabilities(STAR.with_features(stored), 0.3, "degree"),
        feature_mask_probabilities(dense, 0.3, "degree"),
    )


def test_features_of_nodes_alone_only_make_no_nan() -> None:
    graph = with_x(
        toy_graph(nx.disjoint_union(nx.path_graph(3), nx.empty_graph(1))),
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
        sparse=False,
    )
    for kind in KINDS:
        assert near(feature_mask_probabilities(graph, 0.3, kind), [0.0, 0.6])


# -- bad input -------------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"centrality 'closeness'.*'pagerank'"):
        node_centrality(STAR, "closeness")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"rate=1\.5.*probability"):
        edge_drop_probabilities(STAR, 1.5, "degree")
    with pytest.raises(InputError, match="limit=nan"):
        feature_mask_probabilities(STAR, 0.3, "degree", limit=math.nan)
