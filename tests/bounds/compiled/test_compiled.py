"""The bounds by kernels: the same numbers and the same gradients as torch's, in whatever parts they are computed."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import certgcl
from certgcl.bounds import METHODS, BoundMethod, ChangeProblem, Degree, compiled
from certgcl.bounds.compiled import degree, flat_tables, threads
from certgcl.bounds.two_layer import row_plan
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BoundError
from certgcl.models import GraphNetwork
from tests.toys import (
    PARTS,
    SIX_NODE_BUDGETS,
    changed,
    drop_problem,
    hubs_and_others,
    like,
    random_graph,
    random_tensor,
    scaled,
    tensors_of,
    toy_graph,
    toy_network,
)

SETTINGS: dict[str, BoundMethod] = {
    "degree": Degree(),
    "degree-fast": METHODS["degree-fast"],
    "degree-cheap": METHODS["degree-cheap"],
    "one case": Degree("interval", ("adaptive",), "shared", resolution=1),
    "shared lines": Degree(lines="shared"),
    "mixed lines": Degree(lines="mixed"),
    "groups": Degree(lines="shared", resolution=2, slopes=("flat", "parallel")),
    "hubs": Degree(hubs=4),
    "many patterns": Degree(patterns=16),
    "released": METHODS["released"],
    "paper": METHODS["paper"],
}
RELU = changed(toy_network(), slope1=torch.zeros(4).double(), slope2=torch.zeros(3).double())
SMOOTH = like(
    toy_network(),
    *(
        tensor + 0.05 * name.endswith("slope")  # none is zero
        for name, tensor in toy_network().named_tensors()
    ),
)


@pytest.fixture(autouse=True)
def few_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_plan, "FEW_EDGES", 3)  # so that mixed lines are of both kinds on small graphs


every_setting = pytest.mark.parametrize("method", SETTINGS.values(), ids=SETTINGS)

Result = tuple[Tensor, ...]


def bounds_and_gradients(method: BoundMethod, weights: GraphNetwork, problem: ChangeProblem) -> Result:
    """The bounds of two directions a node, and the gradients of all weights and of the directions."""
    given = {
        name: tensor.clone().requires_grad_(not (tensor == 0).all())  # the γ of a ReLU is a kink
        for name, tensor in weights.named_tensors()
    }
    directions = random_tensor(problem.graph.num_nodes, 2, weights.width, seed=5).to(weights.dtype)
    directions.requires_grad_()
    bound = method(like(weights, *given.values()), problem, directions)
    with torch.no_grad():
        assert torch.allclose(method(weights, problem, directions), bound)
    weight = random_tensor(*bound.shape, seed=6).to(bound)
    inputs = [tensor for tensor in (*given.values(), directions) if tensor.requires_grad]
    return bound.detach(), *torch.autograd.grad((weight * bound).sum(), inputs, allow_unused=True)


def by_both(method: BoundMethod, weights: GraphNetwork, make: Callable[[], ChangeProblem]) -> tuple[Result, Result]:
    with compiled.switched_off():
        by_torch = bounds_and_gradients(method, weights, make())
    return bounds_and_gradients(method, weights, make()), by_torch


def assert_same(one: Result, other: Result, **tolerance: float) -> None:
    for mine, yours in zip(one, other, strict=True):
        torch.testing.assert_close(mine, yours, **tolerance)


@every_setting
@pytest.mark.parametrize("budget", SIX_NODE_BUDGETS[:3] + SIX_NODE_BUDGETS[4:], ids=str)
@pytest.mark.parametrize("weights", [RELU, SMOOTH], ids=["relu", "activations of every kind"])
def test_kernels_and_torch_agree_in_bounds_and_gradients(
    method: BoundMethod, budget: EdgeDropBudget, weights: GraphNetwork
) -> None:
    graph = random_graph(6, 0.6)
    assert_same(*by_both(method, weights, lambda: drop_problem(graph, budget)))


@every_setting
def test_they_agree_with_hubs_and_isolated_nodes(method: BoundMethod) -> None:
    graph, budget = hubs_and_others()
    assert_same(*by_both(method, SMOOTH, lambda: drop_problem(graph, budget)))


@every_setting
@pytest.mark.parametrize("anchors", [[7, 2, 9], [4], list(range(11, -1, -1))], ids=["some", "one", "all, backwards"])
def test_they_agree_for_some_anchors_in_any_order(method: BoundMethod, anchors: list[int]) -> None:
    graph = random_graph(12, 0.35)
    assert_same(*by_both(method, SMOOTH, lambda: drop_problem(graph, 2, anchors)))


@every_setting
def test_they_agree_in_single_precision(method: BoundMethod) -> None:
    graph = random_graph(12, 0.35).to("cpu", torch.float32)
    weights = SMOOTH.to(torch.float32)
    assert_same(*by_both(method, weights, lambda: drop_problem(graph, 2)), rtol=1e-4, atol=1e-4)


@every_setting
def test_they_agree_without_edges(method: BoundMethod) -> None:
    graph = toy_graph(nx.empty_graph(3))
    assert_same(*by_both(method, SMOOTH, lambda: drop_problem(graph, 2)))


@every_setting
def test_ties_share_their_gradient_as_in_torch(method: BoundMethod) -> None:
    """Every node has the same features, so that all terms of a row tie; its budget is one, so that no case does."""
    graph = toy_graph(nx.complete_graph(5))
    alike = graph.x[:1].expand(5, -1).clone()
    same = certgcl.Graph.from_networkx(nx.complete_graph(5), x=alike)
    mine, yours = by_both(method, toy_network(), lambda: drop_problem(same, 1))
    torch.testing.assert_close(mine[0], yours[0])
    assert all(torch.isfinite(part).all() for part in mine if part is not None)


@every_setting
@pytest.mark.parametrize("limit", [1, 300])
def test_in_small_chunks_and_spans_it_is_the_same(
    method: BoundMethod, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, budget = hubs_and_others()
    whole = bounds_and_gradients(method, toy_network(), drop_problem(graph, budget))
    for name in ("MAX_NUMBERS", "MAX_STORED"):
        monkeypatch.setattr(degree, name, limit)
    monkeypatch.setattr(flat_tables, "MAX_LINE_VALUES", 16)
    monkeypatch.setattr(flat_tables, "MAX_KEPT", 0)
    problem = drop_problem(graph, budget)
    assert_same(bounds_and_gradients(method, toy_network(), problem), whole)
    if isinstance(method, Degree):
        made = problem.plan(torch.float64, method.resolution, method.line_sharing(4), method.hubs)
        assert len(made.flat_tables.chunks(50)) > 1


@pytest.mark.parametrize(("most", "made"), [(0, [0, 1, 2, 0, 1, 2]), (100, [0, 1, 2])], ids=["large", "small"])
def test_pieces_of_a_layout_are_kept_on_small_graphs_alone(
    most: int, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat_tables, "MAX_KEPT", most)
    keep = drop_problem(random_graph(6, 0.6), 1).plan(torch.float64, 1, "shared").flat_tables.keep
    calls: list[int] = []
    pieces = flat_tables.LazyParts([range(k, k + 1) for k in range(3)], lambda piece: calls.append(piece.start), keep)
    assert len(list(pieces)) == len(list(pieces)) == len(pieces) == 3
    assert calls == made


def test_whole_numbers_are_given_to_kernels_in_32_bits_if_they_fit() -> None:
    small, large = torch.tensor([-1, 2**31 - 1]), torch.tensor([0, 2**31])
    assert flat_tables.array(small).dtype == np.int32
    assert flat_tables.array(large).dtype == np.int64
    assert flat_tables.array(small).tolist() == small.tolist()
    assert flat_tables.array(large).tolist() == large.tolist()
    assert flat_tables.array(torch.ones(2, dtype=torch.float32)).dtype == np.float32
    assert flat_tables.array(torch.zeros(0, dtype=torch.long)).shape == (0,)


@every_setting
@pytest.mark.parametrize("number", [2, 3])
def test_on_several_threads_it_is_the_same(method: BoundMethod, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, budget = hubs_and_others()
    alone = bounds_and_gradients(method, toy_network(), drop_problem(graph, budget))
    monkeypatch.setattr(threads, "WORTHWHILE", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: number)
    assert_same(bounds_and_gradients(method, toy_network(), drop_problem(graph, budget)), alone)


def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-m", "tests.bounds.compiled.bounds_checked"], env=checked, check=True, cwd=root)


FORKED = """
import os, torch
from certgcl.bounds.compiled import threads
torch.set_num_threads(2)
threads.WORTHWHILE, called = 1, []
threads.share(lambda part, parts: called.append(part), 2)
child = os.fork()
if not child:
    threads.share(lambda part, parts: called.append(part), 2)
    os._exit(0 if sorted(called) == [0, 0, 1, 1] else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=120)


def test_every_part_of_a_kernel_is_called_once_and_its_errors_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    parts: list[tuple[int, int, str]] = []
    threads.share(lambda part, number, name: parts.append((part, number, name)), 10 * threads.WORTHWHILE, "x")
    assert sorted(parts) == [(0, 3, "x"), (1, 3, "x"), (2, 3, "x")]
    threads.share(lambda part, number: parts.append((part, number, "small")), 1)
    assert parts[-1] == (0, 1, "small")

    def fails(part: int, number: int) -> None:
        if part == 2:
            raise ValueError("of part 2")

    with pytest.raises(ValueError, match="of part 2"):
        threads.share(fails, 10 * threads.WORTHWHILE)


@pytest.mark.parametrize("name", ["w1", "b1", "w2"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("method", ["degree", "degree-fast", "degree-cheap"])
def test_what_is_not_finite_is_never_a_finite_bound(name: str, value: float, method: str) -> None:
    graph, weights = random_graph(8, 0.5), toy_network()
    broken = tensors_of(weights)[PARTS.index(name)].clone()
    broken.view(-1)[0] = value
    directions = random_tensor(8, 1, 3, seed=0)
    bound = METHODS[method](changed(weights, **{name: broken}), drop_problem(graph, 1), directions)
    assert not torch.isfinite(bound).any()


def test_numbers_that_overflow_are_refused() -> None:
    weights = toy_network()
    huge = scaled(weights, 1e200)
    for kernels in (nullcontext, compiled.switched_off):
        with kernels(), pytest.raises(BoundError):
            certgcl.node_compactness(huge, random_graph(8, 0.5), 1)


def test_kernels_serve_the_cpu_unless_switched_off() -> None:
    cpu = torch.device("cpu")
    assert compiled.usable(cpu)
    assert not compiled.usable(torch.device("meta"))
    with compiled.switched_off():
        assert not compiled.usable(cpu)
        with compiled.switched_off():
            assert not compiled.usable(cpu)
        assert not compiled.usable(cpu)
    assert compiled.usable(cpu)


def test_without_numba_torch_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_installed", lambda: False)
    monkeypatch.setattr(degree, "layer1", None)  # what would be called
    graph = random_graph(8, 0.5)
    bound = METHODS["degree"](toy_network(), drop_problem(graph, 1), random_tensor(8, 1, 3, seed=0))
    assert np.isfinite(bound.numpy()).all()


def test_a_total_budget_is_torch_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(degree, "layer1", None)
    graph = random_graph(12, 0.5)
    problem = drop_problem(graph, EdgeDropBudget(local=3, total=2))
    assert METHODS["degree"](toy_network(), problem, random_tensor(12, 1, 3, seed=0)).isfinite().all()
