"""The building blocks of the zoo's modules: two layers with the weights of a case or others, and an entry in a list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from verification.case import Case

Builder = Callable[[Case], nn.Module]
Built = TypeVar("Built", bound=Builder)


@dataclass(frozen=True)
class Entry:
    """A module of the zoo.

    Args:
        build: makes it for a case: its widths and weights, and what a liar must know of the clean graph.
        seems: the slopes after the two layers for a reader who believes what the module shows.
        scales: of features and biases, at one of which at least the module shows its lie.
        twin: makes the honest module that a liar seems to be, if that is not a two-layer GCN.
        shows: whether a run of the module on some admissible view must give another value than believed, and a lower
            one. False if the lie is told elsewhere (another thread, another setting of torch), or raises a value.
    """

    name: str
    build: Builder
    seems: tuple[float, float] = (0.0, 1.0)
    scales: tuple[float, ...] = (1.0,)
    shows: bool = True
    twin: Builder | None = None


HONEST: dict[str, Entry] = {}  # models as people write them: must be accepted
ODD: dict[str, Entry] = {}  # models as hardly anyone writes them: refused, or read correctly
MALICIOUS: dict[str, Entry] = {}  # anything else: must be refused


def honest(build: Built) -> Built:
    return _listed(HONEST, Entry(_name(build), build), build)


def odd(build: Built) -> Built:
    return _listed(ODD, Entry(_name(build), build), build)


def malicious(
    seems: tuple[float, float] = (0.0, 1.0),
    scales: tuple[float, ...] = (1.0,),
    shows: bool = True,
    twin: Builder | None = None,
) -> Callable[[Built], Built]:
    return lambda build: _listed(MALICIOUS, Entry(_name(build), build, seems, scales, shows, twin), build)


def _listed(place: dict[str, Entry], entry: Entry, build: Built) -> Built:
    if entry.name in HONEST.keys() | ODD.keys() | MALICIOUS.keys():
        raise ValueError(f"two modules called {entry.name}")
    place[entry.name] = entry
    return build


def _name(build: Builder) -> str:
    return build.__name__  # of a class, or of a function that makes one


def layer(weight: Tensor, bias: Tensor | None, kind: type[GCNConv] = GCNConv) -> GCNConv:
    """A layer with given weights, in float64."""
    conv = kind(*weight.shape, bias=bias is not None).double()
    conv.lin.weight = nn.Parameter(weight.T.clone().double())
    if bias is not None:
        conv.bias = nn.Parameter(bias.clone().double())
    return conv


def drawn(model: nn.Module) -> nn.Module:
    """The model in float64, with parameters and statistics that are not those of a new one, always the same."""
    chance = torch.Generator().manual_seed(0)
    model = model.double()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if name.endswith("running_var"):
            tensor.data = 0.5 + torch.rand(tensor.shape, dtype=torch.float64, generator=chance)
        elif tensor.dtype.is_floating_point:
            size = max(1, tensor.shape[-1]) ** -0.5 if tensor.dim() == 2 else 0.5
            tensor.data = size * torch.randn(tensor.shape, dtype=torch.float64, generator=chance)
    return model


def prelu(slope: Tensor) -> nn.PReLU:
    """One slope for each channel, in float64."""
    module = nn.PReLU(len(slope)).double()
    module.weight = nn.Parameter(slope.clone().double())
    return module


class Layers(nn.Module):
    """The two layers of a case, not yet put together."""

    def __init__(self, case: Case, kind: type[GCNConv] = GCNConv) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer(case.w1, case.b1, kind), layer(case.w2, case.b2, kind)


class Liar(Layers):
    """The two layers, and what a liar remembers of the clean graph."""

    def __init__(self, case: Case, kind: type[GCNConv] = GCNConv) -> None:
        super().__init__(case, kind)
        self.slots = 2 * case.graph.number_of_edges()
        self.largest_degree = max(degree for _, degree in case.graph.degree)


def degrees(edge_index: Tensor, nodes: int) -> Tensor:
    """``(N, 1)``, in float64."""
    counts = torch.zeros(nodes, dtype=torch.float64).index_add(
        0, edge_index[0], torch.ones(edge_index.shape[1], dtype=torch.float64)
    )
    return counts[:, None]


def changed(module: Any, **attributes: Any) -> Any:
    """The module with some attributes set."""
    for name, value in attributes.items():
        setattr(module, name, value)
    return module
