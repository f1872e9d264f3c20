"""The oracle itself, on cases that can be counted and computed by hand."""

import networkx as nx
import pytest
import torch

from verification.case import Case
from verification.oracle import admissible_drops, compactness_directions, enumerated_minimum, nominal


def scalar_case(graph: nx.Graph, x: list[float], **budget: int | list[int]) -> Case:
    """One channel everywhere, weights 1, no biases, ReLU; the value of node i is its embedding."""
    one = torch.ones(1, dtype=torch.float64)
    return Case(
        graph,
        torch.tensor(x, dtype=torch.float64)[:, None],
        one[:, None],
        0 * one,
        0 * one,
        one[:, None],
        0 * one,
        0 * one,
        torch.ones(len(x), 1, dtype=torch.float64),
        **budget,
    )


@pytest.mark.parametrize(
    ("budget", "count"),
    [
        ({}, 8),
        ({"local": 0}, 1),
        ({"total": 1}, 4),
        ({"total": 2}, 7),
        ({"local": 1}, 4),
        ({"local": [1, 1, 0]}, 2),
        ({"local": 1, "total": 0}, 1),
    ],
)
def test_the_admissible_drops_of_a_triangle_can_be_counted(budget: dict[str, int], count: int) -> None:
    drops = list(admissible_drops(scalar_case(nx.complete_graph(3), [1, 1, 1], **budget)))
    assert len(drops) == len(set(drops)) == count
    assert drops[0] == ()


def test_two_joined_nodes_by_hand() -> None:
    # Kept, all entries of Â are 1/2 and both layers average: (1 + 3)/2 = 2. Dropped, every node keeps its own value.
    case = scalar_case(nx.path_graph(2), [1, 3])
    assert nominal(case).tolist() == pytest.approx([2, 2])
    assert enumerated_minimum(case).tolist() == pytest.approx([1, 2])


def test_a_negative_neighbour_is_cut_off_by_the_relu() -> None:
    case = scalar_case(nx.path_graph(2), [1, -3])
    assert nominal(case).tolist() == pytest.approx([0, 0])
    assert enumerated_minimum(case.with_budget(0)).tolist() == pytest.approx([0, 0])


def test_directions_are_the_unit_vector_less_the_mean_of_the_others() -> None:
    case = scalar_case(nx.empty_graph(3), [2, 5, -1])
    assert compactness_directions(case)[:, 0].tolist() == pytest.approx([1 - 0.5, 1 - 0.5, 0 - 1])
