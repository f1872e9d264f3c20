"""The loss term: what it is made of, its gradient, its schedules, and its use in a loop of one's own."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv
from torch_geometric.utils import dropout_edge

from certgcl.bounds import METHODS, Degree
from certgcl.certify.compactness import linear_bounds
from certgcl.certify.directions import compactness_directions
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import BudgetError, GraphError, InputError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.schedules import Ramp
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import random_graph, toy_graph, without


@pytest.fixture
def setting() -> tuple[GCNEncoder, Graph, Graph, Graph]:
    graph = random_graph(nodes=14)
    edges = [tuple(edge) for edge in graph.edge_index.T.tolist() if edge[0] < edge[1]]
    encoder = GCNEncoder(3, 8, 4, activation="prelu").double()
    return encoder, graph, without(graph, tuple(edges[:3])), without(graph, tuple(edges[4:9]))


def slow_term(
    encoder: GCNEncoder,
    graph: Graph,
    view1: Graph,
    view2: Graph,
    method: str,
    scale: float | None,
    nodes: list[int] | None = None,
) -> Tensor:
    """The paper's loss: BCE of each direction's scores against 1, averaged."""
    z1, z2 = (encoder(view.x, view.edge_index) for view in (view1, view2))
    losses = []
    for varying, fixed in ((z1, z2), (z2, z1)):
        with torch.no_grad():
            bounds = linear_bounds(encoder, graph, 2, compactness_directions(fixed), method=method, nodes=nodes)
        scores = bounds.lower if scale is None else bounds.lower * scale / varying.norm(dim=1).mean()
        losses.append(torch.nn.functional.binary_cross_entropy(torch.sigmoid(scores), torch.ones_like(scores)))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("method", ["degree", "degree-fast", "crown", "interval"])
@pytest.mark.parametrize("scale", [None, 5.0])
def test_the_term_is_the_cross_entropy_of_both_directions(setting, method: str, scale: float | None) -> None:
    term = CompactnessRegularizer(method=method, budget=2, scale=scale)(*setting)
    torch.testing.assert_close(term.detach(), slow_term(*setting, method, scale).detach())


def test_clean_compactness_is_the_term_of_the_graph_as_given(setting) -> None:
    encoder, graph, *views = setting
    z = encoder(graph.x, graph.edge_index)
    directions = [compactness_directions(encoder(view.x, view.edge_index)) for view in reversed(views)]
    scores = torch.stack([(z * direction).sum(dim=1) for direction in directions])
    term = CompactnessRegularizer.clean(scale=None)(*setting)
    torch.testing.assert_close(term, torch.nn.functional.softplus(-scores).mean())
    with pytest.raises(InputError, match="clean compactness with budget=2"):
        CompactnessRegularizer.clean(budget=2)


def test_a_bound_is_asked_for_only_where_something_may_change(setting, monkeypatch) -> None:
    asked = []
    bound = Degree.__call__
    monkeypatch.setattr(Degree, "__call__", lambda *problem: asked.append(problem) or bound(*problem))
    CompactnessRegularizer.clean()(*setting)
    CompactnessRegularizer(budget=0, objective="kept")(*setting)
    assert not asked
    CompactnessRegularizer(budget=1)(*setting)
    assert asked
    heuristic = CompactnessRegularizer(method="released", budget=0)(*setting)  # is its own formula without a budget too
    assert not torch.isclose(heuristic, CompactnessRegularizer.clean()(*setting))


@pytest.mark.parametrize("method", list(METHODS))
def test_the_term_is_differentiable_in_every_parameter(setting, method: str) -> None:
    encoder = setting[0]
    CompactnessRegularizer(method=method, budget=2)(*setting).backward()
    for name, parameter in encoder.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_a_step_along_the_gradient_lowers_the_term(setting) -> None:
    encoder, *graphs = setting
    regularizer = CompactnessRegularizer(budget=2)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.02)
    terms = []
    for _ in range(8):
        term = regularizer(encoder, *graphs)
        optimizer.zero_grad()
        term.backward()
        optimizer.step()
        terms.append(float(term.detach()))
    assert terms[-1] < terms[0]


def test_released_is_evaluated_at_each_view(setting) -> None:
    encoder, graph, view1, view2 = setting
    found = CompactnessRegularizer(method="released", budget=2, scale=None)(*setting)
    z1, z2 = (encoder(view.x, view.edge_index) for view in (view1, view2))
    scores = torch.cat(
        [
            linear_bounds(
                encoder, graph, 2, compactness_directions(fixed).detach(), method=type(METHODS["released"])(at=view)
            ).lower
            for view, fixed in ((view1, z2), (view2, z1))
        ]
    )
    torch.testing.assert_close(found.detach(), torch.nn.functional.softplus(-scores).mean())


def test_a_batch_of_anchors_is_bounded_in_its_full_neighbourhood(setting) -> None:
    torch.manual_seed(3)
    found = CompactnessRegularizer(method="degree", budget=2, anchors=5)(*setting)
    torch.manual_seed(3)
    nodes = torch.randperm(14)[:5].tolist()
    torch.testing.assert_close(found.detach(), slow_term(*setting, "degree", 2.5, nodes).detach())


def test_more_anchors_than_nodes_are_all_nodes(setting) -> None:
    torch.testing.assert_close(
        CompactnessRegularizer(budget=1, anchors=99)(*setting), CompactnessRegularizer(budget=1)(*setting)
    )


def test_scaling_makes_the_term_blind_to_the_size_of_the_embeddings(setting) -> None:
    encoder, *graphs = setting
    regularizer = CompactnessRegularizer(budget=2)
    before = regularizer(encoder, *graphs).detach()
    with torch.no_grad():  # positively homogeneous: twice the weights and biases of the last layer are twice the z
        encoder.conv2.lin.weight *= 2
        encoder.conv2.bias *= 2
    torch.testing.assert_close(regularizer(encoder, *graphs).detach(), before)


def test_combine_weighs_the_two_losses(setting) -> None:
    regularizer = CompactnessRegularizer(kappa=0.25, budget=1)
    term = regularizer(*setting)
    assert float(regularizer.combine(torch.tensor(2.0, dtype=torch.float64)).detach()) == pytest.approx(
        0.75 * 2 + 0.25 * float(term.detach())
    )


def test_combine_needs_a_term_of_its_own(setting) -> None:
    regularizer = CompactnessRegularizer(budget=1)
    regularizer(*setting)
    regularizer.combine(torch.tensor(1.0))
    with pytest.raises(InputError, match="combine before a call"):
        regularizer.combine(torch.tensor(1.0))


def test_kappa_and_budget_follow_their_ramps(setting) -> None:
    regularizer = CompactnessRegularizer(kappa=Ramp(0.4, length=10), budget=Ramp(0.5, length=10), scale=None)
    assert regularizer.at(5).share == pytest.approx(0.2)
    clean = regularizer.at(0)(*setting).detach()
    torch.testing.assert_close(clean, CompactnessRegularizer(budget=0, scale=None)(*setting).detach())
    torch.testing.assert_close(
        regularizer.at(10)(*setting).detach(), CompactnessRegularizer(budget=0.5, scale=None)(*setting).detach()
    )


def test_the_term_is_due_in_every_so_manieth_epoch() -> None:
    regularizer = CompactnessRegularizer(kappa=Ramp(0.4, start=3), every=2)
    assert [regularizer.at(epoch).due for epoch in range(7)] == [False, False, False, False, True, False, True]


def test_embeddings_at_hand_change_nothing(setting) -> None:
    encoder, graph, *views = setting
    regularizer = CompactnessRegularizer(budget=2)
    z1, z2 = (encoder(view.x, view.edge_index) for view in views)
    torch.testing.assert_close(
        regularizer(encoder, graph, *views, embeddings=(z1, z2)), regularizer(encoder, graph, *views)
    )


def test_any_readable_model_and_pyg_data_will_do() -> None:
    graph = toy_graph(nx.gnp_random_graph(30, 0.15, seed=1), features=6)
    data = Data(x=graph.x.float(), edge_index=graph.edge_index)
    model = GCN(in_channels=6, hidden_channels=8, num_layers=2, out_channels=4)
    views = [dropout_edge(data.edge_index, 0.3, force_undirected=True)[0] for _ in range(2)]
    regularizer = CompactnessRegularizer(budget=0.3, method=Degree(resolution=2))
    term = regularizer(model, data, *views)
    regularizer.combine(model(data.x, views[0]).square().mean()).backward()
    assert torch.isfinite(term)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_settings_survive_their_dictionary() -> None:
    given = CompactnessRegularizer(
        kappa=Ramp(0.3, start=2), method="crown", anchors=7, budget=Ramp(0.4, length=3), objective="kept"
    )
    assert CompactnessRegularizer.from_dict(given.to_dict()).to_dict() == given.to_dict()


def test_what_is_only_text_in_a_dictionary_is_refused() -> None:
    with pytest.raises(MethodError):
        CompactnessRegularizer.from_dict(CompactnessRegularizer(method=Degree(resolution=3)).to_dict())
    with pytest.raises(BudgetError):
        CompactnessRegularizer.from_dict(CompactnessRegularizer(budget=EdgeDropBudget(local=2, total=9)).to_dict())


@pytest.mark.parametrize(
    "settings",
    [
        {"kappa": 1.2},
        {"kappa": Ramp(-0.1)},
        {"anchors": 0},
        {"scale": 0.0},
        {"every": 0},
        {"method": "best"},
        {"budget": -1},
        {"objective": "share"},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(InputError):
        CompactnessRegularizer(**settings)


def test_the_default_budget_is_one_edge_at_each_node(setting) -> None:
    encoder, graph, *views = setting
    assert torch.equal(
        CompactnessRegularizer()(encoder, graph, *views), CompactnessRegularizer(budget=1)(encoder, graph, *views)
    )


def test_a_loop_of_ones_own_has_no_drop_rates_for_the_budget(setting) -> None:
    with pytest.raises(InputError, match="budget None"):
        CompactnessRegularizer(budget=None)(*setting)


def test_a_view_with_other_nodes_is_refused(setting) -> None:
    encoder, graph, view, _ = setting
    with pytest.raises(GraphError, match="a view with 12 nodes"):
        CompactnessRegularizer(budget=1)(encoder, graph, view, random_graph(nodes=12))


# -- what it keeps ---------------------------------------------------------------------------------


def test_settings_are_fixed(setting) -> None:
    regularizer = CompactnessRegularizer(budget=1)
    before = regularizer(*setting).detach()
    for name, value in (("budget", 3), ("kappa", 7.0), ("anchors", 0), ("method", "interval")):
        with pytest.raises(FrozenInstanceError):
            setattr(regularizer, name, value)
    changed = replace(regularizer.at(4), budget=3)
    torch.testing.assert_close(changed(*setting), CompactnessRegularizer(budget=3)(*setting))
    assert torch.equal(regularizer(*setting).detach(), before)
    assert changed.epoch == 0


@pytest.mark.parametrize("budget", [[1] * 14, torch.ones(14, dtype=torch.long)])
def test_a_budget_that_can_be_written_to_is_copied(setting, budget: list[int] | Tensor) -> None:
    regularizer = CompactnessRegularizer(budget=budget)
    budget[0] = budget[1] = 3
    torch.testing.assert_close(regularizer(*setting), CompactnessRegularizer(budget=1)(*setting))


@pytest.mark.parametrize("anchors", [-1, 5])
def test_edges_and_features_that_were_written_to_count(setting, anchors: int) -> None:
    encoder, graph, *views = setting
    other = random_graph(nodes=14, seed=8)
    regularizer = CompactnessRegularizer(budget=2, anchors=anchors)

    def term(graph: Graph, regularizer: CompactnessRegularizer) -> Tensor:
        return regularizer(encoder, graph, *views, generator=torch.Generator().manual_seed(1))

    before = term(graph, regularizer).detach()
    graph.x.mul_(-3)
    fresh = term(Graph.of((graph.x.clone(), graph.edge_index)), CompactnessRegularizer(budget=2, anchors=anchors))
    assert torch.equal(term(graph, regularizer), fresh)
    assert not torch.equal(fresh, before)
    rewired = Graph(graph.x, graph.rowptr.clone(), graph.col.clone())
    rewired.rowptr.set_(other.rowptr.clone())
    rewired.col.set_(other.col.clone())
    fresh = term(Graph.of((graph.x.clone(), other.edge_index)), CompactnessRegularizer(budget=2, anchors=anchors))
    assert torch.equal(term(rewired, regularizer), fresh)


def test_graphs_one_after_the_other_at_the_same_address_are_told_apart(setting) -> None:
    encoder, graph, *views = setting
    regularizer = CompactnessRegularizer(budget=1)
    for seed in range(20):
        other = random_graph(nodes=14, seed=seed)
        found = regularizer(encoder, Graph.of((graph.x, other.edge_index)), *views)
        del other
        other = random_graph(nodes=14, seed=seed)
        assert torch.equal(found, CompactnessRegularizer(budget=1)(encoder, (graph.x, other.edge_index), *views))


def test_copies_begin_at_the_first_step(setting) -> None:
    regularizer = CompactnessRegularizer(budget=1).at(3)
    regularizer(*setting)
    for twin in (copy.deepcopy(regularizer), pickle.loads(pickle.dumps(regularizer))):
        assert twin.to_dict() == regularizer.to_dict()
        assert twin.epoch == 0
        with pytest.raises(InputError, match="combine before a call"):
            twin.combine(torch.tensor(1.0))


# -- encoders that are random while they are trained -----------------------------------------------


class Random(nn.Module):
    """Dropout of channels as a module and as a function, and of edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.dropout = GCNConv(3, 8), GCNConv(8, 4), nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = dropout_edge(edge_index, 0.4, force_undirected=True, training=self.training)
        hidden = self.dropout(self.first(x, edge_index).relu())
        return self.second(nn.functional.dropout(hidden, 0.3, training=self.training), edge_index)


@pytest.mark.parametrize(
    "make", [Random, lambda: GCN(3, 8, 2, 4, dropout=0.5), lambda: GCN(3, 8, 2, 4, dropout=0.5, norm="batch_norm")]
)
def test_an_encoder_with_dropout_is_bounded_as_in_eval_mode(setting, make) -> None:
    encoder, views = make().double().train(), setting[1:]
    encoder.dropout.eval()  # a mode of its own stays
    modes, regularizer = [module.training for module in encoder.modules()], CompactnessRegularizer(budget=2)
    term = regularizer(encoder, *views)
    gradients = torch.autograd.grad(term, list(encoder.parameters()), allow_unused=True)
    assert [module.training for module in encoder.modules()] == modes
    expected = regularizer(encoder.eval(), *views)
    for found, wanted in zip(
        gradients, torch.autograd.grad(expected, list(encoder.parameters()), allow_unused=True), strict=True
    ):
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(term, expected)


def test_a_loop_trains_an_encoder_with_dropout(setting) -> None:
    encoder, regularizer = Random().double().train(), CompactnessRegularizer(budget=1)
    optimizer, terms = torch.optim.Adam(encoder.parameters(), lr=0.05), []
    for _ in range(15):
        loss = regularizer(encoder, *setting[1:]) + 0 * encoder(setting[1].x, setting[1].edge_index).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        terms.append(float(loss.detach()))
    assert terms[-1] < terms[0]
    assert encoder.training
