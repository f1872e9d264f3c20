"""``GCNConv``: ``Â' W' h + b`` with self-loops of weight c, which is 0, 1 or 2."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.dense import Linear

from certgcl.errors import EncoderError
from certgcl.models.aggregations import Diffusion, SymmetricNorm
from certgcl.models.layers.formula import Edges, NodeValues, Position, Summand
from certgcl.models.layers.linear import weight_and_bias
from certgcl.models.layers.message_passing import CACHES, DEFAULTS, Settings, check_convolution, check_loops
from certgcl.models.layers.modules import held
from certgcl.models.layers.site import CallSite

NORMALIZED: Settings = {"normalize": (True,), "add_self_loops": (True, False), "aggr": ("add", "sum"), **CACHES}
_SETTINGS: Settings = {"improved": (False, True), **NORMALIZED}


def gcn(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    norm = symmetric_norm(site, GCNConv, edges, _SETTINGS, improved=site.setting("improved"))
    weight, _ = weight_and_bias(site.part("lin", Linear), source)
    return site.combined([Summand(source, weight, norm)], weight.shape[1], _bias(site, weight))


def gcn_parameters(conv: nn.Module, name: str) -> tuple[Tensor, Tensor]:
    """``W`` ``(inputs, outputs)`` and ``b`` of a layer with self-loops of weight 1, with their autograd history."""
    site = CallSite(conv, name, Position("certgcl", 0, name), _Alone())
    if symmetric_norm(site, GCNConv, Edges(), _SETTINGS, improved=site.setting("improved")).loop != 1:
        raise EncoderError(f"add_self_loops=False in {name}", "layers need add_self_loops=True", DEFAULTS)
    weight, _ = weight_and_bias(site.part("lin", Linear))
    bias = _bias(site, weight)
    return weight, weight.new_zeros(weight.shape[1]) if bias is None else bias


class _Alone:
    """Reads a single layer."""

    def own(self, tensor: Tensor, name: str) -> Tensor:
        return tensor

    def values(self, called: Any, source: NodeValues, place: Position) -> NodeValues:
        raise NotImplementedError


def _bias(site: CallSite, weight: Tensor) -> Tensor | None:
    bias = site.optional("bias")
    if held(site.part("lin", Linear).module, "bias") is not None:
        raise EncoderError(f"{site.name}.lin with a bias", "a GCNConv has its bias after propagation", DEFAULTS)
    if bias is not None and bias.shape != weight.shape[1:]:
        raise EncoderError(
            f"{site.name} with {weight.shape[1]} outputs and a bias of shape {tuple(bias.shape)}",
            "a bias has one value for each output",
            DEFAULTS,
        )
    return bias


def symmetric_norm(
    site: CallSite, kind: type[nn.Module], edges: Edges, settings: Settings, improved: bool = False
) -> SymmetricNorm:
    """How a layer that normalizes by ``gcn_norm`` mixes nodes."""
    check_convolution(site.module, kind, site.name, settings)
    looped = site.setting("add_self_loops")
    if not looped:
        check_loops(site, edges)
    return (SymmetricNorm if kind is GCNConv else Diffusion)(loop_weight(improved, looped))


@cache
def loop_weight(improved: bool, add_self_loops: bool) -> float:
    """c, measured in PyG itself: with two nodes and an edge, the edge has weight 1 / (1 + c) and a loop c / (1 + c).

    The setting ``improved`` does not determine it: PyG 2.8 ignores it if there are no edge weights, and c is 1.
    """
    pair = torch.tensor([[0, 1], [1, 0]])
    edge_index, weights = gcn_norm(pair, None, 2, improved, add_self_loops, "source_to_target", torch.float64)
    edges, loops = weights[edge_index[0] != edge_index[1]], weights[edge_index[0] == edge_index[1]]
    for loop in (0.0, 1.0, 2.0):
        if torch.allclose(edges, torch.full((2,), 1 / (1 + loop), dtype=torch.float64)) and torch.allclose(
            loops, torch.full((2 if loop else 0,), loop / (1 + loop), dtype=torch.float64)
        ):
            return loop
    raise EncoderError(
        f"weights {weights.tolist()} of an edge and its loops in gcn_norm with improved={improved} and "
        f"add_self_loops={add_self_loops}",
        "loops have the weight 0, 1 or 2",
        DEFAULTS,
    )
