"""``GraphConv``: ``W_1' h_i + b + W_2' Σ_j h_j``, or a mean in the place of the sum."""

from torch_geometric.nn import GraphConv
from torch_geometric.nn.dense import Linear

from certgcl.layers.formula import Edges, Part, Values
from certgcl.layers.linear import root, weight_and_bias
from certgcl.layers.message_passing import Settings, aggregation_of
from certgcl.layers.site import Site

_SETTINGS: Settings = {"aggr": ("add", "sum", "mean")}


def graph_conv(site: Site, source: Values, edges: Edges) -> Values:
    aggregation = aggregation_of(site, GraphConv, edges, _SETTINGS)
    weight, bias = weight_and_bias(site.part("lin_rel", Linear), source)
    parts = [Part(source, weight, aggregation), root(site.part("lin_root", Linear), source)]
    return site.combined(parts, weight.shape[1], bias)
