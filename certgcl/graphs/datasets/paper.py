"""The paper's eight graphs, read by PyG from raw files that are never modified."""

import contextlib
import io
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Amazon, AttributedGraphDataset, WikiCS
from torch_geometric.transforms import NormalizeFeatures

from certgcl.errors import DatasetError
from certgcl.graphs.datasets.catalogue import DatasetInfo, GraphSetInfo
from certgcl.graphs.datasets.planetoid import SafePlanetoid
from certgcl.graphs.sparse import csr_matrix

_CLASSES: dict[str, Callable[[str, str], list[Data]]] = {
    "Planetoid": SafePlanetoid,
    "Amazon": Amazon,
    "AttributedGraph": AttributedGraphDataset,
    "WikiCS": lambda root, name: WikiCS(root, is_undirected=True),
}


def read(info: DatasetInfo, root: Path | None = None) -> Data:
    """The graph as PyG reads it: from ``root`` only, or from wherever it is available."""
    if root is not None:
        return _read_from(root, info)
    named = os.environ.get("CERTGCL_DATA")
    for folder in ([Path(named).expanduser()] if named else []) + [cache_folder()]:
        if not missing_files(folder, info):
            return _read_from(folder, info)
    return _download(info)


def row_normalised(x: Tensor) -> Tensor:
    """PyG's ``NormalizeFeatures``, also for CSR: every row divided by its sum, or by 1 where that is less.

    PyG first subtracts the least value of all; in a sparse matrix without negative values it is 0.
    """
    if x.layout == torch.strided:
        return NormalizeFeatures()(Data(x=x)).x
    rowptr, values = x.crow_indices().long(), x.values()
    row = torch.repeat_interleave(torch.arange(x.shape[0]), rowptr.diff())
    total = values.new_zeros(x.shape[0]).index_add_(0, row, values).clamp(min=1)
    return csr_matrix(rowptr, x.col_indices().long(), values / total[row], (x.shape[0], x.shape[1]))


def cache_folder() -> Path:
    return Path(os.environ.get("CERTGCL_CACHE") or "~/.cache/certgcl").expanduser()


def missing_files(root: Path, info: DatasetInfo | GraphSetInfo) -> list[str]:
    return [file for file in info.files if not (root / info.folder / "raw" / file).is_file()]


def _read_from(root: Path, info: DatasetInfo) -> Data:
    """PyG writes next to ``raw``, and into it if a file is missing: so it gets a link elsewhere, once all files are
    there."""
    raw, missing = root / info.folder / "raw", missing_files(root, info)
    if missing:
        raise DatasetError(
            f"no {', '.join(missing)} in {raw}",
            f"{info.name} is read from there when root is {root}",
            "Put the files there, or leave root out to have them downloaded",
        )
    with tempfile.TemporaryDirectory() as scratch:
        link = Path(scratch, info.folder, "raw")
        link.parent.mkdir(parents=True)
        link.symlink_to(raw.resolve(), target_is_directory=True)
        with _refusing(str(raw), f"it must hold {info.name} as PyG reads it", "Download its files again"):
            return _read_with_pyg(Path(scratch), info)


def _download(info: DatasetInfo) -> Data:
    """Downloads into a temporary folder; the files are moved into the cache once PyG has read them all."""
    cache, raw = cache_folder(), Path(info.folder, "raw")
    with _refusing(
        f"{info.name} is neither in CERTGCL_DATA nor in {cache}, and its download failed",
        f"{', '.join(info.files)} must lie in {cache / raw}, or in {raw} below the folder CERTGCL_DATA",
        "Put them there, or try again with a network",
    ):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            data = _read_with_pyg(Path(scratch), info)
            (cache / raw).mkdir(parents=True, exist_ok=True)
            for file in info.files:
                os.replace(Path(scratch, raw, file), cache / raw / file)
            return data


def _read_with_pyg(root: Path, info: DatasetInfo) -> Data:
    """Discards what PyG and the libraries below it print meanwhile."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _CLASSES[info.family](str(root / info.family), info.name)[0]


@contextlib.contextmanager
def _refusing(found: str, rule: str, remedy: str) -> Iterator[None]:
    """Turns whatever PyG, the network or a damaged file can raise into one error."""
    try:
        yield
    except ImportError as reason:
        raise DatasetError(str(reason), "PyG reads this graph with that package", "Install it with pip") from reason
    except Exception as reason:
        raise DatasetError(f"{found} ({type(reason).__name__}: {reason})", rule, remedy) from reason
