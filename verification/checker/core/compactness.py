"""Node compactness: ``w_i = W^CL_i``, from a fixed view; and Theorem C, where both views are free.

With ``m = max(‖z‖, 1e-12)`` and ``z̄ = z / m``, ``W^CL_i = z̄_i - mean_{j≠i} z̄_j``. For ranges of z, channel by channel,
``z_c / max(√(z_c² + R), 1e-12)`` never falls with z_c, and R, the squares of the other channels, only brings it closer
to zero: a range of z̄.

**Theorem C** is about ``W^CL_i(S2) · z_i(S1)`` for all pairs of admissible changes. For a node and any vector u let
``a = u · z``, ``p = z - a u`` and ``n = ‖u‖²``, so that ``z̄ = c u + q`` with ``c = a / m`` and ``q = p / m``. As
``u · p = (1 - n) a``,

    ‖z‖²  =  (2 - n) a² + ‖p‖²,        z̄(S2) · z(S1)  =  (2 - n) c(S2) a(S1) + q(S2) · p(S1).                        (3)

Let ``a >= α`` and ``‖p‖ <= P`` for all changes, which are bounds of functionals in one view. Always ``|c| <= ‖u‖`` and
``m >= a / ‖u‖``. If ``α > 1e-12 ‖u‖`` and n < 2, then ``m = ‖z‖``, and by the first half of (3)

    c >= 1 / √(2 - n + P² / α²),       ‖q‖ <= 1 / √(1 + (2 - n) α² / P²).

So there are two ranges of z̄, and both hold. They give ranges of ``D_i = - mean_{j≠i} z̄_j``, in each channel and along
any vector v, and

    W^CL_i(S2) · z_i(S1)  =  z̄_i(S2) · z_i(S1) + D_i(S2) · z_i(S1).

*Lines.* For ``w`` and ``z`` in ranges and any slope s, ``w · z >= s · z + Σ_c min (w_c - s_c) z_c``, least at ends of
both: a line below each of the two products. Each has a second one. If α is as above, the first product is at least
``(2 - n) c u · z_i`` with the least c, plus the least ``q · p``, by its ranges or as ``- ‖q‖ ‖p‖``. For any number β,
the second is ``β (v · D_i) + D_i · (z_i - β v)``, with a line in ``z_i - β v``.

For each pair of these, ``s · z_i(S1)`` plus a constant is below: what is left is a question about one view. ∎
"""

from collections.abc import Iterator
from itertools import product as product_of

import numpy as np

from ..choices import Choices
from .arithmetic import ETA, Array, Boxes, U, down, gamma, plus, point, sum_below, times, up
from .cases import Bounds
from .changes import Changes
from .network import Graph, Network, embed
from .views import Views

SMALLEST_NORM = 1e-12  # what shorter rows are divided by
MOST = 1e300  # sums above it may have overflowed
TOGETHER = 64  # nodes that share the bounds of the nodes around them


def compactness(network: Network, graph: Graph) -> Boxes:
    """``z̄_i - mean_{j≠i} z̄_j`` on a graph as it is."""
    views = normalised(_embeddings(network, graph))
    low, negative = down(views + minus_mean(views))
    return Boxes.between(low, -negative)


def _embeddings(network: Network, graph: Graph) -> Array:
    found = embed(network, graph)
    return np.concatenate([found[number].ranges() for number in network.readout], axis=2)


def normalised(ranges: Array, shortest: Array | None = None) -> Array:
    """Ranges of z̄, for ranges of z and norms that are no shorter, ``(N,)``."""
    near, far = nearest(ranges), np.abs(ranges).max(axis=0)
    width = far.shape[1]
    others, step, tiny = 1 - np.eye(width), 4 * gamma(width + 2), 4 * width * ETA
    most = up(up(up(far * far) @ others * (1 + step)) + tiny)
    least = _finite(down(down(_finite(down(near * near)) @ others * (1 - step)) - tiny))
    long = np.maximum(up(np.sqrt(up(up(ranges * ranges) + most))), SMALLEST_NORM)
    short = down(np.sqrt(_finite(down(_finite(down(ranges * ranges)) + least))))
    short = np.maximum(short, SMALLEST_NORM if shortest is None else shortest[:, None])
    return np.maximum(down(ranges / np.where(ranges >= 0, long, short)), -1.0)


def nearest(ranges: Array) -> Array:
    """The least absolute values."""
    return np.where((ranges <= 0).all(axis=0), 0.0, np.abs(ranges).min(axis=0))


def _finite(values: Array) -> Array:
    """Values that are below others, none of which is negative: zero where an overflow may have put them above."""
    return np.where(values < MOST, np.maximum(values, 0), 0.0)


def minus_mean(ranges: Array) -> Array:
    """Ranges of ``- mean_{j≠i} v_j`` for every i, from those of all v, ``(2, N, ...)``."""
    negative = ranges[::-1]
    found: Array = down(down(sum_below(negative, axis=1)[:, None] - negative) / (negative.shape[1] - 1))
    return found


def line(w: Array, z: Array) -> tuple[Array, Array]:
    """A slope and a constant below ``w · z`` for ranges of both: chords of the least over w, which is concave in z."""
    low, high = np.minimum(z[0], 0), np.maximum(-z[1], 0)
    share = np.where(high > low, -low / np.where(high > low, high - low, 1), 0.0)
    slope = w[0] + share * (-w[1] - w[0])
    return slope, sum_below(times(down(w - point(slope)), z)[0])


class Pairs:
    """Ranges of all embeddings and of their directions in any view; and the questions about one view that are left.

    Args:
        changes: those of each of the two views.
        choices: for the ranges.
    """

    def __init__(self, network: Network, changes: Changes, choices: Choices) -> None:
        clean = _embeddings(network, changes.graph)[0]
        self.unit = clean / np.maximum(np.linalg.norm(clean, axis=1, keepdims=True), SMALLEST_NORM)  # u, any vectors
        axis = self.unit.mean(axis=0)
        self.axis = axis / max(float(np.linalg.norm(axis)), SMALLEST_NORM)  # v
        self.beta = clean @ self.axis
        (nodes, width), found = clean.shape, list[tuple[Array, Array]]()
        for first in range(0, nodes, TOGETHER):
            some = range(first, min(first + TOGETHER, nodes))
            bounds = Bounds(network, changes, some, [choices])
            few = [Views(network, changes, i) if choices.deep else None for i in some]
            found += [(self._apart(bounds, i, views), bounds.ranges(i)) for i, views in zip(some, few, strict=True)]
        apart, box = (np.stack(parts, axis=1) for parts in zip(*found, strict=True))
        along, self.across, on_axis = apart[:, :, -1], apart[:, :, :width], apart[:, :, width]  # of a, p and v · p
        unit = point(self.unit)
        self.box = np.maximum(box, down(times(along[:, :, None], unit) + self.across))  # of z
        self._find_angles(along[0])
        self.turned = self._over_norms(self.across)  # of q
        views = down(times(self.cosine[:, :, None], unit) + self.turned)
        views = np.maximum(views, normalised(self.box, self.shortest))  # of z̄
        shares = sum_below(times(unit, point(self.axis)[:, None]), axis=2)
        on_axis = down(times(self.cosine, shares) + self._over_norms(on_axis))
        on_axis = np.maximum(on_axis, sum_below(times(views, point(self.axis)[:, None]), axis=2))
        self.views, self.others, self.others_on_axis = views, minus_mean(views), minus_mean(on_axis)

    def _apart(self, bounds: Bounds, i: int, views: Views | None) -> Array:
        """Ranges of p, ``v · p`` and a, ``(2, d + 2)``; from all graphs that the node sees, if these are given."""
        unit = self.unit[i]
        frame = np.concatenate([np.eye(len(unit)), self.axis[None]])
        asked = np.concatenate([frame - (frame @ unit)[:, None] * unit, unit[None]])
        size = np.abs(frame) + (np.abs(frame) @ np.abs(unit))[:, None] * np.abs(unit)
        slack = up(4 * gamma(len(unit) + 4) * size.max(axis=0)) + 4 * (len(unit) + 4) * ETA
        both = np.concatenate([asked, -asked])
        found = bounds.below(i, both, slack, np.full(len(both), np.inf))
        if views is not None and views.few:
            found = np.maximum(found, views.least(both, slack))
        return found.reshape(2, -1)

    def _find_angles(self, least: Array) -> None:
        """α to ranges of c, above ‖p‖ and ‖q‖, below m and ``2 - n``."""
        squares = sum_below(times(point(self.unit), point(self.unit)), axis=2)  # n
        longest, rest = up(np.sqrt(-squares[1])), (down(2 + squares[1]), up(2 - squares[0]))
        far = np.abs(self.across).max(axis=0)
        across = up(np.sqrt(-sum_below(-up(far * far), axis=1)))
        self.known = (least > up(SMALLEST_NORM * longest)) & (rest[0] > 0)
        slope, tilt = up(across / least), down(least / across)
        cosine = np.maximum(down(1 / up(np.sqrt(up(rest[1] + up(slope * slope))))), 0)
        sine = up(1 / down(np.sqrt(down(1 + down(rest[0] * down(tilt * tilt))))))
        self.cosine = np.array([np.where(self.known, cosine, -longest), -longest])
        self.least_product = down(rest[0] * cosine)
        self.most_apart = up(across * np.where(self.known, sine, np.inf))
        inside = nearest(self.box)
        inside = _finite(down(np.sqrt(_finite(sum_below(_finite(down(inside * inside)), axis=1)))))
        self.shortest = np.fmax(np.maximum(inside, SMALLEST_NORM), np.where(self.known, down(least / longest), 0.0))

    def _over_norms(self, ranges: Array) -> Array:
        """Ranges divided by m, any number from ``shortest`` on."""
        shortest = self.shortest.reshape(-1, *[1] * (ranges.ndim - 2))
        return np.minimum(down(ranges / shortest), 0)

    def questions(self, i: int) -> Iterator[tuple[Array, Array, Array]]:
        """Slopes, what they can be off by, and constants: ``W^CL_i(S2) · z_i(S1) >= s · z_i(S1) + constant``."""
        for (own, first), (others, second) in product_of(self._own(i), self._others(i)):
            yield own + others, up(4 * U * (np.abs(own) + np.abs(others))) + 4 * ETA, down(first + second)

    def _own(self, i: int) -> Iterator[tuple[Array, Array]]:
        yield line(self.views[:, i], self.box[:, i])
        if self.known[i]:
            by_ranges = sum_below(times(self.turned[:, i], self.across[:, i])[0])
            yield self.least_product[i] * self.unit[i], np.maximum(by_ranges, -self.most_apart[i])

    def _others(self, i: int) -> Iterator[tuple[Array, Array]]:
        yield line(self.others[:, i], self.box[:, i])
        beta = point(self.beta[i])
        shift = times(beta[:, None], point(self.axis))  # β v
        slope, constant = line(self.others[:, i], down(self.box[:, i] + shift[::-1]))
        shared = times(beta, self.others_on_axis[:, i])[0]
        yield slope, plus(constant, shared, sum_below(times(point(-slope), shift)[0]))
