"""How far the bound is from an attack, on trained encoders: any possible gain in tightness lies between the two.

GRACE is trained with the fast preset of each graph. At some random nodes the worst case of node compactness is bounded
from below by ``degree``, and from above by drops that the search finds (gradients on relaxed masks, rounding, local
changes). ``drop ratio`` is ``Σ (clean - bound) / Σ (clean - attacked)`` over the nodes: 1 is exact, and as the attack
need not find the worst drops, the bound is at least as tight as it says.

One line of JSON for each graph and rate is appended to the file of results; existing ones are skipped, so a stopped
benchmark resumes where it was.

``CERTGCL_DATA=... python -m benchmarks.bound_against_attack [--graphs Cora Photo] [--rates 0.05 0.2 0.4] [--nodes 25]``
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import certgcl
from benchmarks.real_graphs import load
from benchmarks.report import markdown
from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.batch import FieldBatch
from certgcl.learning import presets
from certgcl.models.reading import read_network

RESULTS = Path(__file__).parent / "results" / "bound_against_attack.jsonl"
GRAPHS = ("Cora", "CiteSeer", "PubMed", "Photo", "Computers", "BlogCatalog", "Flickr")
RATES = (0.05, 0.2, 0.4)
NODES = 25


def compared(
    model: certgcl.ContrastiveMethod, graph: certgcl.Graph, rate: float, nodes: torch.Tensor, restarts: int
) -> dict[str, Any]:
    """Bound and attack at some nodes, at one drop rate."""
    start = time.perf_counter()
    bounds = certgcl.node_compactness(model, graph, rate, nodes=nodes)
    bounded = time.perf_counter()
    space = SearchSpace(
        read_network(model, graph).copied().to(torch.float64), graph, certgcl.EdgeDropBudget.of(rate).on(graph)
    )
    places, fields = zip(
        *((place, field) for place, field in enumerate(map(space.field, nodes.tolist())) if field is not None),
        strict=True,
    )
    lower, nominal, directions = (part[list(places)] for part in (bounds.lower, bounds.nominal, bounds.directions))
    found = Search(restarts=restarts)(space, fields, directions)
    attacked = torch.cat(
        [
            _value(FieldBatch.of(space, [field], direction[None]), dropped)
            for field, direction, dropped in zip(fields, directions, found, strict=True)
        ]
    )
    ended = time.perf_counter()
    edges = torch.tensor([len(field.slots) for field in fields]).double()
    return {
        "nodes": len(places),
        "drop_ratio": float((nominal - lower).sum() / (nominal - attacked).sum()),
        "proved": float((lower > 0).double().mean()),
        "unbroken": float((attacked > 0).double().mean()),
        "clean": float(nominal.mean()),
        "bound": float(lower.mean()),
        "attacked": float(attacked.mean()),
        "below_bound": int((attacked < lower - bounds.rounding[list(places)]).sum()),
        "median_edges": float(edges.median()),
        "most_edges": int(edges.max()),
        "bound_seconds": (bounded - start) / len(nodes),
        "attack_seconds": (ended - bounded) / len(nodes),
    }


def _value(batch: FieldBatch, dropped: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
    mask[0, dropped] = True
    return batch.values(mask).detach()


def known(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    columns = [
        "graph",
        "epochs",
        "drop rate",
        "nodes",
        "drop ratio",
        "proved",
        "unbroken",
        "edges in sight (median)",
        "bound, s/node",
        "attack, s/node",
    ]
    return markdown(
        columns,
        [
            [
                row["graph"],
                row["epochs"],
                f"{row['rate']:g}",
                row["nodes"],
                row["drop_ratio"],
                f"{row['proved']:.0%}",
                f"{row['unbroken']:.0%}",
                round(row["median_edges"]),
                row["bound_seconds"],
                row["attack_seconds"],
            ]
            for row in rows
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES))
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--restarts", type=int, default=1, help="of the attack")
    parser.add_argument("--epochs", type=int, help="of the training; those of the fast preset by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.graphs:
        settings = presets.get("grace", name, fast=True).settings()
        settings["epochs"] = arguments.epochs or settings["epochs"]
        run = {"graph": name, "epochs": settings["epochs"], "seed": arguments.seed}
        done = {row["rate"] for row in known(arguments.results) if run.items() <= row.items()}
        rates = [rate for rate in arguments.rates if rate not in done]
        if not rates:
            continue
        data = load(name)
        graph = certgcl.Graph.of(data)
        model = certgcl.GRACE(**settings, seed=arguments.seed)
        model.fit(data)
        nodes = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(arguments.seed))
        for rate in rates:
            row = {
                **run,
                "rate": rate,
                **compared(model, graph, rate, nodes[: arguments.nodes].sort().values, arguments.restarts),
            }
            with arguments.results.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            print(
                f"{name} at {rate:g}: drop ratio {row['drop_ratio']:.3f}, proved {row['proved']:.0%}, unbroken "
                f"{row['unbroken']:.0%}, attack {row['attack_seconds']:.2f} s a node",
                flush=True,
            )
    print(table(known(arguments.results)))


if __name__ == "__main__":
    main()
