"""Facts about each graph, and each set of graphs, without loading it."""

import difflib
from dataclasses import dataclass
from typing import Literal, TypeAlias

from certgcl.arguments import shown
from certgcl.errors import DatasetError

LONGEST = 100  # characters of a name that are compared when similar names are looked for
Protocol: TypeAlias = Literal["public", "random-10-10-80", "ten-folds"]


@dataclass(frozen=True)
class DatasetInfo:
    """One graph.

    Args:
        edges: undirected ones, without self-loops; None if the number is not known.
        protocol: the usual evaluation: the public split, or random ones of 10/10/80 percent.
        folder: where its ``raw`` files lie below the data folder; empty for an embedded graph.
    """

    name: str
    description: str
    nodes: int
    edges: int | None
    features: int
    classes: int
    protocol: Protocol = "random-10-10-80"
    folder: str = ""

    @property
    def kind(self) -> Literal["embedded", "paper"]:
        return "paper" if self.folder else "embedded"

    @property
    def family(self) -> str:
        """The family of graphs that PyG reads with one class: the first part of ``folder``."""
        return self.folder.partition("/")[0]

    @property
    def files(self) -> tuple[str, ...]:
        """The raw files that PyG reads."""
        return tuple(file.format(name=self.name.lower()) for file in _FILES.get(self.family, ()))


_FILES = {
    "Planetoid": (
        "ind.{name}.x",
        "ind.{name}.tx",
        "ind.{name}.allx",
        "ind.{name}.y",
        "ind.{name}.ty",
        "ind.{name}.ally",
        "ind.{name}.graph",
        "ind.{name}.test.index",
    ),
    "Amazon": ("amazon_electronics_{name}.npz",),
    "AttributedGraph": ("attrs.npz", "edgelist.txt", "labels.txt"),
    "WikiCS": ("data.json",),
}

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        DatasetInfo(
            "digits",
            "scikit-learn's handwritten digits, each joined with its five nearest neighbours",
            1797,
            6309,
            64,
            10,
        ),
        DatasetInfo(
            "karate",
            "Zachary's karate club; one-hot features; classes are the two clubs after the split",
            34,
            78,
            34,
            2,
        ),
        DatasetInfo(
            "les-miserables",
            "characters that appear together; one-hot features; classes are not ground truth but "
            "networkx's greedy modularity communities",
            77,
            254,
            77,
            5,
        ),
        DatasetInfo(
            "sbm",
            "stochastic block model, edges with probability 0.1 in a block and 0.01 between; Gaussian "
            "features around block means; always the same graph",
            400,
            2608,
            16,
            4,
        ),
        DatasetInfo("Cora", "citations between papers; bags of words", 2708, 5278, 1433, 7, "public", "Planetoid/Cora"),
        DatasetInfo(
            "CiteSeer", "citations between papers; bags of words", 3327, 4552, 3703, 6, "public", "Planetoid/CiteSeer"
        ),
        DatasetInfo(
            "PubMed",
            "citations between papers on diabetes; TF-IDF of words",
            19717,
            44324,
            500,
            3,
            "public",
            "Planetoid/PubMed",
        ),
        DatasetInfo(
            "Flickr",
            "contacts among people who share photos; tags (sparse)",
            7575,
            239738,
            12047,
            9,
            folder="AttributedGraph/flickr",
        ),
        DatasetInfo(
            "BlogCatalog",
            "contacts among bloggers; keywords",
            5196,
            171743,
            8189,
            6,
            folder="AttributedGraph/blogcatalog",
        ),
        DatasetInfo(
            "Computers", "goods bought together; words of reviews", 13752, 245861, 767, 10, folder="Amazon/Computers"
        ),
        DatasetInfo("Photo", "goods bought together; words of reviews", 7650, 119081, 745, 8, folder="Amazon/Photo"),
        DatasetInfo(
            "WikiCS",
            "links between articles on computer science, made undirected; mean word vectors",
            11701,
            None,
            300,
            10,
            folder="WikiCS",
        ),
    )
}
"""Every graph that :func:`certgcl.load_dataset` knows, by name."""


TU_PARTS = ("A", "graph_indicator", "graph_labels", "node_labels")


@dataclass(frozen=True)
class GraphSetInfo:
    """A set of graphs.

    Args:
        nodes, edges: those of all graphs together.
        folder: where its ``raw`` files lie below the data folder; empty for a drawn set.
    """

    name: str
    description: str
    graphs: int
    nodes: int
    edges: int
    features: int
    classes: int
    folder: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """The raw files: text, as the TU collection has it."""
        return tuple(f"{self.name}_{part}.txt" for part in TU_PARTS) if self.folder else ()


GRAPH_SETS: dict[str, GraphSetInfo] = {
    info.name: info
    for info in (
        GraphSetInfo(
            "cycles-and-trees",
            "trees, and trees around a cycle; one of four colours for each node; always the same graphs",
            200,
            2997,
            2897,
            4,
            2,
        ),
        GraphSetInfo(
            "MUTAG", "nitroaromatic compounds, mutagenic or not; kinds of atoms", 188, 3371, 3721, 7, 2, "TU/MUTAG"
        ),
        GraphSetInfo(
            "PROTEINS",
            "proteins, enzymes or not; kinds of secondary structure",
            1113,
            43471,
            81044,
            3,
            2,
            "TU/PROTEINS",
        ),
    )
}
"""Every set of graphs that :func:`certgcl.load_dataset` knows, by name."""


def dataset_names() -> list[str]:
    return list(DATASETS)


def find_dataset(name: str) -> DatasetInfo:
    """The facts about the graph of that name, which is not case-sensitive."""
    by_lower = {known.lower(): info for known, info in DATASETS.items()}
    asked = name.lower() if isinstance(name, str) else ""
    if asked not in by_lower:
        several = find_graph_set(name)
        if several is not None:
            raise DatasetError(
                f"dataset {several.name!r}",
                "it is a set of graphs, not one graph",
                "Load it with certgcl.load_dataset and ask certgcl.graph_compactness",
            )
        names = [*DATASETS, *GRAPH_SETS]
        near = difflib.get_close_matches(asked[:LONGEST], [known.lower() for known in names], n=1)
        meant = next((known for known in names if near and known.lower() == near[0]), None)
        raise DatasetError(
            f"dataset {shown(name)}",
            f"datasets are {', '.join(names)}",
            "Pick one" if meant is None else f"Did you mean {meant!r}?",
        )
    return by_lower[asked]


def find_graph_set(name: str) -> GraphSetInfo | None:
    """The facts about the set of graphs of that name, if there is one."""
    asked = name.lower() if isinstance(name, str) else ""
    return next((info for known, info in GRAPH_SETS.items() if known.lower() == asked), None)
