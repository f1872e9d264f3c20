"""Which edges to change next: those that the derivatives speak for, as far as the budgets let them."""

import torch
from torch import Tensor

from certgcl.search.batch import FieldBatch

ALTERNATIVES = 3  # dropped edges of a node that may come back for another


def room(batch: FieldBatch, dropped: Tensor) -> tuple[Tensor, Tensor]:
    """How many more edges every node can lose, ``(B, n)``, and the whole graph, ``(B, 1)``."""
    return batch.budget - batch.lost(dropped), batch.total - dropped.sum(dim=1, keepdim=True)


def admissible_together(batch: FieldBatch, dropped: Tensor, gains: Tensor, wanted: Tensor) -> Tensor:
    """Edges that can all be dropped at once: those that at both ends are among the best wanted ones that there is room
    for; ``(B, E)``."""
    ends, (left, _) = batch.ends.flatten(1), room(batch, dropped)
    left = left.gather(1, ends)
    wanted = wanted & ~dropped & (left.view(batch.ends.shape) > 0).all(dim=2)
    order = torch.where(wanted, gains, torch.inf).argsort(dim=1).argsort(dim=1)
    # The rank of every edge among those at its end: its place in the order of nodes and gains, less where they start.
    number = ends.shape[1]
    group = ends + batch.degree.shape[1] * (~wanted).repeat_interleave(2, dim=1)
    key, place = (group * number + order.repeat_interleave(2, dim=1)).sort(dim=1)
    here = torch.arange(number, device=key.device).expand_as(key)
    group = key.div(number, rounding_mode="floor")
    start = torch.where(group == group.roll(1, dims=1), 0, here).cummax(dim=1).values
    rank = torch.empty_like(here).scatter_(1, place, here - start)
    return wanted & (rank < left).view(batch.ends.shape).all(dim=2)


def promising_changes(batch: FieldBatch, dropped: Tensor, allowed: Tensor, number: int) -> Tensor:
    """Sets of up to three edges to change: one that comes back, or one that goes and those that come back for it where
    its ends, or the graph, can lose no more; ``(B, C, 3)``.

    For the end nearer to the node, each of the few that it costs least to put back is considered. Half of the places
    are for the edges of the node itself, for which derivatives say little.
    """
    gains, (left, total) = batch.gains(dropped), room(batch, dropped)
    none, field = batch.ends.shape[1] - 1, batch.fields[:, None]
    near, far = batch.ends.amin(dim=2), batch.ends.amax(dim=2)
    cheapest = _cheapest_to_return(batch, dropped, gains)
    for_far = torch.where((left.gather(1, far) <= 0) & ~dropped, cheapest[field, far, 0], none)[..., None]
    for_near = torch.where(((left.gather(1, near) <= 0) & ~dropped)[..., None], cheapest[field, near], none)
    of_all = torch.where(dropped, gains, torch.inf).argmin(dim=1)[:, None, None]
    in_all = ((total <= 0) & ~dropped)[..., None] & (for_near == none) & (for_far == none)
    for_near = torch.where(in_all, of_all, for_near)
    edge = torch.arange(none + 1, device=near.device)[None, :, None]
    changes = torch.stack(torch.broadcast_tensors(edge, for_near, for_far), dim=3)  # (B, E, ALTERNATIVES, 3)
    changes_anything = (batch.budget[field, near] > 0) & (batch.budget[field, far] > 0) & allowed
    again = (for_near == none) | in_all
    again[..., 0] = False
    gain = torch.where(changes == none, 0.0, gains[field[..., None, None], changes]).sum(dim=3)
    gain = gain.masked_fill(again | ~changes_anything[..., None], torch.inf)
    own = (near == 0)[..., None]
    places = torch.cat([_least(gain.masked_fill(other, torch.inf), number // 2) for other in (own, ~own)], dim=1)
    chosen = changes.flatten(1, 2)[field, places]
    return torch.where(gain.flatten(1).gather(1, places).isinf()[..., None], none, chosen)


def _least(values: Tensor, number: int) -> Tensor:
    """The places of the least values, ``(B, ...)`` to ``(B, number)`` or fewer."""
    flat = values.flatten(1)
    return flat.topk(min(number, flat.shape[1]), largest=False).indices


def _cheapest_to_return(batch: FieldBatch, dropped: Tensor, gains: Tensor) -> Tensor:
    """The dropped edges of every node that it costs least to put back, ``(B, n, ALTERNATIVES)``."""
    nodes, none = batch.degree.shape[1], batch.ends.shape[1] - 1
    order = torch.where(dropped, gains, torch.inf).argsort(dim=1)
    node = torch.where(dropped[..., None], batch.ends, nodes)[batch.fields[:, None], order].flatten(1)
    node, place = node.sort(dim=1, stable=True)
    edge = order.repeat_interleave(2, dim=1).gather(1, place)
    every = torch.arange(nodes, device=node.device)
    at = torch.searchsorted(node, every.expand(len(node), -1).contiguous())[..., None]
    at = at + torch.arange(ALTERNATIVES, device=node.device)
    inside = at.clamp(max=node.shape[1] - 1).flatten(1)
    there = (node.gather(1, inside).view(at.shape) == every[:, None]) & (at < node.shape[1])
    return torch.where(there, edge.gather(1, inside).view(at.shape), none)
