"""``APPNP``: K times ``h <- (1 - α) Â h + α h_0``."""

import math

from torch_geometric.nn import APPNP

from certgcl.errors import EncoderError
from certgcl.models.layers.activations import EVAL
from certgcl.models.layers.formula import Edges, NodeValues, Summand
from certgcl.models.layers.gcn import NORMALIZED, symmetric_norm
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.message_passing import check_count
from certgcl.models.layers.site import CallSite


def appnp(site: CallSite, source: NodeValues, edges: Edges) -> NodeValues:
    norm, steps = symmetric_norm(site, APPNP, edges, NORMALIZED), check_count(site, "K")
    alpha, dropout = site.setting("alpha"), site.setting("dropout")
    if not is_a(alpha, int, float) or not math.isfinite(alpha) or not is_a(dropout, int, float):
        raise EncoderError(f"alpha={alpha!r}, dropout={dropout!r} in {site.name}", "they are numbers", "Give floats")
    if dropout > 0 and site.setting("training") is not False:
        raise EncoderError(f"{site.name} with dropout in training mode", "a model must not be random", EVAL)
    values = source
    for _ in range(steps):
        values = site.combined([Summand(values, 1.0 - alpha, norm), Summand(source, float(alpha))], source.width)
    return values
