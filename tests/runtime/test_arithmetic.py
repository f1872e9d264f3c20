"""What the program around a certificate has set does not change it, and stays set."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
import torch

from certgcl import (
    GRACE,
    CompactnessRegularizer,
    GCNEncoder,
    Graph,
    certified_accuracy,
    linear_bounds,
    node_compactness,
)
from certgcl.certify.audit import audit
from certgcl.certify.certificate import Certificate
from certgcl.errors import InputError
from certgcl.runtime.arithmetic import check_arithmetic, undisturbed
from tests.toys import random_graph, run_in, toy_network

Setting = Callable[[], AbstractContextManager[object]]


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


SETTINGS: dict[str, Setting] = {
    "autocast to bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "float16 by default": lambda: default_dtype(torch.float16),
    "float64 by default": lambda: default_dtype(torch.float64),
    "inference": torch.inference_mode,
    "gradients": torch.enable_grad,
    "no gradients": torch.no_grad,
    "deterministic": deterministic,
}


@pytest.fixture
def graph() -> Graph:
    return random_graph(nodes=30, features=5, density=0.2)


def assert_same(found: Certificate, expected: Certificate) -> None:
    for name in ("lower", "nominal", "rounding", "directions"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
        assert not getattr(found, name).is_inference()


def state() -> tuple[object, ...]:
    return (
        torch.is_autocast_enabled("cpu"),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
    )


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["degree", "degree-fast", "crown", "interval"])
def test_closed_forms_are_the_same_under_every_setting(
    setting: str, dtype: torch.dtype, method: str, graph: Graph
) -> None:
    weights = run_in(toy_network(5), torch.float32)
    expected = node_compactness(weights, graph, 2, method=method, dtype=dtype)
    with SETTINGS[setting]():
        before = state()
        assert_same(node_compactness(weights, graph, 2, method=method, dtype=dtype), expected)
        assert state() == before


@pytest.mark.parametrize("setting", SETTINGS)
def test_so_are_searches_both_views_audits_and_accuracies(setting: str, graph: Graph) -> None:
    torch.manual_seed(2)
    encoder, weights, labels = GCNEncoder(5, 4, 3).eval(), toy_network(5), torch.arange(30) % 3

    def ask() -> list[torch.Tensor]:
        return [
            node_compactness(encoder, graph, 1).lower,
            node_compactness(weights, graph, 1, method="optimized", nodes=range(4)).lower,
            node_compactness(weights, graph, 1, views="both").lower,
            linear_bounds(weights, graph, 1, torch.ones(30, 2, 3, dtype=torch.float64)).lower,
            audit(weights, graph, 1, samples=4, searches=2).lowest,
            certified_accuracy(weights, torch.eye(3, dtype=torch.float64), graph, labels, 1).certified,
        ]

    expected = ask()
    with SETTINGS[setting]():
        before, found = state(), ask()
        assert state() == before
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_graph_certified_in_inference_mode_can_be_trained_on(graph: Graph) -> None:
    encoder = GCNEncoder(5, 4, 3).double()
    with torch.inference_mode():
        node_compactness(encoder, graph, 1)
    CompactnessRegularizer(budget=1)(encoder, graph, graph, graph).backward()
    assert encoder.conv1.lin.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_float32_is_refused_where_products_may_be_less(precision: str, graph: Graph) -> None:
    expected = node_compactness(toy_network(5), graph, 1)
    with matmul_precision(precision):
        with pytest.raises(InputError, match="below full precision"):
            node_compactness(toy_network(5), graph, 1, dtype=torch.float32)
        assert_same(node_compactness(toy_network(5), graph, 1), expected)
    node_compactness(toy_network(5), graph, 1, dtype=torch.float32)


def test_a_processor_that_flushes_subnormal_numbers_is_refused(graph: Graph) -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    try:
        for dtype in (torch.float32, torch.float64):
            with pytest.raises(InputError, match="flush subnormal"):
                node_compactness(toy_network(5), graph, 1, dtype=dtype)
    finally:
        torch.set_flush_denormal(False)
    check_arithmetic(torch.float64)


def test_the_term_of_the_regularizer_is_that_of_full_precision(graph: Graph) -> None:
    encoder = GCNEncoder(5, 4, 3)
    graph = graph.to(dtype=torch.float32)
    expected = CompactnessRegularizer(budget=1)(encoder, graph, graph, graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = CompactnessRegularizer(budget=1)(encoder, graph, graph, graph)
        half = encoder(graph.x, graph.edge_index).bfloat16()
        near = CompactnessRegularizer(budget=1)(encoder, graph, graph, graph, embeddings=(half, half))
    assert torch.equal(found, expected)
    torch.testing.assert_close(near, expected, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("setting", ["autocast to bfloat16", "inference", "no gradients", "deterministic"])
def test_a_fit_is_the_same_under_every_setting(setting: str, graph: Graph) -> None:
    method = GRACE(hidden=6, epochs=3, regularizer=CompactnessRegularizer(anchors=5))
    expected = method.fit(graph).transform(graph)
    with SETTINGS[setting]():
        before = state()
        method.fit(graph)
        assert state() == before
    assert torch.equal(method.transform(graph), expected)


@pytest.mark.parametrize("around", [nullcontext, torch.no_grad, torch.inference_mode])
def test_all_is_as_before_after_an_error(around: Callable[[], AbstractContextManager[object]]) -> None:
    with around(), torch.autocast("cpu"):
        before = state()
        with pytest.raises(ZeroDivisionError):
            _fail_undisturbed()
        assert state() == before


@undisturbed(gradients=True)
def _fail_undisturbed() -> None:
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    raise ZeroDivisionError
