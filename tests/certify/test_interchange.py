"""A problem that is written, read by other programs, and enumerated, has the minimum of the audit's oracle."""

from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import vnnlib
from onnx.reference import ReferenceEvaluator

import certgcl
from certgcl.errors import EncoderError, InputError
from certgcl.models import GraphNetwork
from tests.toys import random_graph, toy_network
from verification.network_audit import library_graph, library_network, truth
from verification.network_case import PlainActivation
from verification.networks import RELU, Builder, network_case

KINDS = [
    "GCN",
    "GCN, no self-loops",
    "GCN, loop weight 2",
    "SAGE mean",
    "SAGE sum",
    "GIN",
    "SGC",
    "APPNP",
    "GCN + BatchNorm after activations",
    "GCN + residual",
    "SAGE mean, jumping knowledge (cat)",
    "GCN + ELU head",
]
ACTIVATIONS = [
    RELU,
    PlainActivation("two-piece linear", -0.3),
    PlainActivation("elu", 0.4),
    PlainActivation("tanh"),
    PlainActivation("sigmoid"),
    PlainActivation("gelu"),
    PlainActivation("silu"),
    PlainActivation("softplus", 2.5),
]


def admits(query: Any, x: np.ndarray) -> bool:
    """Whether the constraints on inputs hold, as the parser of the format reads them."""
    for assertion in query.assertions:
        (case,) = assertion.expr.to_dnf()
        for comparison in case:
            left, right = (side.to_linear_expr() for side in (comparison.lhs, comparison.rhs))
            terms = [(term.coeff, term.var, 1) for term in left.terms] + [(t.coeff, t.var, -1) for t in right.terms]
            if any(variable.name == "Y" for _, variable, _ in terms):
                continue
            value = sum(sign * coefficient * x[variable.indices[0]] for coefficient, variable, sign in terms)
            value += left.constant - right.constant
            if value > 0 if isinstance(comparison, vnnlib.LessEqual) else value < 0:
                return False
    return True


def enumerated(problem: certgcl.ExportedProblem) -> float:
    """The least Y over all admissible whole X."""
    query, evaluator = vnnlib.parse_query_file(str(problem.query)), ReferenceEvaluator(str(problem.network))
    points = (np.array(point, dtype=np.float64) for point in product((0.0, 1.0), repeat=problem.edges.shape[1]))
    return min(float(evaluator.run(None, {"X": x})[0][0]) for x in points if admits(query, x))


def assert_same_minimum(kind: str, activation: PlainActivation, folder: Path) -> None:
    graph = nx.lollipop_graph(3, 2)
    builder = Builder(np.random.default_rng(0), activation, width=3, features=2, shift=0.15)
    case = network_case(graph, kind, 2, builder).with_budget([1, 2, 2, 1, 1], total=3)
    minimum, budget = truth(case)[0], certgcl.EdgeDropBudget(case.local, case.total)
    for node in (0, 3):
        problem = certgcl.export_problem(
            library_network(case),
            library_graph(case),
            budget,
            node,
            folder,
            direction=torch.from_numpy(case.directions[node]),
            precision="float64",
        )
        assert enumerated(problem) == pytest.approx(float(minimum[node]), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_every_convolution_and_part_has_its_minimum(kind: str, tmp_path: Path) -> None:
    assert_same_minimum(kind, RELU, tmp_path)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_so_has_every_activation(activation: PlainActivation, tmp_path: Path) -> None:
    assert_same_minimum("GCN", activation, tmp_path)


def test_compactness_in_float32_runs_in_another_program(tmp_path: Path) -> None:
    graph, network = random_graph(nodes=12, density=0.2), toy_network()
    problem = certgcl.export_problem(network, graph, 1, node=3, folder=tmp_path, at_least=0.25)
    session = onnxruntime.InferenceSession(problem.network, providers=["CPUExecutionProvider"])
    (value,) = session.run(None, {"X": np.ones(problem.edges.shape[1], dtype=np.float32)})
    clean = certgcl.node_compactness(network, graph, 1, nodes=[3]).nominal
    assert float(value[0]) == pytest.approx(float(clean[0]), rel=1e-4, abs=1e-5)
    assert problem.query.read_text().endswith("(assert (<= Y[0] 0.25))\n")
    assert onnx.load(problem.network).graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    graph, network = random_graph(nodes=12, density=0.2), toy_network()
    for arguments in (
        {"node": 99},
        {"node": 3, "direction": torch.ones(99)},
        {"node": 3, "precision": "int8"},
        {"node": 3, "at_least": float("nan")},
    ):
        with pytest.raises(InputError):
            certgcl.export_problem(network, graph, 1, folder=tmp_path, **arguments)
    with pytest.raises(InputError, match="no admissible drop can change"):
        certgcl.export_problem(network, graph, 0, 3, tmp_path)


def test_an_activation_of_ones_own_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = network_case(nx.path_graph(4), "GCN", 1, Builder(np.random.default_rng(0), PlainActivation("tanh")))
    network: GraphNetwork = library_network(case)
    activation = network.layers[0].activation
    assert activation is not None
    monkeypatch.setattr(type(activation), "name", "mine")
    with pytest.raises(EncoderError, match="ONNX's own operators"):
        certgcl.export_problem(network, library_graph(case), 1, 1, tmp_path)
