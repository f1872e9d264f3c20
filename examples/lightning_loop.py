"""The regularizer in PyTorch Lightning: its two lines go into ``training_step``."""

import lightning
import torch
from torch.nn.functional import cross_entropy, normalize
from torch_geometric.utils import dropout_edge

import certgcl
from certgcl.lightning import CertifyCompactness


class CertifiedGRACE(lightning.LightningModule):
    def __init__(self, graph: certgcl.Graph) -> None:
        super().__init__()
        self.graph = graph
        self.encoder = certgcl.GCNEncoder(graph.num_features, 32, 16)
        self.regularizer = certgcl.CompactnessRegularizer(kappa=certgcl.Ramp(0.4, length=10), budget=0.3, anchors=64)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        view1, view2 = (dropout_edge(self.graph.edge_index, 0.3, force_undirected=True)[0] for _ in range(2))
        z1, z2 = self.encoder(self.graph.x, view1), self.encoder(self.graph.x, view2)
        infonce = cross_entropy(normalize(z1) @ normalize(z2).T / 0.5, torch.arange(len(z1)))
        self.regularizer.at(self.current_epoch)(self.encoder, self.graph, view1, view2, embeddings=(z1, z2))
        return self.regularizer.combine(infonce)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.encoder.parameters(), lr=5e-3)


lightning.seed_everything(0, verbose=False)
module = CertifiedGRACE(certgcl.Graph.of(certgcl.load_dataset("sbm")))
one_step = torch.utils.data.DataLoader(torch.zeros(1))  # an epoch is a step: the graph is the batch
certify = CertifyCompactness(module.graph, 0.3, every=5)
trainer = lightning.Trainer(
    max_epochs=15,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[certify],
)
trainer.fit(module, one_step)
print(certify.certificate)
