"""The errors themselves, and every kind of bad input as a user meets it: through the public calls."""

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import certgcl
from certgcl import EdgeDropBudget, GCNEncoder, Graph, errors
from certgcl.models import gcn_network

TREE = {
    "InputError": ("CertgclError", "ValueError"),
    "GraphError": ("InputError",),
    "BudgetError": ("InputError",),
    "EncoderError": ("InputError",),
    "DirectionError": ("InputError",),
    "MethodError": ("InputError",),
    "DatasetError": ("InputError",),
    "EvaluationError": ("InputError",),
    "NotFittedError": ("InputError",),
    "CertificateError": ("InputError",),
    "ShardError": ("InputError",),
    "CheckpointError": ("InputError",),
    "ReportError": ("InputError",),
    "FileSizeError": ("InputError",),
    "ClassifierError": ("InputError",),
    "BoundError": ("CertgclError", "ArithmeticError"),
    "TrainingError": ("CertgclError", "ArithmeticError"),
    "WorkerError": ("CertgclError",),
    "OutOfMemoryError": ("CertgclError", "MemoryError"),
    "LockedError": ("CertgclError",),
}


def test_the_tree_is_small_and_has_one_root() -> None:
    classes = dict(inspect.getmembers(errors, inspect.isclass))
    assert set(classes) == {"CertgclError", *TREE}
    for name, bases in TREE.items():
        assert tuple(base.__name__ for base in classes[name].__bases__) == bases
    assert not issubclass(errors.BoundError, ValueError)


@pytest.mark.parametrize("name", ["CertgclError", *TREE])
def test_an_error_names_value_rule_and_way_out(name: str) -> None:
    error = getattr(errors, name)("a graph with 0 nodes", "there must be one", "Add one")
    assert str(error) == "a graph with 0 nodes: there must be one. Add one"
    assert (error.found, error.rule, error.remedy) == ("a graph with 0 nodes", "there must be one", "Add one")


@pytest.mark.parametrize("name", ["CertgclError", *TREE])
def test_an_error_survives_the_way_between_processes(name: str) -> None:
    error = getattr(errors, name)("found", "rule", "remedy")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.found, copy.rule, copy.remedy) == (str(error), "found", "rule", "remedy")


# -- bad input -------------------------------------------------------------------------------------

X = torch.linspace(-1, 1, 15).reshape(5, 3)
PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def certify(model: Any = None, graph: Any = (X, PATH), budgets: Any = 1, **settings: Any) -> certgcl.Certificate:
    return certgcl.node_compactness(GCNEncoder(3, 4, 2) if model is None else model, graph, budgets, **settings)


def with_edges(*extra: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    return X, torch.cat([PATH, torch.tensor(extra).T], dim=1)


def with_feature(value: float) -> tuple[torch.Tensor, torch.Tensor]:
    x = X.clone()
    x[2, 1] = value
    return x, PATH


def with_weight(value: float) -> GCNEncoder:
    model = GCNEncoder(3, 4, 2)
    model.conv2.lin.weight.data[0, 0] = value
    return model


def with_dropout() -> nn.Module:
    return GCN(3, 4, num_layers=2, out_channels=2, dropout=0.5).train()


Case = tuple[type[errors.CertgclError], str, Callable[[], Any]]
CASES: dict[str, Case] = {
    "directed edge": (
        errors.GraphError,
        r"1 edge\(s\) without their reverse, the first \(0, 4\).*cleaned",
        lambda: certify(graph=with_edges((0, 4))),
    ),
    "networkx digraph": (errors.GraphError, "DiGraph.*cleaned", lambda: certify(graph=nx.DiGraph([(0, 1)]))),
    "duplicate edge": (
        errors.GraphError,
        r"1 duplicate edge\(s\), the first \(1, 2\).*cleaned",
        lambda: certify(graph=with_edges((1, 2))),
    ),
    "self-loop": (
        errors.GraphError,
        r"1 self-loop\(s\), the first at node 3.*cleaned",
        lambda: certify(graph=with_edges((3, 3))),
    ),
    "index too large": (errors.GraphError, r"node index 5 .*0\.\.4", lambda: certify(graph=with_edges((0, 5), (5, 0)))),
    "negative index": (errors.GraphError, "node index -1", lambda: certify(graph=with_edges((0, -1), (-1, 0)))),
    "NaN feature": (errors.GraphError, "1 NaN or infinite feature", lambda: certify(graph=with_feature(torch.nan))),
    "infinite feature": (errors.GraphError, "1 NaN or infinite", lambda: certify(graph=with_feature(-torch.inf))),
    "NaN weight": (
        errors.EncoderError,
        "1 NaN or infinite value.* in conv2.lin.weight",
        lambda: certify(model=with_weight(torch.nan)),
    ),
    "infinite weight": (errors.EncoderError, "1 NaN or infinite value", lambda: certify(model=with_weight(torch.inf))),
    "wrong width": (errors.EncoderError, "3 features per node.*takes 7", lambda: certify(model=GCNEncoder(7, 4, 2))),
    "wrong width of directions": (
        errors.DirectionError,
        r"shape \(5, 3\).*\(5, 2\)",
        lambda: certgcl.linear_bounds(GCNEncoder(3, 4, 2), (X, PATH), 1, torch.ones(5, 3)),
    ),
    "integer features": (
        errors.GraphError,
        r"dtype torch.int64.*x\.float\(\)",
        lambda: certify(graph=(X.long(), PATH)),
    ),
    "boolean features": (errors.GraphError, "dtype torch.bool", lambda: certify(graph=(X > 0, PATH))),
    "negative budget": (errors.BudgetError, "value -2.*negative", lambda: certify(budgets=-2)),
    "negative total": (errors.BudgetError, "total.*-3", lambda: certify(budgets=EdgeDropBudget(total=-3))),
    "fractional budget": (errors.BudgetError, "2.5", lambda: certify(budgets=2.5)),
    "fractional budgets": (errors.BudgetError, "value 1.5", lambda: certify(budgets=[1, 1.5, 0, 0, 0])),
    "budgets of wrong length": (errors.BudgetError, "3 local budgets for 5 nodes", lambda: certify(budgets=[1, 1, 1])),
    "unknown method": (errors.MethodError, "method 'best'.*degree", lambda: certify(method="best")),
    "dropout in training mode": (
        errors.EncoderError,
        r"Dropout.*in training mode.*eval\(\)",
        lambda: certify(model=with_dropout()),
    ),
    "empty graph": (
        errors.GraphError,
        "0 nodes",
        lambda: certify(graph=Data(x=torch.empty(0, 3), edge_index=torch.empty(2, 0, dtype=torch.long))),
    ),
    "one node": (
        errors.GraphError,
        "a graph with 1 node.*two nodes or more",
        lambda: certify(graph=(X[:1], torch.empty(2, 0, dtype=torch.long))),
    ),
    "non-finite bound": (
        errors.BoundError,
        "non-finite value at node 0.*float64 has a larger range",
        lambda: certify(
            graph=(X.double() * 1e60, PATH),
            model=gcn_network((torch.ones(3, 4), 0.0, 0.0), (torch.ones(4, 2), 0.0, 1.0)),
            dtype=torch.float32,
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_by_name(case: str) -> None:
    kind, message, call = CASES[case]
    with pytest.raises(errors.CertgclError, match=message) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == f"{caught.value.found}: {caught.value.rule}. {caught.value.remedy}"


@pytest.mark.parametrize("graph", [with_edges((0, 4)), with_edges((1, 2)), with_edges((3, 3))])
def test_the_helper_named_in_the_message_helps(graph: tuple[torch.Tensor, torch.Tensor]) -> None:
    assert certify(graph=Graph.cleaned(graph)).certified


def test_good_input_is_not_refused() -> None:
    assert certify().certified
    assert certify(model=with_dropout().eval()).certified
