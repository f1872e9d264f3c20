import importlib.util
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from certgcl.errors import CertgclError, GraphError
from certgcl.graphs.graph import Graph

X = torch.arange(8.0).reshape(4, 2)
# The path 0-1-2, listed in no particular order, and node 3 alone.
EDGES = torch.tensor([[2, 0, 1, 1], [1, 1, 2, 0]])


def same(one: Graph, other: Graph) -> bool:
    return (
        torch.equal(one.x.to_dense(), other.x.to_dense())
        and torch.equal(one.rowptr, other.rowptr)
        and torch.equal(one.col, other.col)
    )


# -- sources ---------------------------------------------------------------------------------------


def test_a_pair_becomes_compressed_rows_in_order() -> None:
    graph = Graph.of((X, EDGES))
    assert graph.rowptr.tolist() == [0, 1, 3, 4, 4]
    assert graph.col.tolist() == [1, 0, 2, 1]
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 2, 2)
    assert graph.degree.tolist() == [1, 2, 1, 0]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert repr(graph) == "Graph(4 nodes, 2 edges, 2 features)"


def test_every_source_gives_the_same_graph() -> None:
    expected = Graph.of((X, EDGES))
    with_attributes = nx.Graph([(0, 1), (1, 2)])
    with_attributes.add_node(3)
    nx.set_node_attributes(with_attributes, {node: X[node] for node in range(4)}, "x")
    bare = nx.Graph([(0, 1), (1, 2)])
    bare.add_node(3)
    assert same(Graph.of(Data(x=X, edge_index=EDGES)), expected)
    assert same(Graph.of([X, EDGES]), expected)
    assert same(Graph.of((X, EDGES.int())), expected)
    assert same(Graph.of((X.to_sparse(), EDGES)), expected)
    assert same(Graph.of(with_attributes), expected)
    assert same(Graph.from_networkx(bare, x=X), expected)
    assert Graph.of(expected) is expected


def test_networkx_nodes_keep_their_order_whatever_their_names() -> None:
    source = nx.Graph()
    source.add_node("b", x=[1.0])
    source.add_node("a", x=[2.0])
    source.add_node("c", x=[3.0])
    source.add_edge("a", "c")
    graph = Graph.of(source)
    assert graph.x.flatten().tolist() == [1.0, 2.0, 3.0]
    assert graph.edge_index.tolist() == [[1, 2], [2, 1]]


def test_a_graph_may_have_no_edges() -> None:
    graph = Graph.of((X, torch.empty(2, 0, dtype=torch.long)))
    assert (graph.num_edges, graph.degree.tolist()) == (0, [0, 0, 0, 0])
    torch.testing.assert_close(graph.gcn_matrix().to_dense(), torch.eye(4, dtype=torch.float64), rtol=0, atol=0)


def test_sparse_features_stay_sparse_and_lose_nothing() -> None:
    twice = torch.sparse_coo_tensor(
        torch.tensor([[0, 0, 3], [1, 1, 0]]), torch.tensor([1.0, 2.0, 5.0]), (4, 2), check_invariants=True
    )
    graph = Graph.of((twice, EDGES))
    assert graph.x.layout == torch.sparse_csr
    assert torch.equal(graph.x.to_dense(), twice.to_dense())


def test_cleaned_adds_reverses_and_removes_the_rest() -> None:
    messy = torch.tensor([[0, 0, 2, 3, 1], [1, 1, 1, 3, 2]])
    assert same(Graph.cleaned((X, messy)), Graph.of((X, EDGES)))
    assert same(Graph.cleaned(Data(x=X, edge_index=messy)), Graph.of((X, EDGES)))
    assert same(Graph.cleaned((X, EDGES)), Graph.of((X, EDGES)))
    assert same(Graph.cleaned(Graph.of((X, EDGES))), Graph.of((X, EDGES)))


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_cleaned_takes_every_kind_of_networkx_graph(kind: type[nx.Graph]) -> None:
    source = kind()
    for node in range(4):
        source.add_node(node, x=X[node])
    source.add_edges_from([(0, 1), (0, 1), (2, 1), (1, 2), (3, 3)])
    assert same(Graph.cleaned(source), Graph.of((X, EDGES)))


@pytest.mark.parametrize("x", [X.tolist(), X.numpy(), X, X.to_sparse()])
def test_networkx_features_may_be_lists_arrays_and_tensors(x: Any) -> None:
    source = nx.empty_graph(4)
    source.add_edges_from([(0, 1), (1, 2)])
    assert same(Graph.from_networkx(source, x=x), Graph.of((X, EDGES)))


@pytest.mark.parametrize("row", [list, tuple, np.asarray, torch.as_tensor])
def test_networkx_attributes_may_be_lists_arrays_and_tensors(row: Any) -> None:
    source = nx.empty_graph(4)
    source.add_edges_from([(0, 1), (1, 2)])
    nx.set_node_attributes(source, {node: row(X[node].tolist()) for node in range(4)}, "x")
    graph = Graph.of(source)
    assert torch.equal(graph.x.float(), X)
    assert torch.equal(graph.col, Graph.of((X, EDGES)).col)


@pytest.mark.parametrize("weight", [1, 1.0, np.float32(1), True])
def test_networkx_weights_of_one_are_no_weights(weight: Any) -> None:
    source = nx.Graph()
    source.add_edge(0, 1, weight=weight)
    assert Graph.from_networkx(source, x=torch.ones(2, 1)).num_edges == 1


# -- what it says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_gcn_matrix_is_that_of_pyg(seed: int) -> None:
    source = nx.gnp_random_graph(29, 0.1, seed=seed)
    source.add_node("isolated")
    graph = Graph.from_networkx(source, x=torch.ones(30, 1))
    edge_index, weight = gcn_norm(graph.edge_index, num_nodes=30, dtype=torch.float64)
    expected = torch.zeros(30, 30, dtype=torch.float64)
    expected[edge_index[0], edge_index[1]] = weight
    assert torch.equal(graph.gcn_matrix().to_dense(), expected)


def test_gcn_matrix_has_one_on_the_diagonal_of_an_isolated_node(graph: Graph) -> None:
    matrix = graph.gcn_matrix().to_dense()
    assert matrix[5].tolist() == [0, 0, 0, 0, 0, 1]
    assert matrix[2, 3] == pytest.approx(1 / (4 * 3) ** 0.5)
    assert graph.gcn_matrix(torch.float32).dtype == torch.float32


def test_reverse_pairs_the_two_slots_of_an_edge(graph: Graph) -> None:
    assert torch.equal(graph.row[graph.reverse], graph.col)
    assert torch.equal(graph.col[graph.reverse], graph.row)


@pytest.mark.parametrize("nodes", [[4, 0, 4, 5], [2], []])
def test_features_are_projected_at_the_rows_asked_for(either_graph: Graph, nodes: list[int]) -> None:
    graph, index = either_graph, torch.tensor(nodes, dtype=torch.long)
    rows = graph.project(torch.eye(graph.num_features), index)
    assert rows.dtype == torch.float32
    assert torch.equal(rows, graph.x.to_dense()[index].float())


def test_few_features_are_multiplied_as_a_sparse_matrix() -> None:
    x, edges = torch.zeros(40, 10), torch.tensor([[0, 1], [1, 0]])
    x[3, 4], x[7, 0] = 2.0, -1.0
    weight = torch.rand(10, 3)
    sparse, filled = Graph.of((x, edges)), Graph.of((x + 1, edges))
    assert sparse.features.sparse is not None
    assert filled.features.sparse is None
    assert torch.allclose(sparse.project(weight), x @ weight)
    assert torch.allclose(sparse.project(weight, torch.tensor([7, 3])), (x @ weight)[[7, 3]])


def test_to_changes_only_the_dtype(either_graph: Graph) -> None:
    single = either_graph.to(dtype=torch.float32)
    assert single.x.dtype == torch.float32
    assert same(single, either_graph.with_features(either_graph.x.float()))
    assert same(either_graph.to("cpu"), either_graph)


def test_with_features_keeps_the_edges(graph: Graph) -> None:
    x = torch.ones(6, 3)
    other = graph.with_features(x)
    assert other.x is x
    assert other.col is graph.col
    with pytest.raises(GraphError, match=r"\(5, 3\) for 6 nodes"):
        graph.with_features(torch.ones(5, 3))


def test_importing_swallows_the_notice_on_csr_tensors_and_leaves_the_filters_alone() -> None:
    spec = importlib.util.find_spec("certgcl.graphs.graph")
    assert spec is not None
    assert spec.loader is not None
    torch.set_warn_always(True)  # else torch gives the notice once only, which was when these tests were collected
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = list(warnings.filters)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            assert warnings.filters == before
            with pytest.raises(UserWarning, match="Sparse CSR tensor support is in beta"):
                torch.eye(2).to_sparse_csr()
    finally:
        torch.set_warn_always(False)


# -- bad input -------------------------------------------------------------------------------------

EMPTY = torch.empty(2, 0, dtype=torch.long)
BAD = {
    "directed": ((X, torch.tensor([[0], [1]])), r"1 edge\(s\) without their reverse, the first \(0, 1\).*cleaned"),
    "duplicate": ((X, torch.tensor([[0, 0, 1], [1, 1, 0]])), r"1 duplicate edge\(s\), the first \(0, 1\).*cleaned"),
    "self-loop": ((X, torch.tensor([[2], [2]])), r"1 self-loop\(s\), the first at node 2.*cleaned"),
    "index too large": ((X, torch.tensor([[0, 4], [4, 0]])), r"node index 4 .*0\.\.3"),
    "index negative": ((X, torch.tensor([[0, -1], [-1, 0]])), "node index -1"),
    "fractional index": ((X, EDGES.float()), "dtype torch.float32.*integers"),
    "boolean index": ((X, EDGES.bool()), "dtype torch.bool.*integers"),
    "edges transposed": ((X, torch.zeros(3, 2, dtype=torch.long)), r"shape \(3, 2\)"),
    "edges no tensor": ((X, [[0], [1]]), "given as <list>"),
    "NaN": ((torch.tensor([[1.0], [torch.nan]]), EMPTY), "1 NaN or infinite"),
    "infinite": ((torch.tensor([[torch.inf], [-torch.inf]]), EMPTY), "2 NaN or infinite"),
    "NaN in sparse features": ((torch.tensor([[0.0], [torch.nan]]).to_sparse(), EMPTY), "1 NaN or infinite"),
    "integer features": ((X.long(), EDGES), r"dtype torch.int64.*x\.float\(\)"),
    "features a vector": ((X[:, 0], EDGES), r"features of shape \(4,\)"),
    "features no tensor": (([[1.0]], EMPTY), "features of type list"),
    "no nodes": ((torch.empty(0, 3), EMPTY), "0 nodes"),
    "features of width 0": ((torch.empty(4, 0), EDGES), r"features of shape \(4, 0\).*at least one"),
    "two devices": ((X, EDGES.to("meta")), "x on cpu and edge_index on meta.*one device"),
    "no features": (Data(edge_index=EDGES), "Data object without x"),
    "no edge_index": (Data(x=X), "Data object without edge_index"),
    "edge weights": (Data(x=X, edge_index=EDGES, edge_weight=torch.ones(4)), "edge_weight.*unweighted"),
    "another type": (HeteroData(), "a HeteroData as graph"),
    "a triple": ((X, EDGES, EDGES), "a tuple as graph"),
    "networkx directed": (nx.DiGraph([(0, 1)]), r"DiGraph.*networkx\.Graph\(graph\)"),
    "networkx multigraph": (nx.MultiGraph([(0, 1)]), "MultiGraph"),
    "networkx without features": (nx.path_graph(2), "node 0 without attribute 'x'"),
    "networkx empty": (nx.Graph(), "0 nodes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graph_is_refused(case: str) -> None:
    source, message = BAD[case]
    with pytest.raises(GraphError, match=message) as caught:
        Graph.of(source)
    assert isinstance(caught.value, CertgclError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.found
    assert caught.value.rule
    assert caught.value.remedy


def test_networkx_self_loop_is_refused() -> None:
    with pytest.raises(GraphError, match=r"1 self-loop\(s\), the first at networkx node 'b'.*cleaned"):
        Graph.from_networkx(nx.Graph([("a", "b"), ("b", "b")]), x=torch.ones(2, 1))


@pytest.mark.parametrize("weight", [2.5, 0, -1, None, "heavy", torch.nan, np.ones(2)])
@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph])
def test_networkx_weights_are_refused(kind: type[nx.Graph], weight: Any) -> None:
    source = kind()
    source.add_nodes_from("ab", x=[1.0])
    source.add_edge("a", "b", weight=weight)
    with pytest.raises(GraphError, match=r"edge \('a', 'b'\) with weight .*unweighted.*data\.pop\('weight', None\)"):
        Graph.cleaned(source)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (([1.0, 2.0], [1.0]), r"'x' of networkx node 'b' with shape \(1,\).*\(2,\)"),
        (([1.0], "text"), "'x' of networkx node 'b' .*numbers"),
        (([1.0], None), "'x' of networkx node 'b' .*numbers"),
        (([1], [2]), "dtype torch.int64"),
        ((1.0, 2.0), r"features of shape \(2,\)"),
        (([], []), r"features of shape \(2, 0\)"),
    ],
)
def test_networkx_attributes_must_form_a_matrix(rows: tuple[Any, Any], message: str) -> None:
    source = nx.Graph()
    for node, row in zip("ab", rows, strict=True):
        source.add_node(node, x=row)
    with pytest.raises(GraphError, match=message):
        Graph.of(source)
    with pytest.raises(GraphError, match=message):
        Graph.cleaned(source)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[1.0, 2.0], [1.0]], "features of type list .*rows of one length"),
        ([["a"], ["b"]], "features of type list"),
        ("features", "features of type str"),
        (np.array([["a"], ["b"]]), "features of type ndarray"),
        (1.0, r"shape \(\) for 2 nodes"),
    ],
)
def test_networkx_features_must_form_a_matrix(x: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.from_networkx(nx.path_graph(2), x=x)


def test_from_networkx_takes_networkx_only() -> None:
    with pytest.raises(GraphError, match=r"a tuple as graph.*Graph.of"):
        Graph.from_networkx((X, EDGES))


@pytest.mark.parametrize(
    "case",
    [
        "NaN",
        "integer features",
        "index too large",
        "no nodes",
        "two devices",
        "edge weights",
        "no features",
        "another type",
    ],
)
def test_cleaned_mends_edges_only(case: str) -> None:
    source, message = BAD[case]
    with pytest.raises(GraphError, match=message):
        Graph.cleaned(source)


def test_other_features_must_be_on_the_device_of_the_edges(graph: Graph) -> None:
    elsewhere = Graph.trusted(graph.x, graph.rowptr.to("meta"), graph.col.to("meta"))
    with pytest.raises(GraphError, match="features on cpu for a graph on meta"):
        elsewhere.with_features(graph.x)


def test_networkx_features_need_a_row_per_node() -> None:
    with pytest.raises(GraphError, match=r"shape \(3, 1\) for 2 nodes"):
        Graph.from_networkx(nx.path_graph(2), x=torch.ones(3, 1))


def test_propagate_multiplies_by_the_gcn_matrix_and_so_does_its_gradient(either_graph: Graph) -> None:
    values = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 3, dtype=torch.float64)
    matrix = either_graph.gcn_matrix().to_dense()
    propagated = either_graph.propagate(values)
    torch.testing.assert_close(propagated, matrix @ values)
    (gradient,) = torch.autograd.grad((weight * propagated).sum(), values)
    torch.testing.assert_close(gradient, matrix.T @ weight)


def test_a_view_shares_the_features_and_has_the_edges_given(graph: Graph) -> None:
    view = graph.with_edges(torch.tensor([0, 1, 2, 2, 2, 2, 2]), torch.tensor([1, 0]))
    assert view.features is graph.features
    assert view.x is graph.x
    assert view.edge_index.tolist() == [[0, 1], [1, 0]]


def test_a_graph_knows_which_nodes_are_joined(graph: Graph) -> None:
    nodes = torch.arange(graph.num_nodes)
    i, j = torch.cartesian_prod(nodes, nodes).T
    joined = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.bool)
    joined[graph.row, graph.col] = True
    assert torch.equal(graph.has_edge(i, j), joined[i, j])
    alone = Graph.from_edges(torch.ones(2, 1), torch.empty(2, 0, dtype=torch.long))
    assert not alone.has_edge(torch.tensor([0, 1]), torch.tensor([1, 1])).any()
