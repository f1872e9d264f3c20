"""Where the paper's Theorem 2 as printed, and what its released code computes, exceed the true minimum.

The budgets follow the paper's rule ``q_i = min(d_i - 1, round(0.5 d_i))``, the directions are those of node compactness
on the clean graph, the formulas are evaluated at the clean graph, and the activation is ReLU: the paper's own setting.
"""

from dataclasses import replace
from random import Random

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import find, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from verification.audit import certify
from verification.case import Case
from verification.oracle import compactness_directions, enumerated_minimum, nominal
from verification.strategies import graphs

SEARCH = settings(max_examples=3000, database=None)


def papers_case(graph: nx.Graph, x: Tensor, w1: Tensor, w2: Tensor) -> Case:
    """A ReLU network without biases, under the paper's rule with a drop rate of one half."""
    zero1, zero2 = torch.zeros(w1.shape[1]).double(), torch.zeros(w2.shape[1]).double()
    budgets = [max(0, min(graph.degree[i] - 1, round(0.5 * graph.degree[i]))) for i in range(len(graph))]
    case = Case(graph, x, w1, zero1, zero1, w2, zero2, zero2, torch.zeros(len(graph), w2.shape[1]), budgets)
    return replace(case, directions=compactness_directions(case))


@st.composite
def papers_cases(draw: st.DrawFn) -> Case:
    graph = draw(graphs())
    d1, d2 = draw(st.integers(1, 2)), draw(st.integers(1, 2))

    def integers(*shape: int) -> Tensor:
        array = draw(arrays(np.float64, shape, elements=st.integers(-2, 2).map(float), fill=st.just(0.0)))
        return torch.from_numpy(np.array(array))

    return papers_case(graph, integers(len(graph), 1), integers(1, d1), integers(d1, d2))


@pytest.mark.thorough
@pytest.mark.parametrize("formula", ["paper", "released"])
def test_hypothesis_finds_a_small_graph_where_it_is_no_bound(formula: str) -> None:
    def exceeded(case: Case) -> bool:
        return bool((certify(case, formula).lower > enumerated_minimum(case) + 0.01).any())

    case = find(papers_cases(), exceeded, settings=SEARCH, random=Random(0))
    assert case.nodes <= 6
    assert case.w1.shape == (1, 1)


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_theorem_2_as_printed_misses_the_only_edge_that_can_be_dropped() -> None:
    """A path 0 - 1 - 2 - 3 with one non-zero feature, at its end; every weight is 1.

    The budgets are (0, 1, 1, 0), so the edge 1 - 2 alone can go. Then nothing of node 0 reaches node 2, whose value
    falls to 0. The formula has no minimum over Â, and says what the clean graph says.
    """
    case = papers_case(nx.path_graph(4), column(1, 0, 0, 0), column(1), column(1))
    assert case.local == [0, 1, 1, 0]
    assert enumerated_minimum(case)[2] == 0
    assert float(certify(case, "paper").lower[2]) == pytest.approx(6**-0.5 / 9)  # 0.0454
    assert float(nominal(case)[2]) == pytest.approx(6**-0.5 / 9)
    assert float(certify(case, "degree").lower[2]) == pytest.approx(0)


def test_the_released_formula_exceeds_even_the_clean_value() -> None:
    """A path 0 - 1 - 2 with features (1, 0, -1); every weight is 1. No edge can be dropped at all.

    With each leaf's own lines and signs in place of the neighbour's, the formula gives 1/12 at node 2, whose value is 0
    on the only admissible graph.
    """
    case = papers_case(nx.path_graph(3), column(1, 0, -1), column(1), column(1))
    assert case.local == [0, 1, 0]
    assert enumerated_minimum(case).tolist() == pytest.approx([1 / 8, 6**-0.5 / 4, 0])
    assert certify(case, "released").lower.tolist() == pytest.approx([5 / 24, 5 / 12 * 6**-0.5, 1 / 12])
    assert certify(case, "degree").lower.tolist() == pytest.approx([1 / 8, 6**-0.5 / 4, 0])
