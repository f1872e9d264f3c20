"""``SGConv``: ``Â … Â W' h + b``. The matrix is applied first, which is equivalent: then narrow rows are mixed instead
of wide ones."""

from torch_geometric.nn import SGConv
from torch_geometric.nn.dense import Linear

from certgcl.models.layers.formula import Edges, NodeValues, Summand
from certgcl.models.layers.gcn import NORMALIZED, symmetric_norm
from certgcl.models.layers.linear import weight_and_bias
from certgcl.models.layers.message_passing import check_count
from certgcl.models.layers.site import CallSite


def sgc(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    norm, steps = symmetric_norm(site, SGConv, edges, NORMALIZED), check_count(site, "K")
    weight, bias = weight_and_bias(site.part("lin", Linear), source)
    width = weight.shape[1]
    values: NodeValues = site.combined([Summand(source, weight, norm)], width, bias if steps == 1 else None)
    for step in range(1, steps):
        values = site.combined([Summand(values, 1.0, norm)], width, bias if step == steps - 1 else None)
    return values
