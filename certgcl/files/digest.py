"""Digests of tensors, by which files and runs record what they belong to."""

import hashlib

import torch
from torch import Tensor

from certgcl.graphs.row_chunks import row_chunks


def digest(*tensors: Tensor) -> str:
    """SHA-256 of shapes, dtypes and values; a memory-mapped tensor is read a piece at a time."""
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        for part in row_chunks(tensor.detach()[None] if tensor.dim() == 0 else tensor.detach()):
            if part.numel():  # an empty tensor may have any strides, which ``view`` does not accept
                state.update(part.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def stored_parts(x: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that a dense or CSR tensor is made of."""
    return (x,) if x.layout == torch.strided else (x.crow_indices(), x.col_indices(), x.values())
