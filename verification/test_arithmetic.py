"""``lower - rounding`` and ``positive`` against exact arithmetic, without any tolerance; and the model as it runs."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.nn import GCNConv

import certgcl
import certgcl.bounds.rounding.forward_error
from certgcl.bounds.rounding.slack import Sizes
from verification.audit import LEDGER, weights
from verification.case import Case
from verification.exact_arithmetic import (
    ExactCase,
    compactness_direction,
    dot_with_floats,
    exactly,
    row,
    surely_below,
    surely_positive,
)
from verification.oracle import admissible_drops
from verification.strategies import MAX_EDGES, cases, gaussian_case

FEWER = settings(max_examples=max(6, settings().max_examples // 2))
SCALES = (1.0, 1e-3, 1e3, 1e-30, 1e30, 1e-100, 1e-155, 1e-200, 1e-300)
NARROW_SCALES = tuple(scale for scale in SCALES if 1e-38 < scale < 1e38)


# -- cases in which W^CL almost vanishes -----------------------------------------------------


def collapsed(case: Case) -> Case:
    """Every embedding is ``σ2(b2)``, as all hidden units are off: the best-known failure of contrastive learning."""
    return replace(
        case, b1=torch.full_like(case.b1, -1e6), slope1=torch.zeros_like(case.slope1), b2=case.b2.abs() + 0.1
    )


def rank_one(case: Case) -> Case:
    """All features are multiples of one row, without biases: embeddings are parallel."""
    factors = 1 + torch.arange(case.nodes, dtype=case.x.dtype)
    return replace(
        case, x=factors[:, None] * (case.x[:1].abs() + 0.1), b1=torch.zeros_like(case.b1), b2=torch.zeros_like(case.b2)
    )


def constant_features(case: Case) -> Case:
    """On a regular graph every node then has the same embedding."""
    return replace(case, x=(case.x[:1].abs() + 0.1).expand(case.nodes, -1).clone())


def duplicated(case: Case) -> Case:
    """Two copies of the graph, node by node: each node has a twin with the same embedding."""
    graph = nx.disjoint_union(case.graph, case.graph)
    local = 2 * case.local if isinstance(case.local, list) else case.local
    return replace(case, graph=graph, x=case.x.repeat(2, 1), directions=case.directions.repeat(2, 1), local=local)


def as_it_is(case: Case) -> Case:
    return case


DEGENERATE = (as_it_is, collapsed, rank_one, constant_features, duplicated)


@st.composite
def degenerate_cases(draw: st.DrawFn, scales: tuple[float, ...] = SCALES) -> Case:
    """A case with embeddings that cancel or do not, its tensors scaled anywhere between under- and overflow."""
    case = draw(st.sampled_from(DEGENERATE))(draw(cases().filter(lambda case: 2 * len(case.edges) <= MAX_EDGES)))
    scaled = {name: getattr(case, name) * draw(st.sampled_from(scales)) for name in ("x", "w1", "b1", "w2", "b2")}
    return replace(case, **scaled)


CYCLE = gaussian_case(nx.cycle_graph(5), seed=0).with_budget(1)
TINY = replace(CYCLE, **{name: getattr(CYCLE, name) * 1e-200 for name in ("x", "w1", "b1", "w2", "b2")})


# Embeddings of rank one and of size 1e-330, so that float64 has none of their digits.
UNDERFLOW = replace(rank_one(CYCLE).with_budget(0), w1=CYCLE.w1 * 1e-30, w2=CYCLE.w2 * 1e-300)
OVERFLOW = replace(CYCLE, x=CYCLE.x * 10, w1=CYCLE.w1 * 3e4, w2=CYCLE.w2 * 1e-4)  # hidden units above 65504


def node_compactness(
    case: Case, dtype: torch.dtype, method: str = "degree", views: str = "one", run_in: torch.dtype = torch.float64
) -> certgcl.Certificate | None:
    """The library's answer; None where it says that numbers overflow."""
    graph, model = certgcl.Graph.from_networkx(case.graph, case.x), replace(weights(case).to(run_in), precision=run_in)
    try:
        return certgcl.node_compactness(
            model, graph, certgcl.EdgeDropBudget(case.local, case.total), method=method, dtype=dtype, views=views
        )
    except certgcl.errors.BoundError:
        return None


def check(name: str, certificate: certgcl.Certificate, minima: list[object]) -> None:
    tally = LEDGER.tallies[name]
    tally.cases += 1
    for place, least in enumerate(minima):
        lower, rounding = float(certificate.lower[place]), float(certificate.rounding[place])
        wrong = surely_below(least + rounding, lower) or (
            bool(certificate.positive_in_exact_arithmetic[place]) and not surely_positive(least)
        )
        tally.nodes += 1
        tally.violations += wrong
        assert not wrong, f"{name}: node {place} certified at {lower} - {rounding}, the exact minimum is {least}"


def check_compactness(name: str, case: Case, dtype: torch.dtype, method: str = "degree") -> None:
    certificate = node_compactness(case, dtype, method)
    if certificate is not None:
        exact = ExactCase(case)
        check(
            name,
            certificate,
            [exact.minimum(node, compactness_direction(exact.views[0], node)) for node in range(case.nodes)],
        )


@FEWER
@given(degenerate_cases(), st.sampled_from(["degree", "degree-fast", "crown", "interval"]))
@example(collapsed(CYCLE), "degree")
@example(rank_one(CYCLE), "degree")
@example(constant_features(CYCLE).with_budget(0), "degree")
@example(duplicated(CYCLE), "interval")
@example(TINY, "degree")
@example(rank_one(TINY), "crown")
def test_in_exact_arithmetic_nothing_false_is_positive(case: Case, method: str) -> None:
    check_compactness("exact arithmetic", case, torch.float64, method)


@FEWER
@given(degenerate_cases(NARROW_SCALES))
@example(replace(CYCLE, x=CYCLE.x * 1e-30, b1=CYCLE.b1 * 1e-30, b2=CYCLE.b2 * 1e-30))
@example(TINY)
@example(collapsed(CYCLE))
def test_nor_where_the_bound_is_computed_in_float32(case: Case) -> None:
    check_compactness("exact arithmetic, bounds in float32", case, torch.float32)


@settings(max_examples=max(4, settings().max_examples // 4))
@given(degenerate_cases((1.0, 1e-3, 1e3)).filter(lambda case: len(case.edges) <= 4))
@example(collapsed(CYCLE).with_budget(0))
@example(rank_one(CYCLE).with_budget(0))
@example(constant_features(CYCLE).with_budget(0))
def test_nor_with_both_views_free(case: Case) -> None:
    certificate = node_compactness(case, torch.float64, views="both")
    if certificate is not None:
        exact = ExactCase(case)
        minima = [exact.minimum_over_pairs(node) for node in range(case.nodes)]
        check("exact arithmetic, both views", certificate, minima)


@FEWER
@given(degenerate_cases())
@example(TINY)
def test_nor_for_directions_that_are_given(case: Case) -> None:
    try:
        certificate = certgcl.linear_bounds(
            weights(case),
            certgcl.Graph.from_networkx(case.graph, case.x),
            certgcl.EdgeDropBudget(case.local, case.total),
            case.directions,
        )
    except certgcl.errors.BoundError:
        return
    exact, directions = ExactCase(case), exactly(case.directions)
    check(
        "exact arithmetic, given directions",
        certificate,
        [exact.minimum(node, row(directions, node)) for node in range(case.nodes)],
    )


# -- the model as it runs --------------------------------------------------------------------------


def run(case: Case, precision: torch.dtype, edges: list[tuple[int, int]], order: torch.Generator) -> Tensor:
    """The module's own forward pass, its edges listed in a random order."""
    edge_index = torch.tensor([*edges, *((v, u) for u, v in edges)], dtype=torch.long).reshape(-1, 2).T
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1], generator=order)]
    hidden = case.x.to(precision)
    for weight, bias, slope in ((case.w1, case.b1, case.slope1), (case.w2, case.b2, case.slope2)):
        layer = GCNConv(*weight.shape).to(precision)
        layer.lin.weight.data, layer.bias.data = weight.T.to(precision).contiguous(), bias.to(precision)
        p = layer(hidden, edge_index)
        hidden = torch.where(p >= 0, p, slope.to(precision) * p)
    return hidden


def in_precision(case: Case, precision: torch.dtype) -> Case:
    """The case with the weights that a model of that precision has."""
    return replace(
        case,
        **{name: getattr(case, name).to(precision).double() for name in ("w1", "b1", "slope1", "w2", "b2", "slope2")},
    )


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@settings(max_examples=max(4, settings().max_examples // 4))
@given(case=st.one_of(degenerate_cases((1.0, 1e-3, 1e3)), degenerate_cases(NARROW_SCALES)))
@example(case=CYCLE.with_budget(0))
@example(case=CYCLE)
@example(case=collapsed(CYCLE))
def test_positive_holds_of_the_model_as_it_is_run(precision: torch.dtype, case: Case) -> None:
    check_run(f"as run in {str(precision).removeprefix('torch.')}", case, precision)


@torch.no_grad()
def check_run(name: str, case: Case, precision: torch.dtype) -> None:
    case = in_precision(case, precision)
    if not all(torch.isfinite(getattr(case, name)).all() for name in ("w1", "b1", "w2", "b2")):
        return
    certificate = node_compactness(case, torch.float64, run_in=precision)
    if certificate is None:
        return
    tally, order = LEDGER.tallies[name], torch.Generator().manual_seed(0)
    tally.cases += 1
    tally.nodes += case.nodes
    clean = ExactCase(case.with_budget(0)).views[0]
    directions = [compactness_direction(clean, node) for node in range(case.nodes)]
    for drops in admissible_drops(case):
        output = run(case, precision, [edge for edge in case.edges if edge not in drops], order)
        for node, (lower, rounding, error, positive) in enumerate(
            zip(
                *(
                    values.tolist()
                    for values in (certificate.lower, certificate.rounding, certificate.run_error, certificate.positive)
                ),
                strict=True,
            )
        ):
            if error == float("inf"):
                assert not positive
                continue
            assert torch.isfinite(output[node]).all(), f"{name}: node {node} overflows"
            value = dot_with_floats(directions[node], output[node])
            wrong = surely_below(value + rounding + error, lower) or (positive and not surely_positive(value))
            tally.violations += wrong
            assert not wrong, (
                f"{name}: node {node} without {drops} is {value}, certified at {lower} - {rounding} - {error}"
            )


def test_a_model_in_float32_can_be_certified_as_it_is_run() -> None:
    certificate = node_compactness(
        in_precision(CYCLE.with_budget(0), torch.float32), torch.float64, run_in=torch.float32
    )
    assert certificate is not None
    assert certificate.positive.any()


# -- mutants -----------------------------------------------------------------------------------------


def collapse() -> None:
    for nodes in range(5, 20):  # which of them leave noise above zero depends on the processor
        case = collapsed(gaussian_case(nx.cycle_graph(nodes), seed=0)).with_budget(0)
        check_compactness("mutants", case, torch.float64)


def underflow() -> None:
    check_compactness("mutants", UNDERFLOW, torch.float64)


def run_of_float32() -> None:
    check_run("mutants", CYCLE.with_budget(0), torch.float32)


def overflow_of_float16() -> None:
    check_run("mutants", OVERFLOW, torch.float16)


MUTANTS = {
    "W^CL taken as exact": (Sizes, "direction_slack", lambda self, own, shared: self.output.new_zeros(()), collapse),
    "a product taken to be never too small": (
        certgcl.bounds.rounding.forward_error,
        "smallest_size",
        lambda dtype: 0.0,
        underflow,
    ),
    "the run taken as exact": (Sizes, "run_error", lambda self, w, *_: 0 * w[..., 0], run_of_float32),
    "a run taken to be never too large": (Sizes, "run_error", lambda self, w, *_: 1e6 + w[..., 0], overflow_of_float16),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong, audit = MUTANTS[name]
    audit()
    monkeypatch.setattr(owner, attribute, wrong)
    before = replace(LEDGER.tallies["mutants"])
    with pytest.raises(AssertionError):
        audit()
    LEDGER.tallies["mutants"] = before  # what a mutant does is no violation of the library
