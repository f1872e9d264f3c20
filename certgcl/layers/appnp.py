"""``APPNP``: K times ``h <- (1 - α) Â h + α h_0``."""

import math

from torch_geometric.nn import APPNP

from certgcl.errors import EncoderError
from certgcl.layers.activations import EVAL
from certgcl.layers.formula import Edges, Part, Values
from certgcl.layers.gcn import NORMALIZED, symmetric_norm
from certgcl.layers.lookup import is_a
from certgcl.layers.message_passing import check_count
from certgcl.layers.site import Site


def appnp(site: Site, source: Values, edges: Edges) -> Values:
    norm, steps = symmetric_norm(site, APPNP, edges, NORMALIZED), check_count(site, "K")
    alpha, dropout = site.setting("alpha"), site.setting("dropout")
    if not is_a(alpha, int, float) or not math.isfinite(alpha) or not is_a(dropout, int, float):
        raise EncoderError(f"alpha={alpha!r}, dropout={dropout!r} in {site.name}", "they are numbers", "Give floats")
    if dropout > 0 and site.setting("training") is not False:
        raise EncoderError(f"{site.name} with dropout in training mode", "a model must not be random", EVAL)
    values = source
    for _ in range(steps):
        values = site.combined([Part(values, 1.0 - alpha, norm), Part(source, float(alpha))], source.width)
    return values
