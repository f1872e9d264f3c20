"""Convolutions that are not what they seem. Each names the honest module it seems to be."""

from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import APPNP, GCNConv, GraphConv, SAGEConv, SGConv
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation
from torch_geometric.utils import add_self_loops

from verification.case import Case
from verification.zoo.base import changed, degrees, drawn, malicious, odd
from verification.zoo.networks import (
    Predicted,
    Stack,
    appnp,
    gcn_without_self_loops,
    gin_layer,
    gin_layers,
    graph_conv,
    sage_mean,
    sage_sum,
    sgc_of_two_steps,
    stack,
    widths,
)


class SageOfIsolated(SAGEConv):  # type: ignore[misc]
    """Treats degree zero as a case of its own."""

    def forward(self, x: Tensor, edge_index: Tensor, size: Any = None) -> Tensor:
        return super().forward(x, edge_index, size) - 9.0 * (degrees(edge_index, len(x)) == 0)


@malicious(twin=sage_mean)
def sage_subclass(case: Case) -> nn.Module:
    return stack(case, SageOfIsolated)


@malicious(twin=sage_mean)
def sage_with_unit_rows(case: Case) -> nn.Module:
    return stack(case, SAGEConv, normalize=True)


@malicious(twin=sage_mean)
def sage_with_projection(case: Case) -> nn.Module:
    return stack(case, SAGEConv, project=True)


@malicious(twin=sage_mean)
def sage_with_maxima(case: Case) -> nn.Module:
    return stack(case, SAGEConv, aggr="max")


@malicious(twin=sage_mean)
def sage_whose_aggregation_was_exchanged(case: Case) -> nn.Module:
    module: Any = stack(case, SAGEConv)
    module.convs[1].aggr_module = MaxAggregation()
    return module


@malicious(twin=sage_sum)
def sage_whose_sums_are_means(case: Case) -> nn.Module:
    module: Any = stack(case, SAGEConv, aggr="sum")
    module.convs[0].aggr_module = MeanAggregation()
    return module


class Saturated(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(-0.5, 0.5)


@malicious(twin=sage_mean)
def sage_with_another_linear_map(case: Case) -> nn.Module:
    module: Any = stack(case, SAGEConv)
    own = module.convs[1].lin_l
    module.convs[1].lin_l = changed(
        Saturated(own.in_channels, own.out_channels).double(), weight=own.weight, bias=own.bias
    )
    return module


@malicious(twin=sage_mean)
def sage_with_a_message_hook(case: Case) -> nn.Module:
    module: Any = stack(case, SAGEConv)
    module.convs[0].register_message_forward_hook(lambda conv, given, output: -output)
    return module


@malicious(twin=graph_conv)
def graph_conv_with_messages_on_the_instance(case: Case) -> nn.Module:
    module: Any = stack(case, GraphConv)
    module.convs[0].message = lambda x_j, edge_weight: -x_j
    return module


@malicious(twin=gin_layers)
def gin_with_a_hook_in_its_mlp(case: Case) -> nn.Module:
    module: Any = stack(case, gin_layer, train_eps=True)
    module.convs[0].nn[0].register_forward_hook(lambda lin, given, output: output.clamp(max=0.1))
    return module


@malicious(twin=gin_layers)
def gin_with_means(case: Case) -> nn.Module:
    return stack(case, gin_layer, train_eps=True, aggr="mean")


@malicious(twin=gin_layers)
def gin_whose_aggregation_was_exchanged(case: Case) -> nn.Module:
    module: Any = stack(case, gin_layer, train_eps=True)
    module.convs[0].aggr_module = MeanAggregation()
    return module


@odd
def gin_with_another_name_of_its_aggregation(case: Case) -> nn.Module:
    """Which is not looked at for plain edges."""
    module: Any = stack(case, gin_layer, train_eps=True)
    module.convs[0].aggr = "mean"
    return module


class GrowingEps(Stack):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first: Any = self.convs[0]
        first.eps.data.add_(1)
        return super().forward(x, edge_index)


@malicious(twin=gin_layers)
def gin_whose_eps_grows(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(GrowingEps([gin_layer(inputs, hidden, train_eps=True), gin_layer(hidden, outputs, train_eps=True)]))


class FirstRowsOnly(nn.Module):
    """An MLP that looks at all nodes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) - x.max()


@malicious(twin=gin_layers)
def gin_with_an_mlp_of_all_nodes(case: Case) -> nn.Module:
    module: Any = stack(case, gin_layer, train_eps=True)
    module.convs[0].nn = FirstRowsOnly(module.convs[0].nn)
    return module


@malicious(twin=sgc_of_two_steps)
def sgc_that_caches(case: Case) -> nn.Module:
    inputs, _, outputs = widths(case)
    return drawn(SGConv(inputs, outputs, K=2, cached=True))


@malicious(twin=sgc_of_two_steps)
def sgc_with_a_cache_left(case: Case) -> nn.Module:
    inputs, _, outputs = widths(case)
    module: Any = drawn(SGConv(inputs, outputs, K=2))
    module._cached_x = case.x.double()
    return module


class Sly(int):
    """An integer that compares as smaller than it is; range does not compare."""

    def __index__(self) -> int:
        return max(1, int(self) - 1)


@odd
def sgc_with_a_sly_number_of_steps(case: Case) -> nn.Module:
    inputs, _, outputs = widths(case)
    return drawn(changed(SGConv(inputs, outputs, K=2), K=Sly(2)))


class SlyFloat(float):
    def __rsub__(self, other: float) -> float:
        return 0.1

    def __mul__(self, other: Any) -> Any:
        return 5.0 * other

    __rmul__ = __mul__


@malicious(twin=appnp)
def appnp_with_a_sly_alpha(case: Case) -> nn.Module:
    module: Any = drawn(Predicted(case))
    module.prop.alpha = SlyFloat(0.25)
    return module


class TrainedWhateverIsSaid(Predicted):
    def train(self, mode: bool = True) -> "TrainedWhateverIsSaid":
        super().train(mode)
        self.prop.training = True
        return self


@malicious(twin=appnp, shows=False)  # by chance
def appnp_with_dropout_in_training_mode(case: Case) -> nn.Module:
    return drawn(TrainedWhateverIsSaid(case))


@malicious(twin=appnp)
def appnp_that_caches(case: Case) -> nn.Module:
    module: Any = drawn(Predicted(case))
    module.prop = APPNP(K=2, alpha=0.25, cached=True)
    return module


class LoopsByHand(Stack):
    """Self-loops that a layer takes for edges."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index, _ = add_self_loops(edge_index, num_nodes=len(x))
        return super().forward(x, edge_index)


def _looped(case: Case, kind: Any, **settings: Any) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(LoopsByHand([kind(inputs, hidden, **settings), kind(hidden, outputs, **settings)]))


@malicious(twin=sage_mean)
def sage_with_self_loops(case: Case) -> nn.Module:
    return _looped(case, SAGEConv)


@malicious(twin=gin_layers)
def gin_with_self_loops(case: Case) -> nn.Module:
    return _looped(case, gin_layer, train_eps=True)


@malicious(twin=gcn_without_self_loops)
def gcn_with_self_loops_by_hand(case: Case) -> nn.Module:
    return _looped(case, GCNConv, add_self_loops=False)


class Bipartite(Stack):
    """A layer that gets other features for the nodes themselves."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.convs[1](self.act(self.convs[0]((x, -x), edge_index)), edge_index)


@malicious(twin=sage_mean)
def sage_of_two_kinds_of_nodes(case: Case) -> nn.Module:
    inputs, hidden, outputs = widths(case)
    return drawn(Bipartite([SAGEConv(inputs, hidden), SAGEConv(hidden, outputs)]))
