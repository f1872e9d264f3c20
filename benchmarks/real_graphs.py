"""The paper's graphs for tests and benchmarks: from ``CERTGCL_DATA`` alone when that names a folder."""

import os
from pathlib import Path

from torch_geometric.data import Data

from certgcl.graphs.datasets import load_dataset


def data_root() -> Path | None:
    """The folder named by ``CERTGCL_DATA``, if it is there."""
    root = Path(os.environ.get("CERTGCL_DATA", ""))
    return root if os.environ.get("CERTGCL_DATA") and root.is_dir() else None


def load(name: str) -> Data:
    return load_dataset(name, data_root())
