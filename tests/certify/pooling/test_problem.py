"""Bounds of whole graphs in a loss: gradients, totals of each graph by itself, and that they are bounds."""

import networkx as nx
import pytest
import torch
from torch import Tensor

import certgcl
from certgcl import EdgeDropBudget
from certgcl.bounds import get_method
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.models import GraphNetwork
from certgcl.models.pooled_network import Pool
from tests.toys import like, random_tensor, tensors_of, toy_graph, toy_network

POOLS: tuple[Pool, ...] = ("mean", "sum", "max")
BUDGETS = [EdgeDropBudget(total=2), EdgeDropBudget(local=1), EdgeDropBudget(local=1, total=1), EdgeDropBudget(local=0)]
GRAPHS = [toy_graph(nx.random_labeled_tree(6 + seed, seed=seed), seed=seed) for seed in range(3)]
GRAPHS.append(toy_graph(nx.empty_graph(2), seed=9))
DIRECTIONS = random_tensor(4, 2, 3, seed=7)


def bounds(network: GraphNetwork, pool: Pool, budget: EdgeDropBudget, directions: Tensor = DIRECTIONS) -> Tensor:
    graphs = GraphSet.of(GRAPHS)
    return PooledProblem(graphs, SetChanges.of(graphs, budget)).lower(
        get_method("degree-fast"), network, pool, directions
    )


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_they_are_below_the_minimum(pool: Pool, budget: EdgeDropBudget) -> None:
    truth = certgcl.graph_bounds(toy_network(), GRAPHS, budget, DIRECTIONS, pool=pool, enumerate_up_to=1 << 16)
    assert bool(truth.enumerated.all())
    found = bounds(toy_network(), pool, budget)
    assert bool((found <= truth.lower + 1e-9).all())
    assert torch.allclose(found[3], truth.lower[3])  # a graph without edges


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("budget", [EdgeDropBudget(local=1), EdgeDropBudget(total=1)], ids=str)
def test_gradients_are_those_of_finite_differences(pool: Pool, budget: EdgeDropBudget) -> None:
    network = toy_network(seed=5)
    inputs = [torch.where(tensor == 0, 0.2, tensor).requires_grad_() for tensor in (*tensors_of(network), DIRECTIONS)]
    assert torch.autograd.gradcheck(
        lambda *given: bounds(like(network, *given[:-1]), pool, budget, given[-1]), inputs, fast_mode=True
    )


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_gradients_are_finite_and_reach_all_weights(pool: Pool, budget: EdgeDropBudget) -> None:
    network = toy_network(seed=5)
    weights = [tensor.clone().requires_grad_() for tensor in tensors_of(network)]
    gradients = torch.autograd.grad(bounds(like(network, *weights), pool, budget).sum(), weights)
    assert all(bool(torch.isfinite(gradient).all()) and bool(gradient.any()) for gradient in gradients)


def test_edge_scores_are_worth_it_where_few_edges_of_many_can_be_dropped() -> None:
    """One edge in a long path moves few of its nodes; the sum of the nodes' own bounds lets it move all."""
    graphs = GraphSet.of([toy_graph(nx.path_graph(40))])
    problem = PooledProblem(graphs, SetChanges.of(graphs, EdgeDropBudget(total=1)))
    network, direction, method = toy_network(), DIRECTIONS[:1, :1], get_method("degree-fast")
    found = problem.lower(method, network, "sum", direction)
    own = graphs.total(method(network, problem._whole, direction.expand(40, -1, -1)))
    value = float(network.embed(graphs.union).sum(dim=0) @ direction[0, 0])
    assert value - float(found) < (value - float(own)) / 3
