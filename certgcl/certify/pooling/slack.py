"""How far rounding can move a bound of a pooled embedding, and the model as it runs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.rounding.direction_error import CompactnessDirections, embeddings_with_error
from certgcl.bounds.rounding.forward_error import Growth, room_for
from certgcl.bounds.rounding.slack import Sizes, bound_factor
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.graphs.graph import Graph
from certgcl.models.pooled_network import PooledNetwork, pooled_rows


@dataclass(frozen=True, eq=False)
class PooledSizes:
    """The slack for everything that is summed up to the outputs, on any admissible view of each graph.

    Args:
        bound: at least what rounding can put a bound above the truth for each unit of ``|w_c|``, ``(G, outputs)``.
        output: at least ``|z_gc|`` and every partial sum on the way to it.
        run: at least ``|ẑ_gc - z_gc|`` of the model as it runs; infinite where it may overflow.
        lost: what underflow can cost a bound in addition, ``(G,)``.
        most: the largest ``|w_c|`` for which no number in a bound can overflow.
        room: for the roundings of these numbers and of sums over their channels.
    """

    bound: Tensor
    output: Tensor
    run: Tensor
    lost: Tensor
    most: float
    room: float

    @classmethod
    def of(cls, model: PooledNetwork, graphs: GraphSet, sizes: Sizes, dtype: torch.dtype) -> "PooledSizes":
        """From the slacks of the nodes.

        A sum over n nodes has the sum of their errors and, for its own roundings, ``γ_n`` of the sum of their sizes,
        ``C(L)`` times that for bounds: functionals of merged paths are summed over all nodes, layer by layer. A mean is
        divided by n and has two more roundings; a maximum has the largest error, and no rounding of its own. A head
        multiplies errors and sizes by its absolute weights, and adds ``γ`` of its roundings. Numbers that underflow
        lose at most the smallest normal one each.
        """
        precision = model.network.precision
        bound, output, run = (table.double() for table in (sizes.bound, sizes.output, sizes.run))
        counts = graphs.sizes.double()[:, None]
        lost = graphs.total(torch.full_like(bound[:, :1], sizes.lost))[:, 0]
        bound, output, run = (pooled_rows(table, graphs.batch, model.pool) for table in (bound, output, run))
        if model.pool != "max":
            whole = output * counts if model.pool == "mean" else output
            for table, format, factor in ((bound, dtype, bound_factor(model.network)), (run, precision, 1)):
                growth = _growth(graphs.sizes + 3, format)[:, None]
                table += factor * (output + run) * growth + (counts + 3) * torch.finfo(format).tiny
                table[~(whole * (1 + growth) < torch.finfo(format).max / 2)] = torch.inf
        if model.head is not None:
            head = model.head.to(torch.float64)
            output, bound, run = output @ head.size + head.bias_size, bound @ head.size, run @ head.size
            rows = graphs.sizes.new_full((1,), head.roundings)
            for table, format in ((bound, dtype), (run, precision)):
                growth, smallest = _growth(rows, format), torch.finfo(format).tiny
                table += (output + run) * growth + head.roundings * smallest * (1 + head.size.sum(dim=0))
                table[~(output * (1 + growth) < torch.finfo(format).max / 2)] = torch.inf
        roundings = 0 if model.head is None else model.head.roundings
        most = sizes.most if model.head is None else sizes.most / max(1.0, float(model.head.size.sum(dim=1).max()))
        sums = int(graphs.sizes.max()) + roundings + bound.shape[1] + 32
        return cls(bound, output, run, lost, most, room_for(sums, torch.float64))

    def slack(self, directions: Tensor, lifted: Tensor) -> Tensor:
        """How far above the minimum of ``w · z_g`` a computed bound can lie, ``(G, C)`` for directions ``(G, C, d)``.

        Args:
            lifted: how far the rounding of sums of node bounds can have raised it, ``(G, C)``.
        """
        eps = torch.finfo(torch.float64).eps
        found = _times(directions, self.bound) + self.lost[:, None] + lifted
        found = (found + eps * (directions.shape[2] + 8) * _times(directions, self.output)) * self.room
        return torch.where(directions.abs().amax(dim=2) <= self.most, found, torch.inf)

    def run_error(self, directions: Tensor) -> Tensor:
        """How far ``w · ẑ_g`` of the model as it runs can be from ``w · z_g``, ``(G, C)``."""
        return _times(directions, self.run) * self.room

    def moved(self, own: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
        """How far ``w · z_g`` and ``w · (ẑ_g - z_g)`` can move with w by at most ``own_g + shared_c``, ``(G, 1)``."""
        first, second = ((own * table.sum(dim=1) + table @ shared)[:, None] for table in (self.output, self.run))
        return first * self.room, second * self.room


def _growth(counts: Tensor, precision: torch.dtype) -> Tensor:
    return Growth(precision, 0)(counts).double()


def _times(directions: Tensor, table: Tensor) -> Tensor:
    """``|w| · values``; an infinite value of a channel with zero weight counts as zero."""
    size = directions.abs()
    return torch.where(size > 0, size * table[:, None], 0.0).sum(dim=2)


@torch.no_grad()
def pooled_directions(model: PooledNetwork, graphs: GraphSet, view: Graph) -> CompactnessDirections:
    """``W^CL`` of graphs: the unit vector of each pooled embedding minus the mean of the others', with its error."""
    wide = model.to(torch.float64)
    z, error = embeddings_with_error(wide.network, view)
    size = z.abs().amax(dim=1, keepdim=True)
    embeddings = wide.after(z, graphs.batch)
    off = pooled_rows(error[:, None], graphs.batch, model.pool)[:, 0]
    if model.pool != "max":
        off = off + _growth(graphs.sizes + 3, torch.float64) * pooled_rows(size, graphs.batch, model.pool)[:, 0]
    if wide.head is not None:
        head, largest = wide.head, pooled_rows(size, graphs.batch, model.pool)[:, 0] + off
        growth = _growth(graphs.sizes.new_full((1,), head.roundings), torch.float64)
        sums = head.size.sum(dim=0).max()
        off = off * sums + growth * (largest * sums + head.bias_size.max())
    roundings = 0 if wide.head is None else wide.head.roundings
    off = off * room_for(int(graphs.sizes.max()) + z.shape[1] + roundings + 32, z.dtype)
    return CompactnessDirections.of_embeddings(embeddings, off + (off > 0) * torch.finfo(z.dtype).tiny)
