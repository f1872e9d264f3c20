"""Node features as the bounds and encoders use them: multiplied by a matrix, at some nodes or at all."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from certgcl.files.digest import stored_parts
from certgcl.graphs.row_chunks import row_chunks, row_ranges
from certgcl.graphs.sparse import ConstantMatrix, csr_rows
from certgcl.runtime.fingerprint import Imprint
from certgcl.runtime.tensor_cache import kept, stamp

MOST_FILLED = 0.05  # share of non-zero features up to which they are multiplied as a sparse matrix
MAX_SEARCHED = 1 << 28  # features that are scanned for that; larger ones may be on disk
FEW_NODES = 8  # with gradients, products at fewer than one node in 8 are computed for these nodes only


@dataclass(frozen=True, eq=False)
class SparseForm:
    """Features as a separate CSR matrix, to be multiplied from either side.

    Args:
        csr: a copy, which does not change with the features.
        imprint: of the dense features that it was made from; None for features that are CSR themselves.
    """

    csr: Tensor
    imprint: Imprint | None
    _matrices: dict[torch.dtype, ConstantMatrix] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, x: Tensor) -> "SparseForm | None":
        """The sparse form, if products are faster with it; None for features that are dense enough, or large."""
        if x.layout != torch.strided:
            return cls(x.detach().clone(), None)
        if x.numel() > MAX_SEARCHED or int(torch.count_nonzero(x)) > MOST_FILLED * x.numel():
            return None
        csr = x.detach().to_sparse_csr()
        rows = torch.repeat_interleave(torch.arange(len(x), device=x.device), csr.crow_indices().diff())
        return cls(csr, Imprint.of(x, rows * x.shape[1] + csr.col_indices()))

    def is_of(self, x: Tensor) -> bool:
        """Whether the features are, bit by bit, what they were when this was made."""
        if self.imprint is not None:
            return self.imprint.is_of(x)
        return all(
            torch.equal(mine, theirs) for mine, theirs in zip(stored_parts(self.csr), stored_parts(x), strict=True)
        )

    def matrix(self, dtype: torch.dtype) -> ConstantMatrix:
        if dtype not in self._matrices:
            self._matrices[dtype] = ConstantMatrix(self.csr.to(dtype))
        return self._matrices[dtype]


@dataclass(frozen=True, eq=False)
class FeatureEntries:
    """The features of some nodes that are not zero, node after node.

    Args:
        start: the first entry of every node, and the end.
        column: of every entry.
        value: in float64.
    """

    start: Tensor
    column: Tensor
    value: Tensor

    @property
    def owner(self) -> Tensor:
        """Which of the nodes every entry belongs to."""
        count = self.start.diff()
        return torch.repeat_interleave(torch.arange(len(count), device=count.device), count)


@dataclass(frozen=True, eq=False)
class Features:
    """``X``, and its sparse form where that is faster. Every view of a graph shares them.

    Args:
        x: ``(N, F)``, dense or CSR.
    """

    x: Tensor

    @kept("x")
    def form(self) -> SparseForm | None:
        """The sparse form, if there is one, of ``x`` as it is now."""
        return SparseForm.of(self.x)

    @property
    def sparse(self) -> Tensor | None:
        """``x`` as CSR where that makes products faster."""
        return None if self.form is None else self.form.csr

    def unchanged(self) -> bool:
        """Whether the cache still matches the contents of ``x``, because writes may have bypassed torch."""
        return self.form is None or self.form.is_of(self.x)

    @kept("x")
    def _products(self) -> WeakIdKeyDictionary:
        """``X W`` for each W, with the version of W at that time."""
        return WeakIdKeyDictionary()

    def remember(self, weight: Tensor) -> None:
        """Cache ``X W`` while W exists, which nobody else may write to: its product is needed several times."""
        if not (self.x.is_inference() or weight.requires_grad):
            product = self.project(weight)
            self._products[weight] = stamp(weight), product

    def terms(self, nodes: Tensor) -> Tensor:
        """The number of features of some nodes that are not zero, ``(nodes,)``; stored zeros may count."""
        if self.sparse is not None:
            return self.sparse.crow_indices().diff()[nodes]
        return torch.cat(
            [torch.count_nonzero(self.x[nodes[part]], dim=1) for part in row_ranges(nodes.numel(), self.x.shape[1])]
        )

    def entries(self, nodes: Tensor | None = None) -> FeatureEntries:
        """The nonzero features of some nodes or all; stored zeros are left out."""
        if self.sparse is not None:
            csr = self.sparse if nodes is None else csr_rows(self.sparse, nodes)
            start, column, value = csr.crow_indices(), csr.col_indices(), csr.values().double()
            count, there = start.diff(), value != 0
            owner = torch.repeat_interleave(torch.arange(len(count), device=count.device), count)[there]
            column, value, rows = column[there], value[there], len(count)
        else:
            x = self.x if nodes is None else self.x[nodes]
            owner, column = x.nonzero().T
            value, rows = x[owner, column].double(), len(x)
        count = torch.bincount(owner, minlength=rows)
        return FeatureEntries(torch.cat([count.new_zeros(1), count.cumsum(0)]), column, value)

    @kept("x")
    def filled_columns(self) -> Tensor:
        """The columns with a nonzero entry, in order; features on disk are read piece by piece."""
        if self.sparse is not None:
            return self.sparse.col_indices()[self.sparse.values() != 0].unique()
        filled = torch.zeros(self.x.shape[1], dtype=torch.bool, device=self.x.device)
        for part in row_chunks(self.x):
            filled |= (part != 0).any(dim=0)
        return filled.nonzero()[:, 0]

    def project(self, weight: Tensor, nodes: Tensor | None = None, *, absolute: bool = False) -> Tensor:
        """``X W`` (or ``|X| W``) in the dtype of ``weight``, for ``nodes`` or all, ``(nodes, outputs)``.

        Dense features are read piece by piece, so that a memory-mapped ``x`` is never in memory as a whole.
        """

        def times_weight(x: Tensor) -> Tensor:
            x = x.to(weight.dtype)
            x = x.contiguous() if x.layout == torch.strided else x  # layouts may differ in summation order
            return (x.abs() if absolute else x) @ weight

        if nodes is not None and len(nodes) == len(self.x) and torch.equal(nodes, torch.arange(len(nodes)).to(nodes)):
            nodes = None
        form, (version, product) = self.form, (None, None) if absolute else self._products.get(weight, (None, None))
        if product is not None and version == stamp(weight):
            return product.clone() if nodes is None else product[nodes]
        if form is not None:
            trained = torch.is_grad_enabled() and weight.requires_grad and not absolute
            if trained and (nodes is None or FEW_NODES * nodes.numel() >= self.x.shape[0]):
                everywhere = form.matrix(weight.dtype) @ weight
                return everywhere if nodes is None else everywhere.index_select(0, nodes)
            return times_weight(form.csr if nodes is None else csr_rows(form.csr, nodes))
        ranges = row_ranges(self.x.shape[0] if nodes is None else nodes.numel(), max(weight.shape))
        products = [times_weight(self.x[part] if nodes is None else self.x[nodes[part]]) for part in ranges]
        return products[0] if len(products) == 1 else torch.cat(products)
