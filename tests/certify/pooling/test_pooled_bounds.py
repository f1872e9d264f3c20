"""Bounds of whole graphs: what may be asked, what is answered, and that runs of the model keep to it."""

from itertools import combinations, pairwise
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GINConv, SAGEConv, global_add_pool, global_max_pool, global_mean_pool

import certgcl
from certgcl import EdgeDropBudget, graph_bounds, graph_compactness
from certgcl.certify.pooling.pooled_bounds import _levels
from certgcl.errors import BudgetError, DirectionError, GraphError, InputError, MethodError

POOLS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool}


def graphs(number: int = 4, nodes: int = 7) -> list[Data]:
    found = []
    for seed in range(number):
        edges = torch.tensor(list(nx.random_labeled_tree(nodes + seed, seed=seed).edges)).T
        x = torch.randn(nodes + seed, 3, generator=torch.Generator().manual_seed(seed))
        found.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1)))
    return found


class Pooling(nn.Module):
    """Two convolutions, pooling, and a linear layer."""

    def __init__(self, pool: str, conv: str = "gcn") -> None:
        super().__init__()
        torch.manual_seed(0)
        kinds = {"gcn": GCNConv, "sage": SAGEConv, "gin": lambda a, b: GINConv(nn.Linear(a, b))}
        self.conv1, self.conv2, self.head = kinds[conv](3, 6), kinds[conv](6, 5), nn.Linear(5, 2)
        self.pool = POOLS[pool]

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.conv1(x, edge_index).relu()
        h = self.conv2(h, edge_index).relu()
        return self.head(self.pool(h, batch))


class Nodes(nn.Module):
    """The same up to pooling."""

    def __init__(self, whole: Pooling) -> None:
        super().__init__()
        self.conv1, self.conv2 = whole.conv1, whole.conv2

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index).relu()


def runs(model: nn.Module, data: Data, most: int) -> Tensor:
    """What the model gives in its own precision for every drop of at most so many edges."""
    edges, found = data.edge_index, []
    pairs = [
        (slot, next(other for other in range(edges.shape[1]) if torch.equal(edges[:, other], edges[:, slot].flip(0))))
        for slot in range(edges.shape[1])
        if edges[0, slot] < edges[1, slot]
    ]
    for size in range(most + 1):
        for dropped in combinations(pairs, size):
            kept = torch.ones(edges.shape[1], dtype=torch.bool)
            kept[[slot for pair in dropped for slot in pair]] = False
            found.append(model(data.x, edges[:, kept], torch.zeros(data.num_nodes, dtype=torch.long))[0])
    return torch.stack(found).detach()


@pytest.mark.parametrize("conv", ["gcn", "sage", "gin"])
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("enumerated", [0, 4096])
def test_every_run_of_a_model_with_a_head_keeps_to_its_bounds(pool: str, conv: str, enumerated: int) -> None:
    model, several = Pooling(pool, conv).eval(), graphs()
    directions = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(1))
    found = graph_bounds(model, several, EdgeDropBudget(total=2), directions, enumerate_up_to=enumerated)
    assert found.lower.shape == found.upper.shape == (4, 3)
    floor = found.lower - found.rounding - found.run_error
    for number, data in enumerate(several):
        values = runs(model, data, 2).double() @ directions[number].double().T
        assert (values.min(dim=0).values >= floor[number]).all()
        assert (values.min(dim=0).values <= found.upper[number] + 1e-4).all()
        torch.testing.assert_close(values[0], found.nominal[number], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pool", POOLS)
def test_a_model_that_pools_is_its_nodes_with_that_pool(pool: Any) -> None:
    whole, several = Pooling(pool).eval(), graphs()
    directions = torch.ones(4, 5)
    found = graph_bounds(Nodes(whole), several, 1, directions, pool=pool)
    assert found.pool == pool
    clean = POOLS[pool](Nodes(whole)(*_union(several)[:2]), _union(several)[2]).sum(dim=1)
    torch.testing.assert_close(found.nominal, clean.double().detach(), rtol=1e-5, atol=1e-5)


def _union(several: list[Data]) -> tuple[Tensor, Tensor, Tensor]:
    batch = Batch.from_data_list(several)
    return batch.x, batch.edge_index, batch.batch


def test_graphs_may_be_a_batch_or_of_any_kind() -> None:
    model, several = Pooling("mean").eval(), graphs()
    expected = graph_compactness(model, several, 1)
    kinds = [several[0], (several[1].x, several[1].edge_index), certgcl.Graph.of(several[2]), several[3]]
    for other in (Batch.from_data_list(several), tuple(several), kinds):
        assert torch.equal(graph_compactness(model, other, 1).lower, expected.lower)


@pytest.mark.parametrize("pool", POOLS)
def test_an_upper_value_is_reached_by_its_witness(pool: str) -> None:
    model, several = Pooling(pool).eval(), graphs()
    for enumerated in (0, 4096):
        found = graph_compactness(model, several, EdgeDropBudget(local=1, total=3), enumerate_up_to=enumerated)
        assert (found.lower <= found.upper + found.rounding).all()
        for number, data in enumerate(several):
            gone = found.witness(number)
            assert gone.shape[1] <= 3
            ids = lambda edges, n=data.num_nodes: edges[0] * n + edges[1]  # noqa: E731
            kept = ~torch.isin(ids(data.edge_index), torch.cat([ids(gone), ids(gone.flip(0))]))
            z = model(data.x, data.edge_index[:, kept], torch.zeros(data.num_nodes, dtype=torch.long))[0]
            torch.testing.assert_close(z.double() @ found.directions[number], found.upper[number], rtol=1e-4, atol=1e-5)


def test_compactness_compares_a_graph_with_the_others() -> None:
    model, several = Pooling("mean").eval(), graphs()
    with torch.no_grad():
        z = model(*_union(several)).double()
    found = graph_compactness(model, several, 0)
    torch.testing.assert_close(found.directions, certgcl.compactness_directions(z), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.lower, (found.directions * z).sum(dim=1), rtol=1e-4, atol=1e-5)


def test_graphs_that_are_all_the_same_are_nowhere_positive() -> None:
    """What is left of their directions is rounding."""
    found = graph_compactness(Pooling("sum").eval(), [graphs(1)[0]] * 3, 0)
    assert not bool(found.positive.any())


def test_a_larger_budget_never_raises_an_exact_bound() -> None:
    model, several = Pooling("mean", "gin").eval(), graphs()
    bounds = [graph_compactness(model, several, EdgeDropBudget(total=total)).lower for total in range(4)]
    assert all((larger <= smaller + 1e-9).all() for smaller, larger in pairwise(bounds))


@pytest.mark.parametrize("budget", [1, 0.4, EdgeDropBudget(), EdgeDropBudget(total=9), EdgeDropBudget(local=2)])
def test_local_and_large_budgets_are_bounded_too(budget: Any) -> None:
    model, several = Pooling("sum").eval(), graphs(2, 6)
    found = graph_compactness(model, several, budget, enumerate_up_to=0)
    exact = graph_compactness(model, several, budget, enumerate_up_to=1 << 12)
    assert bool(exact.enumerated.all())
    assert (found.lower <= exact.lower + exact.rounding).all()


def test_totals_grow_by_half_at_most_twofold() -> None:
    assert _levels(0) == [0]
    assert _levels(3) == [0, 1, 2, 3]
    assert _levels(21) == [0, 1, 2, 3, 4, 8, 16, 21]


def test_it_prints_and_becomes_a_table() -> None:
    found = graph_compactness(Pooling("mean").eval(), graphs(), 1)
    assert "4 graphs, mean pooling, method degree" in str(found)
    assert str(found).index("kept") < str(found).index("nominal"), "numbers that do not grow with the embeddings first"
    frame = found.to_frame()
    assert list(frame.columns[:5]) == ["graph", "nodes", "most_dropped", "nominal", "lower"]
    assert len(frame) == len(found) == 4


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"graphs": []}, GraphError, "at least one"),
        ({"graphs": "MUTAG"}, GraphError, "list of graphs"),
        (
            {"graphs": [graphs()[0], Data(x=torch.ones(3, 4), edge_index=torch.zeros(2, 0, dtype=torch.long))]},
            GraphError,
            "graph 1 with 3 nodes and 4 features",
        ),
        (
            {"graphs": [graphs()[0], Data(x=torch.ones(3, 3), edge_index=torch.tensor([[0], [1]]))]},
            GraphError,
            "graph 1: ",
        ),
        ({"directions": torch.ones(3, 2)}, DirectionError, r"\(4, 2\) or \(4, C, 2\)"),
        ({"directions": torch.full((4, 2), torch.nan)}, DirectionError, "at graph 0"),
        ({"method": "paper"}, MethodError, "proves nothing"),
        ({"pool": "median"}, InputError, "mean, sum, max"),
        ({"enumerate_up_to": -1}, InputError, "number of changes"),
        ({"time_limit": 0}, InputError, "seconds"),
        ({"dtype": torch.float16}, InputError, "float32 or torch.float64"),
        ({"budgets": [1, 1]}, BudgetError, "one per node"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(changed: dict[str, Any], error: type[Exception], words: str) -> None:
    given = {"model": Pooling("mean").eval(), "graphs": graphs(), "budgets": 1, "directions": torch.ones(4, 2)}
    with pytest.raises(error, match=words):
        graph_bounds(**{**given, **changed})


def test_compactness_of_one_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="others"):
        graph_compactness(Pooling("mean").eval(), graphs(1), 1)
