"""Bounds through networks of any depth: kernels and torch agree, parts of a graph are enough, gradients are right."""

import contextlib
import itertools

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import METHODS, ChangeProblem, Degree, compiled
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball, extent
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models import GraphNetwork, Layer, Local, Mean, Sum, SymmetricNorm, Term, TwoPieceLinear
from certgcl.models.aggregations import Aggregation

RELU = TwoPieceLinear(torch.zeros((), dtype=torch.float64))
KINDS: dict[str, list[Aggregation]] = {
    "GCN without loops": [SymmetricNorm(0.0)] * 2,
    "mean": [Mean()] * 2,
    "three sums": [Sum()] * 3,
    "three GCN layers": [SymmetricNorm()] * 3,
    "mixed": [Mean(), SymmetricNorm(), Sum()],
    "one layer": [Mean()],
}


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(aggregations: list[Aggregation], features: int = 3, width: int = 4) -> GraphNetwork:
    layers = []
    for number, aggregation in enumerate(aggregations):
        inputs = width if number else features
        terms = (
            Term(number, random(inputs, width, seed=number), aggregation),
            Term(number, random(inputs, width, seed=10 + number) / 2, Local()),
        )
        layers.append(Layer(terms, random(width, seed=20 + number), RELU))
    return GraphNetwork(tuple(layers))


def graph(nodes: int = 14, edges: int = 30, seed: int = 0) -> Graph:
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, nodes, (2, edges), generator=generator)
    return Graph.cleaned((random(nodes, 3, seed=seed), pairs))


def problem(on: Graph, anchors: Tensor | None = None, budget: object = 2) -> ChangeProblem:
    everyone = torch.arange(on.num_nodes)
    return ChangeProblem(on, EdgeDropBudget.of(budget).on(on), everyone if anchors is None else anchors)


@pytest.mark.parametrize("method", ["degree", "degree-fast", "degree-cheap", "crown", "interval"])
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_and_torch_give_the_same_bounds(kind: str, method: str) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 2, model.width, seed=5)
    by_kernels = METHODS[method](model, problem(on), directions)
    with compiled.switched_off():
        torch.testing.assert_close(by_kernels, METHODS[method](model, problem(on), directions))


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("method", [Degree(), Degree(lines="mixed"), Degree(slopes=("adaptive",), lines="mixed")])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_the_same_without_gradients(kind: str, method: Degree, kernels: bool) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 2, model.width, seed=5)
    with_gradients = method(model, problem(on), directions)
    with torch.no_grad(), contextlib.nullcontext() if kernels else compiled.switched_off():
        torch.testing.assert_close(method(model, problem(on), directions), with_gradients)


@pytest.mark.parametrize("kind", KINDS)
def test_channels_that_no_direction_asks_for_change_no_bound(kind: str) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 2, model.width, seed=5)
    directions[..., 1:3] = 0
    asked = directions.clone().requires_grad_()  # gradients need all channels
    bound = Degree()(model, problem(on), asked)
    torch.testing.assert_close(Degree()(model, problem(on), directions), bound.detach())
    (gradient,) = torch.autograd.grad(bound.sum(), asked)
    assert bool(gradient[..., 1:3].any())


@pytest.mark.parametrize("kind", KINDS)
def test_so_they_do_under_a_total_and_for_some_anchors(kind: str) -> None:
    on, model, chosen = graph(), network(KINDS[kind]), torch.tensor([9, 0, 4])
    directions, budget = random(on.num_nodes, 1, model.width, seed=5), EdgeDropBudget(2, 3)
    by_kernels = Degree()(model, problem(on, budget=budget), directions)
    torch.testing.assert_close(Degree()(model, problem(on, chosen, budget), directions), by_kernels[chosen])
    with compiled.switched_off():
        torch.testing.assert_close(Degree()(model, problem(on, budget=budget), directions), by_kernels)
    assert bool((by_kernels >= Degree()(model, problem(on), directions) - 1e-12).all())


@pytest.mark.parametrize("kind", KINDS)
def test_some_anchors_have_the_bounds_that_they_have_among_all(kind: str) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 1, model.width, seed=5)
    chosen = torch.tensor([9, 0, 4])
    torch.testing.assert_close(
        Degree()(model, problem(on, chosen), directions), Degree()(model, problem(on), directions)[chosen]
    )


@pytest.mark.parametrize("method", ["degree", "degree-fast", "crown"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_single_anchor_has_the_bound_that_it_has_among_all(kind: str, method: str) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 1, model.width, seed=5)
    among_all = METHODS[method](model, problem(on), directions)
    alone = [METHODS[method](model, problem(on, torch.tensor([node])), directions) for node in range(on.num_nodes)]
    torch.testing.assert_close(torch.cat(alone), among_all)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_methods_is_that_of_their_sets(kind: str) -> None:
    on, model = graph(), network(KINDS[kind])
    directions = random(on.num_nodes, 2, model.width, seed=5)
    interval, cheap, full = (
        METHODS[name](model, problem(on), directions) for name in ("interval", "degree-cheap", "degree")
    )
    clean = (directions @ model.embed(on)[..., None])[..., 0]
    assert bool((interval <= full + 1e-9).all())
    assert bool((full <= clean + 1e-9).all())
    assert float((full - cheap).mean()) >= 0


def test_without_drops_every_bound_by_states_is_the_clean_value() -> None:
    on = graph()
    for aggregations in KINDS.values():
        model = network(aggregations)
        directions = random(on.num_nodes, 1, model.width, seed=5)
        clean = (directions @ model.embed(on)[..., None])[..., 0]
        torch.testing.assert_close(Degree()(model, problem(on, budget=0), directions), clean)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
@pytest.mark.parametrize("kind", ["mean", "three GCN layers", "mixed"])
def test_gradients_are_those_of_finite_differences(kind: str, kernels: bool) -> None:
    on, model = graph(8, 12), network(KINDS[kind])
    directions = random(on.num_nodes, 1, model.width, seed=5)

    def mean_bound(weight: Tensor) -> Tensor:
        first = model.layers[0]
        terms = Term(0, weight, first.terms[0].aggregation), *first.terms[1:]
        changed = GraphNetwork((Layer(terms, first.bias, first.activation), *model.layers[1:]))
        return Degree(slopes=("parallel",))(changed, problem(on, budget=1), directions).mean()

    weight = model.layers[0].terms[0].weight.clone().requires_grad_()
    if kernels:
        (gradient,) = torch.autograd.grad(mean_bound(weight), weight)
    else:
        with compiled.switched_off():
            (gradient,) = torch.autograd.grad(mean_bound(weight), weight)
    towards = random(*weight.shape, seed=7)
    step = 1e-6
    with torch.no_grad():
        slope = (mean_bound(weight + step * towards) - mean_bound(weight - step * towards)) / (2 * step)
    assert float((gradient * towards).sum()) == pytest.approx(float(slope), rel=1e-4)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "torch"])
def test_the_row_lemma_is_the_least_over_all_sets_that_can_be_dropped(kernels: bool) -> None:
    on = graph()
    drops = EdgeDropBudget(local=2).on(on)
    ball = Ball.around(on, drops, torch.arange(on.num_nodes), 9, "by-count")
    out = ball.by_count(Mean().out, torch.float64)
    sets, terms = TermSets.of_cells(ball, out), None
    terms = random(len(sets.slot), 3, seed=2)
    if kernels:
        (found,) = sets.minima(terms)
    else:
        with compiled.switched_off():
            (found,) = sets.minima(terms)
    for place, (row, lost) in enumerate(zip(sets.row.tolist(), sets.first.tolist(), strict=True)):
        here = terms[sets.start[place] : sets.start[place + 1]]
        droppable = [rank for rank in range(len(here)) if bool(ball.droppable[ball.rowptr[row] + rank])]
        values = [here.sum(dim=0) - here[list(gone)].sum(dim=0) for gone in itertools.combinations(droppable, lost)]
        left = int(ball.degree[row]) - lost
        expected = torch.stack(values).amin(dim=0) / left if left else torch.zeros(3, dtype=torch.float64)
        torch.testing.assert_close(found[place], expected)


def test_the_range_of_a_scale_holds_all_its_values() -> None:
    fewest, most = torch.tensor([0, 0, 1, 3]), torch.tensor([0, 4, 4, 3])
    for aggregation in (SymmetricNorm(0.0), SymmetricNorm(), SymmetricNorm(2.0), Mean(), Sum()):
        for scale in (aggregation.own, aggregation.out, aggregation.into):
            found = extent(scale, fewest, most, torch.float64)
            high = found.low if found.high is None else found.high
            for place, (first, last) in enumerate(zip(fewest.tolist(), most.tolist(), strict=True)):
                values = scale(torch.arange(first, last + 1, dtype=torch.float64))
                assert float(found.low[place]) == float(values.min())
                assert float(high[place]) == float(values.max())


def test_hubs_are_bounded_by_ranges_and_stay_below_the_full_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SETS", 0)  # hubs whose sets of edges are all tried need no lines
    on, model = graph(), network(KINDS["mean"])
    directions = random(on.num_nodes, 1, model.width, seed=5)
    full, limited = (Degree(hubs=hubs)(model, problem(on), directions) for hubs in (None, 2))
    assert bool((limited <= full + 1e-12).all())
    assert bool((limited < full - 1e-9).any())
