"""Values after small changes of the drops, by computing only the rows that change."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.attacks.batch import FieldBatch, Scales, weighted_sums
from certgcl.attacks.field import ranges
from certgcl.models.aggregations import Aggregation

MAX_MESSAGES = 1 << 22  # of all fields that are tried at a time


@dataclass(frozen=True, eq=False)
class CaseNodes:
    """Nodes in the cases they belong to, as sorted numbers ``case · (U + 1) + node``."""

    key: Tensor
    nodes: int

    @classmethod
    def of(cls, key: Tensor, batch: FieldBatch) -> "CaseNodes":
        return cls(key.unique(), len(batch.count))

    @property
    def case(self) -> Tensor:
        return self.key // self.nodes

    @property
    def node(self) -> Tensor:
        return self.key % self.nodes

    def find(self, key: Tensor) -> tuple[Tensor, Tensor]:
        """Which of other pairs are among these, and where."""
        if not len(self.key):
            return torch.zeros_like(key, dtype=torch.bool), torch.zeros_like(key)
        place = torch.searchsorted(self.key, key).clamp(max=len(self.key) - 1)
        return self.key[place] == key, place


class ChangedValues:
    """``w · z`` after some edges are toggled, from a pass with the drops before.

    A row of a layer changes only if an edge or the scale of its node changes, or a value that it takes; those of a
    neighbour matter too, where messages are scaled by its number of neighbours. These rows are computed again, layer by
    layer, and all others are taken from the first pass.
    """

    def __init__(self, batch: FieldBatch, dropped: Tensor) -> None:
        self.batch, self.dropped = batch, dropped
        shares = dropped.to(batch.direction.dtype)
        self.count = batch.count - batch.lost(dropped)
        self.present, self.scales = batch.state(shares)
        self.outputs = batch.outputs(self.present, self.scales)
        # Messages by the nodes that send them.
        order = torch.argsort(batch.col, stable=True)
        number = torch.bincount(batch.col, minlength=len(batch.count))
        self.taker, self.given, self.first = batch.row[order], number, number.cumsum(0) - number

    @property
    def value(self) -> Tensor:
        """``w · z`` before, ``(B,)``."""
        return self.batch.read_out(self.outputs)

    def __call__(self, changes: Tensor) -> Tensor:
        """For C sets of F edges in every field, ``(B, C, F)`` to ``(B, C)``."""
        messages = max(1, len(self.batch.row))
        return torch.cat([self._values(part) for part in changes.split(max(1, MAX_MESSAGES // messages), dim=1)], dim=1)

    def _values(self, changes: Tensor) -> Tensor:
        batch, nodes = self.batch, len(self.batch.count)
        fields, number, _ = changes.shape
        field = batch.fields[:, None, None]
        case = torch.arange(fields * number, device=changes.device).view(fields, number, 1)
        key = (case[..., None] * nodes + batch.ends[field, changes]).flatten()
        sign = (self.dropped[field, changes].long() * 2 - 1).flatten().repeat_interleave(2)  # 1 if it is put back
        ends, inverse = key.unique(return_inverse=True)
        at_ends = CaseNodes(ends, nodes)
        count = self.count[at_ends.node].index_add(0, inverse, sign)
        scales = {kind: Scales.of(kind, count.to(self.present.dtype)) for kind in batch.aggregations}
        changed = (changes + field * batch.ends.shape[1]).flatten(0, 1)  # (B C, F)
        rows: list[CaseNodes] = [CaseNodes(ends[:0], nodes)]
        found: list[Tensor] = [self.outputs[0]]
        for layer in range(1, len(self.outputs)):
            rows.append(self._rows(layer, at_ends, rows))
            found.append(self._layer(layer, rows, found, at_ends, scales, changed))
        anchor = (case * nodes + field).flatten()
        parts = []
        for layer in batch.space.network.readout:
            there, place = rows[layer].find(anchor)
            base = self.outputs[layer][:fields].repeat_interleave(number, dim=0)
            parts.append(torch.where(there[:, None], found[layer][place], base) if len(found[layer]) else base)
        direction = batch.direction.repeat_interleave(number, dim=0)
        return (torch.cat(parts, dim=1) * direction).sum(dim=1).view(fields, number)

    def _rows(self, layer: int, ends: CaseNodes, rows: list[CaseNodes]) -> CaseNodes:
        """The rows of a layer that may change."""
        keys = []
        for term in self.batch.space.network.layers[layer - 1].terms:
            keys.append(rows[term.source].key)
            if term.aggregation.mixes:
                counted = ends.key if term.aggregation.counts_at_neighbours else ends.key[:0]
                givers = torch.cat([rows[term.source].key, counted])
                case, node = givers // ends.nodes, givers % ends.nodes
                takers = self.taker[ranges(self.first[node], self.given[node])]
                keys += [ends.key, case.repeat_interleave(self.given[node]) * ends.nodes + takers]
        key = torch.cat(keys)
        return CaseNodes.of(key[key % ends.nodes < self.batch.rows[layer]], self.batch)

    def _layer(
        self,
        layer: int,
        rows: list[CaseNodes],
        found: list[Tensor],
        ends: CaseNodes,
        scales: dict[Aggregation, Scales],
        changed: Tensor,
    ) -> Tensor:
        """The output of a layer at these rows."""
        batch, here = self.batch, rows[layer]
        case, node = here.case, here.node
        part = batch.space.network.layers[layer - 1]
        p = part.bias.expand(len(node), -1)
        if not len(node):
            return part.activate(p)
        number = batch.start[node + 1] - batch.start[node]
        message = ranges(batch.start[node], number)
        start = torch.cat([number.new_zeros(1), number.cumsum(0)])
        giver, of_case, edge = batch.col[message], case.repeat_interleave(number), batch.edge[message]
        given = of_case * ends.nodes + giver
        flipped = (changed[of_case] == edge[:, None]).any(dim=1)
        present = torch.where(flipped, 1 - self.present[edge], self.present[edge])
        giver_changed, giver_place = ends.find(given)
        own_changed, own_place = ends.find(here.key)
        for place, term in enumerate(part.terms):
            source, kind = term.source, term.aggregation

            def taken(key: Tensor, which: Tensor, source: int = source) -> Tensor:
                """The positions of values in the table of old rows followed by changed rows."""
                there, at = rows[source].find(key)
                return torch.where(there, at + len(self.outputs[source]), which)

            if source == 0:
                table, own = batch.space.tables[layer, place], batch.node[node]
            else:
                table, own = torch.cat([self.outputs[source], found[source]]), taken(here.key, node)
            values = table[own]
            if kind.mixes:
                before, after = self.scales[kind], scales[kind]
                into = torch.where(giver_changed, after.into[giver_place], before.into[giver])
                index = batch.node[giver] if source == 0 else taken(given, giver)
                sums = weighted_sums(table, index, start, into * present)
                own_scale, out = (
                    torch.where(own_changed, new[own_place], old[node])[:, None]
                    for new, old in ((after.own, before.own), (after.out, before.out))
                )
                values = own_scale * values + out * sums
            p = p + (values if source == 0 else term.project(values))
        return part.activate(p)
