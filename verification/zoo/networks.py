"""Networks of other convolutions, depths and parts as people write them: they must be accepted, and read correctly."""

from itertools import pairwise
from typing import Any

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

from verification.case import Case
from verification.zoo.base import Layers, drawn, honest


class Stack(nn.Module):
    """Some convolutions, one after the other, with an activation between them."""

    def __init__(self, convs: list[nn.Module], act: nn.Module | None = None) -> None:
        super().__init__()
        self.convs, self.act = nn.ModuleList(convs), act or nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for conv in self.convs[:-1]:
            x = self.act(conv(x, edge_index))
        return self.convs[-1](x, edge_index)


def widths(case: Case) -> tuple[int, int, int]:
    return case.w1.shape[0], case.w1.shape[1], case.w2.shape[1]


def stack(case: Case, kind: Any, depth: int = 2, act: nn.Module | None = None, **settings: Any) -> nn.Module:
    """A number of layers of one kind."""
    inputs, hidden, outputs = widths(case)
    sizes = [inputs, *[hidden] * (depth - 1), outputs]
    return drawn(Stack([kind(*pair, **settings) for pair in pairwise(sizes)], act))


# -- convolutions ----------------------------------------------------------------------------------


@honest
def one_gcn_layer(case: Case) -> nn.Module:
    return stack(case, GCNConv, 1)


@honest
def three_gcn_layers(case: Case) -> nn.Module:
    return stack(case, GCNConv, 3)


@honest
def four_gcn_layers(case: Case) -> nn.Module:
    return stack(case, GCNConv, 4)


@honest
def gcn_without_self_loops(case: Case) -> nn.Module:
    return stack(case, GCNConv, add_self_loops=False)


@honest
def improved_gcn(case: Case) -> nn.Module:
    return stack(case, GCNConv, improved=True)


@honest
def sage_mean(case: Case) -> nn.Module:
    return stack(case, SAGEConv)


@honest
def sage_sum(case: Case) -> nn.Module:
    return stack(case, SAGEConv, aggr="sum")


@honest
def sage_without_root_weight(case: Case) -> nn.Module:
    return stack(case, SAGEConv, root_weight=False, bias=False)


@honest
def three_sage_layers(case: Case) -> nn.Module:
    return stack(case, SAGEConv, 3)


@honest
def graph_conv(case: Case) -> nn.Module:
    return stack(case, GraphConv)


@honest
def graph_conv_mean(case: Case) -> nn.Module:
    return stack(case, GraphConv, aggr="mean")


@honest
def sgc_of_two_steps(case: Case) -> nn.Module:
    inputs, _, outputs = widths(case)
    return drawn(SGConv(inputs, outputs, K=2))


def gin_layer(inputs: int, outputs: int, **settings: Any) -> GINConv:
    return GINConv(nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs)), **settings)


@honest
def gin_layers(case: Case) -> nn.Module:
    return stack(case, gin_layer, train_eps=True)


@honest
def gin_of_pygs_mlp(case: Case) -> nn.Module:
    return stack(case, lambda inputs, outputs: GINConv(MLP([inputs, outputs, outputs]), eps=0.5), 1)


class Predicted(nn.Module):
    """APPNP as in its paper: an MLP, then steps of personalised PageRank."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        inputs, hidden, outputs = widths(case)
        self.lin1, self.lin2 = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
        self.prop = APPNP(K=2, alpha=0.25, dropout=0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, p=0.5, training=self.training)
        return self.prop(self.lin2(F.relu(self.lin1(x))), edge_index)


@honest
def appnp(case: Case) -> nn.Module:
    return drawn(Predicted(case))


@honest
def mixed_convolutions(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(Stack([GCNConv(inputs, hidden), SAGEConv(hidden, hidden), gin_layer(hidden, outputs)], nn.Tanh()))


# -- parts -----------------------------------------------------------------------------------------


class Normed(nn.Module):
    """With BatchNorm on one side of the activation."""

    def __init__(self, case: Case, norm: Any = nn.BatchNorm1d, act_first: bool = False) -> None:
        super().__init__()
        inputs, hidden, outputs = widths(case)
        self.conv1, self.norm, self.conv2 = SAGEConv(inputs, hidden), norm(hidden), GCNConv(hidden, outputs)
        self.act_first = act_first

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.conv1(x, edge_index)
        x = self.norm(F.relu(x)) if self.act_first else F.relu(self.norm(x))
        return self.conv2(x, edge_index)


@honest
def batch_norm_before_the_activation(case: Case) -> nn.Module:
    return drawn(Normed(case))


@honest
def batch_norm_after_the_activation(case: Case) -> nn.Module:
    return drawn(Normed(case, act_first=True))


@honest
def pygs_batch_norm(case: Case) -> nn.Module:
    return drawn(Normed(case, BatchNorm))


class Residual(nn.Module):
    """Skips around layers, one of them scaled."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        inputs, hidden, outputs = widths(case)
        self.lin, self.conv1, self.conv2 = nn.Linear(inputs, hidden), GCNConv(hidden, hidden), GCNConv(hidden, hidden)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + F.relu(self.conv1(h, edge_index))
        h = 0.5 * self.conv2(h, edge_index) - h
        return self.head(h)


@honest
def residual_connections(case: Case) -> nn.Module:
    return drawn(Residual(case))


class Jumping(nn.Module):
    """Outputs of all layers, side by side, with no head."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        inputs, hidden, outputs = widths(case)
        self.conv1, self.conv2, self.jump = SAGEConv(inputs, hidden), SAGEConv(hidden, outputs), JumpingKnowledge("cat")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = self.conv1(x, edge_index).relu()
        return self.jump([first, self.conv2(first, edge_index).relu()])


@honest
def jumping_knowledge(case: Case) -> nn.Module:
    return drawn(Jumping(case))


class Projected(Layers):
    """With the projection head of GRACE."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        outputs = widths(case)[2]
        self.head = nn.Sequential(nn.Linear(outputs, 3), nn.ELU(), nn.Linear(3, outputs)).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.head(F.relu(self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)))


@honest
def projection_head(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return Projected(case)


# -- activations -----------------------------------------------------------------------------------


@honest
def elu_between(case: Case) -> nn.Module:
    return stack(case, GCNConv, act=nn.ELU())


@honest
def gelu_between(case: Case) -> nn.Module:
    return stack(case, GCNConv, act=nn.GELU())


@honest
def silu_between(case: Case) -> nn.Module:
    return stack(case, SAGEConv, act=nn.SiLU())


@honest
def softplus_between(case: Case) -> nn.Module:
    return stack(case, GCNConv, act=nn.Softplus(2.0))


@honest
def sigmoid_between(case: Case) -> nn.Module:
    return stack(case, GraphConv, act=nn.Sigmoid())


# -- PyG's models ----------------------------------------------------------------------------------


@honest
def pyg_sage_of_three_layers(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(GraphSAGE(inputs, hidden, 3, outputs, norm="batch_norm", dropout=0.5))


@honest
def pyg_gin(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(GIN(inputs, hidden, 2, outputs, act="elu"))


@honest
def pyg_gcn_with_jumping_knowledge_and_batch_norm(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(GCN(inputs, hidden, 2, outputs, jk="cat", norm="batch_norm", act="tanh", act_first=True))


@honest
def pyg_sage_in_float32(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(GraphSAGE(inputs, hidden, 2, outputs, norm="batch_norm", jk="last")).float()
