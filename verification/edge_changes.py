"""Added and flipped edges by enumeration: cases, and every graph that they allow. Plain Python and NumPy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from verification.network_case import Array, NetworkCase
from verification.network_oracle import embeddings, magnitude
from verification.networks import KINDS, network_cases
from verification.oracle import Edge, admissible_drops

MOST_GRAPHS = 1500  # of a case, so that all can be run


@dataclass(frozen=True, eq=False)
class ChangedCase:
    """A network on a graph whose edges may change: drops as in the case, and additions.

    Args:
        local, total: of added edges, as the budgets of drops.
        candidates: pairs that may become edges; None for all.
        flips: whether the budget of the case is for dropped and added edges together, so that additions have no budget
            of their own.
    """

    case: NetworkCase
    local: int | list[int] | None = None
    total: int | None = None
    candidates: list[Edge] | None = None
    flips: bool = False

    def __repr__(self) -> str:
        budget = "flips" if self.flips else f"local={self.local}, total={self.total}"
        return f"ChangedCase({budget}, candidates={self.candidates}, {self.case!r})"

    @property
    def free(self) -> list[Edge]:
        """The pairs that may become edges."""
        pairs = (
            combinations(range(self.case.nodes), 2)
            if self.candidates is None
            else {(min(pair), max(pair)) for pair in self.candidates}
        )
        return sorted(set(pairs) - set(self.case.edges))

    def with_directions(self, directions: Array) -> "ChangedCase":
        return replace(self, case=replace(self.case, directions=directions))

    def relabelled(self, order: list[int]) -> "ChangedCase":
        """The same with node ``order[k]`` called k."""
        names = {node: k for k, node in enumerate(order)}
        listed = None if self.candidates is None else [(names[u], names[v]) for u, v in self.candidates]
        local = [self.local[k] for k in order] if isinstance(self.local, list) else self.local
        return replace(self, case=self.case.relabelled(order), local=local, candidates=listed)


def _limits(limit: int | list[int] | None, nodes: int) -> list[float]:
    return [float("inf")] * nodes if limit is None else [limit] * nodes if isinstance(limit, int) else list(limit)


def _ends(edges: tuple[Edge, ...], nodes: int) -> list[int]:
    return [sum(node in edge for edge in edges) for node in range(nodes)]


def admissible_changes(changed: ChangedCase) -> Iterator[tuple[tuple[Edge, ...], tuple[Edge, ...]]]:
    """Every pair of edges dropped and edges added, nothing first."""
    case, nodes = changed.case, changed.case.nodes
    local, total = (case.local, case.total) if changed.flips else (changed.local, changed.total)
    most, whole = _limits(local, nodes), len(changed.free) + len(case.edges) if total is None else total
    for drops in admissible_drops(replace(case, local=case.local, total=case.total)):
        lost, gone = (_ends(drops, nodes), len(drops)) if changed.flips else ([0] * nodes, 0)
        for size in range(min(len(changed.free), whole - gone) + 1):
            for added in combinations(changed.free, size):
                if all(a + t <= limit for a, t, limit in zip(_ends(added, nodes), lost, most, strict=True)):
                    yield drops, added


def changed_values(changed: ChangedCase) -> Array:
    """``w_i · z_i`` on every admissible graph, the clean one first; ``(graphs, n)``."""
    case, matrices = changed.case, []
    for drops, added in admissible_changes(changed):
        matrix = np.zeros((case.nodes, case.nodes))
        for u, v in (set(case.edges) - set(drops)) | set(added):
            matrix[u, v] = matrix[v, u] = 1.0
        matrices.append(matrix)
    return np.asarray((embeddings(case, np.stack(matrices)) * case.directions).sum(axis=-1))


def changed_magnitude(changed: ChangedCase) -> Array:
    """``w · z`` with all signs dropped on the graph of all edges and candidates, every scale at most 1; ``(n,)``."""
    graph = nx.Graph(changed.case.graph)
    graph.add_edges_from(changed.free)
    return magnitude(replace(changed.case, graph=graph))


# -- strategies ------------------------------------------------------------------------------------


@st.composite
def changed_cases(draw: st.DrawFn, kinds: tuple[str, ...] = tuple(KINDS), max_depth: int = 3) -> ChangedCase:
    """A network on 4 or 5 nodes; none, one or several new edges a node, all, a total that binds, candidates of every
    kind, and flips; few enough to run all graphs."""
    case = draw(network_cases(kinds=kinds, max_depth=max_depth).filter(lambda case: case.nodes <= 5))
    nodes = case.nodes
    counts = st.one_of(st.none(), st.integers(0, 2), st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    pairs = st.lists(st.sampled_from(list(combinations(range(nodes), 2))), unique=True, max_size=5)
    found = ChangedCase(
        case,
        draw(counts),
        draw(st.one_of(st.none(), st.integers(0, 3))),
        draw(st.one_of(st.none(), pairs)),
        draw(st.sampled_from([False, False, True])),
    )
    for total in (3, 2, 1, 0):
        if sum(1 for _ in islice(admissible_changes(found), MOST_GRAPHS + 1)) <= MOST_GRAPHS:
            break
        found = replace(found, case=case.with_budget(case.local, total)) if found.flips else replace(found, total=total)
    return found
