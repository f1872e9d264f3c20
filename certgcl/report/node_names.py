"""What the nodes of a graph are called, where they have names."""

from torch_geometric.data import Data

_BUNDLED = {"les-miserables": "les_miserables_graph"}  # in networkx, whose order of nodes is that of load_dataset


def names_of(data: Data, graph_name: str) -> list[str] | None:
    """``data.node_names``, one string per node; those of networkx for a bundled graph; None where there are none."""
    given = data.get("node_names")
    if isinstance(given, (list, tuple)) and len(given) == data.num_nodes and all(isinstance(one, str) for one in given):
        return list(given)
    if graph_name not in _BUNDLED:
        return None
    import networkx as nx

    names = [str(node) for node in getattr(nx, _BUNDLED[graph_name])()]
    return names if len(names) == data.num_nodes else None
