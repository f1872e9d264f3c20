"""Affine maps as a program computes them, and how far rounding can move their outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certgcl.errors import ClassifierError

WORK = 8  # roundings of an entry other than those of a sum: conversions, quotients, the last difference


@dataclass(frozen=True, eq=False)
class Affine:
    """``x -> A x + b``, and the terms that the program sums.

    Args:
        matrix: A, ``(out, in)``, float64.
        shift: b, ``(out,)``.
        size: the absolute values of the factors of x in the program: |A|, or more if A is itself a sum.
        shift_size: the same for b.
        length: the most terms and roundings of an output.
        dtype: the coarsest precision among the program's own numbers.
        squares: whether it adds |x|², the same for every output, as distances do.
    """

    matrix: Tensor
    shift: Tensor
    size: Tensor
    shift_size: Tensor
    length: int
    dtype: torch.dtype
    squares: bool = False

    @classmethod
    def of(
        cls,
        matrix: Any,
        shift: Any = None,
        size: Any = None,
        shift_size: Any = None,
        terms: int | None = None,
        squares: bool = False,
        like: Sequence[Any] = (),
    ) -> "Affine":
        """From arrays; ``like`` are other arrays of the program, whose precision counts too."""
        a = float64(matrix, "weights")
        b = a.new_zeros(a.shape[:1]) if shift is None else float64(shift, "intercepts")
        if a.dim() != 2 or b.shape != a.shape[:1]:
            raise ClassifierError(
                f"a classifier with weights {tuple(a.shape)} and intercepts {tuple(b.shape)}",
                "it needs (classes, d) and (classes,)",
                "Fit it again, or pass both as tensors",
            )
        return cls(
            a,
            b,
            a.abs() if size is None else float64(size, "weights"),
            b.abs() if shift_size is None else float64(shift_size, "intercepts"),
            (a.shape[1] if terms is None else terms) + WORK,
            coarsest(*map(precision, (matrix, shift, *like))),
            squares,
        )

    def halves(self) -> "Affine":
        """The scores ``(-f / 2, f / 2)`` of two classes from their one margin f; division by two is exact."""
        return replace(
            self,
            matrix=torch.cat([-self.matrix, self.matrix]) / 2,
            shift=torch.cat([-self.shift, self.shift]) / 2,
            size=torch.cat([self.size, self.size]) / 2,
            shift_size=torch.cat([self.shift_size, self.shift_size]) / 2,
        )


def stacked(parts: Sequence[Affine]) -> Affine:
    """The outputs of several maps of one input, one after the other."""
    together = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in ("matrix", "shift", "size", "shift_size")
    }
    return Affine(
        **together,
        length=max(part.length for part in parts),
        dtype=coarsest(*(part.dtype for part in parts)),
        squares=any(part.squares for part in parts),
    )


def composed(steps: Sequence[Affine]) -> tuple[Tensor, Tensor]:
    """``V`` and ``a`` of ``V x + a``, all steps one after the other."""
    matrix, shift = steps[-1].matrix, steps[-1].shift
    for step in reversed(steps[:-1]):
        matrix, shift = matrix @ step.matrix, matrix @ step.shift + shift
    return matrix, shift


def composition_error(steps: Sequence[Affine], magnitudes: Tensor, dtype: torch.dtype) -> Tensor:
    """How far rounding can move each output from the exact one, for inputs of at most these sizes; ``(n, out)``.

    The error of the program in ``dtype``, and that of ``composed`` and differences of its rows in float64, which sum
    the same terms. Infinite if the program may overflow.

    Args:
        magnitudes: at least |x|, entry by entry, ``(n, in)``, float64.
    """
    return _running_error(steps, magnitudes, dtype) + _running_error(steps, magnitudes, torch.float64)


def _running_error(steps: Sequence[Affine], magnitudes: Tensor, dtype: torch.dtype) -> Tensor:
    """The same of one program on inputs rounded to ``dtype``, step by step, whatever the order of its sums.

    A sum of n terms is computed to within ``n ε Σ |terms|`` (the usual bound has u = ε / 2, and holds where
    ``n u <= 1 / 2``), and each rounding may lose the smallest normal number to underflow.
    """
    info = torch.finfo(dtype)
    size, error = magnitudes, info.eps * magnitudes + info.tiny
    lost = torch.zeros(len(size), 1, dtype=torch.bool, device=size.device)
    for step in steps:
        gain = step.size.T.to(size.device)
        terms = size @ gain + step.shift_size.to(size.device)
        if step.squares:
            terms = terms + size.square().sum(dim=1, keepdim=True)
        error = error @ gain + step.length * (info.eps * terms + info.tiny)
        size = terms + error
        lost |= ~(size < info.max / 8).all(dim=1, keepdim=True) | (step.length * info.eps > 1)
    return torch.where(lost, torch.inf, error)


def float64(values: Any, name: str) -> Tensor:
    """Finite real numbers, exactly or rounded once; sparse arrays are made dense."""
    try:
        if isinstance(values, Tensor):
            if type(values) not in (Tensor, nn.Parameter):
                raise ClassifierError(
                    f"{name} in a {type(values).__name__}", "they must be plain tensors", "Convert with torch.tensor"
                )
            found = values.detach().cpu()
            numbers = not (found.dtype.is_complex or found.dtype == torch.bool)
            found = found.to_dense().double() if numbers else found
        else:
            array = dense(values)
            numbers = array.dtype.kind in "fiu"
            found = torch.tensor(array.astype(np.float64)) if numbers else torch.empty(0)
    except ClassifierError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise ClassifierError(
            f"{name} of type {type(values).__name__} ({error})",
            "they must be real numbers",
            "Pass a tensor or an array",
        ) from error
    if not numbers:
        raise ClassifierError(
            f"{name} of type {type(values).__name__} that are not real numbers",
            "a linear classifier has weights and intercepts",
            "Pass a tensor or an array",
        )
    bad = int((~torch.isfinite(found)).sum())
    if bad:
        raise ClassifierError(
            f"{bad} NaN or infinite value(s) among the {name} of the classifier",
            "they must be finite",
            "Check how it was fitted",
        )
    return found


def dense(values: Any) -> np.ndarray:
    """A list or a plain array of numpy; or a scipy sparse matrix made dense. Arrays of other classes raise an error:
    their products need not follow from their entries."""
    if type(values).__module__.startswith("scipy.sparse"):
        values = values.toarray()
    if isinstance(values, np.ndarray) and type(values) not in (np.ndarray, np.memmap):
        raise ClassifierError(
            f"numbers in a {type(values).__name__}", "they must be plain arrays", "Convert with numpy.array"
        )
    return np.asarray(values)


def precision(values: Any) -> torch.dtype:
    """The floating-point type of a tensor or an array; float64 for anything else."""
    names = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
    return names.get(str(getattr(values, "dtype", "")).removeprefix("torch."), torch.float64)


def coarsest(*dtypes: torch.dtype) -> torch.dtype:
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)
