"""``SAGEConv``: ``W_l' mean_j h_j + b + W_r' h_i``, or a sum in the place of the mean."""

from torch_geometric.nn import SAGEConv
from torch_geometric.nn.dense import Linear

from certgcl.layers.formula import Edges, Part, Values
from certgcl.layers.linear import root, weight_and_bias
from certgcl.layers.message_passing import Settings, aggregation_of
from certgcl.layers.site import Site

_SETTINGS: Settings = {"aggr": ("mean", "sum", "add"), "normalize": (False,), "project": (False,),
                       "root_weight": (True, False)}


def sage(site: Site, source: Values, edges: Edges) -> Values:
    aggregation = aggregation_of(site, SAGEConv, edges, _SETTINGS)
    weight, bias = weight_and_bias(site.part("lin_l", Linear), source)
    parts = [Part(source, weight, aggregation)]
    if site.setting("root_weight"):
        parts.append(root(site.part("lin_r", Linear), source))
    return site.combined(parts, weight.shape[1], bias)
