"""No bound lies above the enumerated minimum over all admissible features, alone and with dropped edges."""

from collections.abc import Callable
from random import Random

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from verification.audit import LEDGER
from verification.feature_audit import (
    certify_features,
    columns_by_nodes,
    differentiable_bound,
    enter_features,
    feature_cases,
    feature_tolerance,
    feature_truth,
    with_bits,
)
from verification.feature_case import FeatureCase, PlainFeatures
from verification.feature_tightness import ROWS, measure
from verification.network_audit import NETWORK_METHODS, library_network
from verification.networks import KINDS, Builder, PlainActivation, network_case

FEWER = settings(max_examples=max(4, settings().max_examples // 5))  # each is bounded by all methods
REACH = settings(max_examples=3000, database=None, phases=[Phase.generate])
FEATURES = (
    PlainFeatures("masked", off=1),
    PlainFeatures("masked", off=2, total=2),
    PlainFeatures("bits", off=1, on=1, total=2),
    PlainFeatures("box", radius=0.2),
    PlainFeatures("columns", columns=1),
)


def gaussian(kind: str, features: PlainFeatures, drops: bool, seed: int = 0, slope: float = 0.0) -> FeatureCase:
    graph = nx.path_graph(4)
    activation = PlainActivation("two-piece linear", slope)
    builder = Builder(np.random.default_rng(seed), activation, 3, features=2, shift=0.15)
    network = network_case(graph, kind, 2, builder).with_budget([0, 1, 1, 0] if drops else 0)
    return FeatureCase(with_bits(network) if features.kind == "bits" else network, features)


def audit(case: FeatureCase) -> None:
    minimum, clean = feature_truth(case)
    drops = " and drops" if case.network.local != 0 else ""

    def enter(method: str, *rows: str) -> None:
        lower = certify_features(case, method).lower
        wrong = enter_features(LEDGER, rows, case, lower, minimum, clean)
        assert not len(wrong), f"{method} certifies {lower[wrong].tolist()} where {minimum[wrong].tolist()} is reached"

    for method in NETWORK_METHODS:
        of_kind = (f"degree: {case.features.kind}{drops}",) if method == "degree" else ()
        enter(method, f"{method}, features", *of_kind)
    if case.features.kind == "columns":
        with columns_by_nodes():
            enter("degree", f"degree: columns by nodes{drops}")


@FEWER
@given(feature_cases())
def test_no_bound_is_above_the_enumerated_minimum(case: FeatureCase) -> None:
    audit(case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drops", [False, True], ids=["features alone", "with drops"])
def test_the_same_for_every_kind_of_network(kind: str, drops: bool) -> None:
    audit(gaussian(kind, FEATURES[(list(KINDS).index(kind) + drops) % len(FEATURES)], drops))


@FEWER
@given(feature_cases(), st.data())
def test_the_same_for_one_node_alone(case: FeatureCase, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, case.nodes - 1))
    most = (feature_truth(case)[0] + feature_tolerance(case))[node]
    for method in ("crown", "degree"):
        assert certify_features(case, method, nodes=[node]).lower[0] <= most, method


@FEWER
@given(feature_cases(drops=False))
def test_features_that_cannot_change_leave_the_clean_value(case: FeatureCase) -> None:
    case = case.with_features(off=0, on=0, radius=0.0, columns=0)
    _, clean = feature_truth(case)
    for method in NETWORK_METHODS:
        assert ((certify_features(case, method).lower - clean).abs() <= feature_tolerance(case)).all(), method


@FEWER
@given(feature_cases())
def test_float32_is_sound_within_its_rounding(case: FeatureCase) -> None:
    minimum, _ = feature_truth(case)
    for method in NETWORK_METHODS:
        single = certify_features(case, method, dtype=torch.float32)
        assert (single.lower.double() <= minimum + single.rounding.double()).all(), method


@pytest.mark.parametrize("drops", [False, True], ids=["features alone", "with drops"])
def test_gradients_under_columns_by_nodes_are_too(drops: bool) -> None:
    with columns_by_nodes():
        test_gradients_are_those_of_finite_differences("degree", FEATURES[-1], drops)


@pytest.mark.parametrize("drops", [False, True], ids=["features alone", "with drops"])
@pytest.mark.parametrize("features", FEATURES, ids=lambda features: features.kind)
@pytest.mark.parametrize("method", ["crown", "degree"])
def test_gradients_are_those_of_finite_differences(method: str, features: PlainFeatures, drops: bool) -> None:
    case = gaussian("SAGE mean", features, drops, seed=3, slope=0.2)
    network = library_network(case.network)
    names = {id(tensor): tensor for _, tensor in network.named_tensors()}
    tensors = [tensor.clone().requires_grad_() for tensor in names.values()]
    generator = torch.Generator().manual_seed(0)
    towards = [torch.randn(tensor.shape, generator=generator, dtype=torch.float64) for tensor in tensors]

    def bound(given: list[Tensor]) -> Tensor:
        there = dict(zip(names, given, strict=True))
        return differentiable_bound(case, method, network.mapped(lambda tensor: there[id(tensor)])).sum()

    def at(step: float) -> float:
        with torch.no_grad():
            return float(bound([tensor + step * way for tensor, way in zip(tensors, towards, strict=True)]))

    gradients = torch.autograd.grad(bound(tensors), tensors, allow_unused=True)
    exact = sum(
        float((gradient * way).sum()) for gradient, way in zip(gradients, towards, strict=True) if gradient is not None
    )
    quotients = [(at(step) - at(-step)) / (2 * step) for step in (1e-4, 1e-5, 1e-6)]
    assert min(abs(quotient - exact) for quotient in quotients) <= 1e-5 * (1 + abs(exact)), (exact, quotients)


@pytest.mark.parametrize("what", ["mask 1", "box"])
def test_masks_and_boxes_drop_no_further_than_the_prototypes(what: str) -> None:
    rows = [name for name in ROWS if what in name]
    for tally in measure(rows, cases=6).tallies.values():
        assert not tally.violations
        assert 1 <= tally.tightness <= 1.5


# -- the strategies --------------------------------------------------------------------------------

CORNERS: dict[str, Callable[[FeatureCase], bool]] = {
    "every feature masked": lambda c: (
        c.features.kind == "masked" and c.features.total is None and (c.features.off >= c.network.x.shape[1] >= 2)
    ),
    "a total that binds": lambda c: (
        c.features.kind == "masked" and c.features.total in (1, 2) and (c.features.off >= 1 and c.nodes >= 4)
    ),
    "bits on and off at once": lambda c: c.features.kind == "bits" and min(c.features.off, c.features.on) >= 1,
    "all columns": lambda c: c.features.kind == "columns" and c.features.columns >= c.network.x.shape[1] >= 2,
    "a box with drops": lambda c: c.features.kind == "box" and c.features.radius > 0 and c.network.local != 0,
    "a total with drops": lambda c: bool(c.features.total) and c.features.off > 0 and c.network.local != 0,
    "a node without features": lambda c: bool((c.network.x == 0).all(axis=1).any()),
    "a value that drops": lambda c: bool((feature_truth(c)[1] - feature_truth(c)[0]).max() > 0.1),
}


@pytest.mark.thorough
@pytest.mark.parametrize("corner", CORNERS)
def test_the_strategies_reach(corner: str) -> None:
    find(feature_cases(), CORNERS[corner], settings=REACH, random=Random(0))
