"""Graphs as people have them: names from networkx and pandas, arrays of numpy, matrices of scipy, PyG's adj_t."""

import pickle
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

import certgcl
from certgcl.errors import CertificateError, GraphError, InputError
from certgcl.graphs.graph import Graph
from certgcl.graphs.names import NodeNames

pd = pytest.importorskip("pandas")
PEOPLE = ["Valjean", "Javert", "Cosette", "Marius", "Fantine"]
TIES = [("Valjean", "Javert"), ("Valjean", "Cosette"), ("Cosette", "Marius"), ("Fantine", "Valjean")]
X = np.arange(15, dtype=np.float64).reshape(5, 3) / 7


@pytest.fixture
def named() -> Graph:
    return Graph.from_networkx(network(), x=X)


@pytest.fixture
def encoder() -> certgcl.GCNEncoder:
    return certgcl.GCNEncoder(3, 4, 2).double().eval()


def network() -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(PEOPLE)
    graph.add_edges_from(TIES)
    return graph


def same(one: Graph, other: Graph) -> bool:
    return torch.equal(one.edge_index, other.edge_index) and torch.equal(one.x.to_dense(), other.x.to_dense())


# -- where they come from --------------------------------------------------------------------------


def test_nodes_of_networkx_keep_their_names(named: Graph) -> None:
    assert named.names == NodeNames(tuple(PEOPLE))
    for again in (
        named.to(dtype=torch.float32),
        named.private(),
        Graph.of(network_x()),
        Graph.cleaned(network_x()),
        named.with_edges(named.rowptr, named.col),
        named.with_features(named.x),
        named.view(named.edge_index),
        pickle.loads(pickle.dumps(named)),
    ):
        assert again.names == named.names


def network_x() -> nx.Graph:
    graph = network()
    nx.set_node_attributes(graph, dict(zip(PEOPLE, X, strict=True)), "x")
    return graph


def test_numbers_in_order_are_no_names() -> None:
    graph = nx.path_graph(5)
    assert Graph.from_networkx(graph, x=X).names is None
    assert Graph.from_networkx(nx.relabel_nodes(graph, {node: node + 1 for node in graph}), x=X).names == NodeNames(
        (1, 2, 3, 4, 5)
    )


@pytest.mark.parametrize("order", [PEOPLE, PEOPLE[::-1]])
def test_a_frame_of_features_is_ordered_by_its_index(order: list[str], named: Graph) -> None:
    frame = pd.DataFrame(X, index=PEOPLE, columns=list("abc")).loc[order]
    assert same(Graph.from_networkx(network(), x=frame), named)
    with pytest.raises(GraphError, match="without 'Valjean'"):
        Graph.from_networkx(network(), x=frame.drop("Valjean"))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("columns", [("source", "target"), ("from", "to")])
def test_a_pair_of_frames_is_a_graph_with_names(both: bool, columns: tuple[str, str], named: Graph) -> None:
    ties = [*TIES, *(tie[::-1] for tie in TIES)] if both else TIES
    edges, x = pd.DataFrame(ties, columns=columns), pd.DataFrame(X, index=PEOPLE)
    graph = Graph.of((x, edges))
    assert same(graph, named)
    assert graph.names == named.names
    numbers = pd.DataFrame([[PEOPLE.index(end) for end in tie] for tie in ties])
    assert same(Graph.of((torch.from_numpy(X), numbers)), named)


def test_faults_of_frames_are_told() -> None:
    x, edges = pd.DataFrame(X, index=PEOPLE), pd.DataFrame(TIES, columns=["source", "target"])
    with pytest.raises(GraphError, match="Nearest are Javert"):
        Graph.of((x, edges.replace("Javert", "Javer")))
    with pytest.raises(GraphError, match="Pass x as a pandas frame"):
        Graph.of((X, edges))
    with pytest.raises(GraphError, match="weights other than 1"):
        Graph.of((x, edges.assign(weight=2)))
    with pytest.raises(GraphError, match="it needs two"):
        Graph.of((x, edges[["source"]]))
    with pytest.raises(GraphError, match="duplicate"):
        Graph.of((x, pd.concat([edges, edges[:1]])))
    with pytest.raises(GraphError, match=r"'city'.* not numbers"):
        Graph.of((x.assign(city="Digne"), edges))
    with pytest.raises(GraphError, match="two nodes with the name 'Valjean'"):
        Graph.of((x.rename(index={"Javert": "Valjean"}), edges))


@pytest.mark.parametrize("matrix", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.csc_matrix])
def test_arrays_and_sparse_matrices_are_taken_as_they_are(matrix: type, named: Graph) -> None:
    adjacency = matrix(nx.to_numpy_array(network()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_only = X.copy()
        read_only.setflags(write=False)
        assert same(Graph.of((read_only, adjacency)), named)
        assert same(Graph.of((X, named.edge_index.numpy())), named)
        assert same(Graph.of((matrix(X), adjacency.astype(bool))), named)
    assert Graph.of((matrix(X), adjacency)).x.layout == torch.sparse_csr
    with pytest.raises(GraphError, match=r"entry 2\.0"):
        Graph.of((X, 2 * adjacency))
    with pytest.raises(GraphError, match=r"shape \(5, 5\) for 4 rows"):
        Graph.of((X[:4], adjacency))


@pytest.mark.parametrize("dtype", [np.float64, np.int64, bool])
def test_a_dense_adjacency_is_taken_too(dtype: type, named: Graph) -> None:
    adjacency = nx.to_numpy_array(network()).astype(dtype)
    assert same(Graph.of((X, adjacency)), named)
    with pytest.raises(GraphError, match=r"shape \(5, 5\) for 4 rows"):
        Graph.of((X[:4], adjacency))
    with pytest.raises(GraphError, match="entry 2"):
        Graph.of((X, 2.0 * adjacency))
    with pytest.raises(GraphError, match=r"edge_index given as <float64 array of shape \(2, 5\)>"):
        Graph.of((X, adjacency[:2].astype(float)))


def test_two_rows_of_two_nodes_are_an_edge_index() -> None:
    assert Graph.of((X[:2], np.array([[0, 1], [1, 0]]))).num_edges == 1


def test_whole_numbers_become_floats_that_hold_them(named: Graph) -> None:
    edges = named.edge_index
    assert Graph.of((np.eye(5, dtype=bool), edges)).x.dtype == torch.float32
    large = np.full((5, 1), 2**24 + 1)
    assert Graph.of((large, edges)).x.tolist() == large.tolist()


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of PyG's own transform
def test_adj_t_stands_for_edge_index(named: Graph) -> None:
    data = ToSparseTensor()(Data(x=named.x, edge_index=named.edge_index))
    assert data.edge_index is None
    assert same(Graph.of(data), named)
    data.adj_t = 2 * data.adj_t
    with pytest.raises(GraphError, match="unweighted"):
        Graph.of(data)


# -- where they go ---------------------------------------------------------------------------------


def test_nodes_are_asked_for_by_name(named: Graph, encoder: certgcl.GCNEncoder) -> None:
    for names in (
        ["Cosette", "Valjean"],
        ("Cosette", "Valjean"),
        np.array(["Cosette", "Valjean"]),
        pd.Index(["Cosette", "Valjean"]),
    ):
        found = certgcl.node_compactness(encoder, named, 1, nodes=names)
        assert found.nodes.tolist() == [2, 0]
    assert certgcl.linear_bounds(encoder, named, 1, torch.ones(5, 2), nodes=["Marius"]).nodes.tolist() == [3]
    with pytest.raises(GraphError, match="Nearest are Valjean"):
        certgcl.node_compactness(encoder, named, 1, nodes=["Valjan"])
    with pytest.raises(GraphError, match="have no names, only numbers from 0 to"):
        certgcl.node_compactness(encoder, (named.x, named.edge_index), 1, nodes=["Valjean"])
    with pytest.raises(InputError):
        certgcl.node_compactness(encoder, named, 1, nodes="Valjean")


def test_numbers_are_always_positions(encoder: certgcl.GCNEncoder) -> None:
    shifted = Graph.from_networkx(nx.relabel_nodes(nx.path_graph(5), lambda node: node + 1), x=X)
    assert certgcl.node_compactness(encoder, shifted, 1, nodes=[1]).to_dict()["name"] == [2]


def test_a_certificate_has_the_names_and_so_has_its_file(named: Graph, encoder: certgcl.GCNEncoder, tmp_path) -> None:
    certificate = certgcl.node_compactness(encoder, named, 1, method="exact", nodes=["Cosette", "Valjean"])
    certificate.save(tmp_path / "certificate.npz")
    again = certgcl.Certificate.load(tmp_path / "certificate.npz")
    for one in (certificate, again, certificate.at(torch.tensor([0, 1]))):
        assert one.to_frame()["name"].tolist() == ["Cosette", "Valjean"]
        assert torch.equal(one.witness("Valjean"), certificate.witness(0))
        assert all({*tie} <= {*PEOPLE} for tie in one.named_witness("Valjean"))
        assert len(one.named_witness("Valjean")) == one.witness(0).shape[1]
    assert again.verify(encoder, named, nodes=["Cosette"]).ok
    with pytest.raises(GraphError, match="Nearest"):
        certificate.witness("Valjeans")


def test_names_of_other_kinds_are_written_as_text(encoder: certgcl.GCNEncoder, tmp_path) -> None:
    grid = Graph.from_networkx(nx.grid_2d_graph(5, 1), x=X)
    certificate = certgcl.node_compactness(encoder, grid, 1, nodes=[(2, 0)])
    assert certificate.to_dict()["name"] == [(2, 0)]
    certificate.save(tmp_path / "certificate.npz")
    assert certgcl.Certificate.load(tmp_path / "certificate.npz").to_dict()["name"] == ["(2, 0)"]


def test_names_that_do_not_fit_are_refused(named: Graph, encoder: certgcl.GCNEncoder, tmp_path) -> None:
    for names in (["a"], ["a"] * 5, [[]] * 5, "abcde", 3, {"a": 1}):
        with pytest.raises(GraphError, match="name"):
            Graph.from_edges(named.x, named.edge_index, names=names)
    from dataclasses import replace

    wrong = replace(certgcl.node_compactness(encoder, named, 1), names=NodeNames(("a", "b")))
    with pytest.raises(CertificateError, match="2 names"):
        wrong.save(tmp_path / "wrong.npz")


def test_a_one_way_view_is_told_to_be_drawn_undirected(named: Graph) -> None:
    with pytest.raises(GraphError, match="force_undirected=True"):
        named.view(named.edge_index[:, 1:])


def test_names_in_data_are_names(encoder: certgcl.GCNEncoder, named: Graph) -> None:
    data = Data(x=torch.from_numpy(X), edge_index=named.edge_index, node_names=PEOPLE)
    assert Graph.of(data).names == Graph.cleaned(data).names == named.names
    certificate = certgcl.node_compactness(encoder, data, 1, nodes=["Marius"])
    assert certificate.to_dict()["name"] == ["Marius"]
    with pytest.raises(GraphError, match="4 names for 5 nodes"):
        Graph.of(Data(x=data.x, edge_index=data.edge_index, node_names=PEOPLE[1:]))


def test_the_characters_have_their_names() -> None:
    graph, expected = Graph.of(certgcl.load_dataset("les-miserables")), nx.les_miserables_graph()
    assert graph.names is not None
    rows, columns = (graph.names.at(ends) for ends in graph.edge_index.tolist())
    assert {frozenset(pair) for pair in zip(rows, columns, strict=True)} == {frozenset(pair) for pair in expected.edges}
