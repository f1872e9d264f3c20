"""The oracle for networks, by PyG's own modules with the same weights, and on what can be computed by hand."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch_geometric.nn import APPNP, GCNConv, GINConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.models import GCN

from verification.network_case import NetworkCase, PlainActivation, PlainLayer, PlainTerm
from verification.network_oracle import activate, adjacencies, embeddings, magnitude, values
from verification.networks import network_cases

FEATURES, WIDTH = 3, 4
RELU = PlainActivation("two-piece linear", 0.0)


def lollipop() -> nx.Graph:
    """A triangle with a tail, and an isolated node: 16 graphs."""
    graph = nx.lollipop_graph(3, 1)
    graph.add_node(4)
    return graph


def of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def linear(layer: nn.Module) -> np.ndarray:
    return of(layer.weight).T


def zeros() -> np.ndarray:
    return np.zeros(WIDTH)


def gcn(**options: bool) -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    conv = GCNConv(FEATURES, WIDTH, **options)
    loop = 2.0 if options.get("improved") else float(options.get("add_self_loops", True))
    return conv, [PlainLayer((PlainTerm(0, linear(conv.lin), "symmetric", loop),), of(conv.bias))], (1,)


def sage(aggr: str, root: bool = True) -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    conv = SAGEConv(FEATURES, WIDTH, aggr=aggr, root_weight=root)
    terms = (PlainTerm(0, linear(conv.lin_l), aggr), *((PlainTerm(0, linear(conv.lin_r)),) if root else ()))
    return conv, [PlainLayer(terms, of(conv.lin_l.bias))], (1,)


def graph_conv(aggr: str) -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    conv = GraphConv(FEATURES, WIDTH, aggr=aggr)
    terms = (PlainTerm(0, linear(conv.lin_rel), "sum" if aggr == "add" else aggr), PlainTerm(0, linear(conv.lin_root)))
    return conv, [PlainLayer(terms, of(conv.lin_rel.bias))], (1,)


def gin() -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    mlp = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ELU(0.5), nn.Linear(WIDTH, WIDTH))
    conv = GINConv(mlp, eps=0.7)
    first = (PlainTerm(0, linear(mlp[0]), "sum"), PlainTerm(0, 1.7 * linear(mlp[0])))
    return (
        conv,
        [
            PlainLayer(first, of(mlp[0].bias), PlainActivation("elu", 0.5)),
            PlainLayer((PlainTerm(1, linear(mlp[2])),), of(mlp[2].bias)),
        ],
        (2,),
    )


def sgc() -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    conv = SGConv(FEATURES, WIDTH, K=3)
    steps = [PlainLayer((PlainTerm(number, np.ones(WIDTH), "symmetric"),), zeros()) for number in (1, 2)]
    return (
        conv,
        [
            PlainLayer((PlainTerm(0, linear(conv.lin), "symmetric"),), zeros()),
            steps[0],
            PlainLayer(steps[1].terms, of(conv.lin.bias)),
        ],
        (3,),
    )


class Appnp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.steps = nn.Linear(FEATURES, WIDTH), APPNP(K=3, alpha=0.2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.steps(torch.tanh(self.lin(x)), edge_index)


def appnp() -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    model = Appnp()
    steps = [
        PlainLayer((PlainTerm(number, np.full(WIDTH, 0.8), "symmetric"), PlainTerm(1, np.full(WIDTH, 0.2))), zeros())
        for number in (1, 2, 3)
    ]
    return (
        model,
        [PlainLayer((PlainTerm(0, linear(model.lin)),), of(model.lin.bias), PlainActivation("tanh")), *steps],
        (4,),
    )


def whole_gcn() -> tuple[nn.Module, list[PlainLayer], tuple[int, ...]]:
    """PyG's own model: three convolutions, BatchNorm, ReLU, and the sum over a linear layer of all outputs."""
    model = GCN(FEATURES, WIDTH, num_layers=3, out_channels=2, norm="batch_norm", jk="cat").eval()
    layers, outputs = [], []
    for number, (conv, norm) in enumerate(zip(model.convs, model.norms, strict=True)):
        norm.module.running_mean.normal_()
        norm.module.running_var.uniform_(0.5, 2)
        norm.module.weight.data.normal_()
        norm.module.bias.data.normal_()
        part = norm.module
        scale = of(part.weight) / np.sqrt(of(part.running_var) + part.eps)
        layers.append(PlainLayer((PlainTerm(2 * number, linear(conv.lin), "symmetric"),), of(conv.bias)))
        layers.append(PlainLayer((PlainTerm(len(layers), scale),), of(part.bias) - scale * of(part.running_mean), RELU))
        outputs.append(len(layers))
    blocks = np.split(linear(model.lin), 3)
    layers.append(
        PlainLayer(
            tuple(PlainTerm(number, block) for number, block in zip(outputs, blocks, strict=True)), of(model.lin.bias)
        )
    )
    return model, layers, (len(layers),)


MODELS: dict[str, Callable[[], tuple[nn.Module, list[PlainLayer], tuple[int, ...]]]] = {
    "GCNConv": gcn,
    "GCNConv, no self-loops": lambda: gcn(add_self_loops=False),
    "GCNConv, improved": lambda: gcn(improved=True),
    "SAGEConv mean": lambda: sage("mean"),
    "SAGEConv sum": lambda: sage("sum"),
    "SAGEConv without root": lambda: sage("mean", root=False),
    "GraphConv add": lambda: graph_conv("add"),
    "GraphConv mean": lambda: graph_conv("mean"),
    "GINConv": gin,
    "SGConv": sgc,
    "APPNP": appnp,
    "GCN with BatchNorm and jumping knowledge": whole_gcn,
}


@pytest.mark.parametrize("name", MODELS)
def test_the_oracle_is_the_module_on_every_admissible_graph(name: str) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            model, layers, readout = MODELS[name]()
        finally:
            torch.set_default_dtype(before)
        x = torch.randn(5, FEATURES, dtype=torch.float64)
        case = NetworkCase(lollipop(), x.numpy(), tuple(layers), readout, np.zeros((5, 1)))
        graphs = adjacencies(case)
        assert len(graphs) == 16
        for adjacency, mine in zip(graphs, embeddings(case, graphs), strict=True):
            edge_index = torch.from_numpy(np.stack(np.nonzero(adjacency)))
            # Without weights, PyG takes a loop weight of 1 for ``improved`` too.
            weights = (torch.ones(edge_index.shape[1], dtype=torch.float64),) if "improved" in name else ()
            np.testing.assert_allclose(mine, of(model(x, edge_index, *weights)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("activation", "module"),
    [
        (RELU, nn.ReLU()),
        (PlainActivation("two-piece linear", -0.3), nn.LeakyReLU(-0.3)),
        (PlainActivation("elu", 1.8), nn.ELU(1.8)),
        (PlainActivation("tanh"), nn.Tanh()),
        (PlainActivation("sigmoid"), nn.Sigmoid()),
        (PlainActivation("gelu"), nn.GELU()),
        (PlainActivation("silu"), nn.SiLU()),
        (PlainActivation("softplus", 2.5), nn.Softplus(2.5)),
    ],
)
def test_activations_are_those_of_torch(activation: PlainActivation, module: nn.Module) -> None:
    p = np.linspace(-30, 30, 2001)
    np.testing.assert_allclose(activate(p, activation), of(module(torch.from_numpy(p))), rtol=1e-13, atol=1e-15)


def test_two_joined_nodes_by_hand() -> None:
    one = np.ones((1, 1))
    for mixing, kept, lost in (("symmetric", 2.0, 1.0), ("mean", 3.0, 0.0), ("sum", 3.0, 0.0)):
        layer = PlainLayer((PlainTerm(0, one, mixing),), np.zeros(1))
        case = NetworkCase(nx.path_graph(2), np.array([[1.0], [3.0]]), (layer,), (1,), np.ones((2, 1)))
        assert values(case)[:, 0].tolist() == pytest.approx([kept, lost])


@given(network_cases())
def test_no_value_is_larger_than_its_magnitude(case: NetworkCase) -> None:
    assert (np.abs(values(case)) <= magnitude(case) * (1 + 1e-12)).all()
