"""The callback for PyTorch Lightning certifies the encoder as it is after an epoch, and logs what that says."""

from typing import Any

import lightning
import pytest
import torch

import certgcl
from certgcl.errors import InputError
from certgcl.lightning import CertifyCompactness
from tests.toys import random_graph

QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Module(lightning.LightningModule):
    def __init__(self, graph: certgcl.Graph) -> None:
        super().__init__()
        self.graph, self.parts = graph, torch.nn.ModuleDict({"encoder": certgcl.GCNEncoder(graph.num_features, 8, 4)})

    @property
    def encoder(self) -> torch.nn.Module:
        return self.parts["encoder"]

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.graph.x, self.graph.edge_index).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())


def trained(callback: CertifyCompactness, epochs: int) -> tuple[lightning.Trainer, Module]:
    module = Module(random_graph(12, 0.3).to(dtype=torch.float32))
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[callback], **QUIET)
    trainer.fit(module, torch.utils.data.DataLoader(torch.zeros(1)))
    return trainer, module


@pytest.mark.filterwarnings("ignore")  # of Lightning: workers, no logger
def test_the_last_certificate_is_that_of_the_trained_encoder() -> None:
    graph = random_graph(12, 0.3).to(dtype=torch.float32)
    callback = CertifyCompactness(graph, budgets=1, every=2)
    trainer, module = trained(callback, epochs=4)
    expected = certgcl.node_compactness(module.encoder.eval(), graph, 1, method="degree-fast")
    assert callback.certificate is not None
    assert torch.equal(callback.certificate.lower, expected.lower)
    assert float(trainer.callback_metrics["compactness/positive"]) == pytest.approx(expected.measures.positive)
    assert {"compactness/kept", "compactness/over_norm"} & set(trainer.callback_metrics)


@pytest.mark.filterwarnings("ignore")
def test_epochs_between_are_left_out_and_the_mode_is_put_back() -> None:
    callback = CertifyCompactness(random_graph(12, 0.3).to(dtype=torch.float32), budgets=1, every=3, nodes=[0])
    _, module = trained(callback, epochs=2)
    assert callback.certificate is None
    assert module.encoder.training


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("encoder", ["nothing", "graph", "parts.nothing", 3])
def test_an_encoder_that_is_not_there_is_refused(encoder: Any) -> None:
    with pytest.raises(InputError, match="encoder="):
        trained(CertifyCompactness(random_graph(12, 0.3).to(dtype=torch.float32), budgets=1, encoder=encoder), epochs=1)


def test_no_epochs_between_certificates_are_refused() -> None:
    with pytest.raises(InputError, match="every=0"):
        CertifyCompactness(random_graph(6, 0.5), budgets=1, every=0)
