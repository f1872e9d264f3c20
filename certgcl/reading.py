"""Reading a two-layer GCN out of a model by watching it run, whatever code its activations are written in."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import GCNConv, MessagePassing

from certgcl._watch import Run, watch
from certgcl.encoder import GCNWeights
from certgcl.errors import EncoderError
from certgcl.graph import Graph, GraphLike

# What stands in for the output of a layer. Large values show a clipped activation (ReLU6), small ones a threshold.
_PROBES = (-16384.0, -64.0, -3.0, -1.0, -0.5, -(2.0**-10), 0.0, 2.0**-10, 0.5, 1.0, 3.0, 64.0, 16384.0)

_SETTINGS: dict[str, tuple[Any, ...]] = {
    "improved": (False,), "normalize": (True,), "add_self_loops": (True,), "cached": (False,),
    "aggr": ("add", "sum"), "flow": ("source_to_target",),
}
_DROPOUTS = (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout)
_NORMS = ("torch_geometric.nn.norm", "torch.nn.modules.batchnorm", "torch.nn.modules.normalization",
          "torch.nn.modules.instancenorm")

_FORMULA = "the model must compute σ2(Â σ1(Â X W1 + b1) W2 + b2)"
_EVAL = "Call model.eval() first"
_LAYERS = ("If two GCNConv and two-piece linear activations are all you need of the model, pass "
           "certgcl.GCNEncoder.from_layers(conv1, conv2, activation, out_activation)")


class Fitted(Protocol):
    """A trained method, which has its encoder inside."""

    def fitted_encoder(self) -> nn.Module: ...


ModelLike: TypeAlias = nn.Module | GCNWeights | Fitted
"""What can be read as a two-layer GCN."""


def read_encoder(model: ModelLike, graph: GraphLike) -> GCNWeights:
    """The weights and activation slopes of a two-layer GCN, checked to reproduce ``model(x, edge_index)`` on ``graph``.

    The model is run with the outputs of its layers replaced by known values; what arrives at the next layer, and at the
    output, is the activation. So it does not matter whether that is a module or a function, nor what else the model
    holds but does not call (a projection head). The model stays as it was: mode, buffers, gradients and random state.

    Args:
        model: a trained method (``GRACE``, ...), a ``GCNEncoder``, a ``torch_geometric.nn.GCN`` with two layers, any
            module that calls exactly two ``GCNConv``, or ``GCNWeights``, which are returned as they are.
        graph: where the check is made; on the model's device, in any dtype.

    Returns:
        The weights in the model's dtype, with their autograd history.

    Raises:
        EncoderError: the model is no two-layer GCN with two-piece linear activations, and why.
    """
    graph = Graph.of(graph)
    if isinstance(model, GCNWeights):
        _check_fit({model.w1.shape[0]}, model.w1.device, graph)
        _check_finite(model.named_tensors())
        return model
    module: Any = model
    if hasattr(model, "fitted_encoder") and not isinstance(model, nn.Module):
        module = model.fitted_encoder()
    parameter = _check_module(module, graph)
    graph = graph.to(dtype=parameter.dtype)
    with torch.random.fork_rng(devices=[parameter.device] if parameter.is_cuda else []):
        with torch.no_grad():
            run = watch(module, graph)
        _check_run(run, graph)
        # A second graph, so that a model which stores its edges, or caches what it made of them, is noticed.
        path = _path_graph(graph)
        weights = _probe(module, run, path)
        with torch.no_grad():
            _check_output(weights, path, watch(module, path).output)
            _check_output(weights, graph, run.output)
    return weights


# -- measuring the activations ---------------------------------------------------------------------


def _path_graph(like: Graph) -> Graph:
    """A path with a node for each row of probes, and features that no usual preprocessing leaves alone."""
    n, device = len(_PROBES) + 1, like.x.device
    node = torch.arange(n, device=device)
    edges = torch.stack([node[:-1], node[1:]])
    x = torch.linspace(-2, 3, n * like.num_features, dtype=like.x.dtype, device=device).reshape(n, -1)
    return Graph.from_edges(x, torch.cat([edges, edges.flip(0)], dim=1))


def _probe(model: nn.Module, run: Run, path: Graph) -> GCNWeights:
    """The weights of both layers, and the slopes of what follows each of them."""
    values = (_probe_values(run.layers[0].weight), _probe_values(run.layers[1].weight))
    seen = watch(model, path, values)
    first, second = seen.layers
    with torch.no_grad():
        again = watch(model, path, values)
    for one, other in ((first.x, again.layers[0].x), (second.x, again.layers[1].x), (seen.output, again.output)):
        if not torch.allclose(one, other, rtol=0, atol=0, equal_nan=True):
            raise EncoderError("two runs of the model on the same input that differ", "a model must not be random",
                               f"{_EVAL}; a functional dropout needs training=self.training")
    if not torch.equal(first.x, path.x):
        raise EncoderError(f"a first layer ({first.name}) that does not get the features x as they are", _FORMULA,
                           f"Prepare the features before you build the graph. {_LAYERS}")
    slope1 = _slope(values[0], second.x, f"between {first.name} and {second.name}", seen)
    slope2 = _slope(values[1], seen.output, f"after {second.name}", seen)
    return GCNWeights(first.weight, first.bias, slope1, second.weight, second.bias, slope2)


def _probe_values(weight: Tensor) -> Tensor:
    """A row of -1 to read the slope from, then rows that show every probe to every channel, in different orders."""
    row, channel = torch.arange(len(_PROBES))[:, None], torch.arange(weight.shape[1])
    values = torch.tensor(_PROBES)[(row + channel) % len(_PROBES)]
    return torch.cat([values.new_full((1, weight.shape[1]), -1.0), values]).to(weight)


def _slope(p: Tensor, sigma: Tensor, place: str, run: Run) -> Tensor:
    """γ per channel, if ``sigma`` is ``p`` where ``p >= 0`` and ``γ p`` elsewhere; with the history of a PReLU's slope.

    The tolerance of 16 roundings lets a user write the activation as a sum, such as ``0.6 p + 0.4 |p|``.
    """
    if sigma.shape != p.shape:
        raise EncoderError(f"a tensor of shape {tuple(sigma.shape)} {place}, made of one of shape {tuple(p.shape)}",
                           _FORMULA, f"{run.others()}{_LAYERS}")
    slope = -sigma[0]
    with torch.no_grad():
        gap = (sigma - torch.where(p >= 0, p, slope * p)).abs()
        wrong = ~(gap <= 16 * torch.finfo(p.dtype).eps * (1 + slope.abs()) * p.abs())
        if wrong.any():
            worst = torch.where(wrong, (gap / (1 + p.abs())).nan_to_num(torch.inf), -torch.ones_like(gap)).argmax()
            row, channel = divmod(int(worst), p.shape[1])
            raise EncoderError(
                f"channel {channel} {place} turns {p[row, channel]:g} into {sigma[row, channel]:g} "
                f"(and -1 into {-slope[channel]:g})",
                "only an activation σ(p) = p for p >= 0 and γ p below may follow a layer: no other activation, "
                "normalization, residual connection, jumping knowledge or head",
                f"{run.others()}{_LAYERS}",
            )
    return slope


# -- refusals --------------------------------------------------------------------------------------


def _check_module(model: Any, graph: Graph) -> Tensor:
    """A parameter of the model (for its dtype and device), after all that can be said without running it."""
    if not isinstance(model, nn.Module):
        raise EncoderError(f"a model of type {type(model).__name__}", "it must be a torch.nn.Module",
                           "Pass a certgcl.GCNEncoder, a torch_geometric.nn.GCN or your own module")
    convs = {name: module for name, module in model.named_modules() if isinstance(module, GCNConv)}
    if not convs:
        others = sorted({type(module).__name__ for module in model.modules() if isinstance(module, MessagePassing)})
        raise EncoderError(f"a {type(model).__name__} with {', '.join(others) or 'no message passing'} and no GCNConv",
                           "a model needs two torch_geometric.nn.GCNConv layers", "Build it with certgcl.GCNEncoder")
    for name, conv in convs.items():
        for setting, allowed in _SETTINGS.items():
            if getattr(conv, setting) not in allowed:
                raise EncoderError(f"{setting}={getattr(conv, setting)!r} in {name or type(model).__name__}",
                                   f"layers need {setting}={allowed[0]!r}", "Build the GCNConv with its defaults")
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise EncoderError(f"{name} without a shape yet", "parameters must be initialized",
                               "Run the model once on your data")
    parameter = next(parameter for conv in convs.values() for parameter in conv.parameters())
    _check_fit({conv.lin.in_channels for conv in convs.values()}, parameter.device, graph)
    _check_finite(model.named_parameters())
    return parameter


def _check_fit(widths: set[int], device: torch.device, graph: Graph) -> None:
    if device != graph.x.device:
        raise EncoderError(f"a model on {device} and a graph on {graph.x.device}", "both must be on one device",
                           f"Move one, for example with graph.to({str(device)!r})")
    if graph.num_features not in widths:
        raise EncoderError(f"{graph.num_features} features per node",
                           f"the model's layers take {' or '.join(map(str, sorted(widths)))}",
                           "Pass the graph the model was made for")


def _check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    for name, tensor in tensors:
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise EncoderError(f"{bad} NaN or infinite value(s) in {name}", "weights must be finite",
                               "Look for a diverged training run")


def _check_run(run: Run, graph: Graph) -> None:
    """Refuse what the run shows to be no two-layer GCN, by name where the measurement would only show numbers."""
    for name, module in run.called:
        found = f"{name or 'model'} ({type(module).__name__})"
        if module.training and (isinstance(module, nn.RReLU) or (isinstance(module, _DROPOUTS) and module.p > 0)):
            raise EncoderError(f"{found} in training mode", "a model must not be random", _EVAL)
        if type(module).__module__.startswith(_NORMS):
            raise EncoderError(f"{found} in the model", f"{_FORMULA}, without normalization", _LAYERS)
        if isinstance(module, MessagePassing) and not isinstance(module, GCNConv):
            raise EncoderError(f"{found} in the model", "GCNConv must be its only message passing", _LAYERS)
    names = [layer.name for layer in run.layers]
    if len(names) != 2 or names[0] == names[1]:
        raise EncoderError(f"{len(names)} GCNConv call(s) in forward: {', '.join(names) or 'none'}",
                           "two different layers must be called once each", _LAYERS)
    for layer in run.layers:
        if layer.edge_weight is not None:
            raise EncoderError(f"edge weights passed to {layer.name}", "certgcl certifies unweighted graphs", _LAYERS)
    shape = (graph.num_nodes, run.layers[1].weight.shape[1])
    if not isinstance(run.output, Tensor) or run.output.shape != shape:
        found = f"tensor of shape {tuple(run.output.shape)}" if isinstance(run.output, Tensor) else (
            type(run.output).__name__)
        raise EncoderError(f"a {found} as output", f"the model must return a tensor of shape {shape}, as its second "
                           "layer does", f"{run.others()}{_LAYERS}")


def _check_output(weights: GCNWeights, graph: Graph, output: Tensor) -> None:
    """The weights must give the model's own ``output`` on ``graph``, but for rounding.

    Rounding is measured against the same formula with absolute values, entry by entry: the size of what is summed,
    which cancellation cannot hide. A sum of n terms in random order errs by about √n eps of it, so eps^0.7 (1.4e-5 in
    float32, 1.1e-11 in float64) leaves room for sums of 10^4 terms and still shows any change of the formula.
    """
    tolerance = torch.finfo(output.dtype).eps ** 0.7
    dtype = torch.promote_types(output.dtype, torch.float32)  # sparse products exist in no smaller one
    weights, output = weights.to(dtype), output.to(dtype)
    z = weights.embed(graph)
    gain1, gain2 = weights.slope1.abs().clamp(min=1), weights.slope2.abs().clamp(min=1)
    size = GCNWeights(weights.w1.abs(), weights.b1.abs(), gain1, gain1[:, None] * weights.w2.abs() * gain2,
                      weights.b2.abs() * gain2, gain2).embed(replace(graph, x=graph.x.abs()))
    if not bool(torch.isfinite(output).all() & torch.isfinite(size).all()):
        raise EncoderError(f"embeddings that overflow {output.dtype}", "the model's output must be finite",
                           "Look for weights or features of enormous size")
    wrong = ~((output - z).abs() <= tolerance * size + torch.finfo(dtype).tiny)
    if wrong.any():
        node, channel = wrong.nonzero()[0].tolist()
        raise EncoderError(
            f"{int(wrong.sum())} of {wrong.numel()} embedding values on {graph} that the two layers do not give, the "
            f"first at node {node}, channel {channel}: {output[node, channel]:g} instead of {z[node, channel]:g}",
            _FORMULA, f"Look for changed edges, stored results and overridden layers. {_LAYERS}",
        )
