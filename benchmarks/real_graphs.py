"""The paper's graphs from raw files on disk, without writing beside them."""

import contextlib
import io
import os
import tempfile
from pathlib import Path

from torch_geometric.data import Data
from torch_geometric.datasets import Amazon, AttributedGraphDataset, Planetoid
from torch_geometric.transforms import NormalizeFeatures

FOLDERS = {"Cora": "Planetoid", "CiteSeer": "Planetoid", "PubMed": "Planetoid", "Computers": "Amazon",
           "Photo": "Amazon", "BlogCatalog": "AttributedGraph", "Flickr": "AttributedGraph"}


def data_root() -> Path | None:
    """The folder named by ``CERTGCL_DATA``, if it is there."""
    root = Path(os.environ.get("CERTGCL_DATA", ""))
    return root if os.environ.get("CERTGCL_DATA") and root.is_dir() else None


def load(name: str) -> Data:
    """One graph by name. PyG writes its ``processed`` folder to a temporary place; ``raw`` is linked there.

    What it says of that on stderr is dropped.
    """
    root = data_root()
    if root is None:
        raise FileNotFoundError("set CERTGCL_DATA to the folder that holds Planetoid/, Amazon/ and AttributedGraph/")
    kind = FOLDERS[name]
    folder = name.lower() if kind == "AttributedGraph" else name
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stderr(io.StringIO()):
        target = Path(scratch, folder)
        target.mkdir()
        (target / "raw").symlink_to((root / kind / folder / "raw").resolve(), target_is_directory=True)
        if kind == "Planetoid":
            return Planetoid(scratch, name, transform=NormalizeFeatures())[0]
        if kind == "Amazon":
            return Amazon(scratch, name)[0]
        return AttributedGraphDataset(scratch, name)[0]
