"""Every kind of change against exact arithmetic, without any tolerance: features, added edges, whole graphs, W^CL.

NumPy runs all admissible views and finds the lowest one for each node; Arb evaluates these. The exact minimum is no
larger than the exact value of any view, so a bound above one of them is certainly wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from flint import arb, arb_mat, ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import certgcl
from certgcl.models.pooled_network import Pool
from verification.audit import LEDGER
from verification.changed_audit import certify_changed
from verification.edge_changes import ChangedCase, admissible_changes, changed_cases, changed_values
from verification.exact_arithmetic import (
    BITS,
    compactness_direction,
    dot,
    exact_embeddings,
    exact_matrix,
    pooled_exactly,
    surely_below,
    surely_positive,
)
from verification.feature_audit import certify_features, feature_cases
from verification.feature_case import FeatureCase
from verification.feature_oracle import admissible_features, feature_values
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_case import Array, NetworkCase
from verification.network_oracle import values
from verification.networks import network_cases
from verification.oracle import admissible_drops
from verification.pooling_audit import POOLS, certify_pooled, pooled_values

FEW = settings(
    max_examples=max(4, settings().max_examples // 3),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
SCALES = (1.0, 1.0, 1e-3, 1e3, 1e-30, 1e30)
METHODS = st.sampled_from(sorted(NETWORK_METHODS))
FORMATS = st.sampled_from([torch.float64, torch.float32])

Matrix = list[list[arb]]


def scaled(draw: st.DrawFn, case: NetworkCase, features: bool = True) -> tuple[NetworkCase, float]:
    """Features and matrices anywhere between 1e-30 and 1e30, collapsed or not; and what features were scaled by."""
    x, *factors = (draw(st.sampled_from(SCALES)) for _ in range(1 + len(case.layers)))
    x = x if features else 1.0
    off = draw(st.sampled_from([0.0, 0.0, 0.0, -1e6]))  # hidden units that are off: embeddings collapse
    layers = tuple(
        replace(
            layer,
            bias=layer.bias + off * (number == 0),
            terms=tuple(
                replace(term, weight=term.weight * factor) if term.weight.ndim == 2 else term for term in layer.terms
            ),
        )
        for number, (layer, factor) in enumerate(zip(case.layers, factors, strict=True))
    )
    directions = case.directions.astype(np.float32).astype(np.float64)  # the same in both formats
    return replace(case, x=case.x * x, layers=layers, directions=directions), x


def lowest(found: Array) -> list[int]:
    """The clean view, and the one that is lowest for each node; ``(views, n)``."""
    return sorted({0, *np.nan_to_num(found, nan=np.inf).argmin(axis=0).tolist()})


def check(name: str, lower: Tensor, rounding: Tensor, positive: Tensor, values: Sequence[list[arb]]) -> None:
    """Against the exact values of some views, a list for each."""
    tally = LEDGER.tallies[f"exact arithmetic, {name}"]
    tally.cases += 1
    tally.nodes += len(lower)
    for view in values:
        for node, value in enumerate(view):
            wrong = surely_below(value + float(rounding[node]), float(lower[node]))
            wrong = wrong or (bool(positive[node]) and not surely_positive(value))
            tally.violations += wrong
            assert not wrong, f"{name}: {node} certified at {lower[node]} - {rounding[node]}, a view has {value}"


def dots(case: NetworkCase, z: Matrix) -> list[arb]:
    return [dot(list(map(arb, w)), row) for w, row in zip(case.directions.tolist(), z, strict=True)]


def answered(call: Callable[[], certgcl.Certificate]) -> certgcl.Certificate | None:
    """None where the library says that numbers overflow."""
    try:
        with np.errstate(all="ignore"):
            return call()
    except certgcl.errors.BoundError:
        return None


# -- features ----------------------------------------------------------------------------------------


@st.composite
def scaled_features(draw: st.DrawFn) -> FeatureCase:
    case = draw(feature_cases())
    network, factor = scaled(draw, case.network, features=case.features.kind != "bits")
    return FeatureCase(network, replace(case.features, radius=case.features.radius * factor))


def changed_features(case: FeatureCase, x: Array) -> arb_mat:
    """Exactly; of a box the corner that is nearest, as a rounded one may lie outside."""
    if case.features.kind != "box":
        return exact_matrix(x)
    return exact_matrix(case.network.x) + arb(case.features.radius) * exact_matrix(np.sign(x - case.network.x))


def check_features(case: FeatureCase, method: str, dtype: torch.dtype) -> None:
    found = answered(lambda: certify_features(case, method, dtype))
    if found is None:
        return
    ctx.prec = BITS
    drops, features = list(admissible_drops(case.network)), list(admissible_features(case))
    with np.errstate(all="ignore"):
        places = lowest(feature_values(case))
    exact = []
    for place in places:
        graph = case.network.graph.copy()
        graph.remove_edges_from(drops[place % len(drops)])
        x = changed_features(case, features[place // len(drops)])
        exact.append(dots(case.network, exact_embeddings(case.network, graph, x)))
    check("changed features", found.lower, found.rounding, found.positive_in_exact_arithmetic, exact)


@FEW
@given(scaled_features(), METHODS, FORMATS)
def test_bounds_over_features_hold_in_exact_arithmetic(case: FeatureCase, method: str, dtype: torch.dtype) -> None:
    check_features(case, method, dtype)


# -- edges that are added or flipped -----------------------------------------------------------------


@st.composite
def scaled_changes(draw: st.DrawFn) -> ChangedCase:
    changed = draw(changed_cases())
    return replace(changed, case=scaled(draw, changed.case)[0])


@FEW
@given(scaled_changes(), METHODS, FORMATS)
def test_bounds_over_added_edges_hold_in_exact_arithmetic(
    changed: ChangedCase, method: str, dtype: torch.dtype
) -> None:
    found = answered(lambda: certify_changed(changed, method, dtype))
    if found is None:
        return
    ctx.prec = BITS
    case, changes = changed.case, list(admissible_changes(changed))
    with np.errstate(all="ignore"):
        places = lowest(changed_values(changed))
    exact = []
    for place in places:
        drops, added = changes[place]
        graph = case.graph.copy()
        graph.remove_edges_from(drops)
        graph.add_edges_from(added)
        exact.append(dots(case, exact_embeddings(case, graph, exact_matrix(case.x))))
    check("added edges", found.lower, found.rounding, found.positive_in_exact_arithmetic, exact)


# -- W^CL of any network, and methods that search -----------------------------------------------------


@st.composite
def scaled_networks(draw: st.DrawFn) -> NetworkCase:
    return scaled(draw, draw(network_cases(max_depth=3).filter(lambda case: len(case.edges) <= 6)))[0]


def without(case: NetworkCase, drops: Sequence[tuple[int, int]]) -> Matrix:
    graph = case.graph.copy()
    graph.remove_edges_from(drops)
    return exact_embeddings(case, graph, exact_matrix(case.x))


def check_compactness(case: NetworkCase, method: str) -> None:
    budget = certgcl.EdgeDropBudget(case.local, case.total)
    found = answered(
        lambda: certgcl.node_compactness(library_network(case), library_graph(case), budget, method=method)
    )
    if found is None:
        return
    ctx.prec = BITS
    clean = arb_mat(without(case, ()))
    directions = [compactness_direction(clean, node) for node in range(case.nodes)]
    with np.errstate(all="ignore"):
        computed = replace(case, directions=found.directions.double().numpy())
        drops, places = list(admissible_drops(case)), lowest(values(computed))
    exact = [[dot(w, row) for w, row in zip(directions, without(case, drops[place]), strict=True)] for place in places]
    check("W^CL of networks", found.lower, found.rounding, found.positive_in_exact_arithmetic, exact)


@FEW
@given(scaled_networks(), st.sampled_from(["degree", "crown", "interval"]))
def test_compactness_of_networks_holds_in_exact_arithmetic(case: NetworkCase, method: str) -> None:
    check_compactness(case, method)


@settings(FEW, max_examples=max(2, settings().max_examples // 25))
@given(scaled_networks().filter(lambda case: len(case.layers) <= 2), st.sampled_from(["optimized", "exact"]))
def test_so_does_what_a_search_finds(case: NetworkCase, method: str) -> None:
    check_compactness(case, method)


# -- whole graphs --------------------------------------------------------------------------------------


@FEW
@given(scaled_networks(), st.sampled_from(POOLS), FORMATS)
def test_bounds_of_whole_graphs_hold_in_exact_arithmetic(case: NetworkCase, pool: Pool, dtype: torch.dtype) -> None:
    try:
        found = certify_pooled(case, pool, dtype=dtype)
    except certgcl.errors.BoundError:
        return
    ctx.prec = BITS
    with np.errstate(all="ignore"):
        drops, places = list(admissible_drops(case)), lowest(pooled_values(case, pool)[:, None])
    direction = list(map(arb, case.directions[0].tolist()))
    exact = [[dot(direction, pooled_exactly(without(case, drops[place]), pool))] for place in places]
    check("whole graphs", found.lower, found.rounding, found.positive_in_exact_arithmetic, exact)
