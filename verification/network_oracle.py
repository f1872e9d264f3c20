"""The truth about networks by enumeration: every admissible graph as a dense matrix. Plain NumPy, independent of
certgcl."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, ndtr

from verification.network_case import Array, NetworkCase, PlainActivation, PlainTerm
from verification.oracle import admissible_drops

ACTIVATIONS: dict[str, Callable[[Array, float | Array], Array]] = {
    "two-piece linear": lambda p, slope: np.where(p >= 0, p, slope * p),
    "elu": lambda p, alpha: np.where(p > 0, p, alpha * np.expm1(np.minimum(p, 0))),
    "tanh": lambda p, _: np.tanh(p),
    "sigmoid": lambda p, _: expit(p),
    "gelu": lambda p, _: p * ndtr(p),
    "silu": lambda p, _: p * expit(p),
    "softplus": lambda p, beta: np.where(beta * p > 20, p, np.logaddexp(0, beta * p) / beta),
}
STEEPEST = 1.13  # of all activations whose parameter is not a slope


def activate(p: Array, activation: PlainActivation | None) -> Array:
    return p if activation is None else ACTIVATIONS[activation.name](p, activation.parameter)


def adjacencies(case: NetworkCase) -> Array:
    """Of every admissible graph, the clean one first; ``(graphs, n, n)``."""
    matrices = []
    for drops in admissible_drops(case):
        matrix = np.zeros((case.nodes, case.nodes))
        for u, v in set(case.edges) - set(drops):
            matrix[u, v] = matrix[v, u] = 1.0
        matrices.append(matrix)
    return np.stack(matrices)


def mixing(term: PlainTerm, adjacency: Array) -> Array:
    """The matrix M of ``M h W``, for many graphs; division by zero gives zero."""
    identity = np.eye(adjacency.shape[-1])
    match term.mixing:
        case "local":
            return np.broadcast_to(identity, adjacency.shape)
        case "sum":
            return adjacency
        case "mean":
            return adjacency / np.maximum(adjacency.sum(axis=-1, keepdims=True), 1.0)
        case "symmetric":
            looped = adjacency + term.loop * identity
            degree = looped.sum(axis=-1)
            scale = np.where(degree > 0, np.where(degree > 0, degree, 1.0) ** -0.5, 0.0)
            return scale[..., :, None] * looped * scale[..., None, :]


def embeddings(case: NetworkCase, adjacency: Array, x: Array | None = None) -> Array:
    """On many graphs over the case's nodes, ``(graphs, n, width)``; with features of each ``(graphs, n, features)``,
    or those of the case."""
    outputs = [np.broadcast_to(case.x, (len(adjacency), *case.x.shape)) if x is None else x]
    for layer in case.layers:
        p = sum(mixing(term, adjacency) @ outputs[term.source] @ term.matrix() for term in layer.terms) + layer.bias
        outputs.append(activate(p, layer.activation))
    return np.concatenate([outputs[number] for number in case.readout], axis=-1)


def values(case: NetworkCase) -> Array:
    """``w_i · z_i`` on every admissible graph, the clean one first; ``(graphs, n)``."""
    return (embeddings(case, adjacencies(case)) * case.directions).sum(axis=-1)


def magnitude(case: NetworkCase) -> Array:
    """``w · z`` with all signs dropped and every scale at its largest possible value, 1; ``(n,)``."""
    around = adjacencies(case.with_budget(0))[0] + np.eye(case.nodes)
    sizes = [np.abs(case.x)]
    for layer in case.layers:
        p = sum(
            (np.eye(case.nodes) if term.mixing == "local" else around) @ sizes[term.source] @ np.abs(term.matrix())
            for term in layer.terms
        ) + np.abs(layer.bias)
        if layer.activation is not None:
            p = np.maximum(STEEPEST, np.abs(layer.activation.parameter)) * p + activate(0 * p, layer.activation)
        sizes.append(p)
    return (np.concatenate([sizes[number] for number in case.readout], axis=-1) * np.abs(case.directions)).sum(axis=-1)


def compactness_directions(z: Array) -> Array:
    """``z̄_i - mean_{j≠i} z̄_j``, one node after the other."""
    unit = [row / max(np.linalg.norm(row), 1e-12) for row in z]
    return np.stack([unit[i] - sum(unit[j] for j in range(len(z)) if j != i) / (len(z) - 1) for i in range(len(z))])
