"""What methods may be made of and called with."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from certgcl.bounds import METHODS, BranchAndBound, ChangeProblem, Crown, Degree, Paper, Released, get_method
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import DirectionError, MethodError
from tests.toys import drop_problem, random_tensor, toy_graph, toy_network


class NoMethod:
    """It can be called and says that it is certified, and no more."""

    certified = True

    def __call__(self, *_: Any) -> None: ...


@pytest.mark.parametrize("method", [Degree, ["degree"], b"degree", {}, NoMethod(), torch.nn.ReLU(), len])
def test_a_method_is_a_name_or_an_instance(method: Any) -> None:
    with pytest.raises(MethodError, match=r"method .* a name or an instance"):
        get_method(method)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (Degree, {"resolution": True}),
        (Degree, {"hubs": True}),
        (Degree, {"slopes": "flat"}),
        (Degree, {"slopes": [["flat"]]}),
        (Degree, {"lines": []}),
        (Degree, {"lines": ""}),
        (Degree, {"hubs": "5"}),
        (Degree, {"patterns": True}),
        (Degree, {"patterns": "4"}),
        (Degree, {"preactivations": []}),
        (Degree, {"slopes": np.array(["flat", "flat"])}),
        (Paper, {"at": "view"}),
        (Paper, {"at": ()}),
        (Released, {"at": [None]}),
        (BranchAndBound, {"bound": Crown()}),
        (BranchAndBound, {"time_limit": float("nan")}),
        (BranchAndBound, {"time_limit": "3"}),
        (BranchAndBound, {"time_limit": True}),
        (BranchAndBound, {"branch_limit": 2.0}),
        (BranchAndBound, {"branch_limit": True}),
        (BranchAndBound, {"branch_limit": np.array(2)}),
        (BranchAndBound, {"tolerance": float("inf")}),
        (BranchAndBound, {"tolerance": None}),
        (BranchAndBound, {"workers": True}),
        (BranchAndBound, {"workers": 0}),
        (BranchAndBound, {"progress": 1}),
    ],
)
def test_no_setting_is_read_as_something_else(method: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(MethodError, match=next(iter(settings))):
        method(**settings)


def test_settings_of_numpy_are_taken_as_plain_ones() -> None:
    method = BranchAndBound(bound=Degree(slopes=["flat"], resolution=np.int64(3)), branch_limit=np.uint8(2))
    assert repr(method) == repr(BranchAndBound(bound=Degree(slopes=("flat",), resolution=3), branch_limit=2))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_called_with_what_belongs_together(name: str) -> None:
    graph, weights = toy_graph(nx.path_graph(4)), toy_network()
    problem, directions = drop_problem(graph, 1), random_tensor(4, 1, 3, seed=0)
    assert METHODS[name](weights, problem, directions).shape == (4, 1)
    for given, error in (
        ((None, problem, directions), MethodError),
        ((weights, graph, directions), MethodError),
        ((weights, problem, directions[:3]), DirectionError),
        ((weights, problem, directions.float()), DirectionError),
        ((weights, problem, directions[:, 0]), DirectionError),
        ((weights.to(torch.float16), problem, directions.half()), MethodError),
        ((toy_network(features=5), problem, directions), MethodError),
    ):
        with pytest.raises(error):
            METHODS[name](*given)


@pytest.mark.parametrize(
    "anchors",
    [
        [0],
        torch.tensor([4]),
        torch.tensor([-1]),
        torch.tensor([0.0]),
        torch.tensor([True]),
        torch.tensor(0),
        torch.tensor([], dtype=torch.long),
    ],
)
def test_a_problem_is_about_nodes_of_its_graph(anchors: Any) -> None:
    graph = toy_graph(nx.path_graph(4))
    with pytest.raises(MethodError, match="anchors"):
        ChangeProblem(graph, EdgeDropBudget(local=1).on(graph), anchors)
