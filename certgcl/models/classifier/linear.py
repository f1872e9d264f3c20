"""A classifier read as linear scores, with its own prediction and a bound of its rounding."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.errors import ClassifierError
from certgcl.models.classifier.affine import Affine, composed, composition_error


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """``predict(z)`` is the class of the largest of the scores ``v_c · z + a_c``, in exact arithmetic.

    Args:
        steps: affine maps one after the other, as the classifier applies them; the last gives the scores.
        labels: of the classes, in the order of the scores.
        own: the classifier's own program, from embeddings ``(n, d)`` in ``dtype`` to their labels.
        dtype: the coarsest precision in which it computes or receives embeddings.
    """

    steps: tuple[Affine, ...]
    labels: list[Any]
    own: Callable[[Tensor], Any]
    dtype: torch.dtype

    @cached_property
    def scores(self) -> tuple[Tensor, Tensor]:
        """``v``, ``(classes, d)``, and ``a``, ``(classes,)``, in float64."""
        return composed(self.steps)

    @cached_property
    def place(self) -> dict[Any, int]:
        """The position of each label."""
        return {label: place for place, label in enumerate(self.labels)}

    def differences(self, own: Tensor) -> tuple[Tensor, Tensor]:
        """``v_y - v_c``, ``(n, classes, d)``, and ``a_y - a_c``, ``(n, classes)``, of the classes y in ``own``."""
        vectors, intercepts = (part.to(own.device) for part in self.scores)
        return vectors[own][:, None] - vectors, intercepts[own][:, None] - intercepts

    def margins(self, embeddings: Tensor, own: Tensor) -> Tensor:
        """``(v_y - v_c) · z + (a_y - a_c)`` of the classes y in ``own`` against every class c, ``(n, classes)``."""
        vectors, intercepts = (part.to(embeddings.device) for part in self.scores)
        scores = embeddings @ vectors.T + intercepts
        return scores.gather(1, own[:, None]) - scores

    def margin_slack(self, magnitudes: Tensor, own: Tensor) -> Tensor:
        """The threshold above which a margin has the same sign in exact arithmetic and in the classifier's own; same
        shape.

        If ``|z| <= magnitudes`` entry by entry and :meth:`margins` in exact arithmetic, with the computed ``v_y - v_c``
        and ``a_y - a_c``, is above this, then ``predict`` on z rounded to ``dtype`` prefers y to c. It covers the
        rounding of z, of the classifier's own sums in any order, and of the differences; not that of a bound.

        Args:
            magnitudes: ``(n, d)``, float64.
            own: the classes y, ``(n,)``.
        """
        error = composition_error(self.steps, magnitudes, self.dtype)
        return error + error.gather(1, own[:, None])

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """The positions of the classes that the classifier itself predicts, ``(n,)``."""
        if not len(embeddings):  # which scikit-learn does not take
            return torch.zeros(0, dtype=torch.long, device=embeddings.device)
        name = "the classifier's own predict"
        try:
            found = self.own(embeddings.to("cpu", self.dtype, copy=True))  # which a scaler may write to
            labels = np.asarray(found.cpu() if isinstance(found, Tensor) else found).tolist()
            places = [self.place[label] for label in labels]
        except Exception as error:  # a program that is not ours may raise anything
            raise ClassifierError(
                f"{name} that fails ({type(error).__name__}: {error})",
                f"it takes embeddings and gives one of the classes {self.labels}",
                "Fit it on the embeddings of this model, one class for each node",
            ) from error
        if len(places) != len(embeddings):
            raise ClassifierError(
                f"{name} that gives {len(places)} classes for {len(embeddings)} embeddings",
                "it gives one for each",
                "Fit it on the embeddings of this model",
            )
        return torch.tensor(places, dtype=torch.long, device=embeddings.device)
