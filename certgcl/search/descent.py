"""Local search: from a set of dropped edges to better ones, many fields at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from certgcl.budget import AdmissibleDrops
from certgcl.search.batch import FieldBatch
from certgcl.search.changes import admissible_together, promising_changes, room
from certgcl.search.field import ReceptiveField

MAX_ELEMENTS = 1 << 19  # hidden values that are held at a time
CLEARLY = 1e-12  # of its size, by which a value must be lower to be called so

Improve = Callable[[FieldBatch, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From fields, what is dropped in each and what may change, ``(B, E)``, to other drops and their values."""


@dataclass(frozen=True)
class Search:
    """Looks for admissible drops with a low ``w · z``.

    From the whole graph, the derivatives say which edges to drop; as many of these go at once as is best by the exact
    values of 1, 2, 4, … of them. Then single changes: an edge is put back, or dropped, in the place of others where its
    ends can lose no more; those that look best by the derivatives are tried, and the best by its exact value is made,
    until none lowers the value. All this first for the edges at the node and its neighbours, which matter most, and
    then for all. Every restart puts a random half of the best drops back and goes on from there.

    Args:
        restarts: for every field.
        tried: changes tried in a step; more if the first so many lead nowhere.
        steps: at most, of each kind from each start.
        seed: of the restarts. The random numbers of a field are its own, and no one else's are drawn.
    """

    restarts: int = 1
    tried: tuple[int, ...] = (24, 192)
    steps: int = 256
    seed: int = 0

    @torch.no_grad()
    def __call__(self, fields: Sequence[ReceptiveField], drops: AdmissibleDrops, directions: Tensor) -> list[Tensor]:
        """The positions of the dropped edges in each field; ``directions`` are those of the fields, ``(B, d2)``."""
        found: list[Tensor] = [drops.local[:0]] * len(fields)
        for places in self._batches(fields):
            batch = FieldBatch.of([fields[place] for place in places], drops, directions[places])
            best = torch.zeros(batch.ends.shape[:2], dtype=torch.bool, device=batch.ends.device)
            lowest = batch.values(best)
            for start in self._starts(best, [int(fields[place].nodes[0]) for place in places]):
                dropped, value = self._descend(batch, start)
                better = value < lowest
                lowest = torch.where(better, value, lowest)
                best[better] = dropped[better]
            for place, mask in zip(places, best, strict=True):
                found[place] = mask.nonzero()[:, 0]
        return found

    @torch.no_grad()
    def improved(self, field: ReceptiveField, drops: AdmissibleDrops, direction: Tensor, start: Tensor) -> Tensor:
        """The drops that a descent from admissible ones ends at, all by their positions in the field."""
        batch = FieldBatch.of([field], drops, direction[None])
        dropped = torch.zeros(batch.ends.shape[:2], dtype=torch.bool, device=batch.ends.device)
        dropped[0, start] = True
        return self._descend(batch, dropped)[0][0].nonzero()[:, 0]

    def _batches(self, fields: Sequence[ReceptiveField]) -> Iterator[list[int]]:
        """Fields of similar size together."""
        batch: list[int] = []
        for place in sorted(range(len(fields)), key=lambda place: fields[place].adjacency.shape, reverse=True):
            largest = fields[batch[0] if batch else place]
            elements = len(largest.adjacency) * largest.projected.shape[1] * self.tried[0]
            if batch and (len(batch) + 1) * elements > MAX_ELEMENTS:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _starts(self, best: Tensor, nodes: list[int]) -> Iterator[Tensor]:
        """The whole graph, then random halves of the best drops so far, which the caller writes to ``best``."""
        yield torch.zeros_like(best)
        chance = torch.Generator()
        for restart in range(self.restarts):
            halves = []
            for node in nodes:
                chance.manual_seed((self.seed << 12 | restart) << 32 | node)
                halves.append(torch.rand(best.shape[1], dtype=torch.float32, generator=chance) < 0.5)
            yield best & torch.stack(halves).to(best.device)

    def _descend(self, batch: FieldBatch, dropped: Tensor) -> tuple[Tensor, Tensor]:
        """As low as it gets from here: what is dropped, which is changed in place, and its values."""
        lowest = batch.values(dropped)
        ways: list[Improve] = [_by_strides, *(partial(_by_changes, number=number) for number in self.tried)]
        near = batch.ends.amin(dim=2) < batch.adjacency.shape[1]
        for allowed in (near, torch.ones_like(near)):
            for improve in ways:
                active = batch.fields
                for _ in range(self.steps):
                    found, value = improve(batch.at(active), dropped[active], allowed[active])
                    better = value < lowest[active] - CLEARLY * lowest[active].abs()
                    active, found, value = active[better], found[better], value[better]
                    if not len(active):
                        break
                    dropped[active], lowest[active] = found, value
        return dropped, lowest


def greedy_drop(field: ReceptiveField, drops: AdmissibleDrops, direction: Tensor) -> Tensor:
    """An admissible set of edges with a low ``w · z``, by their positions in the field, ``(k,)``."""
    return Search()([field], drops, direction[None])[0]


def _by_strides(batch: FieldBatch, dropped: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """The best of dropping the 1, 2, 4, … most promising edges that fit together."""
    gains = batch.gains(dropped)
    chosen = admissible_together(batch, dropped, gains, allowed & (gains < 0))
    order = torch.where(chosen, gains, torch.inf).argsort(dim=1).argsort(dim=1)
    _, total = room(batch, dropped)
    best, lowest = dropped, torch.full_like(gains[:, 0], torch.inf)
    size, most = 1, int(chosen.sum(dim=1).max())
    while size < 2 * most:
        tried = dropped | (chosen & (order < total.clamp(max=size)))
        values = batch.values(tried)
        best = torch.where((values < lowest)[:, None], tried, best)
        lowest = lowest.minimum(values)
        size *= 2
    return best, lowest


def _by_changes(batch: FieldBatch, dropped: Tensor, allowed: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The best of so many changes that look best."""
    changes = promising_changes(batch, dropped, allowed, number)
    step = max(1, MAX_ELEMENTS // (batch.adjacency.shape[1] * batch.projected[:, 0].numel()))
    values = torch.cat([batch.values_after(dropped, part) for part in changes.split(step, dim=1)], dim=1)
    lowest, place = values.min(dim=1)
    found = dropped.clone()
    found[batch.fields[:, None], changes[batch.fields, place]] ^= True
    found[:, -1] = False
    return found, lowest
