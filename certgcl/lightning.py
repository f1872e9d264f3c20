"""Certificates while training with PyTorch Lightning. Nothing else in certgcl needs Lightning.

Example::

    from certgcl.lightning import CertifyCompactness

    trainer = lightning.Trainer(callbacks=[CertifyCompactness(graph, budgets=1, every=10)])
"""

from operator import attrgetter
from typing import Any

import lightning
from torch import nn

from certgcl.arguments import shown, whole
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import node_compactness
from certgcl.changes.changes import BudgetLike
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph, GraphLike


class CertifyCompactness(lightning.Callback):
    """Certify the encoder every few epochs, and log scale-free measures.

    It logs ``compactness/positive`` (the share of nodes that are proved), ``compactness/kept`` (of the clean value) and
    ``compactness/over_norm``; ``certificate`` is the last one. During certification the encoder is in eval mode.

    Args:
        graph: the graph to certify on; validated once.
        budgets: as in :func:`certgcl.node_compactness`.
        every: epochs from one certificate to the next.
        encoder: the attribute of the Lightning module that has the encoder, with dots for nested modules.
        settings: other arguments of ``node_compactness``. The method is ``degree-fast`` unless they say otherwise.

    Raises:
        InputError: the module has no such attribute, or it is not a module.
    """

    certificate: Certificate | None = None

    def __init__(
        self, graph: GraphLike, budgets: BudgetLike, every: int = 1, encoder: str = "encoder", **settings: Any
    ) -> None:
        self.graph, self.budgets = Graph.of(graph), budgets
        self.every = whole(every, "every", 1, "it is a number of epochs, 1 or more", "Leave it out for every epoch")
        self.encoder, self.settings = encoder, {"method": "degree-fast"} | settings

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every:
            return
        encoder = self._encoder_of(pl_module)
        training = encoder.training
        try:
            self.certificate = node_compactness(encoder.eval(), self.graph, self.budgets, **self.settings)
        finally:
            encoder.train(training)
        measures = self.certificate.measures
        for name in ("positive", "kept", "over_norm"):
            value = getattr(measures, name)
            if value is not None:
                pl_module.log(f"compactness/{name}", float(value))

    def _encoder_of(self, module: nn.Module) -> nn.Module:
        try:
            encoder = attrgetter(self.encoder)(module)
        except (AttributeError, TypeError):
            encoder = None
        if not isinstance(encoder, nn.Module):
            raise InputError(
                f"encoder={shown(self.encoder)}",
                f"{type(module).__name__} has no module of that name",
                "Name the attribute that holds the encoder",
            )
        return encoder
