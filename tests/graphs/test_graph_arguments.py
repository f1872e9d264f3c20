"""The constructor and the methods of a graph with arguments that are no graph's."""

from typing import Any

import pytest
import torch

from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph

X = torch.arange(8.0).reshape(4, 2)
ROWPTR, COL = torch.tensor([0, 1, 3, 4, 4]), torch.tensor([1, 0, 2, 1])  # the path 0-1-2, and node 3 alone


@pytest.fixture
def path() -> Graph:
    return Graph(X, ROWPTR, COL)


def test_the_constructor_takes_the_rows_of_a_graph(path: Graph) -> None:
    assert path.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


@pytest.mark.parametrize(
    ("rowptr", "col", "message"),
    [
        ([0, 1, 3, 4, 4], [1, 2, 0, 1], "not sorted"),
        ([0, 1, 3, 4, 4], [1, 0, 3, 1], "without their reverse"),
        ([0, 1, 3, 4, 4], [1, 0, 0, 1], "duplicate"),
        ([0, 1, 3, 4, 4], [0, 0, 2, 1], "self-loop"),
        ([0, 1, 3, 4, 4], [1, 0, 9, 1], "node index 9"),
        ([1, 1, 3, 4, 4], [1, 0, 2, 1], "grow from 0"),
        ([0, 3, 1, 4, 4], [1, 0, 2, 1], "grow from 0"),
        ([0, 1, 3, 4, 5], [1, 0, 2, 1], "grow from 0"),
        ([0, 1, 3, 4], [1, 0, 2, 1], "rowptr of length 4"),
        ([0.0, 1.0, 3.0, 4.0, 4.0], [1, 0, 2, 1], "int64"),
    ],
)
def test_no_false_graph_comes_through_the_constructor(rowptr: list[Any], col: list[Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(X, torch.tensor(rowptr), torch.tensor(col))


@pytest.mark.parametrize(
    "x",
    [
        None,
        X.long(),
        X[:, :0],
        X * torch.nan,
        X.to("meta"),
        X.to(torch.complex64),
        X.to(torch.float8_e4m3fn),
        X[0],
        X.tolist(),
    ],
)
def test_the_constructor_takes_features_that_every_graph_has(x: Any) -> None:
    with pytest.raises(GraphError):
        Graph(x, ROWPTR, COL)


def test_sparse_features_with_indices_of_no_matrix_are_refused() -> None:
    outside = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 1, 1, 1]), torch.tensor([7]), torch.ones(1), size=(4, 2), check_invariants=False
    )
    with pytest.raises(GraphError, match="not consistent"):
        Graph(outside, ROWPTR, COL)


@pytest.mark.parametrize(
    "nodes",
    [
        torch.tensor([4]),
        torch.tensor([-1]),
        torch.tensor([True]),
        torch.tensor([0.0]),
        [0],
        "0",
        None,
        torch.tensor([0], device="meta"),
    ],
)
def test_nodes_are_numbers_of_nodes(path: Graph, nodes: Any) -> None:
    with pytest.raises(GraphError, match="i "):
        path.has_edge(nodes, torch.tensor([1]))
    if nodes is not None:
        with pytest.raises(GraphError, match="nodes"):
            path.project(torch.ones(2, 3), nodes)


@pytest.mark.parametrize(
    "values",
    [
        torch.ones(3, 2),
        torch.ones(4),
        torch.ones(4, 2).half(),
        torch.ones(4, 2).long(),
        torch.ones(4, 2, device="meta"),
        torch.eye(4).to_sparse(),
        [[1.0]] * 4,
    ],
)
def test_what_is_multiplied_is_a_matrix_that_fits(path: Graph, values: Any) -> None:
    with pytest.raises(GraphError, match="values"):
        path.propagate(values)


@pytest.mark.parametrize(
    "place",
    [
        {"device": "meta"},
        {"device": "cuda:99"},
        {"device": 0},
        {"dtype": torch.long},
        {"dtype": "float32"},
        {"dtype": torch.complex64},
    ],
)
def test_a_graph_goes_where_it_can_be_used(path: Graph, place: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=next(iter(place))):
        path.to(**place)


def test_features_beyond_a_smaller_type_are_refused(path: Graph) -> None:
    large = path.with_features(1e6 * X)
    with pytest.raises(GraphError, match="infinite"):
        large.to(dtype=torch.float16)
