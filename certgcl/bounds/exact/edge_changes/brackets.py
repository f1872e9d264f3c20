"""Brackets if edges may be added: enumeration if changes are few, branch and bound, and a search for upper bounds.

Where features may change too, the search looks for them on the graph whose edges have changed; a branch in which all
edges are decided is then closed by its bound, and the bracket may stay open.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.attacks.edge_search import EdgeSearch, Pair
from certgcl.attacks.features import FeatureField
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact.anchors import Brackets
from certgcl.bounds.exact.edge_changes.branches import CHANGED, EdgeBranches
from certgcl.bounds.exact.edge_changes.tree import ChangeTree
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.finite import check_finite
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.models.network import GraphNetwork

MOST_LISTED = 1 << 9  # pairs that may change, up to which a tree is built that decides them one by one


@torch.no_grad()
def edge_brackets(
    network: GraphNetwork,
    problem: ChangeProblem,
    directions: Tensor,
    bound: Degree,
    end: float,
    branch_limit: float,
    tolerance: float,
    progress: Callable[[int, int], object] | None = None,
) -> Brackets:
    """Brackets of the least ``w · z_i``, one anchor after the other, in float64 on the CPU.

    Args:
        directions: of the anchors, ``(A, d)``.
        end: when the time is over, in seconds since the epoch.
        branch_limit: how many branches of an anchor are bounded, about.
    """
    cpu = torch.device("cpu")
    network, graph, changes = network.to(torch.float64, cpu), problem.graph.to(cpu), problem.changes.to(cpu)
    anchors, directions = problem.anchors.to(cpu), directions.to(cpu, torch.float64)
    lower = bound(network, ChangeProblem(graph, changes, anchors, only_anchors=True), directions[:, None])[:, 0]
    upper = (directions * network.embed(graph)[anchors]).sum(dim=1)
    check_finite(anchors, lower, upper)
    search, fixed = EdgeSearch(network, graph, changes), changes.features is None
    pairs = _pairs(search)
    few = search.few() if fixed else None
    tried = None if few is None or len(few) > branch_limit else search.worst(few, anchors, directions, _clock(end))
    witnesses, added, changed = [], [], []
    branches, number = torch.zeros(len(anchors), dtype=torch.long), len(anchors)
    for place, (anchor, direction) in enumerate(zip(anchors.tolist(), directions, strict=True)):
        now = time.time()
        left = now + (end - now) / (number - place)
        lost: list[Pair] = []
        gained: list[Pair] = []
        if tried is not None and few is not None:
            lost, gained = tried[place]
            value = float(search.embeddings(lost, gained)[anchor] @ direction)
            lower[place], branches[place] = max(float(lower[place]), value), len(few)
        elif now < end:
            lost, gained = search.greedy(anchor, direction, _clock(left))
            value = float(search.embeddings(lost, gained)[anchor] @ direction)
            if pairs is not None:
                tree = _grown(
                    EdgeBranches(network, graph, changes, bound, anchor, direction, *pairs),
                    search, float(lower[place]), (lost, gained), fixed, tolerance, left, branch_limit,
                )  # fmt: skip
                value, (lost, gained) = tree.upper, _decided(tree.witness[0], *pairs)
                lower[place], branches[place] = tree.lower, tree.bounded
        else:
            value = float(upper[place])
        entries = ChangedEntries.none(cpu)
        for edges in ((lost, gained), ([], [])):
            if changes.features is None or time.time() >= left:
                break
            field = FeatureField.of(network, search.changed(*edges), changes.features, anchor)
            below, x = field.search(direction)
            if below < value:
                value, entries, (lost, gained) = below, field.changed(x), edges
        if value < float(upper[place]):
            upper[place] = value
        else:
            lost, gained, entries = [], [], ChangedEntries.none(cpu)
        witnesses.append(_edges(lost))
        added.append(_edges(gained))
        changed.append(entries)
        if progress is not None:
            progress(place + 1, number)
    exact = upper - lower <= tolerance * lower.abs().maximum(upper.abs())
    return Brackets(
        lower.minimum(upper),
        upper,
        exact,
        tuple(witnesses),
        branches,
        None if fixed else tuple(changed),
        tuple(added),
    )


def _pairs(search: EdgeSearch) -> tuple[Tensor, Tensor] | None:
    """The edges that may be dropped and the candidates, and which are new; None if there are too many."""
    additions, graph = search.changes.additions, search.graph
    assert additions is not None
    free = int(additions.addable_degree.sum()) // 2
    if free + len(search.droppable) > MOST_LISTED:
        return None
    droppable, candidates = sorted(search.droppable), search.candidates(torch.arange(graph.num_nodes))
    new = torch.arange(len(droppable) + len(candidates)) >= len(droppable)
    return _edges(droppable + candidates), new


def _grown(
    branches: EdgeBranches,
    search: EdgeSearch,
    lower: float,
    change: tuple[list[Pair], list[Pair]],
    fixed: bool,
    tolerance: float,
    end: float,
    limit: float,
) -> ChangeTree:
    """A tree that starts from a known change, grown until it is done, or the limit or the time is reached."""
    known = set(change[0]) | set(change[1])
    guide = torch.tensor([pair in known for pair in map(tuple, branches.pairs.T.tolist())], dtype=torch.bool)
    state = torch.where(guide, CHANGED, branches.undecided)

    def which(state: Tensor, free: Tensor) -> int:
        """A pair of the best change known; otherwise the most promising one to first order."""
        wanted = free & guide if bool((free & guide).any()) else free
        changed = state == CHANGED
        lost, gained = (_listed(branches.pairs, changed & kind) for kind in (~branches.new, branches.new))
        gains = search.gains(branches.anchor, branches.direction, lost, gained, branches.pairs, branches.new)
        return int(torch.where(wanted, gains.abs().nan_to_num(), -1.0).argmax())

    tree = ChangeTree(branches, lower, state, which, fixed, tolerance)
    while not tree.done and tree.bounded < limit and time.time() < end:
        tree.step()
    return tree


def _decided(state: Tensor, pairs: Tensor, new: Tensor) -> tuple[list[Pair], list[Pair]]:
    return _listed(pairs, (state == CHANGED) & ~new), _listed(pairs, (state == CHANGED) & new)


def _listed(pairs: Tensor, chosen: Tensor) -> list[Pair]:
    return [(one, other) for one, other in pairs[:, chosen].T.tolist()]


def _edges(pairs: list[Pair]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


def _clock(end: float) -> float:
    """A time since the epoch, converted to the clock of the searches."""
    return time.monotonic() + end - time.time()
