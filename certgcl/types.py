"""What the public functions accept, as types for your own annotations: ``from certgcl.types import GraphLike``."""

from certgcl.changes.changes import BudgetLike
from certgcl.graphs.graph import GraphLike
from certgcl.models.reading import ModelLike

__all__ = ["BudgetLike", "GraphLike", "ModelLike"]
