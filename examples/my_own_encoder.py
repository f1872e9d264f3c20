"""GRACE with your own encoder: three layers of GraphSAGE, trained with the certified bound in the loss."""

from torch_geometric.nn import GraphSAGE

import certgcl


def encoder(features: int, hidden: int) -> GraphSAGE:
    return GraphSAGE(features, hidden, num_layers=3)


data = certgcl.load_dataset("karate")
regularizer = certgcl.CompactnessRegularizer(kappa=0.4, budget=1, anchors=32)
method = certgcl.GRACE(hidden=16, learning_rate=5e-3, epochs=20, encoder=encoder, regularizer=regularizer).fit(data)
print(certgcl.node_compactness(method, data, budgets=1))
