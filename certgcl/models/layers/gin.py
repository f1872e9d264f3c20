"""``GINConv``: an MLP of ``(1 + eps) h_i + Σ_j h_j``."""

from torch_geometric.nn import GINConv

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import Edges, NodeValues, Summand
from certgcl.models.layers.message_passing import DEFAULTS, Settings, aggregation_of
from certgcl.models.layers.site import CallSite

_SETTINGS: Settings = {"aggr": ("add", "sum")}


def gin(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    aggregation = aggregation_of(site, GINConv, edges, _SETTINGS)
    eps = site.parameter("eps")
    if eps.numel() != 1:
        raise EncoderError(f"{site.name}.eps of shape {tuple(eps.shape)}", "it is one number", DEFAULTS)
    # In float64, as 1 + eps may have more digits than eps; the usual zero needs no computation.
    own = 1.0 if not eps.requires_grad and float(eps) == 0 else 1 + eps.double().reshape(())
    mixed = site.combined([Summand(source, 1.0, aggregation), Summand(source, own)], source.width)
    return site.run.values(site.setting("nn"), mixed, site.place)
