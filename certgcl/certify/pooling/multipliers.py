"""The multipliers that make the bound of a shared change largest: a linear program. Any others would be sound as
well."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

if TYPE_CHECKING:
    from certgcl.certify.pooling.shared_changes import KnownNodeValues, SharedChanges

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
PAIRS = 1 << 12  # of nodes and items in one program, or those of one graph
MOST_PAIRS = 1 << 16  # of a graph whose program is solved
SMALLEST = 1e-200  # loss for which a program is worth solving


@dataclass(frozen=True, eq=False)
class Multipliers:
    """``a_ie`` of nodes and items of their fields, and ``μ_l >= 0`` of the limits."""

    pairs: Array
    limits: Array


def best_multipliers(shared: "SharedChanges", known: "KnownNodeValues", time_limit: float | None) -> Multipliers:
    """For a few graphs at a time, as graphs do not affect each other; zeros for graphs whose program was not solved."""
    count = len(shared.most)
    found = Multipliers(np.zeros(len(shared.node)), np.zeros(len(shared.limits.most)))
    pairs = np.bincount(shared.batch[shared.node], minlength=count)
    part = np.cumsum(pairs) // PAIRS
    wanted = (shared.most > 0) & (pairs > 0) & (pairs <= MOST_PAIRS)
    for number in np.unique(part[wanted]):
        _solve(shared, known, np.flatnonzero(wanted & (part == number)), found, time_limit)
    return found


def _solve(
    shared: "SharedChanges", known: "KnownNodeValues", graphs: Counts, found: Multipliers, time_limit: float | None
) -> None:
    """Fill in the multipliers of some graphs. With losses ``l_i(b) = f_i(0) - f_i(b)`` they are those of

        max  Σ v_i - Σ_l B_l μ_l - Σ_e π_e,      v_i <= 0,  v_i <= a_ie - δ_ie,  s_e - Σ_{l counts e} μ_l <= π_e,
        v_i <= b τ_ib - Σ_e y_ibe - l_i(b),  τ_ib - a_ie <= y_ibe      (b τ - Σ y is the sum of the b smallest a_ie),

    for the least b of every level from 2 on, in units of the largest loss.
    """
    nodes, items, limits, pairs = (
        np.flatnonzero(np.isin(graph, graphs))
        for graph in (shared.batch, shared.graph_of_item, shared.limits.graph, shared.batch[shared.node])
    )
    n, e, m, k = len(nodes), len(items), len(limits), len(pairs)
    counts = [int(first) for first in shared.first if 2 <= first < known.by_count.shape[1]]
    clean, node = known.values[nodes, 0], np.searchsorted(nodes, shared.node[pairs])
    losses = [clean - known.by_count[nodes, b] for b in counts]  # -inf where a node has fewer
    scale = max(float(np.abs(known.losses[pairs]).max()), *(float(loss.max()) for loss in losses), 0.0)
    if not scale > SMALLEST:
        return
    one = np.arange(k)
    # Columns: v, a, μ, π; then for each count τ and y.
    sizes = [n, k, m, e] + [size for _ in counts for size in (n, k)]
    rows = [
        _row(sizes, k, {0: _matrix(1, one, node, (k, n)), 1: -sp.identity(k)}),
        _row(
            sizes,
            e,
            {
                1: _matrix(1, np.searchsorted(items, shared.fields.indices[pairs]), one, (e, k)),
                2: -shared.limits.counted[items][:, limits].astype(float),
                3: -sp.identity(e),
            },
        ),
    ]
    right = [-known.losses[pairs] / scale, np.zeros(e)]
    for place, (b, loss) in enumerate(zip(counts, losses, strict=True)):
        within = np.flatnonzero(np.isfinite(loss))
        rows += [
            _row(
                sizes,
                len(within),
                {
                    0: sp.identity(n, format="csr")[within],
                    4 + 2 * place: -b * sp.identity(n, format="csr")[within],
                    5 + 2 * place: _matrix(1, node, one, (n, k))[within],
                },
            ),
            _row(
                sizes,
                k,
                {1: -sp.identity(k), 4 + 2 * place: _matrix(1, one, node, (k, n)), 5 + 2 * place: -sp.identity(k)},
            ),
        ]
        right += [-loss[within] / scale, np.zeros(k)]
    most, of_graph = shared.limits.most[limits], np.isin(limits, shared.limits.of_graphs)
    binding = of_graph | (most < shared.most[shared.limits.graph[limits]])  # others are none
    cost = [-np.ones(n), np.zeros(k), most, np.ones(e)]
    low = [np.full(n, -np.inf), np.full(k, -np.inf), np.zeros(m + e)]
    high = [np.zeros(n), np.full(k, np.inf), np.where(binding, np.inf, 0), np.full(e, np.inf)]
    for _ in counts:
        cost += [np.zeros(n + k)]
        low += [np.full(n, -np.inf), np.zeros(k)]
        high += [np.full(n + k, np.inf)]
    solution = linprog(
        np.concatenate(cost),
        A_ub=sp.vstack(rows, format="csr"),
        b_ub=np.concatenate(right),
        bounds=np.stack([np.concatenate(low), np.concatenate(high)], axis=1),
        method="highs",
        options={} if time_limit is None else {"time_limit": time_limit},
    )
    if solution.status == 0:
        _, a, mu = np.split(solution.x * scale, np.cumsum([n, k, m]))[:3]
        found.pairs[pairs], found.limits[limits] = a, np.maximum(mu, 0)


def _row(sizes: list[int], rows: int, blocks: dict[int, sp.spmatrix]) -> sp.spmatrix:
    """A row of blocks, zeros where none is given."""
    return sp.hstack([blocks.get(place, sp.csr_matrix((rows, size))) for place, size in enumerate(sizes)])


def _matrix(value: float, row: Counts, col: Counts, shape: tuple[int, int]) -> sp.csr_matrix:
    return sp.csr_matrix((np.full(len(row), float(value)), (row, col)), shape=shape)
