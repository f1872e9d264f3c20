"""What must hold of a model beyond its program: it fits the graph, and its own output is what the weights give."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import GCNConv, MessagePassing

from certgcl.encoder import GCNWeights
from certgcl.errors import EncoderError
from certgcl.graph import Graph
from certgcl.layers.gcn import check_settings
from certgcl.layers.modules import is_module, named_modules, named_parameters
from certgcl.reading.refusals import CALLED, FORMULA, LAYERS, WRAP


def check_module(model: Any) -> Tensor:
    """A parameter of the model (for its dtype and device), after all that can be said without its forward."""
    if not is_module(model):
        raise EncoderError(f"a model of type {type(model).__name__}", "it must be a torch.nn.Module",
                           "Pass a certgcl.GCNEncoder, a torch_geometric.nn.GCN or your own module")
    modules = list(named_modules(model))
    convs = {name: module for name, module in modules if issubclass(type(module), GCNConv)}
    if not convs:
        others = sorted({type(module).__name__ for _, module in modules if issubclass(type(module), MessagePassing)})
        raise EncoderError(f"a {type(model).__name__} with {', '.join(others) or 'no message passing'} and no GCNConv",
                           "a model needs two torch_geometric.nn.GCNConv layers", "Build it with certgcl.GCNEncoder")
    for name, conv in convs.items():
        check_settings(conv, name)
    parameters = dict(named_parameters(model))
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise EncoderError(f"{name} without a shape yet", "parameters must be initialized",
                               "Run the model once on your data")
    inside = {id(parameter) for conv in convs.values() for _, parameter in named_parameters(conv)}
    first = next((parameter for parameter in parameters.values() if id(parameter) in inside), None)
    if first is None:
        raise EncoderError(f"a {type(model).__name__} whose GCNConv have no parameters", "layers need weights",
                           "Remove parametrizations of the layers")
    check_finite((name, value) for name, value in parameters.items() if type(value) in (Tensor, nn.Parameter))
    return first


def check_fit(widths: set[int], device: torch.device, graph: Graph) -> None:
    if device != graph.x.device:
        raise EncoderError(f"a model on {device} and a graph on {graph.x.device}", "both must be on one device",
                           f"Move one, for example with graph.to({str(device)!r})")
    if graph.num_features not in widths:
        raise EncoderError(f"{graph.num_features} features per node",
                           f"the model's layers take {' or '.join(map(str, sorted(widths)))}",
                           "Pass the graph the model was made for")


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    for name, tensor in tensors:
        bad = 0 if tensor.is_meta else int((~torch.isfinite(tensor)).sum())
        if bad:
            raise EncoderError(f"{bad} NaN or infinite value(s) in {name}", "weights must be finite",
                               "Look for a diverged training run")


def output_of(model: nn.Module, graph: Graph) -> Any:
    """What the model itself returns. Buffers are copies, so that running statistics stay as they were."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        return torch.func.functional_call(model, buffers, (graph.x.clone(), graph.edge_index.clone()))
    except Exception as error:
        raise EncoderError(f"{type(model).__name__}.forward failed on {graph} with {type(error).__name__}: {error}",
                           CALLED, WRAP) from error


def check_output(weights: GCNWeights, graph: Graph, output: Any) -> None:
    """The weights must give the model's own ``output`` on ``graph``, but for rounding.

    Rounding is measured against the same formula with absolute values, entry by entry: the size of what is summed,
    which cancellation cannot hide. A sum of n terms in random order errs by about √n eps of it, so eps^0.7 (1.4e-5 in
    float32, 1.1e-11 in float64) leaves room for sums of 10^4 terms and still shows any change of the formula.
    """
    shape = (graph.num_nodes, weights.w2.shape[1])
    if not isinstance(output, Tensor) or output.shape != shape:
        found = f"tensor of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise EncoderError(f"a {found} as output", f"the model must return a tensor of shape {shape}, as its second "
                           "layer does", LAYERS)
    tolerance = torch.finfo(output.dtype).eps ** 0.7
    dtype = torch.promote_types(output.dtype, torch.float32)  # sparse products exist in no smaller one
    weights, output = weights.to(dtype), output.to(dtype)
    z = weights.embed(graph)
    gain1, gain2 = weights.slope1.abs().clamp(min=1), weights.slope2.abs().clamp(min=1)
    size = GCNWeights(weights.w1.abs(), weights.b1.abs(), gain1, gain1[:, None] * weights.w2.abs() * gain2,
                      weights.b2.abs() * gain2, gain2).embed(Graph.trusted(graph.x.abs(), graph.rowptr, graph.col))
    if not bool(torch.isfinite(output).all() & torch.isfinite(size).all()):
        raise EncoderError(f"embeddings that overflow {output.dtype}", "the model's output must be finite",
                           "Look for weights or features of enormous size")
    wrong = ~((output - z).abs() <= tolerance * size + torch.finfo(dtype).tiny)
    if wrong.any():
        node, channel = wrong.nonzero()[0].tolist()
        raise EncoderError(
            f"{int(wrong.sum())} of {wrong.numel()} embedding values on {graph} that the two layers do not give, the "
            f"first at node {node}, channel {channel}: {output[node, channel]:g} instead of {z[node, channel]:g}",
            FORMULA, f"Look for changed edges, stored results and overridden layers. {LAYERS}",
        )


def some_views(graph: Graph) -> tuple[Graph, ...]:
    """The graph, the graph without edges, and one with about half of them."""
    one, other = torch.minimum(graph.row, graph.col), torch.maximum(graph.row, graph.col)
    mixed = (one * 7919 + other * 104729) // 3 % 2 == 0  # the same for both directions, whatever the numbering
    return graph, without(graph, torch.ones_like(graph.col, dtype=torch.bool)), without(graph, mixed)


def without(graph: Graph, dropped: Tensor) -> Graph:
    """A view without some slots, given as a mask of them."""
    pointer = torch.cat([graph.rowptr.new_zeros(1), (~dropped).cumsum(0)])
    return graph.with_edges(pointer[graph.rowptr], graph.col[~dropped])
