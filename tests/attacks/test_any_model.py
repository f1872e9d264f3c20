"""Drops found for models of every kind: readable or not, always admissible and as the model itself has them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE

from certgcl.attacks.any_model import search_drops
from certgcl.attacks.black_box import minimal
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import DirectionError, EncoderError, InputError
from tests.toys import admissible_sets, drops_at, random_graph, random_tensor, toy_network, without

GRAPH = random_graph(nodes=7, density=0.35, seed=1)


def made(kind: Any, **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return kind(3, 4, out_channels=3, **{"num_layers": 2, **settings}).double().eval()


class Wide(nn.Module):
    """A model in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = made(GAT).float()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return self.inner(x, edge_index)


MODELS = [
    (lambda: made(GCN), "network"),
    (lambda: made(GraphSAGE, num_layers=3), "network"),
    (lambda: made(GIN), "network"),
    (toy_network, "network"),
    (lambda: made(GAT), "values"),
    (lambda: made(GCN, norm="layer_norm"), "values"),
    (lambda: made(GCN).forward, "values"),
    (Wide, "values"),
]


@pytest.mark.parametrize("budget", [EdgeDropBudget(local=1), EdgeDropBudget(local=2, total=3)])
@pytest.mark.parametrize(("make", "knowledge"), MODELS)
def test_found_drops_are_admissible_and_their_values_those_of_the_model(
    make: Any, knowledge: str, budget: EdgeDropBudget
) -> None:
    model, drops, directions = make(), budget.on(GRAPH), random_tensor(7, 3, seed=2)
    found = search_drops(model, GRAPH, budget, directions=directions)
    assert found.knowledge == knowledge
    assert found.certified is False
    assert found.searched.all()

    def values(view: Any) -> Tensor:
        dtype = torch.float32 if isinstance(model, Wide) else torch.float64
        with torch.no_grad():
            z = (
                model.embed(view)
                if knowledge == "network" and not isinstance(model, nn.Module)
                else (model(view.x.to(dtype), view.edge_index))
            )
        return (z.double() * directions).sum(dim=1)

    minimum = torch.stack(
        [values(without(GRAPH, each)) for each in admissible_sets(GRAPH, drops.local, drops.total)]
    ).amin(dim=0)
    for node in range(7):
        edges = tuple((min(edge), max(edge)) for edge in found.witness(node).T.tolist())
        assert bool((drops_at(edges, 7) <= drops.local).all())
        assert len(edges) <= drops.total
        assert float(found.values[node]) == pytest.approx(float(values(without(GRAPH, edges))[node]), abs=1e-6)
    torch.testing.assert_close(found.clean, values(GRAPH), rtol=1e-5, atol=1e-6)
    assert (found.values >= minimum - 1e-6).all()
    assert (found.values <= minimum + 1e-6).double().mean() >= 0.8
    assert "not certified" in str(found)


def test_by_default_compactness_is_lowered_at_the_nodes_asked_for() -> None:
    found = search_drops(made(GAT), GRAPH, 1, nodes=[4, 2])
    assert found.nodes.tolist() == [4, 2]
    assert (found.values <= found.clean).all()
    with pytest.raises(InputError, match="node 0"):
        found.witness(0)


def test_without_time_nothing_is_searched() -> None:
    for model in (made(GAT), made(GCN)):
        found = search_drops(model, GRAPH, 1, seconds=0)
        assert not found.searched.any()
        assert torch.equal(found.values, found.clean)
        assert "no time" in str(found)


def test_a_search_is_reproducible_and_leaves_the_random_numbers_alone() -> None:
    model, state = made(GAT), torch.get_rng_state()
    one, two = (search_drops(model, GRAPH, 2, seconds=600, seed=5) for _ in range(2))
    assert torch.equal(one.values, two.values)
    assert all(map(torch.equal, one.witnesses, two.witnesses))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_minimal_witness_is_part_of_the_whole_and_needs_all_its_edges() -> None:
    model = made(GCN)
    found = search_drops(model, GRAPH, 2)
    node = int(found.nodes[(found.clean - found.values).argmax()])
    below = float((found.clean + found.values)[node]) / 2
    part, whole = (
        {frozenset(edge) for edge in witness.T.tolist()}
        for witness in (found.minimal_witness(node, below), found.witness(node))
    )
    assert part <= whole
    assert part
    with pytest.raises(InputError, match="with the drops that were found"):
        found.minimal_witness(node, float(found.values[node]))


@pytest.mark.parametrize(("needed", "expected"), [({1}, [1]), ({1, 4}, [1, 4]), ({0, 1, 2, 3, 4}, [0, 1, 2, 3, 4])])
def test_what_is_put_back_is_all_that_is_not_needed(needed: set[int], expected: list[int]) -> None:
    assert minimal(lambda dropped: -1.0 if needed <= set(dropped) else 1.0, range(5), 0.0) == expected


def test_models_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(EncoderError, match="eval"):
        search_drops(made(GCN, dropout=0.5).train(), GRAPH, 1)
    with pytest.raises(EncoderError, match="function"):
        search_drops(3, GRAPH, 1)  # type: ignore[arg-type]
    with pytest.raises(EncoderError, match="embedding of every node"):
        search_drops(lambda x, edge_index: x.sum(), GRAPH, 1)
    with pytest.raises(EncoderError, match="failed"):
        search_drops(lambda x, edge_index: x @ x, GRAPH, 1)
    with pytest.raises(EncoderError, match="not finite"):
        search_drops(lambda x, edge_index: x / 0, GRAPH, 1)
    with pytest.raises(DirectionError, match="7 nodes"):
        search_drops(made(GAT), GRAPH, 1, directions=torch.ones(3))
    with pytest.raises(InputError, match="seconds"):
        search_drops(made(GAT), GRAPH, 1, seconds=-1)
