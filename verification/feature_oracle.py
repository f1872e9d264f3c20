"""The truth about changed features by enumeration of all admissible ones. Plain NumPy, independent of certgcl."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import numpy as np
from numpy.typing import NDArray

from verification.feature_case import FeatureCase
from verification.network_case import Array
from verification.network_oracle import adjacencies, embeddings, magnitude

MOST_CORNERS = 1 << 8  # of a box: more are drawn at random
Changed = tuple[tuple[int, float], ...]  # entries of one node, and what they become


def admissible_features(case: FeatureCase) -> Iterator[Array]:
    """Every X̃ that the case allows, its own first; of a box, corners and points inside."""
    x, allowed = case.network.x, case.features
    if allowed.kind == "box":
        yield from _box(x, allowed.radius)
        return
    if allowed.kind == "columns":
        for number in range(min(allowed.columns, x.shape[1]) + 1):
            for columns in combinations(range(x.shape[1]), number):
                changed = x.copy()
                changed[:, list(columns)] = 0
                yield changed
        return
    limit = x.size if allowed.total is None else allowed.total
    for each in product(*(list(_of_node(row, allowed.off, allowed.on)) for row in x)):
        if sum(map(len, each)) <= limit:
            changed = x.copy()
            for node, entries in enumerate(each):
                for column, value in entries:
                    changed[node, column] = value
            yield changed


def _of_node(row: Array, off: int, on: int) -> Iterator[Changed]:
    """Nothing first; then every choice of entries."""
    ones, zeros = np.flatnonzero(row), np.flatnonzero(row == 0)
    for gone, added in product(_subsets(ones, off), _subsets(zeros, on)):
        yield (*((column, 0.0) for column in gone), *((column, 1.0) for column in added))


def _subsets(columns: NDArray[np.intp], most: int) -> list[tuple[int, ...]]:
    sizes = range(min(most, len(columns)) + 1)
    return list(chain.from_iterable(combinations(columns.tolist(), size) for size in sizes))


def _box(x: Array, radius: float) -> Iterator[Array]:
    yield x
    random = np.random.default_rng(0)
    if 2**x.size <= MOST_CORNERS:
        corners = np.array(list(product((-1.0, 1.0), repeat=x.size)))
    else:
        corners = random.choice((-1.0, 1.0), size=(MOST_CORNERS, x.size))
    for signs in np.concatenate([corners, random.uniform(-1, 1, size=(64, x.size))]):
        yield x + radius * signs.reshape(x.shape)


def number_of_views(case: FeatureCase) -> int:
    """How many pairs of graph and features there are; an upper bound if features have a total."""
    x, allowed = case.network.x, case.features
    if allowed.kind == "box":
        number = MOST_CORNERS
    elif allowed.kind == "columns":
        number = 2 ** x.shape[1]
    else:
        ones = (x != 0).sum(axis=1).tolist()
        number = math.prod(_choices(one, allowed.off) * _choices(x.shape[1] - one, allowed.on) for one in ones)
    return number * len(adjacencies(case.network))


def _choices(entries: int, most: int) -> int:
    return sum(math.comb(entries, size) for size in range(min(entries, most) + 1))


def feature_values(case: FeatureCase) -> Array:
    """``w_i · z_i`` on every admissible view, the clean one first; ``(views, n)``."""
    graphs, features = adjacencies(case.network), np.stack(list(admissible_features(case)))
    z = embeddings(case.network, np.tile(graphs, (len(features), 1, 1)), np.repeat(features, len(graphs), axis=0))
    return (z * case.network.directions).sum(axis=-1)


def feature_magnitude(case: FeatureCase) -> Array:
    """``w · z`` with all signs dropped and features at their largest, ``(n,)``."""
    allowed = case.features
    largest = np.abs(case.network.x) + allowed.radius + (1.0 if allowed.on else 0.0)
    return magnitude(replace(case.network, x=largest))
