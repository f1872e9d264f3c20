"""A certificate computed shard by shard, as for a graph that takes hours: it can be killed and resumed, and shared by
several machines."""

import tempfile
from pathlib import Path

import torch

import certgcl

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
data = certgcl.load_dataset("digits")
certgcl.save_graph(folder / "graph", data)  # features stay on disk and are read where they are needed
graph = certgcl.load_graph(folder / "graph")
encoder = certgcl.GCNEncoder(graph.num_features, 32, 16).eval()
settings = {"method": "degree-fast", "shards": 6}

for worker in ((0, 2), (1, 2)):  # two processes, here one after the other; each does every other shard
    run = certgcl.certify_shards(encoder, graph, 2, folder / "result", worker=worker, **settings)
    print(f"worker {worker[0]}: computed {run.computed}, still missing {run.missing}")
again = certgcl.certify_shards(encoder, graph, 2, folder / "result", **settings)
print(f"once more: computed {again.computed}, kept {again.kept}")
print(certgcl.merge_shards(folder / "result"))
