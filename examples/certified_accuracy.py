"""The accuracy of a linear classifier on embeddings that no dropped edges can take away, over budgets."""

import torch
from sklearn.linear_model import LogisticRegression

import certgcl

data = certgcl.load_dataset("sbm")
method = certgcl.GRACE(hidden=16, learning_rate=5e-3, epochs=30).fit(data)
embeddings = method.transform(data)  # as they are: dividing by the norm is not linear
train = torch.arange(data.num_nodes) % 10 == 0
test = torch.arange(data.num_nodes) % 10 == 5
classifier = LogisticRegression(max_iter=1000).fit(embeddings[train], data.y[train])
for budget in (1, 2):
    print(f"{budget} at each node:", certgcl.certified_accuracy(method, classifier, data, data.y, budget, nodes=test))
