"""Run folders as commands see them: the graph of a run, and the files that training writes."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.errors import CheckpointError
from certgcl.files.atomic import refusing, save_sealed_json
from certgcl.files.digest import digest, stored_parts
from certgcl.files.strict_json import read_sealed
from certgcl.graphs.datasets import find_dataset, load_dataset, load_single_graph
from certgcl.graphs.datasets.catalogue import find_graph_set
from certgcl.graphs.graph import Graph
from certgcl.graphs.storage import load_data

SOURCE, METHOD, ENCODER, RESULT, CERTIFICATES = (
    "source.json",
    "method.pt",
    "encoder.npz",
    "result.json",
    "certificates",
)
_FORMAT = "certgcl-source-2"
_GRAPH = ("edges", "features")
_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True)
class GraphSource:
    """A graph by its name or in a file: one of the two.

    A run folder may come from anyone. So it names a dataset or the file of a graph, with checksums, but not the folder
    from which the raw files of datasets are read: only the user names that.

    Args:
        root: the folder with the raw files of datasets; never that of a run folder.
        sha256: of the graph that a run was trained on, part by part; empty if any will do.
    """

    dataset: str | None = None
    graph: str | None = None
    root: str | None = None
    sha256: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Path) -> "GraphSource":
        with refusing(
            _finished(run, SOURCE),
            CheckpointError,
            "it must say which graph the run is about",
            "Bring it back from a copy, or train again",
        ):
            content = read_sealed(run / SOURCE, _FORMAT)
            dataset, graph, sha256 = content["dataset"], content["graph"], content["sha256"]
            if (dataset is None) == (graph is None):
                raise ValueError("a dataset or a graph, and not both")
            if not isinstance(sha256, dict) or not set(_GRAPH) <= set(sha256):
                raise ValueError("no checksums of edges and features")
            if dataset is not None:
                return cls(dataset=known_name(dataset), sha256=sha256)
            return cls(graph=_checked_path(graph), sha256=sha256)

    @property
    def several(self) -> bool:
        """Whether it is a set of graphs."""
        return self.dataset is not None and find_graph_set(self.dataset) is not None

    def save(self, run: Path, data: Data | list[Data]) -> None:
        """Record the graph, or set of graphs, of a run, with its checksums."""
        content = asdict(replace(self, sha256=_digests(data)))
        del content["root"]
        save_sealed_json(run / SOURCE, {"format": _FORMAT, **content})

    def found_at(self, other: "GraphSource") -> "GraphSource":
        """The same edges and features at the place that the user names; labels and masks come from there."""
        return replace(other, sha256={part: self.sha256[part] for part in _GRAPH})

    def load(self, root: Path | None = None) -> Data:
        """The graph, with its labels if it has any.

        Raises:
            CheckpointError: it is not the one that the run was trained on.
        """
        data = (
            load_single_graph(self.dataset, root or self.root)
            if self.dataset is not None
            else (load_data(str(self.graph)))
        )
        self._check(data)
        return data

    def load_several(self, root: Path | None = None) -> list[Data]:
        """The graphs of a set."""
        graphs = load_dataset(str(self.dataset), root or self.root)
        assert isinstance(graphs, list)
        self._check(graphs)
        return graphs

    def _check(self, data: Data | list[Data]) -> None:
        if self.sha256:
            found = _digests(data)
            changed = [part for part, noted in self.sha256.items() if found.get(part) != noted]
            if changed:
                raise CheckpointError(
                    f"{self.dataset or self.graph} with other {' and '.join(changed)}",
                    "a run belongs to the graph that it was trained on",
                    "Name that graph with --graph, or the folder of its raw files with --data-root",
                )

    def protocol(self, data: Data | list[Data]) -> str:
        """The appropriate evaluation: that of the dataset, or by the masks of the graph."""
        if self.several:
            return "ten-folds"
        if self.dataset is not None:
            return find_dataset(self.dataset).protocol
        return "public" if "train_mask" in data else "random-10-10-80"

    def __str__(self) -> str:
        return self.dataset or Path(str(self.graph)).stem


def known_name(dataset: str) -> str:
    """The name of a dataset, of one graph or of several, in its usual spelling."""
    several = find_graph_set(dataset)
    return find_dataset(dataset).name if several is None else several.name


def labels_of(graphs: list[Data]) -> Tensor:
    """The classes of graphs, ``(G,)``."""
    return torch.cat([graph.y for graph in graphs])


def _digests(data: Data | list[Data]) -> dict[str, str]:
    """What certificates and evaluations depend on."""
    if isinstance(data, list):
        several = GraphSet.of(data)
        return {
            "edges": digest(several.sizes, several.union.rowptr, several.union.col),
            "features": digest(several.union.x),
            "labels": digest(labels_of(data)),
        }
    graph = Graph.of(data)
    found = {"edges": digest(graph.rowptr, graph.col), "features": digest(*stored_parts(graph.x))}
    others = {"labels": data.y, **{name: data[name] for name in _MASKS if name in data}}
    return found | {name: digest(value) for name, value in others.items() if isinstance(value, Tensor)}


def _checked_path(graph: object) -> str:
    """A path as ``certgcl train`` records it; one that could lead to another machine or up the tree raises an error."""
    if not isinstance(graph, str) or "\0" in graph or graph.startswith(("//", "\\\\")):
        raise ValueError(f"a graph at {graph!r}")
    path = PurePath(graph)
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"a graph at {graph!r}, which is not an absolute path")
    return graph


def encoder_of(run: Path) -> Path:
    return _finished(run, ENCODER)


def method_of(run: Path) -> Path:
    return _finished(run, METHOD)


def _finished(run: Path, name: str) -> Path:
    if not (run / name).exists():
        raise CheckpointError(
            f"{run} without {name}",
            "a run has it once it is trained",
            "Finish it: run the same certgcl train with --resume",
        )
    return run / name
