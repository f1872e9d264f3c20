"""The checker on other changes than dropped edges: changed features, new edges and flips."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certgcl.bounds import get_method
from verification.audit import LEDGER
from verification.changed_audit import changed_tolerance, changed_truth
from verification.checked import Checked, as_claim, proved, raised
from verification.checker.choices import Choices
from verification.checker.core.changes import Additions, Changes, Features
from verification.checker.core.views import Views
from verification.checker.files import graph_of
from verification.edge_changes import ChangedCase, changed_cases
from verification.feature_audit import feature_cases, feature_tolerance, feature_truth, with_bits
from verification.feature_case import FeatureCase, PlainFeatures
from verification.network_audit import NETWORK_METHODS
from verification.networks import RELU, Builder, network_case
from verification.test_checker import choices
from verification.together import TogetherCase, together_cases, together_tolerance, together_truth

AnyChange = FeatureCase | ChangedCase | TogetherCase
FEW = settings(max_examples=max(2, settings().max_examples // 5))
some = st.one_of(feature_cases(), changed_cases(), together_cases())


def truth(case: AnyChange) -> tuple[np.ndarray, np.ndarray]:
    """The minimum over all that may change, and how far rounding of the oracle can have moved it."""
    if isinstance(case, FeatureCase):
        return feature_truth(case)[0].numpy(), feature_tolerance(case).numpy()
    if isinstance(case, TogetherCase):
        return together_truth(case)[0].numpy(), together_tolerance(case).numpy()
    return changed_truth(case)[0].numpy(), changed_tolerance(case).numpy()


@FEW
@given(some, st.sampled_from(sorted(NETWORK_METHODS)))
def test_every_bound_is_proved(case: AnyChange, method: str) -> None:
    checked = Checked(case)
    failed = checked.failed(checked.certificate(method), branches=500)
    LEDGER.record("checker, other changes: genuine bounds not proved", checked.nodes, len(failed), 0.0, 0.0)
    assert not failed, failed


@FEW
@given(some, choices)
def test_no_choice_proves_more_than_holds(case: AnyChange, chosen: Choices) -> None:
    minimum, tolerance = truth(case)
    assert (proved(case, chosen).numpy() <= minimum + tolerance).all()


@FEW
@given(some, st.data())
def test_a_value_above_the_minimum_is_never_proved(case: AnyChange, data: st.DataObject) -> None:
    checked, (minimum, tolerance) = Checked(case), truth(case)
    node = data.draw(st.integers(0, checked.nodes - 1))
    above = minimum[node] + 1e-6 * abs(minimum[node]) + 2 * tolerance[node] + 1e-12
    assert node in checked.failed(raised(as_claim(checked.certificate("degree")), node, above), branches=3)


@FEW
@given(some)
def test_on_all_graphs_and_features_that_a_node_sees_there_is_the_minimum(case: AnyChange) -> None:
    checked, (minimum, tolerance) = Checked(case), truth(case)
    changes, directions = as_claim(checked.certificate("interval")).changes(checked.plain_graph), checked.directions
    for node in range(checked.nodes):
        seen = Views(checked.plain, changes, node)
        if seen.few:
            with np.errstate(all="ignore"):
                value = seen.least(directions.numpy()[[node]], np.zeros(directions.shape[1]))[0]
            assert minimum[node] - 1e3 * tolerance[node] <= value <= minimum[node] + tolerance[node]


@FEW
@given(feature_cases(drops=False))
def test_exact_values_over_features_are_proved(case: FeatureCase) -> None:
    checked = Checked(case)
    assert not checked.failed(checked.certificate(get_method("exact")))


def cycle(local: int, features: PlainFeatures | None) -> AnyChange:
    case = network_case(nx.cycle_graph(5), "GCN", 2, Builder(np.random.default_rng(3), RELU, shift=0.15))
    if features is not None:
        return FeatureCase(with_bits(case.with_budget(0)), features)
    return ChangedCase(case.with_budget(0), local, None)


@pytest.mark.parametrize(
    ("case", "part", "forged"),
    [
        (cycle(0, PlainFeatures("bits", off=1, on=1)), "features", {"off": np.zeros(5, dtype=np.int64)}),
        (cycle(0, PlainFeatures("bits", off=1, on=1)), "features", {"on": np.full(5, 3)}),
        (cycle(0, PlainFeatures("box", radius=0.1)), "features", {"radius": np.full(5, 0.3)}),
        (cycle(0, PlainFeatures("columns", columns=1)), "features", {"columns": 3}),
        (cycle(1, None), "additions", {"added_local": np.full(5, 2), "added_both": np.full(5, 2)}),
    ],
)
def test_larger_budgets_are_not_proved_by_the_same_values(case: AnyChange, part: str, forged: dict[str, Any]) -> None:
    """What is proved follows from the budgets that a certificate names: smaller ones are, larger ones are not."""
    checked = Checked(case)
    claim = as_claim(checked.certificate("degree"))
    assert not checked.failed(claim)
    known = getattr(claim, part)
    wrong = {**known, **forged} if isinstance(known, dict) else replace(known, **forged)
    smaller = any(not np.asarray(value).any() for value in forged.values())
    assert bool(checked.failed(replace(claim, **{part: wrong}), branches=2)) is not smaller


def test_a_witness_with_features_is_evaluated() -> None:
    checked = Checked(cycle(0, PlainFeatures("bits", off=1, total=2)))
    claim = as_claim(checked.certificate("exact"))
    assert claim.changed is not None
    where = next(place for place, (nodes, _, _) in enumerate(claim.changed) if len(nodes))
    nodes, columns, values = claim.changed[where]
    for wrong in ((nodes, columns, values + 0.5), (nodes[:0], columns[:0], values[:0])):
        changed = [*claim.changed[:where], wrong, *claim.changed[where + 1 :]]
        assert where in checked.failed(replace(claim, changed=changed), branches=0)


def test_budgets_that_make_no_sense_are_not_checked() -> None:
    graph = graph_of(np.eye(3), np.array([[0, 1], [1, 0]]))
    one, none = np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    rows = (np.array([2]), np.array([2]), np.array([0, 1]))
    Additions(rows, one, 1, one, 1).check(graph)
    for candidates in ((np.array([1, 2]), *rows[1:]), (rows[0], none[:0], rows[2]), rows[:2]):
        with pytest.raises(ValueError, match=r"candidates|budgets"):
            Additions(candidates, one, 1, one, 1).check(graph)
    with pytest.raises(ValueError, match="below zero"):
        Additions(rows, -one, 1, one, 1).check(graph)
    for features in (
        Features(one, one, np.ones(3), 1),
        Features(one, one, np.zeros(3), 1, columns=1),
        Features(-one, none, np.zeros(3), 1),
        Features(one[:2], none, np.zeros(3), 1),
    ):
        with pytest.raises(ValueError, match=r"features|columns|below zero"):
            features.check(graph)


def test_a_pair_is_decided_both_ways() -> None:
    graph = graph_of(np.eye(3), np.array([[0, 1], [1, 0]]))
    one = np.ones(3, dtype=np.int64)
    rows = (np.array([2]), np.array([2]), np.array([0, 1]))
    changes = Changes(graph, one, 1, additions=Additions(rows, one, 1, one, 1))
    without, grown = changes.split((0, 2))
    assert without.candidates(2).tolist() == [1]
    assert grown is not None
    assert grown.graph.neighbours[2].tolist() == [0]
    assert not grown.free[0].any()  # its budget of both is used up
    assert grown.additions is None
    kept, lost = changes.split((0, 1))
    assert not kept.free[0].any()
    assert lost is not None
    assert lost.additions is None
    with pytest.raises(KeyError):
        grown.split((1, 1))


def test_paths_are_merged_where_edges_change_elsewhere_alone() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    network = network_case(graph, "APPNP", 2, Builder(np.random.default_rng(0), RELU, 3, features=3)).with_budget(0)
    edges = ChangedCase(network, local=1, candidates=[(0, 2)])
    checked = Checked(TogetherCase(edges, PlainFeatures("box", radius=1.0)))
    assert not checked.failed(checked.certificate("optimized"))
