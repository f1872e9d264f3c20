"""Which edges to change next: those with the best derivatives, within the budgets."""

import torch
from torch import Tensor

from certgcl.attacks.batch import FieldBatch
from certgcl.attacks.field import rank

SMALL = 16  # edges of a field in which all pairs are tried
ALTERNATIVES = 3  # dropped edges of a node that may come back for another


def room(batch: FieldBatch, dropped: Tensor) -> tuple[Tensor, Tensor]:
    """How many more edges every node can lose, ``(U + 1,)``, and every field in all, ``(B, 1)``."""
    return batch.budget - batch.lost(dropped), batch.space.drops.total - dropped.sum(dim=1, keepdim=True)


def filled(batch: FieldBatch, dropped: Tensor, gains: Tensor, wanted: Tensor) -> Tensor:
    """The drops with as many more of the wanted edges as fit, the least gains first; ``(B, E)``.

    In rounds: each drops all edges that are, at both ends, among the first for which there is room.
    """
    dropped, (left, total) = dropped.clone(), room(batch, dropped)
    total = total[:, 0]
    field, edge = (wanted & ~dropped).nonzero().T
    order = gains[field, edge].argsort(stable=True)
    field, edge = field[order], edge[order]
    ends = batch.ends[field, edge]
    while True:
        fits = (left[ends] > 0).all(dim=1) & (total[field] > 0)
        field, edge, ends = field[fits], edge[fits], ends[fits]
        if not len(field):
            return dropped
        first = (rank(ends.flatten()).view_as(ends) < left[ends]).all(dim=1)
        first[first.clone()] = rank(field[first]) < total[field[first]]
        dropped[field[first], edge[first]] = True
        left = left - torch.bincount(ends[first].flatten(), minlength=len(left))
        total = total - torch.bincount(field[first], minlength=len(total))
        field, edge, ends = field[~first], edge[~first], ends[~first]


def promising_changes(batch: FieldBatch, dropped: Tensor, allowed: Tensor, number: int) -> Tensor:
    """Sets of up to three edges to change: one that is put back; or one that is dropped, together with edges that are
    put back for it if its ends or the graph cannot lose more; ``(B, C, 3)``.

    For the end nearer to the node, each of the few that are cheapest to put back is considered. Half of the places are
    for the edges of the node itself, about which derivatives say little.
    """
    gains, (left, total) = batch.gains(dropped), room(batch, dropped)
    none, field = batch.nothing, batch.fields[:, None]
    near, far = batch.ends.amin(dim=2), batch.ends.amax(dim=2)
    cheapest = _cheapest_to_return(batch, dropped, gains)
    for_far = torch.where((left[far] <= 0) & ~dropped, cheapest[far, 0], none)[..., None]
    for_near = torch.where(((left[near] <= 0) & ~dropped)[..., None], cheapest[near], none)
    of_all = torch.where(dropped, gains, torch.inf).argmin(dim=1)[:, None, None]
    in_all = ((total <= 0) & ~dropped)[..., None] & (for_near == none) & (for_far == none)
    for_near = torch.where(in_all, of_all, for_near)
    edge = torch.arange(none + 1, device=near.device)[None, :, None]
    changes = torch.stack(torch.broadcast_tensors(edge, for_near, for_far), dim=3)  # (B, E, ALTERNATIVES, 3)
    changes_anything = (batch.budget[near] > 0) & (batch.budget[far] > 0) & allowed
    again = (for_near == none) | in_all
    again[..., 0] = False
    gain = torch.where(changes == none, 0.0, gains[field[..., None, None], changes]).sum(dim=3)
    gain = gain.masked_fill(again | ~changes_anything[..., None], torch.inf)
    own = (batch.nearest == 0)[..., None]
    places = torch.cat([_least(gain.masked_fill(other, torch.inf), number // 2) for other in (own, ~own)], dim=1)
    chosen = changes.flatten(1, 2)[field, places]
    return torch.where(gain.flatten(1).gather(1, places).isinf()[..., None], none, chosen)


def all_pairs(batch: FieldBatch, dropped: Tensor) -> Tensor:
    """All admissible changes of two edges in small fields, and none in others; ``(B, C, 3)``."""
    none, field = batch.nothing, batch.fields[:, None, None]
    pairs = torch.combinations(torch.arange(min(SMALL, none), device=dropped.device)).expand(len(dropped), -1, -1)
    sign = torch.where(dropped[field, pairs], -1, 1)  # (B, C, 2)
    ends = batch.ends[field, pairs]  # (B, C, 2, 2)
    more = sign[..., None].expand_as(ends)
    met = ends[:, :, 0, :, None] == ends[:, :, 1, None, :]  # (B, C, 2, 2): whether ends are the same node
    other = torch.stack([met.any(dim=3) * sign[..., 1:], met.any(dim=2) * sign[..., :1]], dim=2)
    left, total = room(batch, dropped)
    fits = (more + other <= left[ends]).flatten(2).all(dim=2) & (sign.sum(dim=2) <= total)
    small = (batch.budget[batch.ends] > 0).all(dim=2).sum(dim=1, keepdim=True) <= SMALL
    pairs = torch.where((fits & small)[..., None], pairs, none)
    return torch.cat([pairs, torch.full_like(pairs[..., :1], none)], dim=2)


def apart_from_better(batch: FieldBatch, dropped: Tensor, changes: Tensor, order: Tensor) -> Tensor:
    """Which changes ``(B, C, 3)`` can be made together: those that share no node with an earlier one in the order
    ``(B, C)``, and stay within what is left of the total."""
    field = batch.fields[:, None, None]
    ends = batch.ends[field, changes].flatten(2)
    first = torch.full_like(batch.count, order.shape[1]).scatter_reduce(
        0, ends.flatten(), order[..., None].expand_as(ends).flatten(), "amin"
    )
    first[-1] = order.shape[1]
    apart = (order[..., None] <= first[ends]).all(dim=2)
    more = torch.where(changes == batch.nothing, 0, 1 - 2 * dropped[field, changes].long()).sum(dim=2).clamp(min=0)
    place = order.argsort(dim=1)
    used = (more * apart).gather(1, place).cumsum(dim=1).gather(1, order)
    return apart & (used <= room(batch, dropped)[1])


def _least(values: Tensor, number: int) -> Tensor:
    """The indices of the smallest values, ``(B, ...)`` to ``(B, number)`` or fewer."""
    flat = values.flatten(1)
    return flat.topk(min(number, flat.shape[1]), largest=False).indices


def _cheapest_to_return(batch: FieldBatch, dropped: Tensor, gains: Tensor) -> Tensor:
    """The dropped edges of every node that are cheapest to put back, ``(U + 1, ALTERNATIVES)``."""
    field, edge = dropped.nonzero().T
    order = gains[field, edge].argsort(stable=True)
    node, edge = batch.ends[field, edge][order].flatten(), edge[order].repeat_interleave(2)
    node, order = node.sort(stable=True)
    number = torch.bincount(node, minlength=len(batch.count))
    at = (number.cumsum(0) - number)[:, None] + torch.arange(ALTERNATIVES, device=node.device)
    there = torch.arange(ALTERNATIVES, device=node.device) < number[:, None]
    edge = torch.cat([edge[order], edge.new_tensor([batch.nothing])])
    return edge[torch.where(there, at, len(edge) - 1)]
