"""GRACE: two views by random edge drops and feature masks, InfoNCE with negatives from both."""

from dataclasses import dataclass

from certgcl.learning.methods.base import ContrastiveMethod


@dataclass(kw_only=True, eq=False)
class GRACE(ContrastiveMethod):
    """Deep graph contrastive representation learning (Zhu et al. 2020): every edge is dropped with the rate of its
    view.

    Example::

        data = certgcl.load_dataset("Cora")
        method = certgcl.GRACE(regularizer=certgcl.CompactnessRegularizer(kappa=0.4, anchors=256)).fit(data)
        embeddings = method.transform(data)
    """
