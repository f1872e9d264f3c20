"""``GraphConv``: ``W_1' h_i + b + W_2' Σ_j h_j``, or a mean instead of the sum."""

from torch_geometric.nn import GraphConv
from torch_geometric.nn.dense import Linear

from certgcl.models.layers.formula import Edges, NodeValues, Summand
from certgcl.models.layers.linear import root, weight_and_bias
from certgcl.models.layers.message_passing import Settings, aggregation_of
from certgcl.models.layers.site import CallSite

_SETTINGS: Settings = {"aggr": ("add", "sum", "mean")}


def graph_conv(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    aggregation = aggregation_of(site, GraphConv, edges, _SETTINGS)
    weight, bias = weight_and_bias(site.part("lin_rel", Linear), source)
    parts = [Summand(source, weight, aggregation), root(site.part("lin_root", Linear), source)]
    return site.combined(parts, weight.shape[1], bias)
