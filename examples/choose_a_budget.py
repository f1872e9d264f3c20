"""One encoder under several budgets: what each allows, and how many nodes are still certified."""

import torch

import certgcl
from certgcl import EdgeDropBudget

data = certgcl.load_dataset("sbm")
graph = certgcl.Graph.of(data)
method = certgcl.GRACE(hidden=16, learning_rate=5e-3, epochs=40).fit(data)

budgets = {
    "two edges at each node": EdgeDropBudget(local=2),
    "five edges anywhere": EdgeDropBudget(total=5),
    "two at each node, five in all": EdgeDropBudget(local=2, total=5),
    "a drop rate of 0.3, expected": EdgeDropBudget.from_drop_rate(0.3),
    "... covered node by node": EdgeDropBudget.from_drop_rate(0.3, coverage=0.99),
    "... covered jointly": EdgeDropBudget.from_drop_rate(0.3, coverage=0.99, jointly=True),
}
for name, budget in budgets.items():
    drops = budget.on(graph)
    certificate = certgcl.node_compactness(method, graph, budget)
    print(
        f"{name:30} mean q {drops.local.double().mean():5.2f}, Q {drops.total:4}: "
        f"{100 * certificate.share_positive:5.1f} % proved, mean bound {certificate.lower.mean():6.3f}"
    )

rates = (0.1, 0.2, 0.3, 0.4, 0.5)  # independent of any budget: what is the largest rate at which a node is proved?
proved = [certgcl.node_compactness(method, graph, rate, method="degree-fast").positive * rate for rate in rates]
largest = torch.stack(proved).amax(dim=0)
print(f"proved up to a rate of {largest.mean():.2f} on average, {largest.min():.1f} at the weakest node")
