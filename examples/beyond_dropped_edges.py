"""What the paper leaves to its outlook (appendix B), one certificate each: added edges, changed features, GraphSAGE,
GIN and whole graphs."""

import torch
from torch_geometric.nn import GIN, GraphSAGE

import certgcl
from certgcl import Changes, EdgeAddBudget, FeatureBudget

torch.manual_seed(0)
data = certgcl.load_dataset("sbm")
encoder = certgcl.GCNEncoder(data.num_features, 16, 8).eval()  # trained as you like, as all models here

near = EdgeAddBudget(local=1, candidates="two-hop")
print("one new edge at any node, between nodes with a common neighbour")
print(certgcl.node_compactness(encoder, data, Changes(additions=near), nodes=range(50)))

print("\nany entry of any node's features moved by 0.02, and one edge lost at any node")
print(certgcl.node_compactness(encoder, data, Changes(drops=1, features=FeatureBudget(box=0.02)), nodes=range(50)))

print("\nGraphSAGE with three layers, one edge lost at any node")
sage = GraphSAGE(data.num_features, 16, num_layers=3, out_channels=8).eval()
print(certgcl.node_compactness(sage, data, 1))

print("\nGIN with two layers, one edge lost at any node")
gin = GIN(data.num_features, 16, num_layers=2, out_channels=8).eval()
print(certgcl.node_compactness(gin, data, 1))

print("\nwhole graphs, their nodes added up: any two edges of a graph lost")
graphs = certgcl.load_dataset("cycles-and-trees")[:20]
of_nodes = GIN(graphs[0].num_features, 16, num_layers=2, out_channels=8).eval()
print(certgcl.graph_compactness(of_nodes, graphs, certgcl.EdgeDropBudget(total=2), pool="sum"))
