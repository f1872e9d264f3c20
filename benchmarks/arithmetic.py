"""How many multiply-adds the degree-exact bound needs, from its formulas (``docs/theory.md``), not from its code."""

import torch

import certgcl
from certgcl.bounds import Degree
from certgcl.bounds.two_layer.row_plan import FEW_EDGES
from certgcl.changes.edge_drops import AdmissibleDrops


def multiply_adds(
    graph: certgcl.Graph, drops: AdmissibleDrops, widths: tuple[int, int], method: Degree, directions: int = 1
) -> dict[str, int]:
    """Multiply-adds of every part of the bound at all nodes; comparisons, sorts and minima are free.

    With ``d_j`` the degrees, ``S = Σ d_j``, ``t_j = q_j + 1`` counts, ``T_j = min(t_j, resolution)`` cases of row j and
    ``L_j`` of them with lines of their own (one where they are shared), ρ slope rules and C directions:

    - projection ``X W1``: ``nonzeros(X) d1``; as a dense product it would be ``N F d1``.
    - layer 1, the row lemma on ``±Y``: ``2 d1 (S + Σ t_j)``.
    - layer 2 by intervals: ``V = H W2`` from the middle and the radius of H, ``2 d1 d2 Σ L_j``, then the row lemma on
      both ends, ``2 d2 (S + Σ t_j)``.
    - layer 2 by functionals ``±W2[:, m]``: with ``a`` the mean of a row's two slopes and ``b`` half their difference,
      ``C_jk(±W2) = ±(a y_k) W2 - (b y_k) |W2|``, which is ``2 d1 d2`` for both signs, at every neighbour and the row
      itself, and again for its constants: ``2 d1 d2 Σ_j L_j (ρ (d_j + 2) + 1)``, the last 1 for the intervals. This
      includes the terms ``C_ij`` of an anchor's own line.
    - output: ω of every anchor and case, ``ρ C d1 d2 Σ T_i``. For every pair (i, j), case of i and case of j, slopes
      ``λ`` and ``C_jk = y_k · λ`` at the ``d_j + 1`` nodes around j (not at hubs), constants and the interval:
      ``ρ C d1 Σ_(i,j) T_i L_j (ρ (d_j + 4) + 2)``. The anchor's own line: ``ρ² C d1 Σ_i T_i (d_i + 4)``.
    """
    d1, d2 = widths
    rules = len(method.rules(d1))
    degree, counts = graph.degree, drops.local + 1
    cases, lines = counts.clamp(max=method.resolution), counts.clamp(max=method.line_resolution(d1))
    if method.line_sharing(d1) == "mixed":
        lines = torch.where(degree <= FEW_EDGES, lines, 1)
    by_lines = torch.where(degree > (int(degree.max()) if method.hubs is None else method.hubs), 0, degree + 4)
    rows = int(degree.sum() + counts.sum())
    nonzeros = graph.x.values().numel() if graph.x.layout == torch.sparse_csr else int((graph.x != 0).sum())
    around = torch.zeros_like(cases).index_add_(0, graph.col, cases[graph.row])  # Σ_{i ∈ N(j)} T_i
    parts = {
        "projection": nonzeros * d1,
        "layer 1": 2 * d1 * rows,
        "layer 2 by intervals": 2 * d1 * d2 * int(lines.sum()) + 2 * d2 * rows,
        "layer 2 by functionals": 2 * d1 * d2 * int((lines * (rules * (degree + 2) + 1)).sum()),
        "output": rules
        * directions
        * d1
        * (
            d2 * int(cases.sum())
            + int((around * lines * (rules * by_lines + 2)).sum())
            + rules * int((cases * (degree + 4)).sum())
        ),
    }
    if method.preactivations == "interval":
        del parts["layer 2 by functionals"]
    return parts
