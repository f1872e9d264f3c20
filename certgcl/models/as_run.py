"""How a model runs: the module itself in its own precision, or its network if there is no module."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike


@dataclass(frozen=True, eq=False)
class Runner:
    """Runs a model on views of one graph, so that one need not trust the network that was read from it.

    The module is called as it is: its mode, hooks and state are the user's, and nothing is replaced or restored.

    Args:
        graph: whose views it is run on; they have its features, or others of the same shape.
        network: the network that was read from the model.
        module: the model, or None if there is only the network.
    """

    graph: Graph
    network: GraphNetwork
    module: nn.Module | None

    @classmethod
    def of(cls, model: ModelLike, network: GraphNetwork, graph: Graph) -> "Runner":
        run = model if isinstance(model, nn.Module | GraphNetwork) else model.fitted_encoder()
        if isinstance(run, GraphNetwork):
            return cls(graph, network.to(torch.float64), None)
        return cls(graph, network, run)

    def __str__(self) -> str:
        if self.module is None:
            return "the weights, in float64"
        return f"the module itself, a {type(self.module).__name__} in {str(self._x.dtype).removeprefix('torch.')}"

    @cached_property
    def _x(self) -> Tensor:
        """The features in the precision of the model."""
        return self.graph.x.to(dtype=self.network.precision)

    @torch.no_grad()
    def embed(self, view: Graph) -> Tensor:
        """The embeddings on a view, ``(N, d)`` in float64; a failure of the model there raises an ``EncoderError``."""
        if self.module is None:
            return self.network.embed(view)
        rule = "it must give embeddings on every admissible view"
        remedy = "No certificate can be issued for this model; check what its forward does with the edges"
        try:
            # Random numbers that a model draws, or seeds, must not decide which views come next. x is copied, as
            # forward may work in place.
            with torch.random.fork_rng(devices=[self._x.device] if self._x.is_cuda else []):
                x = self._x if view.x is self.graph.x else view.x.to(dtype=self.network.precision)
                output = self.module(x.clone(), view.edge_index)
        except Exception as error:
            raise EncoderError(
                f"{type(self.module).__name__}.forward failed on a view ({view}) with {type(error).__name__}: {error}",
                rule,
                remedy,
            ) from error
        shape = (view.num_nodes, self.network.width)
        if not isinstance(output, Tensor) or output.shape != shape:
            found = (
                f"a tensor of shape {tuple(output.shape)}"
                if isinstance(output, Tensor)
                else (f"a {type(output).__name__}")
            )
            raise EncoderError(f"{found} on a view ({view}), where {shape} was expected", rule, remedy)
        return output.double()
