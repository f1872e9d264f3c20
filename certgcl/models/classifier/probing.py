"""Compares a classifier's own prediction with the linear scores that were read from it."""

import torch
from torch import Tensor

from certgcl.errors import ClassifierError
from certgcl.models.classifier.linear import LinearClassifier

_SAMPLE = 256  # embeddings from which other points are derived
_BEYOND = 2.0  # multiple of what rounding explains: the least margin at points next to a boundary


def hold_to_predict(classifier: LinearClassifier, embeddings: Tensor) -> None:
    """Raise an error for a classifier whose ``predict`` differs from the largest linear score by more than rounding
    explains.

    The comparison covers the embeddings of all nodes; points around them, at all distances, around zero, far out in
    both directions and on the axes; and for these the nearest points of the boundary between their two best classes,
    with steps to both sides that are as small as rounding allows. The points are random, and the same in every call.
    """
    points = _spread(embeddings)
    points = torch.cat([embeddings, points, _beside_boundaries(classifier, torch.cat([embeddings[:_SAMPLE], points]))])
    points = points.to(classifier.dtype).double()
    points = points[torch.isfinite(points).all(dim=1)]
    vectors, intercepts = classifier.scores
    best = (points @ vectors.T + intercepts).argmax(dim=1)
    slack = classifier.margin_slack(points.abs(), best)
    calm = torch.isfinite(slack).all(dim=1)  # it may overflow elsewhere
    points, best, slack = points[calm], best[calm], slack[calm]
    predicted = classifier.predict(points)
    short = (classifier.margins(points, best) - slack).gather(1, predicted[:, None])[:, 0]
    wrong = short > 0
    if bool(wrong.any()):
        worst = int(short.argmax())
        own, linear = classifier.labels[int(predicted[worst])], classifier.labels[int(best[worst])]
        raise ClassifierError(
            f"a classifier that predicts otherwise than its linear scores at {int(wrong.sum())} of {len(points)} "
            f"points, for example {own!r} where the largest score is that of {linear!r}",
            "the prediction must be the class of the largest linear score, everywhere",
            "Look for weights changed after fitting, or a predict that is not scikit-learn's own",
        )


def _spread(embeddings: Tensor) -> Tensor:
    """Points around embeddings and away from them."""
    chance = torch.Generator().manual_seed(0)
    width = embeddings.shape[1]
    some = embeddings[torch.randint(len(embeddings), (_SAMPLE,), generator=chance)]
    size = embeddings.abs().max()
    size = size if size > 0 else torch.ones_like(size)

    def noise(low: float, high: float) -> Tensor:
        """From ``10^low`` to ``10^high`` times as large as embeddings."""
        exponent = low + (high - low) * torch.rand(_SAMPLE, 1, generator=chance, dtype=torch.float64)
        return size * 10**exponent * torch.randn(_SAMPLE, width, generator=chance, dtype=torch.float64)

    far, axes = noise(1, 6), size * torch.eye(width, dtype=torch.float64)
    return torch.cat(
        [some + noise(-6, 1), noise(-9, 0), far, -far, 2 * some, -some, axes, -axes, torch.zeros_like(axes[:1])]
    )


def _beside_boundaries(classifier: LinearClassifier, points: Tensor) -> Tensor:
    """The nearest points at which the two best classes of each point tie, and steps from there to either side."""
    vectors, intercepts = classifier.scores
    first, second = (points @ vectors.T + intercepts).topk(2, dim=1).indices.T
    across, offset = vectors[first] - vectors[second], intercepts[first] - intercepts[second]
    steep = across.square().sum(dim=1, keepdim=True)
    usable = (steep > 0)[:, 0] & torch.isfinite(steep)[:, 0]
    points, across, offset, steep = points[usable], across[usable], offset[usable], steep[usable]
    first, second = first[usable], second[usable]
    margin = (points * across).sum(dim=1, keepdim=True) + offset[:, None]
    tie = points - margin / steep * across
    slack = classifier.margin_slack(tie.abs(), first).gather(1, second[:, None])
    steps = [amount * sign for amount in (_BEYOND * slack, 10 * slack, 1e-3 * margin, 0.3 * margin) for sign in (1, -1)]
    return torch.cat([tie + step / steep * across for step in steps])
