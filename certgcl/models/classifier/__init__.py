"""Classifiers on embeddings, read as linear scores only where those reproduce the classifier's own prediction."""

import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certgcl.errors import ClassifierError
from certgcl.models.classifier.affine import Affine, coarsest
from certgcl.models.classifier.linear import LinearClassifier
from certgcl.models.classifier.modules import read_module, read_tensors
from certgcl.models.classifier.probing import hold_to_predict
from certgcl.models.classifier.scikit import is_of_scikit, read_scikit

__all__ = ["LinearClassifier", "class_scores", "read_classifier"]


def read_classifier(classifier: Any, embeddings: Tensor, dtype: torch.dtype) -> LinearClassifier:
    """The linear scores whose largest is the class that ``classifier`` predicts.

    A type is accepted if its code is known to take the largest linear score: scikit-learn's linear classifiers
    (``SVC(kernel="linear")`` only with two classes), ``NearestCentroid`` and multinomial and complement naive Bayes,
    ``OneVsRestClassifier`` of linear ones, ``Pipeline`` with affine steps before one, ``GridSearchCV`` and
    ``RandomizedSearchCV`` of one; ``nn.Linear``, or ``nn.Sequential`` of them; weights ``(classes, d)``, or a pair of
    weights and intercepts. Types must match exactly, since a subclass may predict differently. The scores are then
    compared with the classifier's own ``predict``, see :func:`certgcl.models.classifier.probing.hold_to_predict`.

    Args:
        embeddings: of all nodes, ``(N, d)``, float64.
        dtype: the precision in which the model gives them.

    Raises:
        ClassifierError: it is not linear, not known, not fitted or does not fit the embeddings; the message says which.
    """
    inputs = torch.promote_types(dtype, torch.float32)  # numpy has no coarser arrays
    if isinstance(classifier, nn.Module):
        module, steps = classifier, read_module(classifier)
        like = next(module.parameters(), embeddings)
        read = _checked(steps, None, embeddings, lambda z: module(z.to(like)).argmax(dim=1), dtype)
    elif is_of_scikit(classifier):
        steps, labels = read_scikit(classifier)
        read = _checked(steps, labels, embeddings, lambda z: _quietly(classifier, z), inputs)
    else:
        steps = read_tensors(classifier)
        matrix, shift = steps[0].matrix, steps[0].shift
        read = _checked(steps, None, embeddings, lambda z: (z.double() @ matrix.T + shift).argmax(dim=1), inputs)
    hold_to_predict(read, embeddings.cpu())
    return read


def class_scores(width: int, dtype: torch.dtype, softmax: bool) -> LinearClassifier:
    """The class of the largest output of a model, whose classes are 0, 1, …

    Its one step is the identity. A softmax subtracts the largest score, and then the logarithm of a sum of ``width``
    numbers of at most 1 (or exponentiates and divides, to a relative error of a few roundings). So its rounding hides
    differences of a few roundings of ``|z_c| + |z_y| + 1 + log(width)``, which are attributed to this step.

    Args:
        dtype: the precision in which the model is run.
    """
    if width < 2:
        raise ClassifierError(
            f"a model with {width} output",
            "class scores are two or more",
            "Pass classifier= for a model that gives embeddings",
        )
    added = torch.full((width,), 1 + math.log(width) if softmax else 0.0, dtype=torch.float64)
    step = Affine.of(torch.eye(width, dtype=torch.float64), shift_size=added, terms=1)
    return LinearClassifier((step,), list(range(width)), lambda z: z.argmax(dim=1), dtype)


def _checked(
    steps: tuple[Affine, ...], labels: Any, embeddings: Tensor, own: Any, dtype: torch.dtype
) -> LinearClassifier:
    if not steps:
        raise ClassifierError("a module without a linear layer", "it must end in class scores", "Add nn.Linear")
    widths = [embeddings.shape[1], *(step.matrix.shape[0] for step in steps)]
    if any(step.matrix.shape[1] != width for step, width in zip(steps, widths, strict=False)) or widths[-1] < 2:
        shapes = ", then ".join(str(tuple(step.matrix.shape)) for step in steps)
        raise ClassifierError(
            f"a classifier with weights {shapes}",
            f"it needs (classes, {widths[0]}), with two classes or more",
            "Fit it on the embeddings of this model",
        )
    names = list(range(widths[-1])) if labels is None else labels.tolist() if type(labels) is np.ndarray else labels
    if not isinstance(names, list) or not all(map(_is_label, names)) or len(set(names)) != widths[-1]:
        raise ClassifierError(
            f"the classes {names!r} for {widths[-1]} scores",
            "there is one number or string for each score, all different",
            "Fit it again",
        )
    return LinearClassifier(steps, names, own, coarsest(dtype, *(step.dtype for step in steps)))


def _is_label(label: Any) -> bool:
    return isinstance(label, (int, float, str))


def _quietly(classifier: Any, z: Tensor) -> Any:
    """``predict`` on an array; without scikit-learn's warning that it was fitted on named columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return classifier.predict(z.numpy())
