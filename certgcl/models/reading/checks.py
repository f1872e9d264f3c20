"""Checks of a model beyond its program: it fits the graph, and its own output equals that of the network."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models.layers.formula import Softmax
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import is_module, named_parameters
from certgcl.models.mixing import Mixing, features_times
from certgcl.models.network import GraphNetwork
from certgcl.models.reading.refusals import BUILD, CALLED, WRAP


def check_module(model: Any) -> Tensor:
    """A parameter of the model (for its dtype and device), after all checks that do not need its forward."""
    if not is_module(model):
        raise EncoderError(
            f"a model of type {type(model).__name__}",
            "it must be a torch.nn.Module",
            "Pass a certgcl.GCNEncoder, a model of torch_geometric.nn or your own module",
        )
    parameters = dict(named_parameters(model))
    for name, parameter in parameters.items():
        if is_lazy(parameter):
            raise EncoderError(
                f"{name} without a shape yet", "parameters must be initialized", "Run the model once on your data"
            )
    if not parameters:
        raise EncoderError(f"a {type(model).__name__} without parameters", "a model needs weights", BUILD)
    check_finite((name, value) for name, value in parameters.items() if is_a(value, Tensor, nn.Parameter))
    return next(iter(parameters.values()))


def check_fit(features: int, device: torch.device, graph: Graph) -> None:
    if device != graph.x.device:
        raise EncoderError(
            f"a model on {device} and a graph on {graph.x.device}",
            "both must be on one device",
            f"Move one, for example with graph.to({str(device)!r})",
        )
    if graph.num_features != features:
        raise EncoderError(
            f"{graph.num_features} features per node",
            f"the model's layers take {features}",
            "Pass the graph the model was made for",
        )


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    for name, tensor in tensors:
        bad = 0 if tensor.is_meta else int((~torch.isfinite(tensor)).sum())
        if bad:
            raise EncoderError(
                f"{bad} NaN or infinite value(s) in {name}",
                "weights must be finite",
                "Check whether training diverged",
            )


def output_of(model: nn.Module, graph: Graph, *more: Tensor) -> Any:
    """The model's own output; sparse features are made dense if its layers cannot take them.

    Buffers are copies, so that running statistics stay as they were.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        return torch.func.functional_call(
            model, buffers, (graph.x.clone(), graph.edge_index.clone(), *(tensor.clone() for tensor in more))
        )
    except Exception as error:
        if graph.x.layout != torch.strided:
            return output_of(model, graph.with_features(graph.x.to_dense()), *more)
        raise EncoderError(
            f"{type(model).__name__}.forward failed on {graph} with {type(error).__name__}: {error}", CALLED, WRAP
        ) from error


def check_output(network: GraphNetwork, graph: Graph, output: Any, softmax: Softmax | None = None) -> None:
    """The network must give the model's own ``output`` on ``graph``, up to rounding.

    Rounding is measured against the same formula with absolute values, entry by entry: the size of what is summed,
    which cancellation cannot hide. A sum of n terms in random order errs by about √n eps of it, so eps^0.7 (1.4e-5 in
    float32, 1.1e-11 in float64) leaves room for sums of 10^4 terms and still reveals any change of the formula.

    Args:
        softmax: the softmax that the model applies to the network's output, if any: no entry of it, nor of its
            logarithm, moves by more than twice the largest move of a score.
    """
    shape = (graph.num_nodes, network.width)
    if not isinstance(output, Tensor) or output.shape != shape:
        found = f"tensor of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise EncoderError(
            f"a {found} as output", f"the model must return a tensor of shape {shape}, as its program says", BUILD
        )
    tolerance = torch.finfo(output.dtype).eps ** 0.7
    # Sparse products do not exist in smaller dtypes; weights that were computed in a wider one are compared in it.
    dtype = torch.promote_types(torch.promote_types(output.dtype, network.dtype), torch.float32)
    network, graph, output = network.to(dtype), graph.to(dtype=dtype), output.to(dtype)
    z, size = network.embed(graph), sizes(network, graph)
    if softmax is not None:
        z, size = softmax(z), (2 * size.amax(dim=1, keepdim=True) + network.width).expand_as(size)
    if not bool(torch.isfinite(output).all() & torch.isfinite(size).all()):
        raise EncoderError(
            f"embeddings that overflow {output.dtype}",
            "the model's output must be finite",
            "Check for extremely large weights or features",
        )
    wrong = ~((output - z).abs() <= tolerance * size + torch.finfo(dtype).tiny)
    if wrong.any():
        node, channel = wrong.nonzero()[0].tolist()
        raise EncoderError(
            f"{int(wrong.sum())} of {wrong.numel()} embedding values on {graph} that the layers do not give, the "
            f"first at node {node}, channel {channel}: {output[node, channel]:g} instead of {z[node, channel]:g}",
            "a model must compute what its program says",
            f"Check for changed edges, stored results and overridden layers. {BUILD}",
        )


def sizes(network: GraphNetwork, graph: Graph) -> Tensor:
    """Upper bounds of the sizes of the embeddings: the forward pass over absolute values,
    ``|σ(p)| <= gain |p| + |σ(0)|``."""
    mixing, found = Mixing(graph, network.dtype), list[Tensor]()
    for layer in network.layers:
        p = layer.bias.abs()
        for term in layer.terms:
            values = (
                features_times(graph, term.weight.abs(), absolute=True)
                if term.source == 0
                else (term.project_sizes(found[term.source - 1]))
            )
            p = p + mixing(term.aggregation, values)
        sigma = layer.activation
        found.append(p if sigma is None else sigma.gain() * p + sigma.at_zero())
    return torch.cat([found[number - 1] for number in network.readout], dim=1)


def some_views(graph: Graph) -> tuple[Graph, ...]:
    """The graph, the graph without edges, and one with about half of them."""
    one, other = torch.minimum(graph.row, graph.col), torch.maximum(graph.row, graph.col)
    mixed = (one * 7919 + other * 104729) // 3 % 2 == 0  # the same for both directions, however nodes are numbered
    return graph, without(graph, torch.ones_like(graph.col, dtype=torch.bool)), without(graph, mixed)


def without(graph: Graph, dropped: Tensor) -> Graph:
    """A view without some slots, given as a mask of them."""
    pointer = torch.cat([graph.rowptr.new_zeros(1), (~dropped).cumsum(0)])
    return graph.with_edges(pointer[graph.rowptr], graph.col[~dropped])
