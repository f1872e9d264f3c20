"""The library's answers to cases of networks, and how they are judged and recorded."""

import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BoundMethod, Degree
from certgcl.bounds.prepared import ChangeProblem
from certgcl.models import (
    AGGREGATIONS,
    Activation,
    Aggregation,
    Diffusion,
    GraphNetwork,
    Layer,
    Local,
    SymmetricNorm,
    Term,
    TwoPieceLinear,
)
from certgcl.models.registry import ACTIVATIONS
from verification.audit import Ledger
from verification.network_case import NetworkCase, PlainActivation, PlainLayer, PlainTerm
from verification.network_oracle import magnitude, values

NETWORK_METHODS: dict[str, BoundMethod] = {
    **{name: METHODS[name] for name in ("interval", "crown", "degree", "degree-fast", "degree-cheap")},
    "degree, as for wide networks": Degree(slopes=("adaptive",), lines="mixed"),
}
PARAMETERS = {"elu": "alpha", "softplus": "beta"}


def library_network(case: NetworkCase) -> GraphNetwork:
    """The case's layers as layers of the library; terms with one weight share its tensor."""
    tensors = {id(term.weight): torch.from_numpy(term.weight) for layer in case.layers for term in layer.terms}
    return GraphNetwork(tuple(_layer(layer, diffuses(case), tensors) for layer in case.layers), case.readout)


def diffuses(case: NetworkCase) -> bool:
    """Whether it is an SGC or APPNP, which mix rows without a weight."""
    return any(term.mixing == "symmetric" and term.weight.ndim == 1 for layer in case.layers for term in layer.terms)


def _layer(layer: PlainLayer, diffusing: bool, tensors: dict[int, Tensor]) -> Layer:
    terms = tuple(Term(term.source, tensors[id(term.weight)], _aggregation(term, diffusing)) for term in layer.terms)
    return Layer(terms, torch.from_numpy(layer.bias), _activation(layer.activation))


def _aggregation(term: PlainTerm, diffusing: bool) -> Aggregation:
    if term.mixing == "local":
        return Local()
    if term.mixing == "symmetric":
        return (Diffusion if diffusing else SymmetricNorm)(term.loop)
    return AGGREGATIONS[term.mixing]()


def _activation(activation: PlainActivation | None) -> Activation | None:
    if activation is None:
        return None
    if activation.name == TwoPieceLinear.name:
        return TwoPieceLinear(torch.tensor(activation.parameter, dtype=torch.float64))
    settings = {PARAMETERS[activation.name]: activation.parameter} if activation.name in PARAMETERS else {}
    return ACTIVATIONS[activation.name](**settings)


def library_graph(case: NetworkCase) -> certgcl.Graph:
    return certgcl.Graph.from_networkx(case.graph, torch.from_numpy(case.x))


def certify_network(
    case: NetworkCase, method: str | BoundMethod, dtype: torch.dtype = torch.float64, nodes: list[int] | None = None
) -> certgcl.Certificate:
    """The library's answer to a case, through its public call."""
    return certgcl.linear_bounds(
        library_network(case),
        library_graph(case),
        certgcl.EdgeDropBudget(case.local, case.total),
        torch.from_numpy(case.directions),
        method=NETWORK_METHODS[method] if isinstance(method, str) else method,
        dtype=dtype,
        nodes=nodes,
    )


def differentiable_bound(case: NetworkCase, method: str, network: GraphNetwork) -> Tensor:
    """The bounds of all nodes as a function of the network's tensors, ``(n,)``."""
    graph = library_graph(case)
    changes = certgcl.Changes(certgcl.EdgeDropBudget(case.local, case.total)).on(graph)
    problem = ChangeProblem(graph, changes, torch.arange(case.nodes))
    return NETWORK_METHODS[method](network, problem, torch.from_numpy(case.directions)[:, None])[:, 0]


def network_tolerance(case: NetworkCase) -> Tensor:
    """How far rounding alone can raise a computed bound above a computed minimum, as for two layers, ``(n,)``."""
    return torch.from_numpy(1e-13 * magnitude(case) + 1e-300)


def truth(case: NetworkCase) -> tuple[Tensor, Tensor]:
    """The minimum over all admissible graphs, and the clean value; each ``(n,)``."""
    found = values(case)
    return torch.from_numpy(found.min(axis=0)), torch.from_numpy(np.array(found[0]))


def enter(
    ledger: Ledger,
    rows: tuple[str, ...],
    case: NetworkCase,
    lower: Tensor,
    minimum: Tensor,
    clean: Tensor,
    scale: float | None = None,
) -> Tensor:
    """Record a case in some rows; returns the nodes where the bound is above the minimum, or NaN."""
    wrong = torch.nonzero(~(lower <= minimum + network_tolerance(case)))[:, 0]
    scale = scale or float(magnitude(case).mean()) or 1.0
    for row in rows:
        ledger.record(
            row, case.nodes, len(wrong), float((clean - lower).sum()) / scale, float((clean - minimum).sum()) / scale
        )
    return wrong
