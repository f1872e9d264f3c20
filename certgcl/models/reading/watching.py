"""Runs a model once and records the inputs of its GCN layers, without changing the model."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from certgcl.graphs.graph import Graph
from certgcl.models.reading.checks import output_of


@dataclass(frozen=True)
class WatchedConvolution:
    """One call of a ``GCNConv``: the input it got and the parameters it had."""

    name: str
    x: Tensor
    edge_weight: Tensor | None
    weight: Tensor  # (inputs, outputs)
    bias: Tensor


@dataclass(frozen=True)
class WatchedRun:
    """The modules a model called, in the order they finished; among them its GCN layers; and what it returned."""

    called: list[tuple[str, nn.Module]]
    layers: list[WatchedConvolution]
    output: Any

    def others(self) -> str:
        """A sentence about the innermost modules other than the layers, which is where to look for the unreadable
        part."""
        inside = tuple(f"{layer.name}." for layer in self.layers)
        names = [
            f"{name} ({type(module).__name__})"
            for name, module in self.called
            if name
            and not name.startswith(inside)
            and not list(module.children())
            and not isinstance(module, (GCNConv, nn.Identity))
        ]
        return f"Apart from its layers the model calls {', '.join(names)}. " if names else ""


def watch(model: nn.Module, graph: Graph, replacements: tuple[Tensor, ...] = ()) -> WatchedRun:
    """Run ``model`` on ``graph``; the k-th layer called returns ``replacements[k]`` if there are any.

    Hooks are removed even on error.
    """
    run = WatchedRun([], [], None)

    def note(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], _: Any) -> Tensor | None:
        run.called.append((name, module))
        if not isinstance(module, GCNConv):
            return None
        given = dict(zip(("x", "edge_index", "edge_weight"), args, strict=False)) | kwargs
        # Accessed here and not after the run, since a parametrized weight may change at every access.
        weight = module.lin.weight.T
        bias = weight.new_zeros(weight.shape[1]) if module.bias is None else module.bias
        run.layers.append(WatchedConvolution(name, given["x"], given.get("edge_weight"), weight, bias))
        # Copies, because later steps may work in place.
        return replacements[len(run.layers) - 1].clone() if replacements else None

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(note, name), with_kwargs=True))
        return replace(run, output=output_of(model, graph))
