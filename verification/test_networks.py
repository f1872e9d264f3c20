"""No bound of any network lies above the enumerated minimum, for every convolution, depth, part and activation."""

from collections.abc import Callable
from random import Random

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.bounds.propagation import limits
from verification.audit import LEDGER
from verification.checked import proved
from verification.checker.choices import Choices
from verification.network_audit import (
    NETWORK_METHODS,
    certify_network,
    differentiable_bound,
    enter,
    library_graph,
    library_network,
    network_tolerance,
    truth,
)
from verification.network_case import NetworkCase, PlainActivation
from verification.network_oracle import adjacencies, embeddings
from verification.network_tightness import ROWS, beside_prototype
from verification.networks import KINDS, RELU, SMOOTH, Builder, network_case, network_cases

MORE = settings(max_examples=4 * settings().max_examples)  # what everything else rests on
REACH = settings(max_examples=3000, database=None, phases=[Phase.generate])

methods = pytest.mark.parametrize("method", NETWORK_METHODS)


def gaussian(
    kind: str,
    depth: int = 2,
    activation: PlainActivation | None = RELU,
    seed: int = 0,
    width: int = 3,
    graph: nx.Graph | None = None,
) -> NetworkCase:
    graph = nx.lollipop_graph(4, 1) if graph is None else graph
    builder = Builder(np.random.default_rng(seed), activation, width, features=2, shift=0.15)
    return network_case(graph, kind, depth, builder).with_budget([-(-2 * d // 5) for _, d in graph.degree])


# -- soundness -------------------------------------------------------------------------------------


def audit(case: NetworkCase) -> None:
    minimum, clean = truth(case)
    depth = f"K = {library_network(case).hops}"
    for method in NETWORK_METHODS:
        lower = certify_network(case, method).lower
        rows = (f"{method}, networks", *((f"degree: {case.kind}", f"degree: {depth}") if method == "degree" else ()))
        wrong = enter(LEDGER, rows, case, lower, minimum, clean)
        assert not len(wrong), f"{method} certifies {lower[wrong].tolist()} where {minimum[wrong].tolist()} is reached"


@MORE
@given(network_cases())
def test_no_bound_of_a_network_is_above_the_enumerated_minimum(case: NetworkCase) -> None:
    audit(case)


@given(network_cases(), st.sampled_from([0, 3, 8]))
def test_nor_where_fewer_sets_of_edges_are_tried(case: NetworkCase, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_SETS", most)
        audit(case)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(2, settings().max_examples // 10))
@given(data=st.data())
def test_the_same_for_every_kind(kind: str, data: st.DataObject) -> None:
    audit(data.draw(network_cases(kinds=(kind,))))


@pytest.mark.parametrize("activation", SMOOTH, ids=str)
@pytest.mark.parametrize("kind", ["GCN", "SAGE mean", "GIN"])
def test_the_same_for_every_smooth_activation(activation: PlainActivation, kind: str) -> None:
    for seed in range(3):
        audit(gaussian(kind, activation=activation, seed=seed))


@given(network_cases(), st.data())
def test_the_same_for_one_node_alone(case: NetworkCase, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, case.nodes - 1))
    most = (truth(case)[0] + network_tolerance(case))[node]
    for method in NETWORK_METHODS:
        assert certify_network(case, method, nodes=[node]).lower[0] <= most, method


@given(network_cases())
def test_without_a_budget_every_bound_is_the_clean_value(case: NetworkCase) -> None:
    case = case.with_budget(0)
    _, clean = truth(case)
    for method in NETWORK_METHODS:
        assert ((certify_network(case, method).lower - clean).abs() <= network_tolerance(case)).all(), method


@given(network_cases())
def test_the_network_of_the_library_is_that_of_the_oracle(case: NetworkCase) -> None:
    mine = torch.from_numpy(embeddings(case, adjacencies(case.with_budget(0)))[0])
    torch.testing.assert_close(library_network(case).embed(library_graph(case)), mine, rtol=1e-10, atol=1e-10)


@given(network_cases())
def test_no_method_is_below_intervals(case: NetworkCase) -> None:
    interval = certify_network(case, "interval").lower
    for method in ("crown", "degree", "degree-cheap"):
        assert (certify_network(case, method).lower >= interval - network_tolerance(case)).all(), method


@pytest.mark.parametrize(
    "kind",
    [
        "GCN",
        "GCN, no self-loops",
        "SAGE mean",
        "SAGE sum",
        "GIN",
        "SGC",
        "GCN + BatchNorm after activations",
        "GCN, jumping knowledge (cat)",
    ],
)
def test_degree_is_about_as_tight_as_the_checker(kind: str) -> None:
    drop, plain = 0.0, 0.0
    for seed in range(4):
        case = gaussian(kind, seed=seed)
        minimum, clean = truth(case)
        reference = proved(case, Choices(("adaptive", "parallel", "flat")))
        assert (reference <= minimum + network_tolerance(case)).all()
        drop += float((clean - certify_network(case, "degree").lower).sum())
        plain += float((clean - reference).sum())
    assert drop <= 1.01 * plain


@pytest.mark.parametrize("row", [name for name, row in ROWS.items() if row.aim is not None])
def test_degree_is_no_looser_than_the_prototypes_that_set_its_aims(row: str) -> None:
    """On the same cases; the aims themselves are of other samples. From three layers on single cases go either way."""
    found = beside_prototype(row, samples=1, cases=3)
    assert 1 <= found.degree <= (1.001 if ROWS[row].depth <= 2 else 1.02) * found.prototype


# -- invariance ------------------------------------------------------------------------------------


@given(network_cases(), st.randoms(use_true_random=False))
def test_names_of_nodes_do_not_matter(case: NetworkCase, random: Random) -> None:
    order = list(range(case.nodes))
    random.shuffle(order)
    for method in NETWORK_METHODS:
        here, there = certify_network(case, method).lower[order], certify_network(case.relabelled(order), method).lower
        assert ((here - there).abs() <= network_tolerance(case)[order]).all(), method


@given(network_cases(), st.data())
def test_a_subset_of_anchors_gets_the_same_bounds(case: NetworkCase, data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(0, case.nodes - 1), unique=True, min_size=1))
    for method in NETWORK_METHODS:
        some, every = certify_network(case, method, nodes=nodes).lower, certify_network(case, method).lower[nodes]
        assert ((some - every).abs() <= network_tolerance(case)[nodes]).all(), method


@given(network_cases())
def test_float32_is_sound_within_its_rounding(case: NetworkCase) -> None:
    minimum, _ = truth(case)
    for method in NETWORK_METHODS:
        single = certify_network(case, method, dtype=torch.float32)
        assert (single.lower.double() <= minimum + single.rounding.double()).all(), method


# -- gradients -------------------------------------------------------------------------------------


@methods
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: str, method: str) -> None:
    case = gaussian(kind, activation=PlainActivation("two-piece linear", 0.2), seed=3)
    _check_gradients(case, method)


@methods
@pytest.mark.parametrize("activation", SMOOTH, ids=str)
def test_gradients_go_through_smooth_activations(activation: PlainActivation, method: str) -> None:
    _check_gradients(gaussian("GCN", activation=activation, seed=4), method)


@methods
def test_gradients_go_through_three_layers(method: str) -> None:
    _check_gradients(gaussian("GCN", depth=3, activation=PlainActivation("two-piece linear", 0.2), seed=5), method)


def _check_gradients(case: NetworkCase, method: str) -> None:
    """Along a random direction, by a quotient that is right to about 1e-9 where no minimum changes its place."""
    network = library_network(case)
    names = {id(tensor): tensor for _, tensor in network.named_tensors()}  # one for terms that share a weight
    tensors = [tensor.clone().requires_grad_() for tensor in names.values()]
    generator = torch.Generator().manual_seed(0)
    towards = [torch.randn(tensor.shape, generator=generator, dtype=torch.float64) for tensor in tensors]

    def bound(given: list[Tensor]) -> Tensor:
        there = dict(zip(names, given, strict=True))
        return differentiable_bound(case, method, network.mapped(lambda tensor: there[id(tensor)]))

    def at(step: float) -> Tensor:
        with torch.no_grad():
            return bound([tensor + step * way for tensor, way in zip(tensors, towards, strict=True)])

    weights = torch.randn(case.nodes, generator=generator, dtype=torch.float64)
    gradients = torch.autograd.grad((weights * bound(tensors)).sum(), tensors, allow_unused=True)
    exact = sum(
        float((gradient * way).sum()) for gradient, way in zip(gradients, towards, strict=True) if gradient is not None
    )
    quotients = [float((weights * (at(step) - at(-step))).sum()) / (2 * step) for step in (1e-4, 1e-5, 1e-6)]
    assert min(abs(quotient - exact) for quotient in quotients) <= 1e-5 * (1 + abs(exact)), (exact, quotients)


# -- the strategies --------------------------------------------------------------------------------


def _terms(case: NetworkCase) -> list[tuple[str, float]]:
    return [(term.mixing, term.loop) for layer in case.layers for term in layer.terms]


def _active(case: NetworkCase) -> set[str]:
    return {layer.activation.name for layer in case.layers if layer.activation is not None}


CORNERS: dict[str, Callable[[NetworkCase], bool]] = {
    **{kind: lambda c, kind=kind: c.kind == kind for kind in KINDS},
    **{f"loop {loop}": lambda c, loop=loop: ("symmetric", loop) in _terms(c) for loop in (0.0, 1.0, 2.0)},
    **{
        name: lambda c, name=name: name in _active(c)
        for name in ("two-piece linear", "elu", "tanh", "sigmoid", "gelu", "silu", "softplus")
    },
    **{f"depth {hops}": lambda c, hops=hops: library_network(c).hops == hops for hops in (1, 2, 3, 4)},
    "no activation at all": lambda c: not _active(c),
    "different slopes in one layer": lambda c: any(
        layer.activation is not None
        and np.ndim(layer.activation.parameter) == 1
        and len(set(layer.activation.parameter)) > 1
        for layer in c.layers
    ),
    "a negative diagonal": lambda c: any(
        term.weight.ndim == 1 and (term.weight < 0).any() for layer in c.layers for term in layer.terms
    ),
    "three convolutions in one network": lambda c: len({mix for mix in _terms(c) if mix[0] != "local"}) >= 3,
    "a skip from the features": lambda c: any(term.source == 0 for layer in c.layers[1:] for term in layer.terms),
    "several layers read out": lambda c: len(c.readout) >= 2,
    "an isolated node with edges elsewhere": lambda c: (
        c.graph.number_of_edges() > 0 and min(d for _, d in c.graph.degree) == 0
    ),
    "a hub": lambda c: max(d for _, d in c.graph.degree) >= 5,
    "a cycle": lambda c: all(d == 2 for _, d in c.graph.degree) and c.nodes >= 5,
    "a clique": lambda c: nx.density(c.graph) == 1,
    "every edge droppable": lambda c: c.graph.number_of_edges() > 2 and c.local is None and c.total is None,
    "a total budget alone": lambda c: c.local is None and c.total in (1, 2) and c.graph.number_of_edges() > 3,
    "no drops": lambda c: c.local == 0 and c.graph.number_of_edges() > 0,
    "a mean over nothing": lambda c: (
        ("mean", 0.0) in _terms(c)
        and any(budget >= degree > 0 for budget, (_, degree) in zip(c.node_budgets(), c.graph.degree, strict=True))
    ),
    "a value that drops": lambda c: bool((truth(c)[1] - truth(c)[0]).max() > 0.1),
}


@pytest.mark.thorough
@pytest.mark.parametrize("corner", CORNERS)
def test_the_strategies_reach(corner: str) -> None:
    find(network_cases(), CORNERS[corner], settings=REACH, random=Random(0))
