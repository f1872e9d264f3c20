"""PyG's PRBCD attack on the linear probe, before and after certified training: no attack gets below what is proved.

Two attacks, on the same test nodes as certified accuracy, at encoders of ``benchmarks.certified_training``:

- *drops*: PRBCD on the edges of the graph alone, its result brought inside the budget ``q_i = round(rate d_i)`` by
  dropping edges in the order of its weights while both ends may lose one more. That is one admissible set for all
  nodes, so the accuracy after it is an upper value of certified accuracy;
- *flips*: PRBCD as it is, with edges added and dropped, a share of the number of edges in all. No certificate here
  covers added edges; it shows what else training for drops achieves.

``CERTGCL_DATA=... python -m benchmarks.prbcd_stays_above_certified_accuracy [--graphs Cora] [--variants plain clean
certified kept] [--seeds 3 4] [--models FOLDER] [--json FILE]``
"""

import statistics
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import certgcl
from benchmarks import report, training_measures
from benchmarks.certified_training import NODES, loaded, trained
from certgcl.learning import presets

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'torch_geometric.contrib'", UserWarning)
    from torch_geometric.contrib.nn import PRBCDAttack

RATES = (0.4, 0.8)
FLIPS = (0.05, 0.1)  # of the number of edges
BLOCK = 10_000  # pairs of nodes that PRBCD looks at in a step
STEPS = 60  # steps, the last third of which keeps its pairs


class Probe(nn.Module):
    """Class scores of a linear probe on a two-layer GCN, differentiable in the weights of edges."""

    def __init__(self, encoder: nn.Module, classifier: tuple[np.ndarray, np.ndarray]) -> None:
        super().__init__()
        self.encoder = encoder
        weights, intercepts = (torch.as_tensor(part, dtype=torch.float32) for part in classifier)
        self.register_buffer("weights", weights)
        self.register_buffer("intercepts", intercepts)

    def forward(self, projected: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """``projected`` has the features times the weights of the first layer: edges change nothing about them."""
        first, second = self.encoder.conv1, self.encoder.conv2
        edges, weight = gcn_norm(edge_index, edge_weight, len(projected))

        def spread(values: Tensor) -> Tensor:
            return torch.zeros_like(values).index_add(0, edges[1], values[edges[0]] * weight[:, None])

        hidden = self.encoder.activation(spread(projected) + first.bias)
        z = self.encoder.out_activation(spread(second.lin(hidden)) + second.bias)
        return z @ self.weights.T + self.intercepts


class Drops(PRBCDAttack):
    """PRBCD whose block is all edges of the graph, and whose result keeps a budget at every node."""

    def __init__(self, model: nn.Module, graph: certgcl.Graph, local: Tensor) -> None:
        super().__init__(model, graph.num_edges, epochs=STEPS, epochs_resampling=0, loss="tanh_margin", log=False)
        self.pairs = graph.edge_index[:, graph.row < graph.col]
        self.local = local

    def _sample_random_block(self, budget: int = 0) -> None:
        self.current_block = torch.arange(self.pairs.shape[1])
        self.block_edge_index = self.pairs
        self.block_edge_weight = torch.full((self.pairs.shape[1],), self.coeffs["eps"])

    def _sample_final_edges(
        self, x: Tensor, labels: Tensor, budget: int, idx_attack: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        left, dropped = self.local.tolist(), torch.zeros(self.pairs.shape[1])
        for edge in self.block_edge_weight.argsort(descending=True).tolist():
            i, j = self.pairs[:, edge].tolist()
            if self.block_edge_weight[edge] > self.coeffs["eps"] and left[i] and left[j]:
                left[i], left[j], dropped[edge] = left[i] - 1, left[j] - 1, 1.0
        edges, weight = self._get_modified_adj(self.edge_index, self.edge_weight, self.pairs, dropped)
        return edges[:, weight == 1], self.pairs[:, dropped > 0]


def attacked(dataset: str, variant: str, seed: int, models: Path | None) -> dict[str, Any]:
    """Accuracy on the test nodes as given, proved at each rate, and after each attack."""
    data, graph = loaded(dataset)
    estimator, _ = trained(graph, dataset, "grace", variant, seed, models)
    public = presets.get("grace", dataset, tuned=True).protocol == "public"
    z = estimator.transform(graph)
    classifier, test = training_measures.probe(z, data, public)
    nodes, labels = training_measures.sampled(test, NODES), torch.as_tensor(data.y)
    model = Probe(estimator.fitted_encoder(), classifier).eval()  # type: ignore[arg-type]
    x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
    projected = (x.float() @ model.encoder.conv1.lin.weight.T).detach()

    def accuracy(edges: Tensor) -> float:
        with torch.no_grad():
            return float((model(projected, edges).argmax(dim=1) == labels)[nodes].double().mean())

    with torch.no_grad():
        scores = z @ model.weights.T + model.intercepts
        torch.testing.assert_close(model(projected, graph.edge_index), scores, rtol=1e-3, atol=1e-3)
    row: dict[str, Any] = {"graph": dataset, "variant": variant, "seed": seed, "nodes": len(nodes)}
    row["clean"] = accuracy(graph.edge_index)
    for rate in RATES:
        drops = certgcl.EdgeDropBudget.of(rate).on(graph)
        attack = Drops(model, graph, drops.local)
        edges, found = attack.attack(projected, graph.edge_index, labels, int(drops.local.sum()) // 2, nodes)
        proved = certgcl.certified_accuracy(estimator, classifier, graph, data.y, rate, nodes=nodes, search=False)
        row[f"proved at {rate:g}"], row[f"drops at {rate:g}"] = proved.lower, accuracy(edges)
        row[f"dropped at {rate:g}"] = found.shape[1]
    for share in FLIPS:
        torch.manual_seed(0)
        attack = PRBCDAttack(
            model, BLOCK, epochs=STEPS, epochs_resampling=2 * STEPS // 3, loss="tanh_margin", log=False
        )
        edges, _ = attack.attack(projected, graph.edge_index, labels, round(share * graph.num_edges), nodes)
        row[f"flips of {share:g}"] = accuracy(edges)
    return row


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--graphs", nargs="+", default=["Cora"])
    parser.add_argument("--variants", nargs="+", default=["plain", "clean", "certified", "kept"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4])
    parser.add_argument("--models", type=Path, help="a folder with trained encoders")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = []
    for dataset in arguments.graphs:
        for variant in arguments.variants:
            for seed in arguments.seeds:
                rows.append(attacked(dataset, variant, seed, arguments.models))
                print(rows[-1], flush=True)
    margin = min(row[f"drops at {rate:g}"] - row[f"proved at {rate:g}"] for row in rows for rate in RATES)
    report.publish(
        "prbcd_stays_above_certified_accuracy",
        arguments.json,
        rows=rows,
        aims=[report.aim("accuracy after PRBCD's drops - certified accuracy, least", margin, at_least=0.0)],
    )


def tables(result: dict[str, Any]) -> list[str]:
    """Means over the seeds, in percent."""
    names = [f"{what} at {rate:g}" for rate in RATES for what in ("proved", "drops")]
    names = ["clean", *names, *(f"flips of {share:g}" for share in FLIPS)]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault((row["graph"], row["variant"]), []).append(row)
    return [
        report.markdown(
            ["GRACE", "seeds", *names],
            [
                [
                    f"{graph}, {variant}",
                    len(rows),
                    *(f"{100 * statistics.mean(row[name] for row in rows):.1f}" for name in names),
                ]
                for (graph, variant), rows in groups.items()
            ],
        )
    ]


if __name__ == "__main__":
    main()
