"""Features drawn at random within a budget, as much changed as it allows."""

import torch
from torch import Tensor

from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.graphs.graph import Graph


def random_features(graph: Graph, allowed: AdmissibleFeatures, generator: torch.Generator) -> Tensor:
    """``X̃`` in the form and precision of X: a corner of the box; random columns; or random entries, as many at each
    node as it may change, and of these as many as may change in all."""
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    chance = torch.rand(x.shape, generator=generator, device=x.device)
    if allowed.kind == "box":
        # Rounded towards x, so that it is inside.
        after = x + torch.where(chance < 0.5, -1.0, 1.0).to(x) * (allowed.radius[:, None] * (1 - 1e-6)).to(x)
    elif allowed.columns:
        filled = (x != 0).any(dim=0).nonzero()[:, 0]
        order = torch.randperm(len(filled), generator=generator, device=x.device)
        after = x.index_fill(1, filled[order[: allowed.columns]], 0.0)
    else:
        chosen = _some(chance * (x != 0), allowed.off) | _some(chance * (x == 0), allowed.on)
        places = chosen.flatten().nonzero()[:, 0]
        order = torch.randperm(len(places), generator=generator, device=x.device)
        kept = places[order[: allowed.total]]
        after = x.flatten().index_copy(0, kept, (x.flatten()[kept] == 0).to(x)).view_as(x)
    return after if graph.x.layout == torch.strided else after.to_sparse_csr()


def _some(chance: Tensor, count: Tensor) -> Tensor:
    """As many entries of each row as it counts, of those with a chance."""
    order = chance.argsort(dim=1, descending=True)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(chance.shape[1], device=chance.device).expand_as(order))
    return (rank < count[:, None]) & (chance > 0)
