"""The supervised baselines of the paper: PyG's GCN and GAT, with the settings of their papers."""

import copy
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn.models import GAT, GCN
from torch_geometric.nn.models.basic_gnn import BasicGNN

from certgcl.errors import CheckpointError
from certgcl.experiments.measures import SPLITS
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row
from certgcl.files.atomic import refusing, save_sealed_json
from certgcl.files.strict_json import read_sealed
from certgcl.graphs.features import Features
from certgcl.graphs.sparse import csr_matrix
from certgcl.learning.evaluation.inputs import masked_nodes
from certgcl.learning.evaluation.protocols import f1, random_splits
from certgcl.runtime.randomness import PrivateRandomness, generator_on

_FORMAT = "certgcl-supervised-2"
WEIGHT_DECAY = 5e-4
EPOCHS, PATIENCE = 1000, 100  # epochs at most; and epochs without a better validation loss or accuracy


@dataclass(frozen=True)
class Baseline:
    """Two layers, as in the papers of GCN and GAT."""

    hidden: int
    dropout: float
    learning_rate: float
    activation: str
    heads: int | None = None

    def model(self, features: int, classes: int) -> BasicGNN:
        settings = {"num_layers": 2, "out_channels": classes, "dropout": self.dropout, "act": self.activation}
        if self.heads is None:
            return GCN(features, self.hidden, **settings)
        return GAT(features, self.hidden, heads=self.heads, **settings)


BASELINES = {"gcn": Baseline(16, 0.5, 0.01, "relu"), "gat": Baseline(64, 0.6, 0.005, "elu", heads=8)}


def supervised_f1(study: Study, name: str, seed: int) -> Row:
    """Micro- and Macro-F1 on the test nodes, mean over the splits of the graph's protocol; kept in the cache."""
    baseline, epochs = BASELINES[name], EPOCHS if study.epochs is None else study.epochs
    path = study.cache / f"{study.dataset}-{name}-supervised-{seed}-{epochs}-epochs.json"
    question = {"settings": asdict(baseline), "patience": PATIENCE, "splits": SPLITS}
    if path.exists():
        with refusing(
            path, CheckpointError, f"it must be a whole file in the format {_FORMAT}", "Delete it: it is recomputed"
        ):
            kept = read_sealed(path, _FORMAT)
            if kept["question"] == question:
                return {str(column): float(value) for column, value in kept["found"].items()}
    y = study.data.y.numpy()
    scores = [
        f1(y[test], _predicted(study, baseline, seed, epochs, train, validation)[test])
        for train, validation, test in _splits(study)
    ]
    micro, macro = np.mean(scores, axis=0).tolist()
    found: Row = {"micro": micro, "macro": macro}
    study.cache.mkdir(parents=True, exist_ok=True)
    save_sealed_json(path, {"format": _FORMAT, "question": question, "found": found})
    return found


def _splits(study: Study) -> list[tuple[np.ndarray, ...]]:
    if study.preset("grace").protocol == "public":
        return [masked_nodes(study.data, study.graph.num_nodes)]
    return random_splits(study.graph.num_nodes, tuple(range(SPLITS)))


def _predicted(
    study: Study, baseline: Baseline, seed: int, epochs: int, train: np.ndarray, validation: np.ndarray
) -> np.ndarray:
    """The classes predicted by the model of the epoch with the best validation accuracy; among equals, the least
    loss."""
    y, edges, features = study.data.y, study.data.edge_index, Features(study.data.x)
    x = features.x if features.sparse is None else features.sparse
    with PrivateRandomness(generator_on("cpu", seed)):
        model = baseline.model(x.shape[1], int(y.max()) + 1)
        optimizer = torch.optim.Adam(model.parameters(), baseline.learning_rate, weight_decay=WEIGHT_DECAY)
        best, state, waited = (-1.0, -float("inf")), copy.deepcopy(model.state_dict()), 0
        highest, least = -1.0, float("inf")
        for _ in range(epochs):
            _step(model, optimizer, x, edges, y, train)
            scores = _scores(model, x, edges)[validation]
            accuracy = float((scores.argmax(dim=1) == y[validation]).double().mean())
            loss = float(functional.cross_entropy(scores, y[validation]))
            if (accuracy, -loss) > best:
                best, state = (accuracy, -loss), copy.deepcopy(model.state_dict())
            waited = 0 if accuracy > highest or loss < least else waited + 1
            highest, least = max(highest, accuracy), min(least, loss)
            if waited == PATIENCE:
                break
        model.load_state_dict(state)
        return _scores(model, x, edges).argmax(dim=1).numpy()


def _step(
    model: BasicGNN, optimizer: torch.optim.Optimizer, x: Tensor, edges: Tensor, y: Tensor, train: np.ndarray
) -> None:
    model.train()
    optimizer.zero_grad()
    x = dropped_out(x, model.dropout.p)  # of the features too, as in both papers
    functional.cross_entropy(model(x, edges)[train], y[train]).backward()
    optimizer.step()


def dropped_out(x: Tensor, rate: float) -> Tensor:
    """Dropout; in a sparse matrix only of the stored entries, since zero stays zero either way."""
    if x.layout == torch.strided:
        return functional.dropout(x, rate)
    return csr_matrix(x.crow_indices(), x.col_indices(), functional.dropout(x.values(), rate), (x.shape[0], x.shape[1]))


@torch.no_grad()
def _scores(model: BasicGNN, x: Tensor, edges: Tensor) -> Tensor:
    return model.eval()(x, edges)
