"""Up to which directions no number in a bound can overflow.

Where one does, a minimum may pass over an infinite value that should have been finite, and a sum that has overflowed
keeps its sign whatever follows. So the slack is infinite there.
"""

import torch

from certgcl.bounds.rounding.forward_error import ForwardError
from certgcl.models.network import GraphNetwork


def most_direction(network: GraphNetwork, forward: ForwardError, factor: float, dtype: torch.dtype) -> float:
    """The largest ``|w_c|`` for which all numbers in a bound stay below half of the largest of its format: zero, if
    this already fails for ranges, whose functionals are ``±e_c``.

    Numbers in a bound are up to ``factor`` times the sizes of their terms. Values of neighbours are added up
    before they are scaled; and entries of functionals are products of weights alone.

    Args:
        factor: that of (R5).
    """
    numbers = factor * max(1.0, _before_scaling(network, forward) * forward.everything, _functionals(network, forward))
    most = torch.finfo(dtype).max / 2 / numbers if numbers < torch.inf else 0.0
    return most if most >= 1 else 0.0


def _before_scaling(network: GraphNetwork, forward: ForwardError) -> float:
    """How much larger numbers are before they are multiplied by the scales of all layers. Scales are monotone from one
    neighbour on."""
    ends = torch.tensor([1.0, max(1, forward.field.most_edges)], dtype=torch.float64)
    found = 1.0
    for layer in network.layers:
        kinds = {term.aggregation for term in layer.terms if term.aggregation.mixes}
        found *= max([1.0, *(1 / float(kind.out(ends).min() * kind.into(ends).min()) for kind in kinds)])
    return found


def _functionals(network: GraphNetwork, forward: ForwardError) -> float:
    """An upper bound of every entry of the functionals that begin with entries of at most one, at any layer, on their
    way down to the first one; and to the features, if these can change."""
    sizes = [1.0] * (len(network.layers) + 1)
    for number in range(len(network.layers), 0, -1):
        layer = network.layers[number - 1]
        if layer.activation is not None:
            sizes[number] *= float(torch.as_tensor(layer.activation.gain()).max())
        for term in layer.terms:
            if term.source or forward.features is not None:
                weight = term.weight.double().abs()
                largest = float((weight.sum(dim=1) if weight.dim() == 2 else weight).max())
                own = forward.field.largest_sum(term.aggregation, term.source, number)
                sizes[term.source] += max(1.0, own) * largest * sizes[number]
    return max(sizes)
