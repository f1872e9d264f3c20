"""The library's ``degree``, by kernels and by torch, and the plain one written from the theory are the same number."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import get_args

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, from_numpy

from certgcl.bounds import Degree, compiled
from certgcl.bounds.two_layer import row_plan
from verification.audit import certify, tolerance, violations
from verification.case import Case
from verification.oracle import enumerated_minimum
from verification.reference import Rule, degree_reference
from verification.strategies import cases, gaussian_case, smooth_cases

RULES: list[tuple[Rule, ...]] = [("adaptive", "flat", "parallel"), ("adaptive",), ("flat",), ("parallel",)]
CHEAP = Degree(preactivations="interval", slopes=("adaptive",))

methods = st.builds(
    Degree,
    preactivations=st.sampled_from(["functional", "interval"]),
    slopes=st.sampled_from(RULES),
    lines=st.sampled_from(["by-count", "mixed", "shared"]),
    resolution=st.sampled_from([1, 2, 3, 6]),
    patterns=st.sampled_from([None, 1, 2, 8]),
)
FEW = 2  # edges, up to which mixed lines go by count on these small graphs


@pytest.fixture(autouse=True, scope="module")
def few_edges() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_plan, "FEW_EDGES", FEW)
        yield


@st.composite
def untied_cases(draw: st.DrawFn) -> Case:
    """Without ties: where two slopes are equally good, rounding may pick the other one."""
    case, random = draw(cases()), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def shaken(tensor: Tensor) -> Tensor:
        return tensor + 0.05 * tensor.abs().max() * from_numpy(random.normal(size=tensor.shape))

    names = ("x", "w1", "b1", "w2", "b2", "directions")
    return Case(**{**case.__dict__, **{name: shaken(getattr(case, name)) for name in names}})


def assert_equal(case: Case, method: Degree) -> None:
    width = case.w1.shape[1]
    plain = degree_reference(
        case,
        method.rules(width),
        method.resolution,
        method.preactivations,
        method.line_sharing(width),
        FEW,
        method.sign_patterns(width),
    )
    for kernels in (nullcontext, compiled.switched_off):
        with kernels():
            fast = certify(case, method).lower
        assert ((fast - plain).abs() <= tolerance(case)).all(), f"{method}: {fast.tolist()}, plainly {plain.tolist()}"


@given(untied_cases(), methods)
def test_the_bound_is_the_plain_one(case: Case, method: Degree) -> None:
    assert_equal(case, method)


@settings(max_examples=max(3, settings().max_examples // 4))
@given(smooth_cases(gammas=(0.0, 0.25, -0.3, 1.7)), methods)
def test_the_same_at_larger_widths(case: Case, method: Degree) -> None:
    assert_equal(case, method)


def hub(seed: int) -> Case:
    """A node with 9 to 14 neighbours, some of them joined, and a few nodes further out."""
    random = np.random.default_rng(seed)
    graph = nx.star_graph(int(random.integers(9, 15)))
    size = len(graph) + 4
    graph.add_nodes_from(range(size))
    graph.add_edges_from((u, v) for u, v in random.integers(1, size, size=(10, 2)).tolist() if u != v)
    budgets = [None, 8, [int(random.integers(graph.degree[i] + 1)) for i in range(size)]]
    case = gaussian_case(graph, seed, gamma=(0.0, 1.7, -0.3)[seed], widths=(3, 4, 2))
    return case.with_budget(budgets[seed], total=(None, 7, None)[seed])


@pytest.mark.parametrize("resolution", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_where_counts_come_in_groups(seed: int, resolution: int) -> None:
    case = hub(seed)
    assert_equal(case, Degree(resolution=resolution))
    for lines in get_args(row_plan.LineSharing):
        assert_equal(case, Degree(resolution=resolution, slopes=RULES[1 + seed], lines=lines))
    assert_equal(case, replace(CHEAP, resolution=resolution))


@pytest.mark.parametrize("resolution", [4, 7, 10])
def test_the_same_where_groups_are_short(resolution: int) -> None:
    for seed in range(3):
        assert_equal(hub(seed), replace(CHEAP, resolution=resolution))


@given(cases(), st.sampled_from([1, 2, 6]))
def test_one_pair_of_lines_for_all_counts_is_sound_too(case: Case, resolution: int) -> None:
    for lines in ("mixed", "shared"):
        lower = degree_reference(case, resolution=resolution, lines=lines, few=FEW)
        assert not len(violations(case, lower, enumerated_minimum(case)))
