"""Run folders as commands see them: where the graph of a run is from, and the files that training leaves."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from torch_geometric.data import Data

from certgcl.datasets import find_dataset, load_dataset
from certgcl.errors import CheckpointError
from certgcl.files import refusing, write_json
from certgcl.storage import load_data

SOURCE, METHOD, ENCODER, RESULT, CERTIFICATES = (
    "source.json", "method.pt", "encoder.npz", "result.json", "certificates")


@dataclass(frozen=True)
class Source:
    """A graph by its name or in a file: one of the two.

    Args:
        root: the folder with the raw files of datasets.
    """

    dataset: str | None = None
    graph: str | None = None
    root: str | None = None

    @classmethod
    def of_run(cls, run: Path) -> "Source":
        with refusing(_finished(run, SOURCE), CheckpointError, "it must say where the graph of the run is from",
                      "Bring it back from a copy"):
            return cls(**json.loads((run / SOURCE).read_text(encoding="utf-8")))

    def save(self, run: Path) -> None:
        write_json(run / SOURCE, asdict(self))

    def load(self, root: Path | None = None) -> Data:
        """The graph, with its labels if it has any."""
        if self.dataset is not None:
            return load_dataset(self.dataset, root or self.root)
        return load_data(str(self.graph))

    def protocol(self, data: Data) -> str:
        """The evaluation that fits: that of the dataset, or by the masks that come with the graph."""
        if self.dataset is not None:
            return find_dataset(self.dataset).protocol
        return "public" if "train_mask" in data else "random-10-10-80"

    def __str__(self) -> str:
        return self.dataset or Path(str(self.graph)).stem


def encoder_of(run: Path) -> Path:
    return _finished(run, ENCODER)


def method_of(run: Path) -> Path:
    return _finished(run, METHOD)


def _finished(run: Path, name: str) -> Path:
    if not (run / name).exists():
        raise CheckpointError(f"{run} without {name}", "a run has it once it is trained",
                              "Finish it: the same certgcl train with --resume")
    return run / name
