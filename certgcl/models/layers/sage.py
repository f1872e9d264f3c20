"""``SAGEConv``: ``W_l' mean_j h_j + b + W_r' h_i``, or a sum instead of the mean."""

from torch_geometric.nn import SAGEConv
from torch_geometric.nn.dense import Linear

from certgcl.models.layers.formula import Edges, NodeValues, Summand
from certgcl.models.layers.linear import root, weight_and_bias
from certgcl.models.layers.message_passing import Settings, aggregation_of
from certgcl.models.layers.site import CallSite

_SETTINGS: Settings = {
    "aggr": ("mean", "sum", "add"),
    "normalize": (False,),
    "project": (False,),
    "root_weight": (True, False),
}


def sage(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    aggregation = aggregation_of(site, SAGEConv, edges, _SETTINGS)
    weight, bias = weight_and_bias(site.part("lin_l", Linear), source)
    parts = [Summand(source, weight, aggregation)]
    if site.setting("root_weight"):
        parts.append(root(site.part("lin_r", Linear), source))
    return site.combined(parts, weight.shape[1], bias)
