"""Local search that improves sets of dropped edges, many fields at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from certgcl.attacks.batch import FieldBatch
from certgcl.attacks.changes import all_pairs, apart_from_better, filled, promising_changes
from certgcl.attacks.field import Field, SearchSpace
from certgcl.attacks.relaxed import by_relaxation
from certgcl.attacks.single_changes import ChangedValues

MAX_SIZE = 1 << 16  # messages and edges of the fields that are searched together, beyond the first
FEWEST, MAX_TRIED = 16, 1 << 18  # changes tried in a field, and their number times the messages of the field
NEVER = 1 << 40  # the turn of edges that do not change
CLEARLY = 1e-12  # relative decrease from which a value counts as lower

Improve = Callable[[FieldBatch, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From fields, what is dropped in each and what may change, ``(B, E)``, to other drops and their values."""


@dataclass(frozen=True)
class Search:
    """Looks for admissible drops with a low ``w · z``.

    It starts from the drops that gradients on relaxed edge masks lead to
    (:func:`certgcl.attacks.relaxed.by_relaxation`), and from none at all. From each, the
    most promising edges by derivative are dropped together: the best number of them is chosen by the exact values of
    1, 2, 4, … of them. Then single changes: an edge is put back, or dropped, in exchange for others where its ends
    can lose no more. Those that look best by derivative are evaluated exactly, and the best are made, until none
    lowers the value. All this is done first for the edges at the node and its neighbours, which matter most, then for
    all edges, and in small fields finally for all pairs. Every restart puts back a random half of the best drops and
    continues from there.

    Args:
        relaxed: steps on relaxed masks; 0 for none.
        restarts: for every field.
        tried: changes tried in a step; more if none of the first ones helps.
        steps: at most, of each kind from each start.
        worth: another step must lower a node's value by at least this share of the decrease so far.
        seed: of the restarts. Every field has its own random numbers; no other generator is used.
    """

    relaxed: int = 12
    restarts: int = 1
    tried: tuple[int, ...] = (24, 192)
    steps: int = 256
    worth: float = 1e-4
    seed: int = 0

    @torch.no_grad()
    def __call__(
        self, space: SearchSpace, fields: Sequence[Field], directions: Tensor, end: float = float("inf")
    ) -> list[Tensor]:
        """The positions of the dropped edges in each field.

        Args:
            directions: those of the fields, ``(B, d)``.
            end: when to stop, by ``time.monotonic``; the best drops until then are returned.
        """
        found: list[Tensor] = [space.drops.local[:0]] * len(fields)
        for places in _batches(fields):
            if time.monotonic() >= end:
                break
            batch = FieldBatch.of(space, [fields[place] for place in places], directions[places])
            best = torch.zeros(batch.ends.shape[:2], dtype=torch.bool, device=batch.ends.device)
            lowest = batch.values(best)
            for start in self._starts(batch, best):
                dropped, value = self._descend(batch, start, end)
                better = value < lowest
                lowest = torch.where(better, value, lowest)
                best[better] = dropped[better]
                if time.monotonic() >= end:
                    break
            for place, mask in zip(places, best, strict=True):
                found[place] = mask.nonzero()[:, 0]
        return found

    @torch.no_grad()
    def improved(self, space: SearchSpace, field: Field, direction: Tensor, start: Tensor) -> Tensor:
        """The drops that a descent from admissible ones ends at, as positions in the field."""
        batch = FieldBatch.of(space, [field], direction[None])
        dropped = torch.zeros(batch.ends.shape[:2], dtype=torch.bool, device=batch.ends.device)
        dropped[0, start] = True
        return self._descend(batch, dropped)[0][0].nonzero()[:, 0]

    def _starts(self, batch: FieldBatch, best: Tensor) -> Iterator[Tensor]:
        """Starting points: the result of the relaxation, the whole graph, then random halves of the best drops so far,
        which the caller writes to ``best``."""
        if self.relaxed:
            yield by_relaxation(batch, torch.zeros_like(best), self.relaxed)
        yield torch.zeros_like(best)
        chance = torch.Generator()
        for restart in range(self.restarts):
            halves = []
            for field in batch.members:
                chance.manual_seed((self.seed << 12 | restart) << 32 | field.anchor)
                halves.append(torch.rand(best.shape[1], dtype=torch.float32, generator=chance) < 0.5)
            yield best & torch.stack(halves).to(best.device)

    def _descend(self, batch: FieldBatch, dropped: Tensor, end: float = float("inf")) -> tuple[Tensor, Tensor]:
        """Descends from these drops until nothing improves. Returns the drops, changed in place, and their values."""
        lowest, clean = batch.values(dropped), batch.values(torch.zeros_like(dropped))
        ways: list[Improve] = [_by_strides, *(partial(_by_changes, number=number) for number in self.tried)]
        near = batch.nearest <= 1
        for allowed, last in ((near, []), (torch.ones_like(near), [_by_pairs])):
            for improve in ways + last:
                active, part = batch.fields, batch
                for _ in range(self.steps):
                    found, value = improve(part, dropped[active], allowed[active])
                    worth = self.worth * (clean - lowest)[active].abs() + CLEARLY * lowest[active].abs()
                    better = value < lowest[active] - worth
                    active, found, value = active[better], found[better], value[better]
                    if not len(active):
                        break
                    dropped[active], lowest[active] = found, value
                    part = part.at(better.nonzero()[:, 0])
                    if time.monotonic() >= end:
                        return dropped, lowest
        return dropped, lowest


def _batches(fields: Sequence[Field]) -> Iterator[list[int]]:
    """Batches of fields of similar size."""

    def size(place: int) -> int:
        return len(fields[place].row) + len(fields[place].slots)

    batch: list[int] = []
    for place in sorted(range(len(fields)), key=size, reverse=True):
        if batch and (len(batch) + 1) * size(batch[0]) > MAX_SIZE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _by_strides(batch: FieldBatch, dropped: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """The best of dropping the 1, 2, 4, … most promising edges that fit together."""
    gains = batch.gains(dropped)
    chosen = filled(batch, dropped, gains, allowed & (gains < 0)) & ~dropped
    order = torch.where(chosen, gains, torch.inf).argsort(dim=1).argsort(dim=1)
    return _best_of_first(batch, dropped, torch.where(chosen, order, NEVER))


def _by_changes(batch: FieldBatch, dropped: Tensor, allowed: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The best of the most promising changes, or several of them."""
    number = min(number, max(FEWEST, MAX_TRIED * len(batch.ends) // max(1, len(batch.row))))
    return _best_changes(batch, dropped, promising_changes(batch, dropped, allowed, number))


def _by_pairs(batch: FieldBatch, dropped: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """The best change of two edges in small fields, whatever their derivatives."""
    return _best_changes(batch, dropped, all_pairs(batch, dropped))


def _best_changes(batch: FieldBatch, dropped: Tensor, changes: Tensor) -> tuple[Tensor, Tensor]:
    """The best of making the 1, 2, 4, … best changes that have no node in common."""
    changed = ChangedValues(batch, dropped)
    values = changed(changes)
    order = values.argsort(dim=1).argsort(dim=1)
    apart = apart_from_better(batch, dropped, changes, order) & (values < changed.value[:, None])
    order = torch.where(apart, order, NEVER).argsort(dim=1).argsort(dim=1)
    turn = torch.full_like(dropped, NEVER, dtype=torch.long)
    turn.scatter_reduce_(1, changes.flatten(1), torch.where(apart, order, NEVER).repeat_interleave(3, dim=1), "amin")
    turn[:, -1] = NEVER
    return _best_of_first(batch, dropped, turn)


def _best_of_first(batch: FieldBatch, dropped: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
    """The best of changing the edges of the first 1, 2, 4, … turns."""
    best, lowest = dropped, torch.full_like(batch.direction[:, 0], torch.inf)
    size, most = 1, 1 + int(turn.masked_fill(turn == NEVER, -1).max())
    while size < 2 * most:
        tried = dropped ^ (turn < size)
        values = batch.values(tried)
        best = torch.where((values < lowest)[:, None], tried, best)
        lowest = lowest.minimum(values)
        size *= 2
    return best, lowest
