"""A certificate for your own PyG module: is every node closer to its own positive than, on average, to the others,
after losing any one edge?"""

import torch
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv

import certgcl


class MyEncoder(nn.Module):
    """Convolutions, linear layers, activations, norms and skips as you like; other parts that forward does not use do
    not matter."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.first, self.second, self.skip = GCNConv(features, 32), SAGEConv(32, 16), nn.Linear(32, 16)
        self.slope = nn.PReLU()

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x, edge_index))
        return self.slope(self.second(hidden, edge_index) + self.skip(hidden))


torch.manual_seed(0)
data = certgcl.load_dataset("sbm")
model = MyEncoder(data.num_features).eval()  # trained as you like
certificate = certgcl.node_compactness(model, data, budgets=1)
print(certificate)
certificate.at(certificate.lower.argsort()[:10])  # the certificate of the ten lowest nodes only
