"""Every admissible view of a case of any kind: run by NumPy to say which are lowest, and then evaluated by Arb.

The exact minimum is no larger than the exact value of any view, so a bound above one of them is certainly wrong.
"""

from collections.abc import Callable, Iterable

import networkx as nx
import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

import certgcl
from verification.changed_audit import library_changes as changes_of_edges
from verification.edge_changes import ChangedCase, admissible_changes
from verification.exact_arithmetic import BITS, dot, exact_embeddings, exact_matrix
from verification.feature_audit import library_changes as changes_of_features
from verification.feature_audit import with_bits
from verification.feature_case import FeatureCase, PlainFeatures
from verification.feature_oracle import admissible_features
from verification.network_case import Array, NetworkCase
from verification.network_oracle import compactness_directions, embeddings
from verification.oracle import Edge, admissible_drops

AnyCase = NetworkCase | ChangedCase | FeatureCase
Matrix = list[list[arb]]
LOWEST = 2  # views that are evaluated for each node


CHANGES: dict[str, Callable[[NetworkCase], AnyCase]] = {
    "drops": lambda case: case.with_budget(1, 2),
    "added edges": lambda case: ChangedCase(case.with_budget(0), local=1, total=2),
    "added and dropped edges": lambda case: ChangedCase(case.with_budget(1, 1), local=1, total=1),
    "flips": lambda case: ChangedCase(case.with_budget(1, 2), flips=True),
    "masked": lambda case: FeatureCase(case.with_budget(0), PlainFeatures("masked", off=1, total=2)),
    "bits": lambda case: FeatureCase(with_bits(case.with_budget(0)), PlainFeatures("bits", off=1, on=1, total=2)),
    "box": lambda case: FeatureCase(case.with_budget(0), PlainFeatures("box", radius=0.5 * float(abs(case.x).max()))),
    "columns and drops": lambda case: FeatureCase(case.with_budget(1, 1), PlainFeatures("columns", columns=1)),
}
"""Every kind of change, a few of each, to a case without a budget."""


def network_of(case: AnyCase) -> NetworkCase:
    return case if isinstance(case, NetworkCase) else case.case if isinstance(case, ChangedCase) else case.network


def changes_to(case: AnyCase) -> certgcl.Changes:
    """What the library is asked about."""
    if isinstance(case, NetworkCase):
        return certgcl.Changes(certgcl.EdgeDropBudget(case.local, case.total))
    return changes_of_edges(case) if isinstance(case, ChangedCase) else changes_of_features(case)


class ExactViews:
    """The views of a case, the clean one first.

    Attributes:
        graphs, features: of every view; of a box, features that are inside it as floats.
        z: embeddings by NumPy, ``(views, n, d)``.
    """

    def __init__(self, case: AnyCase) -> None:
        ctx.prec = BITS
        self.network = network = network_of(case)
        changed: list[tuple[tuple[Edge, ...], tuple[Edge, ...]]] = [(drops, ()) for drops in admissible_drops(network)]
        features = [network.x]
        if isinstance(case, ChangedCase):
            changed = list(admissible_changes(case))
        elif isinstance(case, FeatureCase):
            features = list(admissible_features(case))
            if case.features.kind == "box":  # corners are rounded: the next numbers are inside
                features = [np.nextafter(x, network.x) for x in features]
        graphs = [_changed(network.graph, *each) for each in changed]
        self.graphs = [graph for _ in features for graph in graphs]
        self.features = [x for x in features for _ in graphs]
        adjacency = np.stack([nx.to_numpy_array(graph, nodelist=range(network.nodes)) for graph in graphs])
        with np.errstate(all="ignore"):
            self.z = embeddings(
                network, np.tile(adjacency, (len(features), 1, 1)), np.repeat(np.stack(features), len(graphs), axis=0)
            )
        self._exact: dict[int, Matrix] = {}

    def at(self, place: int) -> Matrix:
        """The exact embeddings of a view, a row for each node."""
        if place not in self._exact:
            x: arb_mat = exact_matrix(self.features[place])
            self._exact[place] = exact_embeddings(self.network, self.graphs[place], x)
        return self._exact[place]

    def least(self, directions: Matrix) -> list[arb]:
        """At least the exact minimum of ``w_i · z_i`` for each node: the least of the views that NumPy finds lowest."""
        w = np.array([[float(value.mid()) for value in row] for row in directions])
        with np.errstate(all="ignore"):
            places = _lowest((self.z * w).sum(axis=-1))
        return [
            _least(dot(direction, self.at(place)[node]) for place in {0, *places[:, node].tolist()})
            for node, direction in enumerate(directions)
        ]

    def pairs(self) -> list[list[tuple[int, int]]]:
        """For each node, views S2 and S1 with the lowest ``W^CL_i(S2) · z_i(S1)``, and the clean pair."""
        with np.errstate(all="ignore"):
            w = np.stack([compactness_directions(z) for z in self.z])
            found = np.einsum("snd,tnd->stn", w, self.z)
        places = _lowest(found.reshape(-1, found.shape[2]))
        return [[(0, 0), *(divmod(place, len(self.z)) for place in column)] for column in places.T.tolist()]


def _changed(graph: nx.Graph, drops: Iterable[Edge], added: Iterable[Edge]) -> nx.Graph:
    found = graph.copy()
    found.remove_edges_from(drops)
    found.add_edges_from(added)
    return found


def _lowest(values: Array) -> NDArray[np.intp]:
    """The places of the lowest values of each column, ``(LOWEST, n)``."""
    return np.nan_to_num(values, nan=np.inf).argsort(axis=0, kind="stable")[:LOWEST]


def _least(values: Iterable[arb]) -> arb:
    first, *others = values
    for value in others:
        first = first.min(value)
    return first
