"""No bound lies above the enumerated minimum where edges are added, dropped and added, or flipped."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import Phase, example, find, given, settings
from hypothesis import strategies as st

from certgcl.bounds import Degree, compiled
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation import limits
from certgcl.errors import BoundError
from verification.audit import LEDGER
from verification.changed_audit import (
    certify_changed,
    changed_tolerance,
    changed_truth,
    library_changes,
    measure,
)
from verification.edge_changes import ChangedCase, admissible_changes, changed_cases, changed_magnitude
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.networks import KINDS, RELU, Builder, network_case

REACH = settings(max_examples=2000, database=None, phases=[Phase.generate])
GRAPH = nx.lollipop_graph(3, 2)


def gaussian(
    kind: str,
    depth: int = 2,
    seed: int = 0,
    local: int | list[int] | None = 0,
    total: int | None = None,
    graph: nx.Graph = GRAPH,
) -> ChangedCase:
    """A case with one new edge a node."""
    builder = Builder(np.random.default_rng(seed), None if kind == "SGC" else RELU, 3, features=2, shift=0.15)
    return ChangedCase(network_case(graph, kind, depth, builder).with_budget(local, total), local=1)


def audit(changed: ChangedCase) -> None:
    minimum, clean = changed_truth(changed)
    scale = float(changed_magnitude(changed).mean()) or 1.0
    for method in NETWORK_METHODS:
        lower = certify_changed(changed, method).lower
        wrong = torch.nonzero(~(lower <= minimum + changed_tolerance(changed)))[:, 0]
        LEDGER.record(
            f"{method}, added edges",
            changed.case.nodes,
            len(wrong),
            float((clean - lower).sum()) / scale,
            float((clean - minimum).sum()) / scale,
        )
        assert not len(wrong), f"{method} certifies {lower[wrong].tolist()} where {minimum[wrong].tolist()} is reached"


@example(gaussian("GIN", seed=2, graph=nx.path_graph(3)))
@example(gaussian("SAGE sum", graph=nx.path_graph(3)))
@given(changed_cases())
def test_no_bound_is_above_the_minimum_over_all_changes_of_edges(changed: ChangedCase) -> None:
    audit(changed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_for_every_kind(kind: str) -> None:
    audit(gaussian(kind, seed=1, local=1, total=1))


@pytest.mark.parametrize("kind", ["GCN", "SAGE sum"])
def test_the_same_for_one_node_alone(kind: str) -> None:
    changed = gaussian(kind, seed=2)
    whole, most = certify_changed(changed, "degree").lower, changed_truth(changed)[0]
    for node in range(changed.case.nodes):
        lower = certify_changed(changed, "degree", nodes=[node]).lower
        assert lower[0] <= most[node] + changed_tolerance(changed)[node]
        assert abs(lower[0] - whole[node]) <= 1e-9


def test_without_candidates_the_bounds_are_those_of_drops() -> None:
    changed = gaussian("GCN", local=1)
    alone = ChangedCase(changed.case, local=2, candidates=[])
    assert library_changes(alone).on(library_graph(alone.case)).drops_only


def test_a_complete_graph_has_no_candidates() -> None:
    changed = gaussian("GCN", graph=nx.complete_graph(4))
    assert library_changes(changed).on(library_graph(changed.case)).additions is None
    _, clean = changed_truth(changed)
    assert (certify_changed(changed, "degree").lower - clean).abs().max() < 1e-9


@settings(max_examples=max(2, settings().max_examples // 4))
@given(changed_cases(), st.randoms(use_true_random=False))
def test_names_of_nodes_do_not_matter(changed: ChangedCase, random: Random) -> None:
    order = list(range(changed.case.nodes))
    random.shuffle(order)
    for method in ("degree", "interval"):
        here, there = (
            certify_changed(changed, method).lower[order],
            certify_changed(changed.relabelled(order), method).lower,
        )
        assert ((here - there).abs() <= 1e-9 + changed_tolerance(changed)[order]).all(), method


@pytest.mark.parametrize("kind", ["GCN", "SAGE mean", "GIN"])
def test_float32_is_sound_within_its_rounding(kind: str) -> None:
    changed = gaussian(kind, seed=3, local=1, total=2)
    minimum, _ = changed_truth(changed)
    for method in NETWORK_METHODS:
        single = certify_changed(changed, method, dtype=torch.float32)
        assert (single.lower.double() <= minimum + single.rounding.double()).all(), method


@pytest.mark.parametrize("row", ["GCN", "SAGE sum", "SGC, K = 2"])
def test_degree_is_no_looser_than_the_plain_recursion(row: str) -> None:
    ours, plain, wrong = measure(row, "1 flipped, F = 2", cases=2)
    assert not wrong
    assert 1 <= ours <= 1.001 * plain


# -- what large graphs and budgets use instead --------------------------------------------


def _no_meetings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_MEETINGS", 0)
    monkeypatch.setattr(limits, "MEETINGS_OF_ANCHOR", 0)


FALLBACKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "ranges of all candidates": _no_meetings,
    "states not told apart": lambda patch: patch.setattr(limits, "MOST_KINDS", 0),
    "few candidates by lines": lambda patch: patch.setattr(limits, "MOST_CANDIDATES", 1),
    "small blocks": lambda patch: patch.setattr(limits, "MAX_ELEMENTS", 16),
    "groups of numbers of edges": lambda patch: patch.setitem(NETWORK_METHODS, "degree", Degree(resolution=2)),
    "no kernels": lambda patch: patch.setattr(compiled, "usable", lambda device: False),
}


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("kind", ["GCN", "SAGE mean"])
def test_fallbacks_are_sound(fallback: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FALLBACKS[fallback](monkeypatch)
    for changed in (
        replace(gaussian(kind, seed=4), local=3),
        replace(gaussian(kind, 3, 5, local=1, total=1), local=2, total=3, candidates=[(0, 3), (0, 4), (1, 4), (2, 4)]),
    ):
        minimum, _ = changed_truth(changed)
        lower = certify_changed(changed, "degree").lower
        assert (lower <= minimum + changed_tolerance(changed)).all()


@pytest.mark.parametrize("method", NETWORK_METHODS)
def test_gradients_are_those_of_finite_differences(method: str) -> None:
    changed = gaussian("GCN", seed=6, local=1, total=2)
    network, graph = library_network(changed.case), library_graph(changed.case)
    problem = ChangeProblem(graph, library_changes(changed).on(graph), torch.arange(changed.case.nodes))
    directions = torch.from_numpy(changed.case.directions)[:, None]
    weight = network.layers[0].terms[0].weight
    way = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def bound(given: torch.Tensor) -> torch.Tensor:
        there = network.mapped(lambda tensor: given if tensor is weight else tensor)
        return NETWORK_METHODS[method](there, problem, directions).sum()

    point = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(bound(point), point)
    exact = float((gradient * way).sum())
    with torch.no_grad():
        quotients = [
            float(bound(weight + step * way) - bound(weight - step * way)) / (2 * step) for step in (1e-4, 1e-5, 1e-6)
        ]
    assert min(abs(quotient - exact) for quotient in quotients) <= 1e-5 * (1 + abs(exact)), (exact, quotients)


# -- mutants ---------------------------------------------------------------------------------------


def caught(changed: ChangedCase, method: str = "degree") -> bool:
    try:
        lower = certify_changed(changed, method).lower
    except BoundError:  # the library itself has seen that the bound is wrong
        return True
    return bool((~(lower <= changed_truth(changed)[0] + changed_tolerance(changed))).any())


def suspects() -> list[ChangedCase]:
    found = [
        gaussian(kind, depth, seed, graph=nx.path_graph(4))
        for kind in ("GCN", "SAGE sum")
        for depth in (1, 2)
        for seed in range(2)
    ]
    return found + [ChangedCase(changed.case.with_budget(1, 2), flips=True) for changed in found[:4]]


def test_nobody_is_suspected_without_reason() -> None:
    assert not any(map(caught, suspects()))


def _budget_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from certgcl.changes import edge_additions

    tightened = edge_additions.EdgeAddBudget.on
    monkeypatch.setattr(
        edge_additions.EdgeAddBudget,
        "on",
        lambda self, graph: edge_additions.replace(
            found := tightened(self, graph), local=(found.local - 1).clamp(min=0)
        ),
    )


def _degree_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from certgcl.bounds.propagation import balls

    monkeypatch.setattr(
        balls.States,
        "extent",
        lambda self, scale, dtype: balls.extent(scale, self.degree - self.last, self.degree - self.first, dtype),
    )


def _one_end_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end of a new edge is as if it had gained none."""
    from certgcl.bounds.propagation.candidates import Columns

    def unchanged(widest: object, additions: object, left: object) -> object:
        row = torch.arange(len(widest.nodes))[additions.local[widest.nodes] > 0]  # type: ignore[attr-defined]
        return Columns(widest.nodes[row], widest.cells.start[row][:, None])  # type: ignore[attr-defined]

    monkeypatch.setattr(Columns, "of", staticmethod(unchanged))
    monkeypatch.setattr("certgcl.bounds.propagation.network_bound.NetworkBound._candidates", lambda *_: None)


def _largest_for_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    from certgcl.bounds.propagation import added_edges

    monkeypatch.setattr(
        added_edges,
        "_least_sums",
        lambda smallest, least, most: smallest[:, 0] * 0 + (smallest.nan_to_num(posinf=0.0).amax(dim=1).clamp(min=0)),
    )


def _few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows look at the candidates of the first node alone."""
    from certgcl.bounds.propagation.candidates import Columns

    whole = Columns.of.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Columns,
        "of",
        classmethod(lambda cls, *given: whole(cls, *given).at(torch.arange(max(1, len(whole(cls, *given).node) - 2)))),
    )


def _parent_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept neighbour may not gain an edge itself."""
    from certgcl.bounds.propagation import visits

    usual = visits.Visits._by_torch
    monkeypatch.setattr(
        visits.Visits,
        "_by_torch",
        lambda self, *given: usual(
            visits.Visits(**{**vars(self), "gains": (self.gains[0] * 0, self.gains[1])}), *given
        ),
    )


def _sets_of_lost_edges_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours may lose edges, but not gain any."""
    from certgcl.bounds.propagation.ranges import NetworkRanges
    from certgcl.bounds.propagation.set_minima import SetMinima, plain

    monkeypatch.setattr(
        NetworkRanges,
        "by_sets",
        lambda self, radius, term: (
            SetMinima(self, self.balls[radius]) if term.source in self.near and plain(term) else None
        ),
    )


MUTANTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    _budget_off_by_one,
    _degree_forgotten,
    _one_end_only,
    _largest_for_smallest,
    _few_candidates,
    _parent_taken_twice,
    _sets_of_lost_edges_alone,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_a_wrong_variant_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(map(caught, suspects()))


# -- the strategies --------------------------------------------------------------------------------


def _most_added(changed: ChangedCase) -> int:
    return max(len(added) for _, added in admissible_changes(changed))


CORNERS: dict[str, Callable[[ChangedCase], bool]] = {
    "a complete graph": lambda c: nx.density(c.case.graph) == 1,
    "no candidates": lambda c: c.candidates is not None and not c.free,
    "a list of candidates": lambda c: c.candidates is not None and len(c.free) > 1,
    "all pairs added at once": lambda c: not c.flips and len(c.free) > 2 and _most_added(c) == len(c.free),
    "a total that binds": lambda c: not c.flips and c.local is None and c.total in (1, 2) and len(c.free) > 3,
    "flips": lambda c: c.flips and c.case.graph.number_of_edges() > 1 and _most_added(c) > 0,
    "drops and additions": lambda c: not c.flips and c.case.local != 0 and _most_added(c) > 1,
    "three layers": lambda c: len(c.case.layers) >= 3,
    "budgets that differ": lambda c: isinstance(c.local, list) and len(set(c.local)) > 1 and _most_added(c) > 0,
}


@pytest.mark.thorough
@pytest.mark.parametrize("corner", CORNERS)
def test_the_strategies_reach(corner: str) -> None:
    find(changed_cases(), CORNERS[corner], settings=REACH, random=Random(0))


def test_the_oracle_counts_what_it_should() -> None:
    path = gaussian("GCN", graph=nx.path_graph(4))
    assert len(list(admissible_changes(path))) == 5  # none, three pairs by themselves, and the one that is disjoint
    pairs = list(combinations(range(4), 2))
    assert path.free == [pair for pair in pairs if pair not in path.case.edges]
    flips = ChangedCase(path.case.with_budget(1, 1), flips=True)
    assert len(list(admissible_changes(flips))) == 1 + len(pairs)
