"""Measures a model that cannot be read: the functions after its layers, and its output on many views. This proves
nothing."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, MessagePassing
from torch_geometric.nn.dense import Linear

from certgcl.bounds.interval import layer1_on_box, layer2_on_box
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.weights import two_layers
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from certgcl.models.layers.activations import EVAL
from certgcl.models.layers.message_passing import CACHES, Settings, check_settings
from certgcl.models.layers.modules import named_modules
from certgcl.models.reading.checks import check_finite, check_output
from certgcl.models.reading.probed_views import probed_views
from certgcl.models.reading.watching import WatchedRun, watch

# Replacements of a layer's output. Large values show a clipped activation (ReLU6), small ones a threshold.
_PROBES = (-16384.0, -64.0, -3.0, -1.0, -0.5, -(2.0**-10), 0.0, 2.0**-10, 0.5, 1.0, 3.0, 64.0, 16384.0)
_RANDOM = 128  # probes of each sign, log-uniform from _LEAST to _MOST as far as the dtype reaches
_LEAST, _MOST = 1e-30, 1e30
_DENSE = 512  # probes over the range of each channel
_SETTINGS: Settings = {
    "improved": (False,),
    "normalize": (True,),
    "add_self_loops": (True,),
    "aggr": ("add", "sum"),
    **CACHES,
}
FORMULA = "a model that is measured must compute σ2(Â σ1(Â X W1 + b1) W2 + b2)"
ONLY = "only an activation σ(p) = p for p >= 0 and γ p below may follow a layer of a model that is measured"
LAYERS = (
    "If two GCNConv and two-piece linear activations are all you need of the model, pass "
    "certgcl.GCNEncoder.from_layers(conv1, conv2, activation, out_activation)"
)
_DROPOUTS = (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
_NORMS = (
    "torch_geometric.nn.norm",
    "torch.nn.modules.batchnorm",
    "torch.nn.modules.normalization",
    "torch.nn.modules.instancenorm",
)


def probe(model: nn.Module, graph: Graph, drops: AdmissibleDrops, seed: int = 0) -> GraphNetwork:
    """A two-layer GCN that agrees with all measurements of a model.

    The model is run with the outputs of its layers replaced by known values; the input of the next layer, and the
    output, then show the activation: at fixed points, at random ones of every magnitude, and densely over the interval
    bounds of the pre-activations under the drops. Then the model itself must give what the weights give on the graph,
    several times over, without edges, on random admissible drops and on searched ones. A model that differs only
    elsewhere goes unnoticed.
    """
    layers = {name: module for name, module in named_modules(model) if isinstance(module, GCNConv)}
    for name, conv in layers.items():
        check_settings(conv, name, _SETTINGS)
        if not isinstance(conv.lin, Linear):
            raise EncoderError(f"{name}.lin of type {type(conv.lin).__name__}", "it must be the Linear of PyG", LAYERS)
    chance = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[graph.x.device] if graph.x.is_cuda else []):
        with torch.no_grad():
            run = watch(model, graph)
        _check_run(run, graph)
        network = _measured(model, run, graph, chance)
        with torch.no_grad():
            check_finite(network.named_tensors())
            check_output(network, graph, run.output)
            _check_ranges(model, network, graph, drops, chance)
            for view in probed_views(network, graph, drops, chance):
                check_output(network, view, watch(model, view).output)
    return network


# -- activations -----------------------------------------------------------------------------------


def _measured(model: nn.Module, run: WatchedRun, graph: Graph, chance: torch.Generator) -> GraphNetwork:
    """The weights of both layers, and the slopes of what follows each of them."""
    first, second = (_probe_values(layer.weight, chance) for layer in run.layers)
    path = _path_graph(graph, len(first))
    seen = _watched(model, path, (first, second))
    with torch.no_grad():
        again = _watched(model, path, (first, second))
    for one, other in zip(
        (*(layer.x for layer in seen.layers), seen.output),
        (*(layer.x for layer in again.layers), again.output),
        strict=True,
    ):
        if not torch.allclose(one, other, rtol=0, atol=0, equal_nan=True):
            raise EncoderError(
                "two runs of the model on the same input that differ",
                "a model must not be random",
                f"{EVAL}; a functional dropout needs training=self.training",
            )
    below, above = seen.layers
    if not torch.equal(below.x, path.x):
        raise EncoderError(
            f"a first layer ({below.name}) that does not get the features x as they are",
            FORMULA,
            f"Prepare the features before you build the graph. {LAYERS}",
        )
    between, after = f"between {below.name} and {above.name}", f"after {above.name}"
    slope1, slope2 = -_same_shape(first, above.x, between, seen)[0], -_same_shape(second, seen.output, after, seen)[0]
    _check_slope(slope1, first, above.x, between, seen)
    _check_slope(slope2, second, seen.output, after, seen)
    return gcn_network((below.weight, below.bias, slope1), (above.weight, above.bias, slope2), reading="probed")


def _watched(model: nn.Module, path: Graph, values: tuple[Tensor, Tensor]) -> WatchedRun:
    """A run with replaced outputs, which must call the same two layers as on the graph."""
    run = watch(model, path, values)
    _check_run(run, path)
    return run


def _path_graph(like: Graph, nodes: int) -> Graph:
    """A path with a node for each row of probes, and features that any usual preprocessing would change."""
    node = torch.arange(nodes, device=like.x.device)
    edges = torch.stack([node[:-1], node[1:]])
    x = torch.linspace(-2, 3, nodes * like.num_features, dtype=like.x.dtype, device=like.x.device).reshape(nodes, -1)
    return Graph.from_edges(x, torch.cat([edges, edges.flip(0)], dim=1))


def _probe_values(weight: Tensor, chance: torch.Generator) -> Tensor:
    """A row of -1 to read the slope from, then rows that show every fixed probe to every channel, in different orders,
    and random ones."""
    channels, limits = weight.shape[1], torch.finfo(weight.dtype)
    row, channel = torch.arange(len(_PROBES))[:, None], torch.arange(channels)
    fixed = torch.tensor(_PROBES, dtype=torch.float64)[(row + channel) % len(_PROBES)]
    low, high = (
        torch.tensor(end, dtype=torch.float64).log()
        for end in (max(_LEAST, 4 * limits.tiny), min(_MOST, limits.max / 4))
    )
    size = (low + (high - low) * torch.rand(2 * _RANDOM, channels, dtype=torch.float64, generator=chance)).exp()
    size[::2] *= -1
    return torch.cat([fixed.new_full((1, channels), -1.0), fixed, size]).to(weight)


def _check_ranges(
    model: nn.Module, network: GraphNetwork, graph: Graph, drops: AdmissibleDrops, chance: torch.Generator
) -> None:
    """The activations once more, at points all over the range that each channel can take under the drops."""
    weights, exact = (two_layers(each, "probed") for each in (network, network.to(torch.float64)))
    wide = graph.to(dtype=torch.float64)
    problem = ChangeProblem(wide, AdmissibleChanges(drops), torch.arange(graph.num_nodes, device=graph.col.device))
    hood, projected = problem.neighbourhood(torch.float64), problem.projected(exact)
    layer1 = layer1_on_box(exact, projected, hood)
    values = (
        _over(layer1.lower, layer1.upper, weights.w1, chance),
        _over(*layer2_on_box(exact, projected, hood), weights.w2, chance),
    )
    path = _path_graph(graph, len(values[0]))
    seen = _watched(model, path, values)
    below, above = seen.layers
    _check_slope(weights.slope1, values[0], above.x, f"between {below.name} and {above.name}", seen)
    _check_slope(weights.slope2, values[1], seen.output, f"after {above.name}", seen)


def _over(lower: Tensor, upper: Tensor, like: Tensor, chance: torch.Generator) -> Tensor:
    """Points between the least and the largest value of each channel: one at random in each of many equal parts."""
    low, high = lower.amin(dim=0), upper.amax(dim=0)
    share = (
        torch.arange(_DENSE, dtype=torch.float64)[:, None]
        + torch.rand(_DENSE, len(low), dtype=torch.float64, generator=chance)
    ) / _DENSE
    values = torch.cat([low[None], low + (high - low) * share.to(low), high[None]])
    return values.clamp(-torch.finfo(like.dtype).max, torch.finfo(like.dtype).max).to(like)


def _same_shape(p: Tensor, sigma: Tensor, place: str, run: WatchedRun) -> Tensor:
    if sigma.shape != p.shape:
        raise EncoderError(
            f"a tensor of shape {tuple(sigma.shape)} {place}, made of one of shape {tuple(p.shape)}",
            FORMULA,
            f"{run.others()}{LAYERS}",
        )
    return sigma


def _check_slope(slope: Tensor, p: Tensor, sigma: Tensor, place: str, run: WatchedRun) -> None:
    """``sigma`` must be ``p`` where ``p >= 0`` and ``γ p`` elsewhere.

    The tolerance of 16 roundings lets a user write the activation as a sum, such as ``0.6 p + 0.4 |p|``.
    """
    with torch.no_grad():
        gap = (sigma - torch.where(p >= 0, p, slope * p)).abs()
        wrong = ~(gap <= 16 * torch.finfo(p.dtype).eps * (1 + slope.abs()) * p.abs() + torch.finfo(p.dtype).tiny)
        if wrong.any():
            worst = torch.where(wrong, (gap / (1 + p.abs())).nan_to_num(torch.inf), -torch.ones_like(gap)).argmax()
            row, channel = divmod(int(worst), p.shape[1])
            raise EncoderError(
                f"channel {channel} {place} turns {p[row, channel]:g} into {sigma[row, channel]:g} "
                f"(and -1 into {-slope[channel]:g})",
                ONLY,
                f"{run.others()}{LAYERS}",
            )


# -- refusals --------------------------------------------------------------------------------------


def _check_run(run: WatchedRun, graph: Graph) -> None:
    """Raise an error for a run that does not belong to a two-layer GCN; it names the cause, where measurements would
    only give numbers."""
    for name, module in run.called:
        found = f"{name or 'model'} ({type(module).__name__})"
        if module.training and (isinstance(module, nn.RReLU) or (isinstance(module, _DROPOUTS) and module.p > 0)):
            raise EncoderError(f"{found} in training mode", "a model must not be random", EVAL)
        if type(module).__module__.startswith(_NORMS):
            raise EncoderError(f"{found} in the model", f"{FORMULA}, without normalization", LAYERS)
        if isinstance(module, MessagePassing) and not isinstance(module, GCNConv):
            raise EncoderError(
                f"{found} in the model", "GCNConv must be the only message passing of a model that is measured", LAYERS
            )
    names = [layer.name for layer in run.layers]
    if len(names) != 2 or names[0] == names[1]:
        raise EncoderError(
            f"{len(names)} GCNConv call(s) in forward: {', '.join(names) or 'none'}",
            "two different layers must be called once each by a model that is measured",
            LAYERS,
        )
    for layer in run.layers:
        if layer.edge_weight is not None:
            raise EncoderError(f"edge weights passed to {layer.name}", "certgcl certifies unweighted graphs", LAYERS)
    shape = (graph.num_nodes, run.layers[1].weight.shape[1])
    if not isinstance(run.output, Tensor) or run.output.shape != shape:
        found = (
            f"tensor of shape {tuple(run.output.shape)}"
            if isinstance(run.output, Tensor)
            else (type(run.output).__name__)
        )
        raise EncoderError(
            f"a {found} as output",
            f"the model must return a tensor of shape {shape}, as its second layer does",
            f"{run.others()}{LAYERS}",
        )
