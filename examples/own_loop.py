"""The regularizer in your own training loop: any encoder that can be read, any views, any contrastive loss."""

import torch
from torch.nn.functional import cross_entropy, normalize
from torch_geometric.utils import dropout_edge

import certgcl

torch.manual_seed(0)
data = certgcl.load_dataset("digits")
graph = certgcl.Graph.of(data)  # validated once, outside the loop
encoder = certgcl.GCNEncoder(data.num_features, 32, 16)
regularizer = certgcl.CompactnessRegularizer(kappa=0.4, budget=0.3, anchors=64)
optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)

for _ in range(20):
    view1, view2 = (dropout_edge(data.edge_index, 0.3, force_undirected=True)[0] for _ in range(2))
    z1, z2 = encoder(data.x, view1), encoder(data.x, view2)
    similarity = normalize(z1) @ normalize(z2).T / 0.5
    infonce = cross_entropy(similarity, torch.arange(len(z1)))
    regularizer(encoder, graph, view1, view2, embeddings=(z1, z2))
    loss = regularizer.combine(infonce)  # (1 - κ) InfoNCE + κ (cross-entropy of the certified compactness)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(certgcl.node_compactness(encoder, graph, 0.3, nodes=range(100)))
