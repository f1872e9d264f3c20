"""How far the computed directions of node compactness can be from those of exact arithmetic.

``W^CL`` is a difference of unit vectors. Where these are almost parallel, as in a collapsed encoder, what is left of it
is rounding noise: without its error, noise would be certified.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.rounding import ACTIVATION, MESSAGE, smallest_size
from certgcl.bounds.two_layers import GCNWeights, two_layers
from certgcl.chunks import row_ranges
from certgcl.directions import SMALLEST_NORM, compactness_directions
from certgcl.graph import Graph
from certgcl.models.network import GraphNetwork

_EPS = torch.finfo(torch.float64).eps


class CompactnessDirections(NamedTuple):
    """Computed ``W^CL`` with ``|computed - exact| <= own_i + shared_c`` for every node i and channel c.

    Args:
        embeddings: of the view, ``(N, d)``, float64.
        values: ``(N, d)``, float64.
        own: ``(N,)``.
        shared: ``(d,)``.
    """

    embeddings: Tensor
    values: Tensor
    own: Tensor
    shared: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, network: GraphNetwork, view: Graph) -> "CompactnessDirections":
        """Those of the embeddings on a view, computed in float64."""
        weights = two_layers(network.to(torch.float64), "directions")
        pre_activation = weights.last_pre_activation(view)
        embeddings = weights.activation2(pre_activation)
        nodes, width = embeddings.shape
        errors = _PreActivationErrors.of(weights, view)
        own, shared = embeddings.new_empty(nodes), embeddings.new_zeros(width)
        for part in row_ranges(nodes, width):
            z = embeddings[part]
            error = _through_activation(weights.slope2.abs(), pre_activation[part], z, errors.at(part))
            unit, unit_error = _unit_error(z, error)
            own[part] = unit_error.amax(dim=1) + 8 * _EPS
            # A sum over all nodes, good to N roundings in any order.
            shared += unit_error.sum(dim=0) + (nodes + 8) * _EPS * unit.abs().sum(dim=0)
        directions = compactness_directions(embeddings)
        return cls(embeddings, directions, own, shared / (nodes - 1) + torch.finfo(torch.float64).tiny)


class _PreActivationErrors(NamedTuple):
    """Of layer 2: ``|computed - exact| <= of_node_j of_channel_c + shift_c``."""

    of_node: Tensor  # (N,)
    of_channel: Tensor  # (d,)
    shift: Tensor  # (d,)

    @classmethod
    def of(cls, weights: GCNWeights, view: Graph) -> "_PreActivationErrors":
        """The forward pass over absolute values, with one number a node in the place of each channel's: the largest
        there can be. So it takes no more than products with a vector; float64 leaves room for what it gives away."""
        smallest, (features, hidden) = smallest_size(torch.float64), weights.w1.shape
        terms = features + hidden + 2 * (int(view.degree.max()) + MESSAGE + ACTIVATION)
        rounding = 2 * terms * _EPS  # four times what is needed: sizes are rounded too
        w1 = weights.w1.abs()
        largest = view.project(w1.amax(dim=1, keepdim=True) + smallest, absolute=True)
        largest = view.propagate(largest + smallest * (1 + w1.sum(dim=0).max()))
        largest = (largest + weights.b1.abs().max() + smallest) * weights.slope1.abs().max().clamp(min=1)
        return cls(rounding * view.propagate(largest + smallest)[:, 0],
                   weights.w2.abs().sum(dim=0) + smallest * hidden, rounding * (weights.b2.abs() + smallest))

    def at(self, nodes: slice) -> Tensor:
        return self.of_node[nodes, None] * self.of_channel + self.shift


def _through_activation(below: Tensor, p: Tensor, z: Tensor, error: Tensor) -> Tensor:
    """The error of ``z = σ(p)`` for an error of p: times the steepest slope in reach, which left of zero is ``below``;
    and two roundings of z. A unit that a ReLU keeps at zero has none."""
    steepest = torch.where(p + error < 0, below, torch.where(p > error, 1.0, below.clamp(min=1)))
    return steepest * error + 2 * _EPS * z.abs()


def _unit_error(z: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """``z̄ = z / m`` with ``m = max(‖z‖, 1e-12)``, and its error.

    With ``z* = z - e`` exact, ``z̄ - z̄* = z̄ (m* - m) / m* + e / m*``, and ``|m - m*| <= ‖e‖``. Both are unit vectors or
    shorter, hence also at most 1 + |z̄|.
    """
    rounding = (z.shape[1] + 8) * _EPS
    norm = z.norm(dim=1, keepdim=True).clamp(min=SMALLEST_NORM)
    unit, wide = z / norm, error.norm(dim=1, keepdim=True) * (1 + rounding)
    least = (norm * (1 - rounding) - wide).clamp(min=SMALLEST_NORM)
    moved = (unit.abs() * wide + error) / least
    return unit, moved.minimum(1 + unit.abs()) + rounding * unit.abs()
