"""Every part of a change, alone and together, for every convolution and method: no bound is above the minimum."""

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from certgcl.bounds import compiled
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.errors import BoundError
from verification.audit import LEDGER
from verification.edge_changes import ChangedCase, changed_magnitude
from verification.feature_audit import with_bits
from verification.feature_case import PlainFeatures
from verification.network_audit import NETWORK_METHODS
from verification.networks import RELU, Builder, network_case
from verification.together import (
    TogetherCase,
    certify_together,
    together_cases,
    together_tolerance,
    together_truth,
)

CONVOLUTIONS = ("GCN", "SAGE mean", "SAGE sum", "sum without root weight", "GIN", "SGC", "APPNP")
FEATURES: dict[str, PlainFeatures | None] = {
    "no features": None,
    "masked": PlainFeatures("masked", off=1),
    "masked, total": PlainFeatures("masked", off=1, total=1),
    "bits": PlainFeatures("bits", off=1, on=1, total=1),
    "box": PlainFeatures("box", radius=0.2),
    "columns": PlainFeatures("columns", columns=1),
}
EDGES: dict[str, tuple[int, int | None, bool]] = {
    "fixed": (0, 0, False),
    "added": (1, 1, False),
    "flipped": (0, 0, True),
}
NOTHING = PlainFeatures("masked", off=0)


def case_of(kind: str, edges: str, features: str, drops: bool, seed: int = 0, depth: int = 2) -> TogetherCase:
    local, total, flips = EDGES[edges]
    builder = Builder(np.random.default_rng(seed), None if kind == "SGC" else RELU, 3, features=2, shift=0.15)
    network = network_case(nx.path_graph(4), kind, depth, builder).with_budget(1 if drops or flips else 0, 1)
    wanted = FEATURES[features] or NOTHING
    network = with_bits(network) if wanted.kind == "bits" else network
    return TogetherCase(ChangedCase(network, local, total, None, flips), wanted)


def audit(case: TogetherCase, row: str) -> None:
    minimum, clean = together_truth(case)
    scale = float(changed_magnitude(case.edges).mean()) or 1.0
    for method in NETWORK_METHODS:
        lower = certify_together(case, method).lower
        wrong = torch.nonzero(~(lower <= minimum + together_tolerance(case)))[:, 0]
        drop, true = (float((clean - value).sum()) / scale for value in (lower, minimum))
        LEDGER.record(f"{method}, {row}", case.nodes, len(wrong), drop, true)
        assert not len(wrong), f"{method} certifies {lower[wrong].tolist()} where {minimum[wrong].tolist()} is reached"


@pytest.mark.parametrize("drops", [False, True], ids=["alone", "with drops"])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_every_part_alone_and_together(kind: str, edges: str, features: str, drops: bool) -> None:
    if edges == "flipped" and drops:
        return  # flips are drops too
    audit(case_of(kind, edges, features, drops), "all parts")


@settings(max_examples=max(4, settings().max_examples // 4))
@given(together_cases())
def test_no_bound_is_above_the_minimum_over_all_edges_and_features(case: TogetherCase) -> None:
    audit(case, "edges and features")


@pytest.mark.parametrize("kind", ["GCN", "SAGE mean", "GIN"])
def test_float32_is_sound_within_its_rounding(kind: str) -> None:
    case = case_of(kind, "added", "masked", True, seed=3)
    minimum, _ = together_truth(case)
    for method in NETWORK_METHODS:
        single = certify_together(case, method, dtype=torch.float32)
        assert (single.lower.double() <= minimum + single.rounding.double()).all(), method


@pytest.mark.parametrize("kind", ["GCN", "SAGE sum"])
def test_one_node_alone_has_the_same_bound(kind: str) -> None:
    case = case_of(kind, "added", "masked", True, seed=2)
    whole = certify_together(case, "degree").lower
    for node in range(case.nodes):
        assert abs(certify_together(case, "degree", nodes=[node]).lower[0] - whole[node]) <= 1e-9


def _no_meetings(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "MOST_MEETINGS", 0)
    patch.setattr(limits, "MEETINGS_OF_ANCHOR", 0)


FALLBACKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "ranges of all candidates": _no_meetings,
    "ranges of features": lambda patch: patch.setattr(limits, "MOST_FEATURE_PRODUCTS", 0),
    "no kernels": lambda patch: patch.setattr(compiled, "usable", lambda device: False),
}


@pytest.mark.parametrize("fallback", FALLBACKS)
@pytest.mark.parametrize("kind", ["GCN", "SAGE mean", "sum without root weight"])
def test_fallbacks_are_sound(fallback: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FALLBACKS[fallback](monkeypatch)
    for depth in (1, 2):
        case = case_of(kind, "added", "box", True, seed=4, depth=depth)
        assert (certify_together(case, "degree").lower <= together_truth(case)[0] + together_tolerance(case)).all()


# -- mutants ---------------------------------------------------------------------------------------


def caught(case: TogetherCase) -> bool:
    try:
        lower = certify_together(case, "degree").lower
    except BoundError:  # the library itself has seen that the bound is wrong
        return True
    return bool((~(lower <= together_truth(case)[0] + together_tolerance(case))).any())


def suspects() -> list[TogetherCase]:
    return [
        replace(
            case_of(kind, "added", features, False, seed, depth), features=replace(wanted, radius=2 * wanted.radius)
        )
        for kind in ("GCN", "sum without root weight")
        for features, wanted in FEATURES.items()
        if wanted is not None and wanted.kind in ("box", "masked")
        for depth in (1, 2)
        for seed in range(4)
    ]


def test_nobody_is_suspected_without_reason() -> None:
    assert not any(map(caught, suspects()))


def test_new_neighbours_whose_features_stay_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates of new edges enter by the features they have."""
    from certgcl.bounds.propagation.candidates import Columns

    usual = Columns.terms

    def clean(columns: Columns, *given: object) -> torch.Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                NetworkRanges,
                "feature_range",
                lambda self, term: (self.projected(term), torch.zeros_like(self.projected(term))),
            )
            return usual(columns, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Columns, "terms", clean)
    assert any(map(caught, suspects()))
