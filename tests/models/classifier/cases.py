"""An encoder, its embeddings in every admissible view, and classes to fit on."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch

from certgcl.certify.accuracy import CertifiedAccuracy, certified_accuracy
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import admissible_sets, random_graph, without

NODES = 9


class Case:
    """An encoder on a small graph, its embeddings in every admissible view, and classes of its nodes to fit on."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        torch.manual_seed(3)
        self.encoder = GCNEncoder(3, 8, 4).to(dtype)
        with torch.no_grad():
            self.encoder.conv2.bias.fill_(0.3)
        graph = random_graph(nodes=NODES, density=0.35, seed=2)
        self.graph = graph.to(dtype=dtype)
        views = [without(graph, dropped) for dropped in admissible_sets(graph, torch.ones(NODES, dtype=torch.long))]
        with torch.no_grad():
            self.views = torch.stack([self.encoder(self.graph.x, view.edge_index) for view in views])
        self.z = self.views[0].numpy()

    def data(self, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings of all views and their classes, which group nodes that lie together."""
        order = np.argsort(self.z @ np.array([1.0, -0.5, 0.7, 0.3]))
        y = np.empty(NODES, dtype=np.int64)
        y[order] = np.arange(NODES) * classes // NODES
        return self.views.flatten(0, 1).numpy().copy(), np.tile(y, len(self.views))

    def fit(self, classifier: Any, classes: int = 3, names: list[Any] | None = None) -> Any:
        x, y = self.data(classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return classifier.fit(x, y if names is None else np.array(names)[y])

    def check(self, classifier: Any, predict: Any = None, least: int = NODES - 1) -> CertifiedAccuracy:
        """Certified nodes are predicted alike in every view, by the classifier itself; broken ones are not.

        Without any drop at least so many are certified: all but what is close to a tie.
        """
        predict = classifier.predict if predict is None else predict
        own = np.stack([np.asarray(predict(z.numpy())) for z in self.views])
        found, clean = (certified_accuracy(self.encoder, classifier, self.graph, own[0], budget) for budget in (1, 0))
        assert clean.certified.sum() >= least
        stays = torch.from_numpy((own == own[0]).all(axis=0))
        assert found.correct.all()
        assert not (found.certified & ~stays).any()
        assert not (found.broken & stays).any()
        return found


@cache
def case(dtype: torch.dtype = torch.float64) -> Case:
    return Case(dtype)


class Turned(np.ndarray):
    """Entries that say one thing and products that say another."""

    def __matmul__(self, other: Any) -> Any:
        return -np.asarray(self) @ other
