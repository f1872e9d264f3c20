from itertools import combinations

import networkx as nx
import pytest
import torch

from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import GraphError
from certgcl.graphs.graph import Graph
from tests.toys import admissible_sets, random_graph, toy_graph, toy_network, without


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_encoder_on_the_graph_without_these_edges(seed: int) -> None:
    graph, weights = random_graph(nodes=8, density=0.35, seed=seed), toy_network(seed=seed)
    evaluation = DropEvaluation.of(weights, graph)
    for dropped in list(admissible_sets(graph, total=2)):
        expected = weights.embed(without(graph, dropped))
        edges = torch.tensor(dropped, dtype=torch.long).reshape(-1, 2).T
        for node in range(graph.num_nodes):
            torch.testing.assert_close(evaluation.embedding(node, edges), expected[node], rtol=1e-13, atol=1e-13)


def test_several_changes_at_once_are_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, network = random_graph(nodes=8, density=0.35), toy_network()
    evaluation = DropEvaluation.of(network, graph)
    sets = [torch.tensor(dropped, dtype=torch.long).reshape(-1, 2).T for dropped in admissible_sets(graph, total=2)]
    absent = torch.tensor([pair for pair in combinations(range(8), 2) if not bool(graph.has_edge(*torch.tensor(pair)))])
    changes = [(dropped, absent[number % len(absent)][:, None]) for number, dropped in enumerate(sets)]
    changes += [(dropped, absent[:0].T) for dropped in sets]
    for most in (1 << 20, 40):
        monkeypatch.setattr("certgcl.changes.embedding_without_edges._MOST_EDGES", most)
        for node in range(graph.num_nodes):
            found = evaluation.embeddings(node, changes)
            each = [evaluation.embedding(node, dropped, None, added) for dropped, added in changes]
            torch.testing.assert_close(found, torch.stack(each), rtol=1e-13, atol=1e-13)
    dropped, added = changes[-len(sets) - 1][0], changes[-len(sets) - 1][1]
    view = without(graph, [tuple(edge) for edge in dropped.T.tolist()])
    both = torch.cat([view.edge_index, added, added.flip(0)], dim=1)
    expected = network.embed(Graph.from_edges(graph.x, both))
    for node in range(graph.num_nodes):
        torch.testing.assert_close(
            evaluation.embeddings(node, [(dropped, added)])[0], expected[node], rtol=1e-13, atol=1e-13
        )


def test_an_edge_that_is_not_there_is_refused() -> None:
    evaluation = DropEvaluation.of(toy_network(), toy_graph(nx.path_graph(4)))
    with pytest.raises(GraphError, match=r"dropped edge \(0, 2\) that the graph does not have"):
        evaluation.embedding(1, torch.tensor([[0, 0], [1, 2]]))
    with pytest.raises(GraphError, match=r"\(3, 3\)"):
        evaluation.embedding(1, torch.tensor([[3], [3]]))
