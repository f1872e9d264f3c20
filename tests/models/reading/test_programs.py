"""Programs of random statements, with names that share tensors and changes in place: each is read as it runs."""

import importlib.util
import random
from pathlib import Path

import pytest
import torch
from torch import nn

from certgcl.graphs.graph import Graph
from certgcl.models.layers.table import CONVOLUTIONS
from tests.encoders import assert_reads

HEAD = """import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import APPNP, GCNConv, GINConv, GraphConv, SAGEConv, SGConv


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        mlp = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True))
        self.conv = nn.ModuleList([
            GCNConv(5, 5), SAGEConv(5, 5), GraphConv(5, 5), GINConv(mlp), SGConv(5, 5, K=2), APPNP(2, 0.3),
            SAGEConv(5, 5, aggr="sum"), GCNConv(5, 5, add_self_loops=False), GINConv(nn.Identity(), eps=0.4)])
        self.lin, self.wide, self.norm, self.prelu = nn.Linear(5, 5), nn.Linear(10, 5), nn.BatchNorm1d(5), nn.PReLU(5)
        self.relu, self.elu, self.tanh = nn.ReLU(inplace=True), nn.ELU(inplace=True), nn.Tanh()
        self.drop, self.same, self.scale = nn.Dropout(0.5), nn.Identity(), nn.Parameter(torch.ones(5))

    def forward(self, x, e):
        a = self.lin(x)
        b = self.conv[0](x, e)
        c, d = a, b
"""
STATEMENTS = (
    "{u} = {v}",
    "{u} = {v} + {w}",
    "{u} = {v} - {w}",
    "{u} += {v}",
    "{u} -= {v}",
    "{u} *= 0.5",
    "{u} /= 3",
    "{u} = -{v}",
    "{u} = self.relu({v})",
    "{u} = self.elu({v})",
    "self.relu({u})",
    "{u} = self.conv[{k}]({v}, e)",
    "{u} = self.conv[{k}]({v}, e).relu_()",
    "{u} = self.wide(torch.cat([{v}, {w}], dim=1))",
    "{u} = self.norm({v})",
    "{u} = {v} * self.scale",
    "{u} = self.scale - {v}",
    "{u} += 1.5",
    "{u} = self.prelu({v})",
    "{u} = self.drop({v})",
    "{u} = self.same({v})",
    "{u} = self.tanh({v})",
    "{u}, {v} = {w}, {u}",
    "{u} = F.leaky_relu({v}, 0.2, inplace=True)",
    "{u} @= self.lin.weight",
    "{u} = sum([{v}, {w}])",
    "{u} = 2 - {v}",
    "{u} = {v} + x",
    "{u} = self.wide(F.relu(torch.cat([{v}, torch.cat([{w}], 1)], -1)))",
    "{u} = {v}.add({w}).mul(0.25)",
    "{u} = F.dropout({v}, 0.3, self.training)",
    "{u} = {v} * 1",
    "xs = [{v}, {w}]; {u} += {w}; {v} = xs[0]",
    "{u} = self.conv[{k}](self.norm({v} / 2), e)",
)
RETURNS = (
    "a + d",
    "torch.cat([a, b, c, d, x], dim=-1)",
    "self.wide(torch.cat((a, d), 1))",
    "torch.cat([torch.cat([a, d], 1), x], 1) * 2",
    "0.5 * (b + d) - c.abs()",
)


def program(chance: random.Random) -> str:
    lines = [
        chance.choice(STATEMENTS).format(**{name: chance.choice("abcd") for name in "uvw"}, k=chance.randrange(9))
        for _ in range(chance.randint(3, 12))
    ]
    lines.append(f"d = self.conv[{chance.randrange(9)}](d, e)")  # so that the edges matter
    lines.append(f"return {chance.choice(RETURNS)}")
    return HEAD + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize("seed", range(40))
def test_a_program_is_read_as_it_runs(seed: int, graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / f"random_program_{seed}.py"
    path.write_text(program(random.Random(seed)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    model: nn.Module = module.Model().double().eval().requires_grad_(False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.3, 2)
    assert_reads(model, graph, tolerance=1e-9)


def test_the_programs_use_every_convolution() -> None:
    assert all(f"{kind.__name__}(" in HEAD for kind in CONVOLUTIONS)
