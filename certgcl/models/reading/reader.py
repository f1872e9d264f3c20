"""Reading a model as a network: from its program, or on request by measuring it."""

from typing import Any, Literal, Protocol, TypeAlias, get_args

import torch
from torch import nn

from certgcl.changes.changes import BudgetLike, Changes
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.layers.formula import Softmax
from certgcl.models.layers.modules import is_module
from certgcl.models.layers.trusted import check_surroundings
from certgcl.models.network import GraphNetwork
from certgcl.models.reading.assembling import assemble
from certgcl.models.reading.checks import check_finite, check_fit, check_module, check_output, output_of, some_views
from certgcl.models.reading.probing import probe
from certgcl.models.reading.tracer import trace


class Fitted(Protocol):
    """A trained method, which contains its encoder."""

    def fitted_encoder(self) -> nn.Module | GraphNetwork: ...


ModelLike: TypeAlias = nn.Module | GraphNetwork | Fitted
"""Everything that can be read as a network."""

Reading = Literal["traced", "probed"]
"""How a model is read."""


def read_network(
    model: ModelLike, graph: GraphLike, reading: Reading = "traced", *, budgets: BudgetLike | None = None
) -> GraphNetwork:
    """The layers of a message-passing network, with a proof that ``model(x, edge_index)`` computes them.

    By default the *program* is read: the source of ``forward``, which is proved to be the code that runs, is followed
    on symbols, through the functions and modules it calls, down to the convolutions, linear layers, batch norms and
    activations that are known by exact type and identity. No code of the model runs for that, and models that cannot be
    read raise an error. Then the model is run on the graph, without its edges and with half of them, and must agree
    with the network.

    ``"probed"`` measures a two-layer GCN instead: layers are replaced by known values to see the function after them,
    over the ranges that occur, and the model is run on many views. That proves nothing; the network and its
    certificates say so.

    The model stays as it was: mode, buffers, gradients and random state.

    Args:
        model: a trained method (``GRACE``, ...), a ``GCNEncoder``, a ``GCN``, ``GraphSAGE`` or ``GIN`` of
            ``torch_geometric.nn``, your own module of such layers, or a network, which is returned as it is.
        graph: on which the model is run; on the model's device, in any dtype.
        reading: ``"traced"`` or ``"probed"``.
        budgets: the drops that a probed model is tried on; any by default.

    Returns:
        The network, with the autograd history of the model's weights. Its tensors are in the model's dtype, or in
        float64 if some were computed from the model's own (as those of a BatchNorm are).

    Raises:
        EncoderError: the model has unknown parts, or cannot be read; the message says why.
    """
    return _read(model, graph, reading, budgets, scores=False)[0]


def read_scores(
    model: ModelLike, graph: GraphLike, reading: Reading = "traced", *, budgets: BudgetLike | None = None
) -> tuple[GraphNetwork, bool]:
    """The network whose largest output is the class that a model predicts, and whether a softmax follows it.

    Like :func:`read_network`, except that a softmax or log_softmax over the classes as the very last step of the model
    is left out: it is increasing in each score, so the largest stays the largest.
    """
    network, softmax = _read(model, graph, reading, budgets, scores=True)
    return network, softmax is not None


def _read(
    model: ModelLike, graph: GraphLike, reading: Reading, budgets: BudgetLike | None, scores: bool
) -> tuple[GraphNetwork, Softmax | None]:
    """A model read and checked by running it; ``scores`` allows a softmax at its end."""
    if reading not in get_args(Reading):
        raise InputError(f"reading={reading!r}", "a model is 'traced' or 'probed'", "Leave it out to have it traced")
    graph, module = Graph.of(graph), encoder_of(model)
    if isinstance(module, GraphNetwork):
        check_fit(module.features, module.device, graph)
        check_finite(module.named_tensors())
        return module, None
    if reading == "probed":
        check_surroundings()
        dtype = check_module(module).dtype
        budget = EdgeDropBudget() if budgets is None else Changes.of(budgets).drops_alone("a probed reading")
        return probe(module, graph.to(dtype=dtype), budget.on(graph)), None
    network, softmax = _traced(module, graph, scores)
    check_finite(network.named_tensors())
    graph = graph.to(dtype=network.precision)
    with torch.no_grad(), torch.random.fork_rng(devices=[graph.x.device] if graph.x.is_cuda else []):
        for view in some_views(graph):
            check_output(network, view, output_of(module, view), softmax)
    return network, softmax


def traced_network(model: ModelLike, graph: Graph) -> GraphNetwork:
    """The network that the program of a model computes, if it fits the graph.

    The model is not run, so it is cheap enough for a training step.
    """
    network = module = encoder_of(model)
    if not isinstance(network, GraphNetwork):
        return _traced(module, graph, scores=False)[0]
    check_fit(network.features, network.device, graph)
    return network


def _traced(module: Any, graph: Graph, scores: bool) -> tuple[GraphNetwork, Softmax | None]:
    check_surroundings()
    check_fit(graph.num_features, check_module(module).device, graph)
    output, like = trace(module, graph.num_features)
    softmax = output if scores and isinstance(output, Softmax) else None
    network = assemble(output if softmax is None else softmax.source, like)
    check_fit(network.features, network.device, graph)
    return network, softmax


def network_of(module: nn.Module, features: int) -> GraphNetwork:
    """The network that the program of a module computes from nodes with ``features`` features."""
    check_surroundings()
    check_module(module)
    return assemble(*trace(module, features))


def encoder_of(model: Any) -> Any:
    """The module itself, or the one inside a trained method."""
    return model.fitted_encoder() if not is_module(model) and hasattr(model, "fitted_encoder") else model
