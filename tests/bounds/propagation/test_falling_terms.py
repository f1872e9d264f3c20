"""Terms that fall with every lost edge: prices give a lower bound, and the best price is that of the knapsack."""

import itertools

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.falling_terms import FallingTerms, best_price
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models import Mean, Sum

ROWS, NEIGHBOURS, MOST = 5, 4, 5


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_lost(seed: int = 0) -> Tensor:
    """Terms by how many edges each neighbour loses, ``(MOST + 1, rows, neighbours)``."""
    return random(MOST + 1, ROWS, NEIGHBOURS, seed=seed)


def falling(terms: Tensor) -> FallingTerms:
    def within(most: int | None) -> Tensor:
        return terms[: None if most is None else most + 1].amin(dim=0)

    return FallingTerms.of(within, MOST)


def test_without_a_limit_only_the_least_terms_are_kept() -> None:
    terms = by_lost()
    found = FallingTerms.of(lambda most: terms.amin(dim=0), None)
    assert torch.equal(found.least, terms.amin(dim=0))
    assert len(found.parts) == 1


def test_no_term_is_below_what_its_fall_says() -> None:
    terms = by_lost()
    found = falling(terms)
    assert found.clean is not None
    assert found.fall is not None
    assert torch.equal(found.clean, terms[0])
    assert bool((found.fall >= 0).all())
    for lost in range(MOST + 1):
        assert bool((terms[lost] >= found.clean - lost * found.fall - 1e-12).all())


def test_up_to_four_edges_the_fall_is_the_steepest_and_not_more() -> None:
    terms = by_lost()[:5]
    found = FallingTerms.of(lambda most: terms[: None if most is None else most + 1].amin(dim=0), 4)
    slopes = torch.stack([(terms[0] - terms[lost]) / lost for lost in range(1, 5)])
    torch.testing.assert_close(found.fall, slopes.amax(dim=0).clamp(min=0))


@pytest.mark.parametrize("price", [0.0, 0.3, 1.0, 1e6])
def test_at_a_price_a_term_is_no_more_than_what_it_pays(price: float) -> None:
    terms = by_lost(1)
    found = falling(terms).at_price(torch.tensor(price, dtype=torch.float64))
    for lost in range(MOST + 1):
        assert bool((found <= terms[lost] + lost * price + 1e-12).all())


def test_at_a_price_of_zero_terms_are_at_their_least_and_at_a_high_one_clean() -> None:
    terms = falling(by_lost(2))
    assert torch.equal(terms.at_price(torch.zeros((), dtype=torch.float64)), terms.least)
    torch.testing.assert_close(terms.at_price(torch.tensor(1e9, dtype=torch.float64)), terms.clean)


@pytest.mark.parametrize("units", [0, 1, 3, 7, 100])
def test_no_other_price_gives_more_than_the_best(units: int) -> None:
    terms = falling(by_lost(3)).each(lambda part: part[:, :, None])

    def paid(price: Tensor) -> Tensor:
        return terms.at_price(price[:, None]).sum(dim=1) - price * units

    assert terms.fall is not None
    most = paid(best_price(terms, torch.full((ROWS,), units)))
    for price in torch.linspace(0, float(terms.fall.max()) * 1.1, 200, dtype=torch.float64):
        assert bool((paid(price.expand(ROWS, 1)) <= most + 1e-12).all())


def test_a_neighbour_that_cannot_fall_costs_nothing() -> None:
    still = FallingTerms(*(torch.ones(1, 2, 1, dtype=torch.float64) for _ in range(2)), torch.zeros(1, 2, 1).double())
    assert float(best_price(still, torch.tensor([1]))) == 0
    assert torch.equal(still.at_price(torch.zeros(1, 1, 1).double()), still.least)


@pytest.mark.parametrize("scales", [Mean(), Sum()], ids=["mean", "sum"])
def test_a_row_is_at_most_the_least_over_all_losses_that_the_total_allows(scales: Mean | Sum) -> None:
    """A star of triangles: each edge between leaves is lost by two neighbours of the centre at once."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 4)]
    graph = Graph.cleaned((torch.zeros(5, 1), torch.tensor(edges).T))
    ball = Ball.around(graph, EdgeDropBudget(None, 2).on(graph), torch.tensor([0]), 9, "by-count")
    assert ball.most_lost == 1
    clean = random(4, 3, seed=4)
    terms = torch.stack([clean, clean - random(4, 3, seed=5).abs()])  # (lost, neighbours, M)
    sets = TermSets.of_cells(ball, ball.by_count(scales.out, torch.float64))
    found = sets.best_minima(
        FallingTerms.of(lambda most: terms[0 if most == 0 else 1].repeat(len(sets.level), 1), ball.most_lost)
    )
    least = torch.full((3, 3), torch.inf, dtype=torch.float64)
    for number in range(3):
        for gone in itertools.combinations(edges, number):
            lost = [sum(k in edge for edge in gone if 0 not in edge) for k in range(1, 5)]
            kept = [k for k in range(1, 5) if (0, k) not in gone]
            t = 4 - len(kept)
            value = sum(terms[lost[k - 1], k - 1] for k in kept) * (1 / len(kept) if isinstance(scales, Mean) else 1)
            least[t] = torch.minimum(least[t], torch.as_tensor(value))
    assert bool((found <= least + 1e-12).all())
    torch.testing.assert_close(found[2], least[2])  # nothing is left for the neighbours


def test_where_all_edges_may_go_the_total_is_no_limit() -> None:
    graph = Graph.cleaned((torch.zeros(3, 1), torch.tensor([[0, 1], [1, 2]])))
    nodes = torch.arange(3)
    assert Ball.around(graph, EdgeDropBudget(None, 2).on(graph), nodes, 9, "by-count").most_lost is None
    assert Ball.around(graph, EdgeDropBudget(None, 1).on(graph), nodes, 9, "by-count").most_lost == 1
