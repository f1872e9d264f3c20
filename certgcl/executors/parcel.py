"""The data shared by all pieces of work, sent to other processes: one copy per machine, identical to the last bit.

Tensors travel as plain NumPy arrays outside of the pickle. So Ray keeps them in its object store, and joblib in a
memory-mapped file, where all workers of a machine read the same pages. A bound is only as correct as the graph and the
weights that it is computed from: a parcel has a SHA-256 and the version of certgcl, which a worker compares before it
uses the contents.
"""

import hashlib
import io
import pickle
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.errors import WorkerError
from certgcl.graphs.sparse import csr_matrix
from certgcl.graphs.storage import as_tensor

LARGE = 1 << 20  # bytes from which an array gets a file of its own
ALIGNED = 64  # bytes, as torch aligns its own arrays
_VIEWED = {torch.bfloat16: torch.int16}  # as raw bits, if numpy has no such type
_opened: dict[str, Any] = {}  # the last parcel that this process opened, by its SHA-256


@dataclass(frozen=True, eq=False)
class Parcel:
    """An object in the form in which it is sent.

    Args:
        skeleton: its pickle, without the contents of arrays.
        arrays: these, as bytes.
        version: of certgcl, where it was made.
    """

    skeleton: bytes
    arrays: tuple[np.ndarray, ...]
    sha256: str
    version: str

    @classmethod
    def of(cls, content: Any) -> "Parcel":
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        try:
            _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(content)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise WorkerError(
                f"work that cannot be sent to another process ({error})",
                "models and methods must be classes of importable modules",
                "Move them to a module, or use executor='here'",
            ) from error
        arrays = tuple(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers)
        return cls(stream.getvalue(), arrays, _digest(stream.getvalue(), arrays), __version__)

    @property
    def nbytes(self) -> int:
        return len(self.skeleton) + sum(array.nbytes for array in self.arrays)

    def mapped(self, folder: Path) -> "Parcel":
        """The same with its large arrays in files of a folder, which every process on this machine can map.

        ``numpy.save`` aligns them as torch aligns its own: the last digits of a product may depend on that.
        """

        def at(number: int, array: np.ndarray) -> np.ndarray:
            if array.nbytes < LARGE:
                return array
            np.save(folder / f"{number}.npy", array)
            return np.load(folder / f"{number}.npy", mmap_mode="r")

        return replace(self, arrays=tuple(at(number, array) for number, array in enumerate(self.arrays)))

    def open(self) -> Any:
        """The object, built once per process; its tensors share the memory of the arrays, and are read-only.

        Raises:
            WorkerError: it is not what was sent, or was sent by another version of certgcl.
        """
        if self.version != __version__:
            raise WorkerError(
                f"certgcl {__version__} in a worker, and {self.version} where the work comes from",
                "a certificate names the version that computed it",
                "Install the same version on all machines",
            )
        if self.sha256 not in _opened:
            _opened.clear()
            if _digest(self.skeleton, self.arrays) != self.sha256:
                raise WorkerError(
                    "a graph or weights that changed on their way to a worker",
                    "their SHA-256 must be the one that they were sent with",
                    "Run the same command again",
                )
            _opened[self.sha256] = pickle.loads(self.skeleton, buffers=map(_aligned, self.arrays))
        return _opened[self.sha256]


def _digest(skeleton: bytes, arrays: tuple[np.ndarray, ...]) -> str:
    state = hashlib.sha256(skeleton)
    for array in arrays:
        state.update(f"{array.nbytes};".encode())
        state.update(array.data)
    return state.hexdigest()


def _aligned(array: np.ndarray) -> np.ndarray:
    """The same array, aligned in memory as torch would do it: the last digits of a product depend on that. Ray puts
    small arrays at any multiple of eight bytes."""
    if array.ctypes.data % ALIGNED == 0:
        return array
    copy = torch.empty(array.nbytes, dtype=torch.uint8).numpy()
    copy[:] = array
    return copy


class _Pickler(pickle.Pickler):
    """Pickles tensors as NumPy arrays, whose contents pickle returns separately."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not Tensor or value.requires_grad or value.is_quantized:
            return NotImplemented
        device = str(value.device)
        if value.layout == torch.sparse_csr:
            parts = value.crow_indices(), value.col_indices(), value.values()
            return _csr, (*map(_array, parts), tuple(value.shape), device)
        if value.layout != torch.strided:
            return NotImplemented
        return _dense, (_array(value), value.dtype, device)


def _array(value: Tensor) -> np.ndarray:
    plain = value.detach().cpu().contiguous()
    return plain.view(_VIEWED.get(plain.dtype, plain.dtype)).numpy()


def _dense(array: np.ndarray, dtype: torch.dtype, device: str) -> Tensor:
    return as_tensor(array).view(dtype).to(device)


def _csr(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int], device: str) -> Tensor:
    return csr_matrix(as_tensor(rows), as_tensor(columns), as_tensor(values), shape).to(device)
