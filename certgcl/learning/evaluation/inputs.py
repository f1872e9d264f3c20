"""The checks of arguments behind :func:`certgcl.evaluate`, each with a remedy in its message."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from certgcl.arguments import first_line, is_whole, items, seed, shown, whole
from certgcl.errors import EvaluationError

Masks: TypeAlias = Data | Sequence[Any] | None

MOST_SEEDS = 100_000
_MASKS = ("train", "val", "test")


def check_embeddings(embeddings: Any) -> np.ndarray:
    """``embeddings`` in float64 with rows of Euclidean norm one; rows of zeros stay."""
    x = as_array(embeddings, "embeddings")
    if x.dtype.kind not in "fiu" or x.ndim != 2 or 0 in x.shape:
        raise EvaluationError(
            f"embeddings of dtype {x.dtype} and shape {x.shape}",
            "they must be a matrix of real numbers, one row per node",
            "Reshape or convert them",
        )
    x = x.astype(np.float64)
    bad = int((~np.isfinite(x)).sum())
    if bad:
        raise EvaluationError(
            f"{bad} NaN or infinite embedding value(s)",
            "embeddings must be finite",
            "Check the training of the encoder",
        )
    for order in (np.inf, 2):  # divided by the largest entry first: the square of a very large or small one is inf or 0
        norm = np.linalg.norm(x, ord=order, axis=1, keepdims=True)
        x = x / np.where(norm > 0, norm, 1.0)
    return x


def check_labels(y: Any, nodes: int) -> np.ndarray:
    """``y`` as one class number per node, two classes or more."""
    labels = as_array(y, "labels")
    if labels.dtype.kind not in "iu":
        raise EvaluationError(
            f"labels of dtype {labels.dtype}",
            "a label is an integer class number",
            "Convert with y.long(), or y.argmax(dim=1) if one-hot",
        )
    if labels.shape != (nodes,):
        raise EvaluationError(
            f"labels of shape {labels.shape} for {nodes} embeddings",
            "there must be one per node",
            "Use y.squeeze() for a column, y.argmax(dim=1) if one-hot",
        )
    if labels.min() < 0:
        raise EvaluationError(f"label {labels.min()}", "classes are numbered from 0", "Leave out nodes without a label")
    if labels.min() == labels.max():
        raise EvaluationError(f"the label {labels[0]} at all nodes", "there must be two classes or more", "Check y")
    return labels


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """``seeds`` one by one; a number n stands for 0 … n - 1."""
    rule, remedy = (
        f"seeds are a number of seeds, from 1 to {MOST_SEEDS}, or distinct integers from 0 on",
        "Try seeds=5",
    )
    if is_whole(seeds):
        return tuple(range(whole(seeds, "seeds", 1, rule, remedy, most=MOST_SEEDS, error=EvaluationError)))
    listed = list(seeds) if isinstance(seeds, range) and len(seeds) <= MOST_SEEDS else seeds
    if isinstance(seeds, (np.ndarray, Tensor)):
        listed = as_array(seeds, "seeds").tolist()
    chosen = tuple(
        seed(each, "seeds", EvaluationError) for each in items(listed, "seeds", rule, remedy, error=EvaluationError)
    )
    if not chosen or len(set(chosen)) < len(chosen):
        raise EvaluationError(f"seeds={shown(seeds)}", rule, remedy)
    return chosen


def masked_nodes(masks: Masks, nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nodes of train, validation and test."""
    rule = f"train, validation and test need a boolean mask each, of shape ({nodes},), with a node in it"
    remedy = "Pass masks=data, or masks=(train, validation, test)"
    if masks is None:
        raise EvaluationError("no masks", rule, remedy)
    parts = (
        [masks.get(f"{name}_mask") for name in _MASKS]
        if isinstance(masks, Data)
        else list(items(masks, "masks", rule, remedy, error=EvaluationError))
    )
    if len(parts) != len(_MASKS):
        raise EvaluationError(f"{len(parts)} masks", rule, remedy)
    arrays = []
    for name, part in zip(_MASKS, parts, strict=True):
        if part is None:
            raise EvaluationError(f"no {name} mask", rule, remedy)
        mask = as_array(part, f"the {name} mask")
        if mask.dtype != np.bool_ or mask.shape != (nodes,):
            raise EvaluationError(f"a {name} mask of dtype {mask.dtype} and shape {mask.shape}", rule, remedy)
        if not mask.any():
            raise EvaluationError(f"an empty {name} mask", rule, remedy)
        arrays.append(mask)
    shared = int((np.sum(arrays, axis=0) > 1).sum())
    if shared:
        raise EvaluationError(
            f"{shared} node(s) in several masks",
            "train, validation and test must not overlap",
            "Remove them from all but one",
        )
    train, validation, test = map(np.flatnonzero, arrays)
    return train, validation, test


def as_array(value: Any, name: str) -> np.ndarray:
    """A tensor, an array or nested lists as an array."""
    try:
        if isinstance(value, Tensor):
            value = value.detach().cpu()
            value = (value.double() if value.is_floating_point() else value).numpy()  # numpy has no bfloat16
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise EvaluationError(
            f"{name} of type {type(value).__name__} ({first_line(error)})",
            "only dense arrays can be used",
            "Pass a tensor or an array",
        ) from error
