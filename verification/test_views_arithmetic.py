"""Searches, both views and runs under every kind of change against exact arithmetic, without any tolerance."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from flint import arb, arb_mat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import certgcl
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.largest_mixing import LargestMixing
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_views import second_view
from verification.audit import LEDGER
from verification.edge_changes import ChangedCase
from verification.exact_arithmetic import compactness_direction, dot, dot_with_floats, surely_below, surely_positive
from verification.exact_views import CHANGES, AnyCase, ExactViews, changes_to, network_of
from verification.feature_case import FeatureCase
from verification.network_audit import library_graph, library_network
from verification.networks import RELU, Builder, network_case
from verification.test_changed_arithmetic import (
    answered,
    check,
    scaled_changes,
    scaled_features,
    scaled_networks,
)
from verification.test_network_arithmetic import GRAPH, MODULES, PRECISIONS, module, plain

FEW = settings(
    max_examples=max(3, settings().max_examples // 10),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)


CASES: dict[str, st.SearchStrategy[AnyCase]] = {
    "drops": scaled_networks(),
    "edges": scaled_changes(),
    "features": scaled_features(),
}


def kind_of(case: AnyCase) -> str:
    if isinstance(case, ChangedCase):
        return "flips" if case.flips else "added edges"
    return f"features, {case.features.kind}" if isinstance(case, FeatureCase) else "drops"


# -- methods that search -----------------------------------------------------------------------------


def check_search(case: AnyCase, method: str, compactness: bool) -> None:
    network, graph = library_network(network_of(case)), library_graph(network_of(case))
    given = torch.from_numpy(network_of(case).directions)
    found = answered(
        lambda: (
            certgcl.node_compactness(network, graph, changes_to(case), method=method)
            if compactness
            else certgcl.linear_bounds(network, graph, changes_to(case), given, method=method)
        )
    )
    if found is None:
        return
    views = ExactViews(case)
    if compactness:
        clean = arb_mat(views.at(0))
        directions = [compactness_direction(clean, node) for node in range(clean.nrows())]
    else:
        directions = [list(map(arb, row)) for row in given.tolist()]
    least = [views.least(directions)]
    check(f"searches, {kind_of(case)}", found.lower, found.rounding, found.positive_in_exact_arithmetic, least)


@pytest.mark.parametrize("change", CASES)
@FEW
@given(data=st.data(), method=st.sampled_from(["optimized", "exact"]), compactness=st.booleans())
def test_what_a_search_finds_holds_in_exact_arithmetic(
    change: str, data: st.DataObject, method: str, compactness: bool
) -> None:
    shallow = CASES[change].filter(lambda case: len(network_of(case).layers) <= 2)
    check_search(data.draw(shallow), method, compactness)


# -- both views --------------------------------------------------------------------------------------


def both_views(case: AnyCase, method: str) -> certgcl.Certificate:
    network, graph = library_network(network_of(case)), library_graph(network_of(case))
    return certgcl.node_compactness(network, graph, changes_to(case), method=method, views="both")


def check_both_views(case: AnyCase, method: str) -> None:
    found = answered(lambda: both_views(case, method))
    if found is None:
        return
    views = ExactViews(case)
    values: list[list[arb]] = []
    for node, pairs in enumerate(views.pairs()):
        values.append([])
        for second, first in pairs:
            direction = compactness_direction(arb_mat(views.at(second)), node)
            values[-1].append(dot(direction, views.at(first)[node]))
    check(
        f"both views, {kind_of(case)}",
        found.lower,
        found.rounding,
        found.positive_in_exact_arithmetic,
        [list(view) for view in zip(*values, strict=True)],
    )


BOTH = network_case(nx.cycle_graph(4), "GCN", 2, Builder(np.random.default_rng(0), RELU, 3, features=3))


def sized(factor: float, local: int) -> AnyCase:
    """The embeddings of a small case times a factor: their squares may overflow or underflow."""
    *below, last = BOTH.layers
    terms = tuple(replace(term, weight=term.weight * factor) for term in last.terms)
    return replace(BOTH, layers=(*below, replace(last, terms=terms, bias=last.bias * factor))).with_budget(local)


@pytest.mark.parametrize("change", CASES)
@FEW
@given(data=st.data(), method=st.sampled_from(["degree", "crown", "interval"]))
def test_with_both_views_free_bounds_hold_in_exact_arithmetic(change: str, data: st.DataObject, method: str) -> None:
    check_both_views(data.draw(CASES[change]), method)


@pytest.mark.parametrize("factor", [1e200, 1e154, 1e-12, 1e-170, 5e-324])
@pytest.mark.parametrize("local", [0, 1])
def test_so_they_do_where_squares_overflow_or_vanish(factor: float, local: int) -> None:
    check_both_views(sized(factor, local), "degree")


def test_constants_that_are_not_rounded_downwards_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check_both_views(sized(1.0, 0), "degree")
    monkeypatch.setattr(second_view, "rounded_down", lambda value, size, roundings: value + 1e-9 * size)
    with pytest.raises(certgcl.errors.BoundError, match="above the clean value"):  # without a budget bounds are that
        both_views(sized(1.0, 0), "degree")


# -- the model as it runs --------------------------------------------------------------------------


VIEWS = 12  # of a case that are run


@torch.no_grad()
def check_run(name: str, kind: str, precision: torch.dtype, seed: int, scale: float, size: float) -> bool:
    """A module of PyG on admissible views, channel by channel against exact arithmetic, and as a certificate says it;
    whether there was a finite error to hold it to."""
    model, x = module(name, precision, seed, scale), size * torch.randn(5, 3)
    try:
        network = certgcl.read_network(model, certgcl.Graph.from_networkx(GRAPH, x))
        case = CHANGES[kind](plain(network, GRAPH, x))
        graph = library_graph(network_of(case))
        found = certgcl.node_compactness(model, graph, changes_to(case), method="crown")
    except certgcl.errors.CertgclError:
        if precision != torch.float16:  # which overflows on the clean graph already
            raise
        return False
    problem = ChangeProblem(graph, changes_to(case).on(graph), torch.arange(5))
    allowed = Sizes.of(network, problem, torch.float64).run.nan_to_num(nan=torch.inf, posinf=torch.inf)
    views, tally = ExactViews(case), LEDGER.tallies[f"modules under {kind}, as run in {str(precision)[6:]}"]
    tally.cases += 1
    tally.nodes += 5
    random = np.random.default_rng(seed)
    directions = [compactness_direction(arb_mat(views.at(0)), node) for node in range(5)]
    for place in {0, *random.integers(len(views.graphs), size=VIEWS).tolist()}:
        edges = torch.tensor(list(views.graphs[place].edges), dtype=torch.long).reshape(-1, 2).T
        edges = torch.cat([edges, edges.flip(0)], dim=1)
        edges = edges[:, torch.from_numpy(random.permutation(edges.shape[1]))]
        output = model(torch.from_numpy(views.features[place]).to(precision), edges).double()
        for node, expected in enumerate(views.at(place)):
            for value, true, error in zip(output[node].tolist(), expected, allowed[node].tolist(), strict=True):
                wrong = error != np.inf and (not np.isfinite(value) or bool(abs(arb(value) - true) > arb(error)))
                tally.violations += wrong
                assert not wrong, f"{name} under {kind}: node {node} is {value}, not {true} to within {error}"
            if not bool(found.run_error[node] < torch.inf):
                assert not bool(found.positive[node])
                continue
            value = dot_with_floats(directions[node], output[node])
            wrong = surely_below(
                value + float(found.rounding[node]) + float(found.run_error[node]), float(found.lower[node])
            )
            wrong = wrong or (bool(found.positive[node]) and not surely_positive(value))
            tally.violations += wrong
            assert not wrong, f"{name} under {kind}: node {node} is {value}, certified at {found.lower[node]}"
    return bool(allowed.isfinite().all())


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("kind", CHANGES)
def test_modules_run_within_their_error_under_every_change(kind: str, precision: torch.dtype) -> None:
    """Each kind takes other modules in each precision, and all of them some."""
    first = list(CHANGES).index(kind) + 3 * PRECISIONS.index(precision)
    names = list(MODULES)[first % 8 :: 8]
    runs = [
        check_run(name, kind, precision, seed, scale, size)
        for name in names
        for seed, scale, size in ((0, 1.0, 1.0), (1, 1e-3, 100.0))
    ]
    assert any(runs)


def test_added_edges_that_are_not_counted_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node without neighbours then has no more to round than its bias."""
    asked = ("SAGE without root", "added edges", torch.float32, 0, 1.0, 1e4)
    assert check_run(*asked)
    monkeypatch.setattr(LargestMixing, "_added", lambda self, aggregation, source, layer, values: 0.0)
    before = {name: replace(tally) for name, tally in LEDGER.tallies.items()}
    with pytest.raises(AssertionError, match="to within"):
        check_run(*asked)
    LEDGER.tallies.update(before)  # what a mutant does is no violation of the library
