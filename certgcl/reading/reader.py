"""Reading a two-layer GCN out of a model: by its program, or on request by measuring it."""

from typing import Any, Literal, Protocol, TypeAlias, get_args

import torch
from torch import nn

from certgcl.budget import BudgetLike, EdgeDropBudget
from certgcl.encoder import GCNEncoder, GCNWeights
from certgcl.errors import InputError
from certgcl.graph import Graph, GraphLike
from certgcl.layers.modules import is_module
from certgcl.layers.trusted import check_surroundings
from certgcl.models import GraphNetwork, Layer, SymmetricNorm, Term
from certgcl.reading.checks import check_finite, check_fit, check_module, check_output, output_of, some_views
from certgcl.reading.matching import match
from certgcl.reading.probing import probe
from certgcl.reading.tracer import trace


class Fitted(Protocol):
    """A trained method, which has its encoder inside."""

    def fitted_encoder(self) -> nn.Module: ...


ModelLike: TypeAlias = nn.Module | GCNWeights | Fitted
"""What can be read as a two-layer GCN."""

Reading = Literal["traced", "probed"]
"""How a model is read."""


def read_encoder(model: ModelLike, graph: GraphLike, reading: Reading = "traced", *,
                 budgets: BudgetLike | None = None) -> GCNWeights:
    """The weights and activation slopes of a two-layer GCN, proved to be what ``model(x, edge_index)`` computes.

    By default the *program* is read: the source of ``forward``, which is proved to be what runs, is followed on
    symbols, through the functions and modules it calls, down to ``GCNConv`` and activations known by exact type and
    identity. Nothing of the model is run for that, and models it cannot read raise an error. Then the model is run on
    the graph, without its edges and with half of them, and must give what the weights give.

    ``"probed"`` measures instead: layers are replaced by known values to see what follows them, over the ranges that
    occur, and the model is run on many views. That proves nothing; the weights and their certificates say so.

    The model stays as it was: mode, buffers, gradients and random state.

    Args:
        model: a trained method (``GRACE``, ...), a ``GCNEncoder``, a ``torch_geometric.nn.GCN`` with two layers, any
            module that calls two ``GCNConv``, or ``GCNWeights``, which are returned as they are.
        graph: where the model is run; on the model's device, in any dtype.
        reading: ``"traced"`` or ``"probed"``.
        budgets: the drops that a probed model is tried on; any by default.

    Returns:
        The weights in the model's dtype, with their autograd history.

    Raises:
        EncoderError: the model is no two-layer GCN with two-piece linear activations, or cannot be read, and why.
    """
    if reading not in get_args(Reading):
        raise InputError(f"reading={reading!r}", "a model is 'traced' or 'probed'", "Leave it out to have it traced")
    graph = Graph.of(graph)
    if isinstance(model, GCNWeights):
        check_fit({model.w1.shape[0]}, model.w1.device, graph)
        check_finite(model.named_tensors())
        return model
    if reading == "probed":
        module = _encoder_of(model)
        check_surroundings()
        dtype = check_module(module).dtype
        budget = EdgeDropBudget() if budgets is None else EdgeDropBudget.of(budgets)
        return probe(module, graph.to(dtype=dtype), budget.on(graph))
    weights, module = traced(model, graph), _encoder_of(model)
    check_finite(weights.named_tensors())
    graph = graph.to(dtype=weights.w1.dtype)
    with torch.no_grad(), torch.random.fork_rng(devices=[graph.x.device] if graph.x.is_cuda else []):
        for view in some_views(graph):
            check_output(weights, view, output_of(module, view))
    return weights


def traced(model: nn.Module | Fitted, graph: Graph) -> GCNWeights:
    """The weights that the program of a model computes with, if they fit the graph.

    Nothing of the model is run, so that a step of training can afford it.
    """
    module = _encoder_of(model)
    check_surroundings()
    if type(module) is not GCNEncoder:  # a subclass may have a forward of its own
        check_module(module)
    weights: GCNWeights = module.weights() if type(module) is GCNEncoder else match(*trace(module))
    check_fit({weights.w1.shape[0]}, weights.w1.device, graph)
    return weights


def _encoder_of(model: Any) -> Any:
    """The module itself, or the one inside a trained method."""
    return model.fitted_encoder() if not is_module(model) and hasattr(model, "fitted_encoder") else model


def read_network(model: "ModelLike | GraphNetwork", graph: GraphLike, reading: Reading = "traced", *,
                 budgets: BudgetLike | None = None) -> GraphNetwork:
    """As a network of layers; see :func:`read_encoder`."""
    if isinstance(model, GraphNetwork):
        graph = Graph.of(graph)
        check_fit({model.features}, model.device, graph)
        check_finite(model.named_tensors())
        return model
    return _network_of(read_encoder(model, graph, reading, budgets=budgets))


def traced_network(model: nn.Module | Fitted, graph: Graph) -> GraphNetwork:
    """The network that the program of a model computes, if it fits the graph; nothing of the model is run."""
    return _network_of(traced(model, graph))


def _network_of(weights: GCNWeights) -> GraphNetwork:
    gcn = SymmetricNorm()
    return GraphNetwork((Layer((Term(0, weights.w1, gcn),), weights.b1, weights.activation1, "conv1"),
                         Layer((Term(1, weights.w2, gcn),), weights.b2, weights.activation2, "conv2")),
                        reading=weights.reading)
