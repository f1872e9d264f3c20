"""The minimiser behind the bound of a case: drops worth trying, and edges that its parts disagree on."""

from collections import defaultdict

import torch
from torch import Tensor

from certgcl.bounds.exact.two_layer.case import Case
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, RowCells


class Solution:
    """The neighbours that are lost in the minimiser, and the best cell of each of the others.

    Attributes:
        lost: the edges of the anchor that are dropped.
        cells: by row, the best cell and the edges that are dropped in it.
    """

    def __init__(self, case: Case) -> None:
        self.site = case.site
        omega = case.omega[:, None]
        found = case.composed(case.rows.functionals(case.cells, omega), omega)
        cost, row_cost = found.cost[:, 0], found.row_cost[:, 0]
        own = case.decisions.own
        gone = own == DROPPED
        left = case.lost - int(gone.sum())
        gone[torch.where(own == FREE, row_cost, -torch.inf).argsort(descending=True)[:left]] = True
        self.lost = set(self.site.own_edge[gone].tolist())
        self.cells: dict[int, tuple[RowCells, set[int]]] = {}
        for row in (~gone).nonzero()[:, 0].tolist():
            mine = (case.cells.row == row).nonzero()[:, 0]
            cell = case.cells.at(mine[cost[mine].argmin()][None])
            self.cells[row] = cell, self._dropped(case, cell)

    def _dropped(self, case: Case, cell: RowCells) -> set[int]:
        """As many of the undecided edges as must be dropped, those with the largest effects."""
        edge, state = self.site.edge[cell.row[0]], cell.state[0]
        dropped = set(edge[state == DROPPED].tolist())
        left = int(cell.fewest - cell.gone)
        if left:
            importance = torch.where(state == FREE, case.rows.importance(cell, case.omega)[0], -torch.inf)
            dropped |= set(edge[importance.topk(left).indices].tolist())
        return dropped

    def admissible(self, others: Tensor) -> list[int]:
        """Its drops as far as they are compatible, together with those of some other drops that are far from the anchor
        and compatible with them."""
        budget, chosen = self.site.budget.tolist(), list[int]()
        far = others[self.site.ends[:, others].amin(dim=0) > len(self.site.size)].tolist()
        wanted = [*self.lost, *(edge for _, dropped in self.cells.values() for edge in dropped), *far]
        for edge in dict.fromkeys(wanted):
            ends = self.site.ends[:, edge].tolist()
            if len(chosen) < self.site.total and all(budget[end] > 0 for end in ends):
                chosen.append(edge)
                for end in ends:
                    budget[end] -= 1
        return chosen

    def disputed(self) -> set[int]:
        """Edges that one row drops and another keeps, and all edges of nodes whose counts rows disagree on."""
        votes: dict[int, set[bool]] = defaultdict(set)
        ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row, (cell, dropped) in self.cells.items():
            ranges[row + 1].append((int(cell.fewest), int(cell.most)))
            size = int(self.site.size[row])
            for node, edge, fewest, most in zip(
                *(
                    values[:size].tolist()
                    for values in (self.site.node[row], self.site.edge[row], cell.leaf_fewest[0], cell.leaf_most[0])
                ),
                strict=True,
            ):
                votes[edge].add(edge in dropped)
                if edge not in dropped:
                    ranges[node].append((fewest, most))
        torn = [
            node
            for node, found in ranges.items()
            if max(fewest for fewest, _ in found) > min(most for _, most in found)
        ]
        at_torn = torch.isin(self.site.ends, torch.tensor(torn, dtype=torch.long)).any(dim=0).nonzero()[:, 0]
        return {edge for edge, found in votes.items() if len(found) > 1} | set(at_torn.tolist())
