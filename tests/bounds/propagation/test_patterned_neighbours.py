"""Sign patterns in networks of any depth: never below the bound without, and the same in whatever parts."""

import pytest
import torch
from torch import Tensor

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import ChangeProblem, Degree, compiled
from certgcl.bounds.propagation import limits, neighbours, sign_patterns
from certgcl.models import GraphNetwork
from tests.bounds.propagation.test_propagation import KINDS, graph, network, random

NONE = Degree(patterns=1)
kinds = pytest.mark.parametrize("kind", KINDS)


def values(method: Degree, model: GraphNetwork, on: Graph | None = None) -> Tensor:
    on = on or graph()
    problem = ChangeProblem(on, EdgeDropBudget(local=2).on(on), torch.arange(on.num_nodes))
    return method(model, problem, random(on.num_nodes, 2, model.width, seed=7))


@kinds
def test_the_bound_is_never_below_that_without_patterns(kind: str) -> None:
    plain = values(NONE, network(KINDS[kind]))
    for patterns in (2, 4, 8):
        found = values(Degree(patterns=patterns), network(KINDS[kind]))
        assert (found >= plain - 1e-12).all()
        assert (found > plain + 1e-4).any() == (kind != "one layer")  # which is exact without them


@kinds
def test_patterns_at_neighbours_tighten_it_further(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_SETS", 0)  # neighbours whose sets of edges are all tried have no lines
    both = values(Degree(patterns=4), network(KINDS[kind]))
    monkeypatch.setattr(neighbours, "FEW_EDGES", 0)
    output = values(Degree(patterns=4), network(KINDS[kind]))
    assert (both >= output - 1e-12).all()
    assert (both > output + 1e-4).any() == (kind != "one layer")


@kinds
def test_kernels_and_torch_agree(kind: str) -> None:
    found = values(Degree(patterns=8), network(KINDS[kind]))
    with compiled.switched_off():
        torch.testing.assert_close(values(Degree(patterns=8), network(KINDS[kind])), found)


def test_it_does_not_matter_in_which_parts_cases_are_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(KINDS["mixed"])
    together = values(Degree(), model)
    monkeypatch.setattr(sign_patterns, "FEW_CASES", 0)
    torch.testing.assert_close(values(Degree(), model), together)
    monkeypatch.setattr(limits, "MAX_TERMS", 200)
    torch.testing.assert_close(values(Degree(), model), together)


def test_large_anchors_have_no_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    on, model = graph(), network(KINDS["mean"])
    around = torch.zeros_like(on.degree).index_add_(0, on.row, on.degree[on.col])
    limit = int(around.median())
    plain, found = values(NONE, model, on), values(Degree(), model, on)
    monkeypatch.setattr(sign_patterns, "MOST_AROUND", limit)
    torch.testing.assert_close(values(Degree(), model, on), torch.where((around <= limit)[:, None], found, plain))


@kinds
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    model, on = network(KINDS[kind]), graph(8, 12)
    problem = ChangeProblem(on, EdgeDropBudget(local=2).on(on), torch.arange(4))
    given = [tensor for name, tensor in model.named_tensors() if not name.endswith("slope")]
    directions = random(8, 1, model.width, seed=8).requires_grad_()

    def bound(*tensors: Tensor) -> Tensor:
        *weights, directions = tensors
        changed = {id(old): new for old, new in zip(given, weights, strict=True)}
        return Degree(patterns=4)(model.mapped(lambda old: changed.get(id(old), old)), problem, directions)

    inputs = [tensor.clone().requires_grad_() for tensor in given]
    assert torch.autograd.gradcheck(bound, (*inputs, directions), fast_mode=True)
