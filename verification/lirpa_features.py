"""Bounds of networks over a box of features on a fixed graph, computed by auto_LiRPA. Nothing here uses certgcl."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from verification.lirpa import AfterActivation, LirpaBounds, heads, linear, slope_of, summed
from verification.network_case import NetworkCase, PlainLayer
from verification.network_oracle import adjacencies, mixing


class LirpaFeatures(LirpaBounds):
    """``f_i = w_i · z_i`` as a function of all features, node after node, each within ``radius`` of its own value.

    Args:
        case: with two-piece linear activations; its edges stay.
    """

    def __init__(self, case: NetworkCase, radius: float) -> None:
        x, slopes = torch.from_numpy(case.x).flatten(), [slope_of(layer) for layer in case.layers]
        super().__init__(lambda: _Network(case, slopes), x - radius, x + radius, slopes)


class _Network(nn.Module):
    """``vec X -> (w_i · z_i)_i``: each layer is a linear map of features and activations, since M is known."""

    def __init__(self, case: NetworkCase, slopes: list[Tensor]) -> None:
        super().__init__()
        adjacency = adjacencies(case.with_budget(0))
        self.layers = nn.ModuleList(_Layer(adjacency, layer, slopes) for layer in case.layers)
        self.readout = [number - 1 for number in case.readout]
        self.heads = heads(torch.from_numpy(case.directions), case.layers, slopes, case.readout)

    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for layer in self.layers:
            found.append(layer(x, found))
        return summed([head(found[number]) for head, number in zip(self.heads, self.readout, strict=True)])


class _Layer(nn.Module):
    """``p = Σ (M ⊗ W') h + b``, all nodes one after the other; terms of one source are one map."""

    def __init__(self, adjacency: Tensor, layer: PlainLayer, slopes: Sequence[Tensor]) -> None:
        super().__init__()
        nodes, maps = adjacency.shape[-1], dict[int, Tensor]()
        for term in layer.terms:
            mixed = torch.from_numpy(mixing(term, adjacency)[0].copy())
            found = torch.kron(mixed, torch.from_numpy(term.matrix().T.copy()))
            maps[term.source] = maps[term.source] + found if term.source in maps else found
        self.features = linear(maps.pop(0)) if 0 in maps else None
        self.sources = [source - 1 for source in maps]
        self.maps = nn.ModuleList(
            AfterActivation(weight, slopes[source - 1].repeat(nodes)) for source, weight in maps.items()
        )
        first = self.maps[0].first if self.features is None else self.features
        first.bias.data += torch.from_numpy(layer.bias).repeat(nodes)

    def forward(self, x: Tensor, found: list[Tensor]) -> Tensor:
        parts = [] if self.features is None else [self.features(x)]
        parts += [after(found[source]) for source, after in zip(self.sources, self.maps, strict=True)]
        return summed(parts)
