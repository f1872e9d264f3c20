"""What is read besides two-layer GCNs: every convolution, part and activation, alone and together."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import (
    APPNP,
    GCN,
    GIN,
    MLP,
    BatchNorm,
    GCNConv,
    GINConv,
    GraphConv,
    GraphSAGE,
    JumpingKnowledge,
    SAGEConv,
    SGConv,
)
from torch_geometric.nn.dense import Linear

import certgcl
from certgcl.graphs.graph import Graph
from certgcl.models import Diffusion, GraphNetwork, Local, Mean, Sum, SymmetricNorm
from certgcl.models.layers.gcn import loop_weight
from certgcl.models.reading import read_network
from certgcl.models.registry import ACTIVATIONS, OWN
from tests.encoders import Layers, Net, assert_reads, prepared


def lively(model: nn.Module) -> nn.Module:
    """In float64 and eval mode, with statistics, gains and eps that are not those of a new model."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.2, 3)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
        if isinstance(module, GINConv):
            module.eps.data.fill_(0.3 if isinstance(module.eps, nn.Parameter) else float(module.eps))
    return prepared(model)


def kinds(network: GraphNetwork) -> list[list[str]]:
    return [[term.aggregation.name for term in layer.terms] for layer in network.layers]


# -- convolutions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (GCNConv(5, 3), [SymmetricNorm(1.0)]),
        (GCNConv(5, 3, add_self_loops=False), [SymmetricNorm(0.0)]),
        (GCNConv(5, 3, bias=False), [SymmetricNorm(1.0)]),
        (SAGEConv(5, 3), [Mean(), Local()]),
        (SAGEConv(5, 3, root_weight=False, bias=False), [Mean()]),
        (SAGEConv(5, 3, aggr="sum"), [Sum(), Local()]),
        (SAGEConv(5, 3, aggr="add"), [Sum(), Local()]),
        (GraphConv(5, 3), [Sum(), Local()]),
        (GraphConv(5, 3, aggr="mean"), [Mean(), Local()]),
        (GINConv(nn.Linear(5, 3)), [Sum(), Local()]),
        (GINConv(nn.Linear(5, 3), eps=0.5), [Sum(), Local()]),
        (GINConv(nn.Linear(5, 3), train_eps=True), [Sum(), Local()]),
        (SGConv(5, 3), [Diffusion(1.0)]),
        (SGConv(5, 3, add_self_loops=False), [Diffusion(0.0)]),
    ],
    ids=str,
)
def test_a_convolution_is_one_layer(layer: nn.Module, expected: list[Any], either_graph: Graph) -> None:
    network = assert_reads(lively(layer), either_graph)
    assert [[term.aggregation for term in layer.terms] for layer in network.layers] == [expected]
    assert network.hops == 1


def test_improved_is_what_pyg_makes_of_it_and_not_what_it_is_called(either_graph: Graph) -> None:
    assert_reads(lively(GCNConv(5, 3, improved=True)), either_graph)
    pair = torch.tensor([[0, 1], [1, 0]])
    conv = GCNConv(1, 1, improved=True, bias=False)
    conv.lin.weight.data.fill_(1.0)
    loop = conv(torch.tensor([[1.0], [0.0]]), pair)[0].item()
    assert loop == pytest.approx(loop_weight(True, True) / (1 + loop_weight(True, True)))
    assert (loop_weight(False, True), loop_weight(False, False), loop_weight(True, False)) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize("steps", [1, 2, 3, 60])
def test_sgc_applies_its_matrix_first(steps: int, graph: Graph) -> None:
    network = assert_reads(lively(SGConv(5, 3, K=steps)), graph)
    assert [layer.terms[0].weight.shape for layer in network.layers] == [(5, 3)] + [(3,)] * (steps - 1)
    assert [bool(layer.bias.any()) for layer in network.layers] == [False] * (steps - 1) + [True]
    assert network.hops == steps


@pytest.mark.parametrize("settings", [{}, {"add_self_loops": False}, {"dropout": 0.5}])
def test_reads_appnp_after_an_mlp(settings: dict[str, Any], either_graph: Graph) -> None:
    model = Layers(
        lambda net, x, e: net.prop(net.mlp(x), e),
        prop=APPNP(K=3, alpha=0.1, **settings),
        mlp=nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 3)),
    )
    network = assert_reads(lively(model), either_graph)
    assert kinds(network)[2:] == [["diffusion", "local"]] * 3
    assert network.dtype == torch.float64


@pytest.mark.parametrize(
    "inner",
    [
        MLP([5, 4, 3]),
        MLP([5, 4, 3], norm=None, act="elu", plain_last=False),
        MLP([5, 4, 3], act_first=True, dropout=0.5),
        nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU()),
        nn.Sequential(nn.ReLU(), nn.Linear(5, 3)),
        nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 3)),
        nn.Identity(),
        Linear(5, 3, bias=False),
    ],
    ids=["MLP", "MLP, elu", "MLP, act first", "Sequential", "ReLU first", "BatchNorm first", "Identity", "Linear"],
)
@pytest.mark.parametrize("settings", [{}, {"eps": 0.25}, {"train_eps": True}], ids=str)
def test_reads_any_mlp_in_a_gin(inner: nn.Module, settings: dict[str, Any], either_graph: Graph) -> None:
    assert_reads(
        lively(
            Layers(
                lambda net, x, e: net.b(net.a(x, e)),
                a=GINConv(inner, **settings),
                b=nn.Linear(5 if isinstance(inner, nn.Identity) else 3, 2),
            )
        ),
        either_graph,
    )


def test_a_gin_with_eps_zero_keeps_its_matrix_and_precision(graph: Graph) -> None:
    layer = GINConv(nn.Linear(5, 3))
    network = read_network(layer, graph)
    assert network.dtype == torch.float32
    assert all(torch.equal(term.weight, layer.nn.weight.T) for term in network.layers[0].terms)


# -- PyG's models ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GCN, GraphSAGE, GIN])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "batch_norm"},
        {"norm": "batch_norm", "act_first": True},
        {"jk": "cat"},
        {"jk": "last"},
        {"jk": "cat", "norm": "batch_norm", "act": "elu", "dropout": 0.5},
        {"act": "prelu"},
        {"act": None},
    ],
    ids=str,
)
def test_reads_pygs_models(kind: type[nn.Module], num_layers: int, options: dict[str, Any], graph: Graph) -> None:
    network = assert_reads(lively(kind(5, 4, num_layers, 3, **options)), graph, tolerance=1e-10)
    assert network.hops == num_layers
    assert network.width == 3


@pytest.mark.parametrize(
    "act", ["relu", "leaky_relu", "elu", "selu", "tanh", "sigmoid", "gelu", "silu", "swish", "softplus", "SiLU"]
)
def test_reads_pygs_names_of_activations(act: str, graph: Graph) -> None:
    assert_reads(lively(GraphSAGE(5, 4, 2, 3, act=act)), graph)


def test_jumping_knowledge_without_a_head_is_read_out_of_several_layers(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, e: Tensor) -> Tensor:
        one = net.a(x, e).relu()
        two = net.b(one, e).relu()
        return net.jk([x, one, two])

    model = Layers(forward, a=GCNConv(5, 4), b=SAGEConv(4, 3), jk=JumpingKnowledge("cat"))
    network = assert_reads(lively(model), graph)
    assert [network.width_of(number) for number in network.readout] == [5, 4, 3]


# -- parts -----------------------------------------------------------------------------------------


def skip(net: Layers, x: Tensor, e: Tensor) -> Tensor:
    return net.b(net.a(x, e).relu() + x, e)


@pytest.mark.parametrize(
    "forward",
    [
        skip,
        lambda net, x, e: net.a(x, e) + x,
        lambda net, x, e: net.a(x, e) - net.b(x, e),
        lambda net, x, e: net.a(x, e).relu() + 0.5 * net.b(x, e).relu(),
        lambda net, x, e: 1 - net.a(x, e) / 3,
        lambda net, x, e: -net.a(x, e) * 2 + 1e-3,
        lambda net, x, e: sum([net.a(x, e), x, net.b(x, e)]),
        lambda net, x, e: torch.cat([net.a(x, e), x], dim=1).relu(),
        lambda net, x, e: net.lin(torch.cat([net.a(x, e), torch.cat((x, net.b(x, e).tanh()), -1)], dim=-1)),
        lambda net, x, e: net.c(torch.cat([net.a(x, e).relu(), x, x], 1), e),
        lambda net, x, e: net.norm(net.a(x, e)).relu(),
        lambda net, x, e: net.a(net.norm(x.relu()), e),
        lambda net, x, e: net.b(net.pyg(F.elu(net.a(x, e))), e),
        lambda net, x, e: net.scale * net.a(x, e) + net.shift,
        lambda net, x, e: net.a(x, e) @ net.matrix,
        lambda net, x, e: F.linear(net.a(x, e), net.matrix, net.shift),
        lambda net, x, e: net.a(x * net.scale + 1, e),
        lambda net, x, e: net.norm(torch.cat([net.d(x, e), net.d2(x, e)], 1)),
        lambda net, x, e: net.a(x, e).add(x).mul(0.25).sub(net.b(x, e)).div(2),
        lambda net, x, e: torch.sub(torch.add(x, net.a(x, e)), torch.mul(net.b(x, e), 3)),
        lambda net, x, e: net.mlp(net.a(x, e)),
        lambda net, x, e: 0.6 * net.a(x, e) + 0.4 * net.a(x, e).abs(),
    ],
)
def test_reads_sums_products_and_heads(forward: Callable[..., Tensor], either_graph: Graph) -> None:
    model = Layers(
        forward,
        a=GCNConv(5, 5),
        b=SAGEConv(5, 5),
        c=GraphConv(15, 3),
        d=GCNConv(5, 2),
        d2=GCNConv(5, 3),
        lin=nn.Linear(15, 2),
        norm=nn.BatchNorm1d(5),
        pyg=BatchNorm(5),
        mlp=MLP([5, 4, 2]),
    )
    model.scale, model.shift = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.randn(5))
    model.matrix = nn.Parameter(torch.randn(5, 5))
    assert_reads(lively(model), either_graph)


def test_a_residual_is_a_term_of_its_layer(graph: Graph) -> None:
    network = assert_reads(lively(Layers(lambda net, x, e: (net.conv(x, e) + x).relu(), conv=GCNConv(5, 5))), graph)
    assert kinds(network) == [["symmetric", "local"]]
    assert network.layers[0].name == "conv"


def test_what_two_layers_take_is_computed_once(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, e: Tensor) -> Tensor:
        hidden = net.a(x, e)
        return net.b(hidden.relu(), e) + hidden

    network = assert_reads(lively(Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 4))), graph)
    assert kinds(network) == [["symmetric"], ["local"], ["symmetric", "local"]]


def test_changes_in_place_reach_all_names_of_a_tensor(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, e: Tensor) -> Tensor:
        hidden = net.a(x, e)
        same = hidden
        hidden += x
        hidden *= 0.5
        other = hidden
        other @= net.lin.weight  # torch makes a new tensor of it
        return same + other

    assert_reads(lively(Layers(forward, a=GCNConv(5, 5), lin=nn.Linear(5, 5))), graph)


def test_a_batch_norm_keeps_the_sizes_of_mean_and_bias(graph: Graph) -> None:
    """In ``b - g mean`` they would cancel, and errors of the run with them."""
    model = Layers(lambda net, x, e: net.norm(net.conv(x, e)), conv=GCNConv(5, 3), norm=nn.BatchNorm1d(3)).eval()
    model.norm.running_mean.fill_(1000)
    model.norm.bias.data.fill_(1000)
    network = read_network(model, graph)
    assert (network.dtype, network.precision) == (torch.float64, torch.float32)
    assert [layer.bias.abs().max().item() for layer in network.layers[1:]] == [1000, 1000]
    gain = 1 / math.sqrt(1 + model.norm.eps)
    assert network.layers[2].terms[0].weight.tolist() == [gain] * 3


def test_numbers_are_those_of_the_precision_and_quotients_those_of_float64(graph: Graph) -> None:
    times, over = (
        read_network(Layers(forward, a=GCNConv(5, 3)), graph)
        for forward in (lambda net, x, e: net.a(x, e) * 0.1, lambda net, x, e: net.a(x, e) / 3)
    )
    assert times.layers[-1].terms[0].weight.tolist() == torch.full((3,), 0.1).tolist()
    assert over.layers[-1].terms[0].weight.tolist() == [1 / 3] * 3
    half = read_network(Layers(lambda net, x, e: net.a(x, e) * 0.1, a=GCNConv(5, 3)).bfloat16(), graph)
    assert (half.dtype, half.precision) == (torch.float64, torch.bfloat16)


# -- activations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation",
    [
        nn.ELU(),
        nn.ELU(0.3),
        F.elu,
        lambda p: F.elu(p, alpha=2.0),
        nn.SELU(),
        F.selu,
        nn.Tanh(),
        torch.tanh,
        F.tanh,
        lambda p: p.tanh(),
        nn.Sigmoid(),
        torch.sigmoid,
        lambda p: p.sigmoid(),
        nn.GELU(),
        F.gelu,
        nn.SiLU(),
        F.silu,
        nn.Softplus(),
        nn.Softplus(2.0, 5.0),
        F.softplus,
        lambda p: F.softplus(p, beta=0.5),
        nn.Sequential(nn.LeakyReLU(0.3), nn.LeakyReLU(0.3)),
        nn.Sequential(nn.Tanh(), nn.ELU()),
    ],
)
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_reads_smooth_activations(place: str, activation: Callable[[Tensor], Tensor], graph: Graph) -> None:
    assert_reads(prepared(Net(**{place: activation})), graph)


class LogCosh(nn.Module):
    def forward(self, p: Tensor) -> Tensor:
        return torch.logaddexp(p, -p) - math.log(2)


def test_reads_a_users_own_activation_once_it_is_registered(graph: Graph) -> None:
    def log_cosh(p: Tensor) -> Tensor:
        return torch.logaddexp(p, -p) - math.log(2)

    model = prepared(Net(between=log_cosh, after=LogCosh()))
    with pytest.raises(certgcl.errors.EncoderError, match="logaddexp"):
        read_network(model, graph)
    activation = certgcl.models.registry.register_activation(
        "log cosh of a test", log_cosh, torch.tanh, convex_first=True, gain=1.0, stands_for=[LogCosh]
    )
    try:
        network = assert_reads(model, graph)
        assert [layer.activation for layer in network.layers] == [activation] * 2
    finally:
        del ACTIVATIONS["log cosh of a test"], OWN[log_cosh], OWN[LogCosh]


# -- training --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        GCN(5, 4, 3, 2, norm="batch_norm", jk="cat", act="elu"),
        GraphSAGE(5, 4, 3, 2, norm="batch_norm"),
        GIN(5, 4, 2, 2, train_eps=True),
        SGConv(5, 3, K=2),
    ],
    ids=["GCN", "GraphSAGE", "GIN", "SGConv"],
)
def test_gradients_are_those_of_the_model(model: nn.Module, graph: Graph) -> None:
    model = lively(model)
    parameters = list(model.parameters())
    ours = torch.autograd.grad(read_network(model, graph).embed(graph).square().sum(), parameters)
    theirs = torch.autograd.grad(model(graph.x, graph.edge_index).square().sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_network_can_be_saved_and_read_again(graph: Graph, tmp_path: Any) -> None:
    network = read_network(lively(GIN(5, 4, 2, 2, train_eps=True, jk="cat", act="elu")), graph)
    again = GraphNetwork.load(network.save(tmp_path / "network.npz"))
    assert torch.equal(again.embed(graph), network.embed(graph))
    assert again.structure() == network.structure()
