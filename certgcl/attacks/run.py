"""A model of any kind, called as it is, as a function of the edges that are present."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

RULE = "a model is called as model(x, edge_index) and gives an embedding of every node"


@dataclass(frozen=True, eq=False)
class ModelRun:
    """Runs a model on a graph without some edges. The module is called as it is, in its own precision; nothing in it is
    replaced.

    Args:
        model: a module, any other function of features and edges, or a network, which is run in float64.
    """

    model: Callable[[Tensor, Tensor], Any] | GraphNetwork
    graph: Graph

    @classmethod
    def of(cls, model: Any, graph: Graph) -> "ModelRun":
        inner = (
            model if isinstance(model, nn.Module) or not hasattr(model, "fitted_encoder") else (model.fitted_encoder())
        )
        if isinstance(inner, GraphNetwork):
            inner = inner.to(torch.float64)
        elif not callable(inner):
            raise EncoderError(f"a model of type {type(model).__name__}", RULE, "Pass a module, or a function")
        return cls(inner, graph)

    def __str__(self) -> str:
        name = (
            type(self.model).__name__
            if isinstance(self.model, nn.Module)
            else (getattr(self.model, "__name__", type(self.model).__name__))
        )
        return f"{name} in {str(torch.float64 if isinstance(self.model, GraphNetwork) else self._x.dtype)[6:]}"

    @cached_property
    def _x(self) -> Tensor:
        """The features in the precision of the model."""
        parameters = self.model.parameters() if isinstance(self.model, nn.Module) else ()
        dtype = next((each.dtype for each in parameters if each.is_floating_point()), self.graph.x.dtype)
        return self.graph.x.to(dtype=dtype)

    @torch.no_grad()
    def embed(self, dropped: Tensor, seed: int | None = None) -> Tensor:
        """The embeddings without some edges, given by one of the slots of each; ``(N, d)`` in float64.

        Args:
            seed: of the random numbers that the model may draw; those of every call are the same by default.
        """
        view = self.without(dropped)
        if isinstance(self.model, GraphNetwork):
            return self.model.embed(view)
        try:
            # Random numbers that a model draws must not decide what is tried next. x is copied, as forward may work in
            # place.
            with torch.random.fork_rng(devices=[self._x.device] if self._x.is_cuda else []):
                if seed is not None:
                    torch.manual_seed(seed)
                output = self.model(self._x.clone(), view.edge_index)
        except Exception as error:
            raise EncoderError(
                f"{self} failed on a view ({view}) with {type(error).__name__}: {error}",
                RULE,
                "Check what it does with the edges",
            ) from error
        if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != view.num_nodes:
            shape = f" of shape {tuple(output.shape)}" if isinstance(output, Tensor) else ""
            raise EncoderError(
                f"a {type(output).__name__}{shape} as output on a view ({view})",
                RULE,
                "Wrap it in a module that returns the embeddings alone",
            )
        return output.double()

    def without(self, dropped: Tensor) -> Graph:
        graph = self.graph
        gone = torch.zeros_like(graph.col, dtype=torch.bool)
        gone[dropped] = gone[graph.reverse[dropped]] = True
        pointer = torch.cat([graph.rowptr.new_zeros(1), (~gone).cumsum(0)])
        return graph.with_edges(pointer[graph.rowptr], graph.col[~gone])

    def checked(self) -> Tensor:
        """The embeddings on the graph itself, which must be finite and the same again."""
        nothing = self.graph.col[:0]
        clean, again = self.embed(nothing), self.embed(nothing, seed=1)
        if not torch.isfinite(clean).all():
            raise EncoderError(f"embeddings of {self} that are not finite", RULE, "Check whether training diverged")
        if not torch.allclose(clean, again, rtol=1e-3, atol=1e-6):
            raise EncoderError(
                f"{self} whose embeddings differ from call to call",
                "drops can be compared only if nothing else changes",
                "Call model.eval() first",
            )
        return clean
