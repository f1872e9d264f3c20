import networkx as nx
import pytest
import torch

from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import GraphError
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


def test_an_edge_that_is_not_there_is_refused() -> None:
    evaluation = DropEvaluation.of(toy_network(), toy_graph(nx.path_graph(4)))
    with pytest.raises(GraphError, match=r"dropped edge \(0, 2\) that the graph does not have"):
        evaluation.embedding(1, torch.tensor([[0, 0], [1, 2]]))
    with pytest.raises(GraphError, match=r"\(3, 3\)"):
        evaluation.embedding(1, torch.tensor([[3], [3]]))
