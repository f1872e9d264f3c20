"""Features drawn at random within a budget, changed as much as it allows."""

import torch
from torch import Tensor

from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import BudgetError
from certgcl.graphs.graph import Graph


def random_features(graph: Graph, allowed: AdmissibleFeatures, generator: torch.Generator) -> Tensor:
    """``X̃`` in the form and precision of X: a corner of the box; random columns; or random entries, as many as the
    budgets of the nodes and the total allow."""
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


def columns_inside(
    graph: Graph, allowed: AdmissibleFeatures, masked: Tensor, generator: torch.Generator | None
) -> Tensor:
    """As many of the columns drawn to be masked at all nodes as a budget allows, ``(F,)``.

    For shared columns a random choice; otherwise one column after the other in random order, as long as no node exceeds
    its budget.
    """
    if allowed.kind == "box":
        raise BudgetError(
            "masked columns with a budget of box=",
            "a mask leaves the box",
            "Use FeatureBudget(columns=...) or from_mask_rate(...), or mask_rates=(0, 0)",
        )
    entries = graph.features.entries()
    filled = torch.zeros_like(masked)
    filled[entries.column] = True
    drawn = (masked & filled).nonzero()[:, 0]
    drawn = drawn[torch.randperm(len(drawn), generator=generator, device=drawn.device)]
    if allowed.columns:
        return masked & ~filled | torch.zeros_like(masked).index_fill(0, drawn[: allowed.columns], True)
    order = torch.argsort(entries.column, stable=True)
    owner, start = entries.owner[order], torch.searchsorted(entries.column[order], torch.stack([drawn, drawn + 1]))
    left, total, kept = allowed.off.clone(), allowed.total, []
    for column, (first, end) in zip(drawn.tolist(), start.T.tolist(), strict=True):
        nodes = owner[first:end]
        if end - first <= total and bool((left[nodes] > 0).all()):
            left[nodes] -= 1
            total -= end - first
            kept.append(column)
    return masked & ~filled | torch.zeros_like(masked).index_fill(0, drawn.new_tensor(kept), True)


def _some(chance: Tensor, count: Tensor) -> Tensor:
    """As many entries of each row as ``count`` says, among those allowed."""
    order = chance.argsort(dim=1, descending=True)
    rank = torch.empty_like(order)
    rank.scatter_(1, order, torch.arange(chance.shape[1], device=chance.device).expand_as(order))
    return (rank < count[:, None]) & (chance > 0)
