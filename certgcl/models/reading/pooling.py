"""Reading a model that pools nodes into graphs: ``model(x, edge_index, batch)``, with linear layers after that."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models.layers.formula import (
    Activated,
    BatchVector,
    Combination,
    Concatenation,
    InputFeatures,
    Node,
    NodeValues,
    Operation,
    Pooled,
    Weight,
    tensor_name,
)
from certgcl.models.layers.trusted import check_surroundings
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import Head, PooledNetwork, pooled_rows
from certgcl.models.reading.assembling import assemble
from certgcl.models.reading.checks import check_finite, check_fit, check_module, output_of, sizes, some_views
from certgcl.models.reading.reader import ModelLike, encoder_of
from certgcl.models.reading.refusals import BUILD, POOL, POOLED, operation_refused, refusal
from certgcl.models.reading.simplifying import ordered
from certgcl.models.reading.tracer import trace

ROUNDINGS = 32  # roundings of a linear layer in addition to its sums


def read_pooled_network(model: ModelLike, graph: Graph, batch: Tensor) -> PooledNetwork:
    """The network, the pooling and the linear head that ``model(x, edge_index, batch)`` computes, read from its source
    as :func:`certgcl.read_network` does, and compared with runs of the model.

    Raises:
        EncoderError: the model cannot be read, and why.
    """
    module = encoder_of(model)
    if isinstance(module, GraphNetwork):
        raise EncoderError("a GraphNetwork without pool=", "it gives embeddings of nodes", 'Pass pool="mean"')
    check_surroundings()
    check_fit(graph.num_features, check_module(module).device, graph)
    found = assemble_pooled(*trace(module, graph.num_features, BatchVector()))
    check_fit(found.network.features, found.network.device, graph)
    check_finite(found.network.named_tensors())
    graph = graph.to(dtype=found.network.precision)
    with torch.no_grad(), torch.random.fork_rng(devices=[graph.x.device] if graph.x.is_cuda else []):
        for view in some_views(graph):
            _check_output(found, module, view, batch)
    return found


def assemble_pooled(output: Node, like: Tensor) -> PooledNetwork:
    """The pooled network whose rows are the output.

    Sound because everything between pooling and the output is a local sum of products with constants: rows of graphs
    are never combined with edges or rows of nodes, and each is an affine function of its own pooled values.
    """
    if isinstance(output, Operation):
        raise operation_refused(output)
    if not isinstance(output, NodeValues):
        raise EncoderError(f"{tensor_name(output)} as output", POOLED, POOL)
    above = ordered(output)  # this ends at pooled values
    pooled = [node for node in above if isinstance(node, Pooled)]
    for node in above:
        _check_above(node, bool(pooled))
    for node in pooled:
        if node.pool != pooled[0].pool or any(isinstance(inner, Pooled) for inner in ordered(node.source)):
            raise refusal("pooling of several kinds, or of pooled values", node.place, POOLED, POOL)
    sources = tuple(node.source for node in pooled)
    joined = (
        sources[0]
        if len(sources) == 1
        else Concatenation(sum(source.width for source in sources), sources, pooled[0].place)
    )
    network = assemble(joined, like)
    parts = output.sources if isinstance(output, Concatenation) else (output,)
    plain = len(parts) == len(pooled) and all(part is node for part, node in zip(parts, pooled, strict=True))
    return PooledNetwork(network, pooled[0].pool, None if plain else _head(above, pooled, like.device))


def _check_above(node: NodeValues, pools: bool) -> None:
    if isinstance(node, InputFeatures):
        if not pools:
            raise EncoderError("a model that does not pool", POOLED, POOL)
        raise EncoderError("values of nodes together with pooled ones", POOLED, POOL)
    if isinstance(node, Activated):
        found = f"{tensor_name(node)} after pooling" if pools else "a model that does not pool"
        raise refusal(found, node.place, POOLED, POOL)
    if isinstance(node, Combination) and any(part.aggregation.mixes for part in node.parts):
        raise refusal(
            f"{tensor_name(node)}, a convolution of pooled values" if pools else "a model that does not pool",
            node.place,
            POOLED,
            POOL,
        )


class _Affine(NamedTuple):
    """``p W + b`` of all pooled values side by side, and the same over absolute values."""

    weight: Tensor
    bias: Tensor
    size: Tensor
    bias_size: Tensor

    def times(self, weight: Weight) -> "_Affine":
        matrix = torch.as_tensor(weight).to(self.weight)
        if matrix.dim() < 2:
            return _Affine(
                self.weight * matrix, self.bias * matrix, self.size * matrix.abs(), self.bias_size * matrix.abs()
            )
        return _Affine(
            self.weight @ matrix, self.bias @ matrix, self.size @ matrix.abs(), self.bias_size @ matrix.abs()
        )


def _head(above: list[NodeValues], pooled: list[Pooled], device: torch.device) -> Head:
    """The affine function from pooled values to the output."""
    identity = torch.eye(sum(node.width for node in pooled), dtype=torch.float64, device=device)
    blocks = identity.split([node.width for node in pooled], dim=1)
    known: dict[int, _Affine] = {
        id(node): _Affine(block, zero := block.new_zeros(node.width), block, zero)
        for node, block in zip(pooled, blocks, strict=True)
    }
    roundings = ROUNDINGS
    for node in above:
        match node:
            case Combination():
                terms = [known[id(part.source)].times(part.weight) for part in node.parts]
                bias = identity.new_zeros(node.width) if node.bias is None else node.bias.double()
                sums = [sum(parts[1:], parts[0]) for parts in zip(*terms, strict=True)]
                known[id(node)] = _Affine(sums[0], sums[1] + bias, sums[2], sums[3] + bias.abs())
                roundings += ROUNDINGS + len(terms) + sum(part.source.width for part in node.parts) + node.width
            case Concatenation():
                parts = [known[id(source)] for source in node.sources]
                known[id(node)] = _Affine(*(torch.cat(each, dim=-1) for each in zip(*parts, strict=True)))
    return Head(*known[id(above[-1])], roundings)


def _check_output(found: PooledNetwork, module: nn.Module, graph: Graph, batch: Tensor) -> None:
    """The network must give the model's own output on the graphs, up to rounding, as in
    :func:`~certgcl.models.reading.checks.check_output`."""
    output, shape = output_of(module, graph, batch), (int(batch[-1]) + 1, found.width)
    if not isinstance(output, Tensor) or output.shape != shape:
        shown = f"tensor of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise EncoderError(
            f"a {shown} as output", f"the model must return a tensor of shape {shape}, a row for each graph", BUILD
        )
    tolerance, wide = torch.finfo(output.dtype).eps ** 0.7, found.to(torch.float64)
    graph = graph.to(dtype=torch.float64)
    size = pooled_rows(sizes(wide.network, graph), batch, "sum" if found.pool == "sum" else "max")
    if wide.head is not None:
        size = size @ wide.head.size + wide.head.bias_size
    wrong = ~((output.double() - wide.embed(graph, batch)).abs() <= tolerance * size + torch.finfo(output.dtype).tiny)
    if bool(wrong.any()):
        row, channel = wrong.nonzero()[0].tolist()
        raise EncoderError(
            f"{int(wrong.sum())} of {wrong.numel()} outputs that differ from what the layers compute, the first of "
            f"graph {row}, channel {channel}",
            "a model must compute what its program says",
            f"Check for changed edges, stored results and overridden layers. {BUILD}",
        )
