"""Compactness as a PyG transform: bounds attached to a ``Data``."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from certgcl.arguments import shown
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import node_compactness
from certgcl.changes.changes import BudgetLike
from certgcl.errors import GraphError
from certgcl.models.reading import ModelLike


@functional_transform("attach_compactness")
class AttachCompactness(BaseTransform):  # type: ignore[misc]  # PyG is untyped
    """Attach the certified compactness of every node: ``lower``, ``positive``, and ``upper`` if the method searches.

    ``w_i · z_i(S) >= data.lower[i]`` for every admissible drop set S. Nodes that were not requested have NaN, and are
    not positive.

    Args:
        model: as in :func:`certgcl.node_compactness`.
        budgets: likewise.
        settings: its other arguments, such as ``method`` and ``nodes``.

    Example::

        data = certgcl.AttachCompactness(encoder, budgets=1)(data)
        fragile = data.x[~data.positive]
    """

    def __init__(self, model: ModelLike, budgets: BudgetLike, **settings: Any) -> None:
        self.model, self.budgets, self.settings = model, budgets, settings

    def forward(self, data: Data) -> Data:
        if not isinstance(data, Data):
            raise GraphError(
                f"data={shown(data)}",
                "the bounds are attached to a PyG Data",
                "Use certgcl.node_compactness for graphs of other kinds",
            )
        certificate: Certificate = node_compactness(self.model, data, self.budgets, **self.settings)
        nodes, count = certificate.nodes, len(certificate.local_budget)

        def spread(values: Tensor, empty: float | bool) -> Tensor:
            everywhere = torch.full((count,), empty, dtype=values.dtype, device=values.device)
            everywhere[nodes] = values
            return everywhere

        data.lower, data.positive = spread(certificate.lower, torch.nan), spread(certificate.positive, False)
        if certificate.upper is not None:
            data.upper = spread(certificate.upper, torch.nan)
        return data

    def __repr__(self) -> str:
        settings = "".join(f", {name}={shown(value)}" for name, value in self.settings.items())
        return f"AttachCompactness({type(self.model).__name__}, budgets={shown(self.budgets)}{settings})"
