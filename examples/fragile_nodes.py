"""The nodes with the lowest bounds, upper bounds of their true minima, and the edges whose loss attains them."""

import networkx as nx

import certgcl

data = certgcl.load_dataset("les-miserables")
names = list(nx.les_miserables_graph())
method = certgcl.GRACE(**certgcl.learning.presets.get("grace", "les-miserables").settings()).fit(data)
budget = certgcl.EdgeDropBudget(local=2, total=2)

bounds = certgcl.node_compactness(method, data, budget)
fragile = bounds.nodes[bounds.lower.argsort()[:3]]
bracket = certgcl.node_compactness(method, data, budget, method="optimized", nodes=fragile)
for place, node in enumerate(fragile.tolist()):
    edges = ", ".join(f"{names[u]} – {names[v]}" for u, v in bracket.witness(node).T.tolist())
    print(
        f"{names[node]}: {bracket.nominal[place]:.3f} as it is; at worst between {bracket.lower[place]:.3f} and "
        f"{bracket.upper[place]:.3f}, which is reached without {edges}"
    )
