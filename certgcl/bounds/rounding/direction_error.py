"""How far the computed directions of node compactness can be from those of exact arithmetic.

``W^CL`` is a difference of unit vectors. If these are almost parallel, as in a collapsed encoder, the difference is
mostly rounding noise: without its error, noise would be certified.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.rounding.forward_error import longest_sums, smallest_size
from certgcl.certify.directions import SMALLEST_NORM, compactness_directions
from certgcl.graphs.graph import Graph
from certgcl.graphs.row_chunks import row_ranges
from certgcl.models.layer import Layer, Term
from certgcl.models.mixing import Mixing, features_times
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear

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
        """The directions from the embeddings on a view, computed in float64."""
        return cls.of_embeddings(*embeddings_with_error(network, view))

    @classmethod
    def of_embeddings(cls, embeddings: Tensor, error: Tensor) -> "CompactnessDirections":
        """The directions from embeddings, each with the given largest error in every channel, ``(N, d)`` and
        ``(N,)``."""
        own, shared = unit_errors(embeddings, error, len(embeddings))
        return cls(embeddings, compactness_directions(embeddings), own, shared_error(shared, len(embeddings)))


@torch.no_grad()
def embeddings_with_error(network: GraphNetwork, view: Graph) -> tuple[Tensor, Tensor]:
    """The embeddings on a view, computed in float64, ``(N, d)``, and how far the channels of each can be off,
    ``(N,)``."""
    network = network.to(torch.float64)
    for term in network.layers[0].terms:
        if term.source == 0 and term.weight.dim() == 2:
            view.features.remember(term.weight)  # bounds of the same network use these too
    read = {
        number: (*values, *errors)
        for number, (values, errors) in enumerate(zip(network.forward(view), _errors(network, view), strict=True), 1)
        if number in network.readout
    }
    parts = [read[number][1] for number in network.readout]
    embeddings = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    error = torch.stack([read[number][3] for number in network.readout]).amax(dim=0)
    dead = (torch.linalg.vector_norm(embeddings, dim=1) == 0).nonzero()[:, 0]
    for number, (p, _, p_error, _) in read.items():
        dead = dead[_stays_zero(network.layers[number - 1], p[dead], p_error[dead])]
    error[dead] = 0
    return embeddings, error


def _errors(network: GraphNetwork, view: Graph) -> list[tuple[Tensor, Tensor]]:
    """Bounds on the errors of p and h of each layer at each node, ``(N,)``.

    The forward pass over absolute values, with one number per node instead of one per channel: the largest possible. So
    it only takes products with a vector; float64 leaves room for the looseness.
    """
    mixing, smallest = Mixing(view, torch.float64), smallest_size(torch.float64)
    sizes: list[Tensor] = []
    errors: list[tuple[Tensor, Tensor]] = []
    rounding = 2 * longest_sums(network, int(view.degree.max())) * _EPS  # four times what is needed: sizes are rounded
    for layer in network.layers:
        size = layer.bias.abs().max() + smallest
        for term in layer.terms:
            size = size + mixing(term.aggregation, _product(term, view, sizes, smallest))
        before = rounding * size[:, 0]
        if layer.activation is not None:
            gain, constant = float(torch.as_tensor(layer.activation.gain()).max()), layer.activation.at_zero()
            if not isinstance(layer.activation, TwoPieceLinear):  # as in forward_error; a jump counts as a rounding
                constant = 2 * constant + gain + layer.activation.jump / rounding
            size = gain * size + constant
        sizes.append(size)
        errors.append((before, rounding * size[:, 0]))
    return errors


def _product(term: Term, view: Graph, sizes: list[Tensor], smallest: float) -> Tensor:
    """At least the sum of all ``|terms|`` of a channel of ``W' h_j``, ``(N, 1)``."""
    weight = term.weight.abs()
    inputs, sums = (weight.amax(dim=1), weight.sum(dim=0)) if weight.dim() == 2 else (weight, weight)
    if term.source == 0:
        found = features_times(view, inputs[:, None] + smallest, absolute=True)
    else:
        found = sizes[term.source - 1] * (sums.max() + smallest * term.inputs)
    return found + smallest * (1 + sums.max())


def _stays_zero(layer: Layer, p: Tensor, error: Tensor) -> Tensor:
    """The rows at which a layer certainly gives zero, ``(rows,)``: a unit that a ReLU keeps there has no error, so that
    an embedding of zeros does not blur the mean of the others."""
    if not isinstance(layer.activation, TwoPieceLinear):
        return torch.zeros_like(error, dtype=torch.bool)
    low, high = layer.activation.interval(p - error[:, None], p + error[:, None])
    return ((low == 0) & (high == 0)).all(dim=1)


def unit_errors(z: Tensor, error: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """The errors of ``W^CL`` for some of the N embeddings, with an error of at most ``error_j`` in every channel: of
    their own, ``(rows,)``, and what they add to the error of the sum over all nodes, ``(d,)``, for
    :func:`shared_error`; (R9) of ``docs/theory.md``.

    With ``z* = z - e`` exact, ``m = max(‖z‖, 1e-12)`` and ``z̄ = z / m``, ``z̄ - z̄* = z̄ (m* - m) / m* + e / m*``, and
    ``|m - m*| <= ‖e‖``. So it is at most ``a |z̄| + b`` with ``a = ‖e‖ / m*`` and ``b = max |e| / m*``; and at most
    ``|z̄| + 1``, as both are unit vectors or shorter.
    """
    rows, width = z.shape
    rounding, norm = (width + 8) * _EPS, torch.linalg.vector_norm(z, dim=1).clamp(min=SMALLEST_NORM)
    wide = error * width**0.5 * (1 + rounding)
    least = (norm * (1 - rounding) - wide).clamp(min=SMALLEST_NORM)
    known = (wide < least) & norm.isfinite()  # squares overflow before embeddings do
    a, b = torch.where(known, wide / least, 1.0) + rounding, torch.where(known, error / least, 1.0)
    b[error == 0] = 0
    shared = z.new_zeros(width)
    own = torch.empty_like(norm)
    for part in row_ranges(rows, width):
        unit = z[part].abs()
        own[part] = a[part] * (unit.amax(dim=1) / norm[part]) + b[part] + 8 * _EPS
        # A sum over all nodes, good to N roundings in any order.
        shared += unit.T @ ((a[part] + (nodes + 8) * _EPS) / norm[part]) + b[part].sum()
    return own, shared


def shared_error(added: Tensor, nodes: int) -> Tensor:
    """The error of the mean of N - 1 unit embeddings, of what all nodes add to it."""
    return added / (nodes - 1) + torch.finfo(torch.float64).tiny
