"""All modules that are known by their exact type. A new convolution is a file like :mod:`certgcl.layers.sage`, and a
line here."""

from collections.abc import Callable

from torch import nn
from torch_geometric.nn import APPNP, BatchNorm, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation
from torch_geometric.nn.dense import Linear

from certgcl.layers.activations import SLOPES, SMOOTH
from certgcl.layers.appnp import appnp
from certgcl.layers.batch_norm import batch_norm, pyg_batch_norm
from certgcl.layers.formula import Edges, Values
from certgcl.layers.gcn import gcn
from certgcl.layers.gin import gin
from certgcl.layers.graph_conv import graph_conv
from certgcl.layers.linear import linear
from certgcl.layers.sage import sage
from certgcl.layers.sgc import sgc
from certgcl.layers.site import Site
from certgcl.layers.trusted import TRUSTED

CONVOLUTIONS: dict[type[nn.Module], Callable[[Site, Values, Edges], Values]] = {
    GCNConv: gcn, SAGEConv: sage, GraphConv: graph_conv, GINConv: gin, SGConv: sgc, APPNP: appnp}
PARTS: dict[type[nn.Module], Callable[[Site, Values], Values]] = {
    nn.Linear: linear, Linear: linear, nn.BatchNorm1d: batch_norm, BatchNorm: pyg_batch_norm}
DROPOUTS: tuple[type[nn.Module], ...] = (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
LEAVES: tuple[type[nn.Module], ...] = (*CONVOLUTIONS, *PARTS, *SLOPES, *SMOOTH, *DROPOUTS, MeanAggregation,
                                       SumAggregation)

for _leaf in LEAVES:
    TRUSTED.add_class(_leaf, generated=_leaf in CONVOLUTIONS)
