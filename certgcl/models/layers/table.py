"""All modules that are recognised by their exact type.

A new convolution is a file like :mod:`certgcl.models.layers.sage`, and a line here.
"""

from collections.abc import Callable

from torch import nn
from torch_geometric.nn import APPNP, BatchNorm, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.dense import Linear

from certgcl.models.layers.activations import SLOPES, SMOOTH
from certgcl.models.layers.appnp import appnp
from certgcl.models.layers.batch_norm import batch_norm, pyg_batch_norm
from certgcl.models.layers.formula import Edges, NodeValues
from certgcl.models.layers.gcn import gcn
from certgcl.models.layers.gin import gin
from certgcl.models.layers.graph_conv import graph_conv
from certgcl.models.layers.linear import linear
from certgcl.models.layers.sage import sage
from certgcl.models.layers.sgc import sgc
from certgcl.models.layers.site import CallSite
from certgcl.models.layers.trusted import TRUSTED

CONVOLUTIONS: dict[type[nn.Module], Callable[[CallSite, NodeValues, Edges], NodeValues]] = {
    GCNConv: gcn,
    SAGEConv: sage,
    GraphConv: graph_conv,
    GINConv: gin,
    SGConv: sgc,
    APPNP: appnp,
}
PARTS: dict[type[nn.Module], Callable[[CallSite, NodeValues], NodeValues]] = {
    nn.Linear: linear,
    Linear: linear,
    nn.BatchNorm1d: batch_norm,
    BatchNorm: pyg_batch_norm,
}
DROPOUTS: tuple[type[nn.Module], ...] = (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
SOFTMAX: tuple[type[nn.Module], ...] = (nn.Softmax, nn.LogSoftmax)
LEAVES: tuple[type[nn.Module], ...] = (
    *CONVOLUTIONS,
    *PARTS,
    *SLOPES,
    *SMOOTH,
    *DROPOUTS,
    *SOFTMAX,
    MeanAggregation,
    SumAggregation,
)

for _leaf in LEAVES:
    TRUSTED.add_class(_leaf, generated=_leaf in CONVOLUTIONS)
